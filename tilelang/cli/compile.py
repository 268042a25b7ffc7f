"""`tilelang compile FILE::KERNEL`: print the source of a kernel for a target; the file is read, never
imported.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilelang.cli.config import target_for
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_argument(parser)
    parser.add_argument(
        "--target",
        type=target_argument,
        help="cuda, cuda:sm_80, hip:gfx942, metal, cpu (default: cuda:sm_90)",
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
    from tilelang.cli.kernels import check_choice, the_kernel
    from tilelang.jit.static import generate_source

    name = the_kernel(file, text, kernel)
    check_choice(file, text, name, choice)
    try:
        source = generate_source(str(file), text, name, target.name, choice)
    except KernelError as error:
        from tilelang.diagnostics.render_terminal import print_problems

        lines = text.split("\n")
        print_problems(error.problems, lambda path: lines if path == str(file) else None, sys.stderr)
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
