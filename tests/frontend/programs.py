"""Kernels from text, through the static and the live frontend, for tests that read as examples of the
language.
"""

from __future__ import annotations

import linecache
import re
import textwrap
from collections.abc import Mapping
from itertools import count
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.frontend.environments.live import trace_eager
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.ir.build import build_prim_func
from tilelang.ir.tile_program import TileProgram
from tilelang.ops.registry import TILE_OPS

PRELUDE = "import tilelang\nimport tilelang.language as T\n"
BUILD = {name: op.build for name, op in TILE_OPS.items()}
_numbers = count()


def static(text: str, kernel: str = "k", choice: Mapping[str, str] | None = None) -> TileProgram:
    """The program of a kernel in a module that is only read. Lines of `text` keep their numbers if it has
    imports.
    """
    module = StaticModule("kernel.py", whole(text))
    assert not module.problems, module.problems
    return trace_static(module, module.kernel(kernel), choice)


def live_module(text: str) -> dict[str, Any]:
    """The names of a module that Python has run, its text where Python looks for sources."""
    name = f"<test module {next(_numbers)}>"
    source = whole(text)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": __name__}  # a module that is there: dataclasses look it up
    # Without the `from __future__ import annotations` of this file, which changes what closures hold.
    exec(compile(source, name, "exec", dont_inherit=True), names)
    return names


def live(text: str, kernel: str = "k", values: Mapping[str, Any] | None = None, **consts: int) -> TileProgram:
    """The program of an undecorated eager kernel that runs in this Python."""
    return trace_eager(live_module(text)[kernel], values or {}, consts)


def whole(text: str) -> str:
    text = textwrap.dedent(text).lstrip("\n")
    return text if re.search(r"^(import|from) ", text, re.MULTILINE) else PRELUDE + text


def body(statements: str, shape: str = "(64, 64)") -> str:
    """A kernel `k` around statements, with tensors A and B, a fragment f and a shared tile s."""
    head = f"""
def k(A, B):
    N = T.const("N")
    A: T.Tensor({shape}, T.float32)
    B: T.Tensor((N,), T.float32)
    with T.Kernel(4, threads=128) as bx:
        f = T.alloc_fragment((64, 64), T.float32)
        s = T.alloc_shared((64, 64), T.float16)
"""
    return head + textwrap.indent(textwrap.dedent(statements).strip("\n"), "        ") + "\n"


def jitted(text: str) -> str:
    return textwrap.dedent(text).replace("def k(", "@tilelang.jit\ndef k(", 1)


def problems_of(statements: str) -> list[Problem]:
    """What the static frontend says about statements in `body`."""
    return static(jitted(body(statements))).problems


def rules_of(statements: str) -> list[str]:
    return [p.rule for p in problems_of(statements)]


def script(program: TileProgram) -> str:
    """The function of a complete program as TVMScript."""
    assert program.complete, program.problems
    return build_prim_func(program, BUILD).script()


def lines_of(statements: str) -> list[str]:
    """What statements in `body` become: the lines of the launch's body after the tiles."""
    text = script(static(jitted(body(statements))))
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.strip().startswith("s = T.alloc_shared"))
    return [line[4:] for line in lines[start + 1 :]]
