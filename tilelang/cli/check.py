"""`tilelang check PATH...`: report the mistakes in the kernels of files and folders; nothing of theirs is
executed.

Settings come from `[tool.tilelang]` of the nearest pyproject.toml. Exit status 1 if there is an error.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import tilelang
from tilelang.arch.target import Target
from tilelang.cli.config import config_for
from tilelang.cli.sources import UnreadableError, find_python_files, read_source
from tilelang.cli.usage import FAILED, FINE, UsageError, target_argument
from tilelang.diagnostics.json import to_json
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.registry import RULES
from tilelang.diagnostics.render import summary
from tilelang.diagnostics.sarif import to_sarif


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a Python file, or a folder of them"
    )
    parser.add_argument(
        "--target",
        type=target_argument,
        help="what to check for: cuda, cuda:sm_80, hip:gfx942, metal, cpu (default: cuda:sm_90)",
    )
    parser.add_argument("--format", choices=("text", "json", "sarif"), default="text", help="default: text")


def execute(options: argparse.Namespace) -> int:
    missing = [p for p in options.paths if not p.exists()]
    problems: list[Problem] = []
    texts: dict[str, list[str]] = {}
    n_files = 0
    for file in find_python_files(p for p in options.paths if p not in missing):
        n_files += 1
        problems += _check(file, options.target, texts)
    if len(missing) < len(options.paths) or options.format != "text":  # a machine always gets a document
        _show(problems, n_files, texts, options.format)
    if missing:
        names = ", ".join(map(str, missing))
        raise UsageError(f"{names}: no such file or folder")
    return FAILED if any(p.severity is Severity.ERROR for p in problems) else FINE


def _check(file: Path, target: Target | None, texts: dict[str, list[str]]) -> list[Problem]:
    """The problems of one file that its configuration wants, in the order of the text; its lines go to
    `texts`.
    """
    config = config_for(file)
    if target is not None:
        config = replace(config, target=target)
    try:
        text = read_source(file)
    except UnreadableError as error:
        return [error.problem]
    texts[str(file)] = text.split("\n")
    if "tilelang" not in text:
        return []  # no kernel without an import of the language; most files of a folder end here
    from tilelang.analysis.check import check_source
    from tilelang.jit.details import detailed_report

    report = check_source(str(file), text, config.target.name, detailed_report)
    return [p for p in report.all_problems() if config.wants(p)]


def _show(problems: list[Problem], n_files: int, texts: dict[str, list[str]], form: str) -> None:
    if form == "json":
        print(to_json(problems))
    elif form == "sarif":
        print(to_sarif(problems, RULES, tilelang.PACKAGE_VERSION))
    else:
        from tilelang.diagnostics.render_terminal import print_problems

        print_problems(problems, texts.get, sys.stdout)
        print(summary(problems, n_files))
