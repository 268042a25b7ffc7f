"""Rendered problems in a terminal: colours where it has them and NO_COLOR is not set, its width respected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console
from rich.text import Text

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.render import ReadLines, Style, render

_STYLES: dict[Style, str] = {
    "plain": "",
    "bold": "bold",
    "gutter": "blue",
    "error": "bold red",
    "warning": "bold yellow",
    "info": "bold cyan",
    "hint": "bold green",
    "help": "bold cyan",
    "added": "green",
    "removed": "red",
}


def print_problems(problems: Iterable[Problem], read_lines: ReadLines, stream: IO[str] | None = None) -> None:
    """Print every problem to `stream` (standard output if None), a blank line after each."""
    console = Console(file=stream, soft_wrap=True, highlight=False)
    for problem in problems:
        for line in render(problem, read_lines, console.width):
            console.print(Text.assemble(*((text, _STYLES[style]) for text, style in line)))
        console.print()
