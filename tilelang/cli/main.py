"""`tilelang`: check, compile, run kernels, and explain rules, from the command line."""

from __future__ import annotations

import argparse
import io
import logging
import sys

import tilelang
from tilelang.cli import check, compile, explain, run
from tilelang.cli.usage import FAILED, UsageError

_COMMANDS = (check, compile, run, explain)


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0 fine, 1 problems found, 2 wrong usage, 130 interrupted."""
    if arguments is None:
        _keep_torch_out()
    # Bugs of lowering that keep nothing from being checked are for logs of editors.
    logging.getLogger("tilelang").setLevel(logging.ERROR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack `×`, a file's name may be no text
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except UsageError as error:
        print(f"tilelang {options.command_name}: {error}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Standard output must not be flushed again at exit.
        sys.stdout = None  # type: ignore[assignment]
        return FAILED
    except KeyboardInterrupt:
        return 130


def _keep_torch_out() -> None:
    """Make `import torch` fail in this process, which is the command's own.

    No command needs it, kernels run in another process, and tvm_ffi would import it, for two seconds.
    """
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tilelang", description="Check, compile and run TileLang kernels.")
    parser.add_argument("--version", action="version", version=f"tilelang {tilelang.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        name = module.__name__.rpartition(".")[2]
        summary = " ".join((module.__doc__ or "").partition("\n\n")[0].split()).partition(": ")[2]
        command = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(command)
        command.set_defaults(command=module.execute, command_name=name)
    return parser


if __name__ == "__main__":
    sys.exit(main())
