"""`tilelang compile FILE::KERNEL`: print the source of a kernel for a target; the file (or notebook) is read,
never imported.

Target and values that neither --target and -D nor the file give are those of `[tool.tilelang]` of the
nearest pyproject.toml.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tilelang.cli.config import choice_for, target_for
from tilelang.cli.notebooks import Notebook, cell_text, is_notebook, read_notebook
from tilelang.cli.sources import UnreadableError, read_source
from tilelang.cli.usage import (
    FAILED,
    FINE,
    UsageError,
    add_kernel_argument,
    read_choice,
    split_kernel,
    target_argument,
)
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.span import cell_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_argument(parser)
    parser.add_argument(
        "--target",
        type=target_argument,
        help="cuda, cuda:sm_80, hip:gfx942, metal, cpu (default: the project's, else cuda:sm_90)",
    )
    parser.add_argument(
        "-o", dest="output", type=Path, metavar="FILE", help="write to FILE instead of the terminal"
    )


def execute(options: argparse.Namespace) -> int:
    file, kernel = split_kernel(options.kernel)
    choice = read_choice(options.choice)
    target = target_for(file, options.target)
    try:
        text = read_source(file)
    except UnreadableError as error:
        raise UsageError(str(error), FAILED) from None
    notebook = _notebook(file, text) if is_notebook(file) else None
    if notebook is not None:
        text = notebook.text
    from tilelang.cli.kernels import check_choice, the_kernel
    from tilelang.jit.static import generate_source

    name = the_kernel(file, text, kernel)
    check_choice(file, text, name, choice)
    try:
        source = generate_source(str(file), text, name, target.name, choice_for(file, name, choice))
    except KernelError as error:
        _show(error.problems, file, text, notebook)
        return FAILED
    except ValueError as error:
        raise UsageError(str(error), FAILED) from None
    if options.output is None:
        print(source.text, end="" if source.text.endswith("\n") else "\n")
        return FINE
    try:
        options.output.write_text(source.text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{options.output} cannot be written: {error.strerror or error}", FAILED) from None
    return FINE


def _notebook(file: Path, text: str) -> Notebook:
    """Raises UsageError."""
    try:
        return read_notebook(str(file), text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is no notebook: {error}", FAILED) from None


def _show(problems: Sequence[Problem], file: Path, text: str, notebook: Notebook | None) -> None:
    """Report the problems of the file, those of a notebook by their cells."""
    from tilelang.diagnostics.render_terminal import print_problems

    own = text.split("\n")

    def lines(path: str) -> list[str] | None:
        _, cell = cell_of(path)
        return cell_text(str(file), cell) if cell is not None else own if path == str(file) else None

    print_problems(notebook.in_cells(problems) if notebook is not None else problems, lines, sys.stderr)
