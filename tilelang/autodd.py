"""Make a failing program smaller: `python -m tilelang.autodd program.py --err-msg "text" -o smaller.py`.

In:  a Python program whose run ends with `text` somewhere in what it prints.
Out: a program with fewer statements and simpler expressions that still ends so. Every candidate is run by
     itself, in a process with a time limit; the program given is not changed.
Not: an understanding of what is kept. Each step removes or replaces one part of the syntax tree, and that
     stays so if the text is still printed (delta debugging: Zeller and Hildebrandt, 2002).
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tilelang.parsing import parse

Fails = Callable[[str], bool]
_BODIES = ("body", "orelse", "finalbody", "handlers")


def reduce(source: str, fails: Fails) -> str:
    """The smaller program, as `ast.unparse` writes it. Raises ValueError if `source` itself does not fail."""
    if not fails(source):
        raise ValueError("the program does not print the text: nothing to make smaller")
    current = ast.unparse(parse(source))
    if not fails(current):
        return source  # what matters is lost with comments or layout
    changed = True
    while changed:
        changed = False
        for step in (_without_runs, _unwrapped, _simpler):
            smaller = _while_it_fails(current, step, fails)
            changed |= smaller != current
            current = smaller
    return current


def _while_it_fails(source: str, step: Callable[[ast.Module], Iterator[str]], fails: Fails) -> str:
    """`step` applied as long as one of its candidates still fails."""
    found = True
    while found:
        found = False
        for candidate in step(parse(source)):
            if candidate != source and fails(candidate):
                source, found = candidate, True
                break
    return source


def _bodies(tree: ast.Module) -> Iterator[tuple[ast.AST, str, list[ast.stmt]]]:
    for node in ast.walk(tree):
        for name in _BODIES:
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield node, name, body


def _without_runs(tree: ast.Module) -> Iterator[str]:
    """Runs of statements left out, long ones first."""
    for node, name, body in list(_bodies(tree)):
        size = len(body)
        while size:
            for first in range(0, len(body), size):
                kept = body[:first] + body[first + size :]
                if not kept and (name == "body" and not isinstance(node, ast.Module)):
                    if isinstance(body[0], ast.Pass) and len(body) == 1:
                        continue
                    kept = [ast.Pass()]
                setattr(node, name, kept)
                yield ast.unparse(tree)
                setattr(node, name, body)
            size //= 2


def _unwrapped(tree: ast.Module) -> Iterator[str]:
    """A compound statement replaced by what stands in it."""
    for node, name, body in list(_bodies(tree)):
        for k, statement in enumerate(body):
            inner = getattr(statement, "body", None)
            if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try) and inner:
                setattr(node, name, body[:k] + inner + body[k + 1 :])
                yield ast.unparse(tree)
                setattr(node, name, body)


def _simpler(tree: ast.Module) -> Iterator[str]:
    """An operation replaced by one of its operands; an argument, a decorator or an entry left out."""
    for node in list(ast.walk(tree)):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                for operand in _operands(value):
                    setattr(node, field, operand)
                    yield ast.unparse(tree)
                setattr(node, field, value)
            elif isinstance(value, list) and field in ("args", "keywords", "elts", "decorator_list", "items"):
                for k in range(len(value)):
                    if field == "items" and len(value) == 1:
                        continue
                    setattr(node, field, value[:k] + value[k + 1 :])
                    yield ast.unparse(tree)
                setattr(node, field, value)


def _operands(value: ast.expr) -> list[ast.expr]:
    match value:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.BoolOp(values=values):
            return list(values)
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
    return []


def prints(text: str, timeout: float, folder: Path) -> Fails:
    """Whether a program, run by this Python in `folder`, prints `text` within `timeout` seconds."""
    seen: dict[str, bool] = {}

    def fails(source: str) -> bool:
        if source not in seen:
            handle, name = tempfile.mkstemp(suffix=".py", prefix="autodd_")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(source)
                path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
                done = subprocess.run(
                    [sys.executable, name],
                    cwd=folder,
                    env={**os.environ, "PYTHONPATH": path},
                    capture_output=True,
                    text=True,
                    timeout=timeout,
                )
                seen[source] = text in done.stdout + done.stderr
            except subprocess.TimeoutExpired:
                seen[source] = False
            finally:
                os.unlink(name)
        return seen[source]

    return fails


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status: 1 where the program does not fail that way."""
    parser = argparse.ArgumentParser(prog="tilelang.autodd", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="the program")
    parser.add_argument("--err-msg", required=True, help="text that its run prints")
    parser.add_argument("-o", "--output", type=Path, required=True, help="where the smaller program goes")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one run")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="accepted; candidates run one by one")
    options = parser.parse_args(arguments)
    text = options.source.read_text(encoding="utf-8")
    try:
        smaller = reduce(text, prints(options.err_msg, options.timeout, options.source.resolve().parent))
    except ValueError as error:
        print(f"{options.source}: {error}", file=sys.stderr)
        return 1
    options.output.write_text(smaller + ("" if smaller.endswith("\n") else "\n"), encoding="utf-8")
    before, after = len(text.splitlines()), len(smaller.splitlines())
    print(f"{options.output}: {after} lines of {before}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
