"""What all commands share: exit statuses, wrong usage, the `FILE::kernel` and `--target` arguments."""

from __future__ import annotations

import argparse
from pathlib import Path

from tilelang.arch.target import Target, parse_target
from tilelang.diagnostics.selection import rule_names
from tilelang.facts.project import as_source

FINE = 0
FAILED = 1  # problems were found, a run did not agree with its reference
WRONG_USAGE = 2


class UsageError(Exception):
    """A command cannot be carried out as given; the text says what to change."""

    def __init__(self, message: str, status: int = WRONG_USAGE) -> None:
        super().__init__(message)
        self.status = status


def target_argument(text: str) -> Target:
    """For argparse: `cuda`, `cuda:sm_80`, `hip:gfx942`, `metal`, `cpu`."""
    try:
        return parse_target(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def rules_argument(text: str) -> frozenset[str]:
    """For argparse: names of rules and families, `shape,gemm-scope`."""
    try:
        return rule_names(name.strip() for name in text.split(",") if name.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_kernel_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kernel",
        metavar="FILE::KERNEL",
        help="a kernel in a file, as in quickstart.py::matmul_relu; FILE alone where it has one kernel",
    )
    parser.add_argument(
        "-D",
        dest="choice",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="the value of a kernel parameter, as in -D block_M=64; may be repeated",
    )


def split_kernel(text: str) -> tuple[Path, str | None]:
    """File and kernel of `FILE::KERNEL`; None for the kernel where only the file is given."""
    file, separator, kernel = text.partition("::")
    if not file or (separator and not kernel):
        raise UsageError(f"{text!r} names no kernel: write FILE::KERNEL, as in quickstart.py::matmul_relu")
    return Path(file), kernel or None


def read_choice(pairs: list[str]) -> dict[str, str]:
    """Parameter -> value as Python source text, from `-D` options. Raises UsageError."""
    choice: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip().isidentifier():
            raise UsageError(f"-D {pair}: write NAME=VALUE, as in -D block_M=64")
        choice[name.strip()] = as_source(value.strip())
    return choice
