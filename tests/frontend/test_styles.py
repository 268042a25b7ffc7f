"""Ways to write a kernel down, drawn at random around drawn statements: read and run they are one program."""

from __future__ import annotations

import functools
import json
import re
import textwrap
import types
from collections.abc import Mapping
from typing import Any

import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.frontend.programs import BUILD, live_module
from tests.frontend.test_properties import STATEMENTS, around
from tilelang.cli.notebooks import read_notebook
from tilelang.diagnostics.problem import Severity
from tilelang.frontend.environments.live import trace_eager, trace_lazy
from tilelang.frontend.environments.specialise import known_specialisations, trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.ir.build import build_prim_func
from tilelang.ir.tile_program import TileProgram
from tilelang.language.functions import KernelFunction

LAUNCH = """\
with T.Kernel({grid}, threads=128) as bx:
    f = T.alloc_fragment((64, 64), T.float32)
    s = T.alloc_shared((64, 64), T.float16)
{statements}
"""
MAIN = """\
@T.prim_func
def main(A: T.Tensor({shape}, dtype), B: T.Tensor(({size},), T.float32)):
{launches}
"""
# Where kernels stand. MAIN: a `T.prim_func`, indented as it stands there; EAGER: the body of an eager kernel.
LAZY = (
    """
@tilelang.jit
def k(rows=64, dtype='float32'):
    MAIN
    return main
""",
    """
@tilelang.jit(out_idx=[-1])
def k(rows: int = 64, *, dtype=T.float32):
    MAIN
    return main
""",
    """
@tilelang.jit
def k(cfg=CFG):
    rows, dtype = cfg.tile[0], 'float32'
    MAIN
    return main
""",
    """
def outer(scale):
    rows = 32 * scale

    def k(dtype='float32'):
        MAIN
        return main

    return tilelang.jit(k)


k = outer(2)
""",
    """
def make(rows, dtype):
    MAIN
    return main


@tilelang.jit
def k(rows=64):
    return make(rows, dtype=T.float32)
""",
    """
class Ops:
    @staticmethod
    @tilelang.jit
    def k(dtype='float32', rows=64):
        MAIN
        return main


k = Ops.k
""",
    """
rows, dtype = 64, 'float32'
MAIN
k = main
""",
    """
def make(rows=64, dtype='float32'):
    MAIN
    return main


k = tilelang.jit(functools.partial(make, rows=64))
""",
    """
@functools.lru_cache
def make(rows=64, dtype='float32'):
    MAIN
    return main


k = tilelang.jit(make)
""",
    """
@tilelang.jit
def k(rows=64, dtype='float32', fast=True):
    if fast:
        MAIN
    else:
        main = None
    return main
""",
    """
class Ops:
    def __init__(self, rows):
        self.rows = rows

    def build(self, dtype='float32'):
        rows = self.rows
        MAIN
        return main


k = Ops(64).build()
""",
    """
@dataclass
class Ops:
    rows: int = 64

    def build(self):
        dtype, rows = T.float32, self.rows
        MAIN
        return main


@tilelang.jit
def k():
    return Ops().build()
""",
)
EAGER = (
    """
@tilelang.jit
def k(A, B, rows: int = 64):
    dtype = T.float32
    EAGER
""",
    """
class Ops:
    @staticmethod
    @tilelang.jit
    def k(A, B, rows=64, dtype=T.float32):
        EAGER


k = Ops.k
""",
    """
def outer(rows, dtype=T.float32):
    @tilelang.jit
    def k(A, B):
        EAGER

    return k


k = outer(64)
""",
    """
@tilelang.jit
def k(A, B, cfg: Config = CFG):
    rows, dtype = cfg.tile[0], T.float32
    EAGER
""",
)
GRIDS = st.sampled_from(["4", "T.ceildiv({size}, 64)", "rows // 16", "BLOCK // 16"])
SHAPES = st.sampled_from(["(64, 64)", "(rows, rows)", "[rows, 64]", "(BLOCK, rows)", "TILE"])
SIZES = st.sampled_from(["N", "N", "128", "rows * 2"])
BODIES = st.lists(st.lists(STATEMENTS, min_size=1, max_size=3), min_size=1, max_size=2)


def launches(bodies: list[list[str]], grid: str) -> str:
    return "".join(LAUNCH.format(grid=grid, statements=indented("\n".join(body), 4)) for body in bodies)


def indented(text: str, columns: int) -> str:
    return textwrap.indent(text, " " * columns)


def filled(form: str, place: str, text: str) -> str:
    """`form` with `text` at the line that is `place`, indented as that."""
    lines = [
        indented(text, len(line) - len(place)) if line.strip() == place else line for line in form.split("\n")
    ]
    return "\n".join(lines)


@st.composite
def lazy(draw: st.DrawFn) -> str:
    size = draw(SIZES)
    text = launches(draw(BODIES), draw(GRIDS).format(size=size))
    main = MAIN.format(shape=draw(SHAPES), size=size, launches=indented(text, 4))
    if size == "N" and draw(st.booleans()):
        main = 'N = T.dynamic("N")\n' + main
    elif size == "N":
        main = main.replace("(N,)", '(T.dynamic("N"),)').replace("ceildiv(N", "ceildiv(B.shape[0]")
    return filled(draw(st.sampled_from(LAZY)), "MAIN", main)


@st.composite
def eager(draw: st.DrawFn) -> str:
    size, makes = draw(SIZES), draw(st.booleans())
    text = 'N = T.const("N")\n' if size == "N" else ""
    text += f"A: T.Tensor({draw(SHAPES)}, dtype)\nB: T.Tensor(({size},), T.float32)\n"
    text += "C = T.empty((64, 64), T.float32)\n" if makes else ""
    text += launches(draw(BODIES), draw(GRIDS).format(size=size))
    text += "    T.copy(f, C)\nreturn C\n" if makes else ""
    return filled(draw(st.sampled_from(EAGER)), "EAGER", text)


def run_live(value: Any, read: TileProgram, values: Mapping[str, Any]) -> TileProgram | None:
    """The program of a running function; None if not all that it needs is known."""
    function = value if isinstance(value, KernelFunction) else getattr(value, "function", value)
    if read.style == "eager":
        return trace_eager(function, dict(values))
    if isinstance(function, types.FunctionType | functools.partial | functools._lru_cache_wrapper):
        try:
            function = function(**values)
        except TypeError:
            return None
    return trace_lazy(function, list(read.outputs), read.name)


def running_value(names: Mapping[str, Any], qualified_name: str) -> Any:
    """What running Python has under the name of a kernel; what only a call makes is called `k` here."""
    first, *rest = qualified_name.split(".")
    if first == "outer":
        return names["k"]
    return functools.reduce(getattr, rest, names.get(first))


def as_notebook(text: str) -> str:
    """The text as the cells of a notebook, one for each statement, with magics between them."""
    cells = [f"%matplotlib inline\n{part}" for part in re.split(r"\n\n\n(?=\S)", text)]
    made = [{"cell_type": "code", "source": cell} for cell in cells]
    return read_notebook("k.ipynb", json.dumps({"cells": made})).text


def check_same(text: str, in_cells: bool = False) -> int:
    """The number of programs that both frontends see; they are the same."""
    whole, seen = around(text), 0
    module = StaticModule("kernel.py", as_notebook(whole) if in_cells else whole)
    running = live_module(whole)
    assert module.kernels and not module.problems
    for kernel in module.kernels:
        value = running_value(running, kernel.qualified_name)
        for specialisation in known_specialisations(module, kernel):
            read = trace_static(module, kernel, specialisation=specialisation)
            assert not [p for p in read.problems if p.severity is Severity.ERROR], read.problems
            values = dict(specialisation.values)
            if "self" in values:  # what running Python makes of the method is called `k`
                value, values = running["k"], {}
            ran = run_live(value, read, values)
            if ran is None or not read.complete:
                continue
            assert [p.message for p in read.problems] == [p.message for p in ran.problems]
            same = build_prim_func(read, BUILD), build_prim_func(ran, BUILD)
            tvm.ir.assert_structural_equal(*same, map_free_vars=True)
            seen += 1
    return seen


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(lazy(), eager()), st.booleans())
def test_styles_are_the_same_program_read_and_run(text: str, in_cells: bool):
    check_same(text, in_cells)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(lazy(), eager()), st.booleans())
def test_many_styles_are_the_same_program_read_and_run(text: str, in_cells: bool):
    check_same(text, in_cells)


@pytest.mark.parametrize("form", range(len(LAZY)))
def test_every_lazy_style_is_seen(form: int):
    main = MAIN.format(shape="(rows, 64)", size="128", launches=indented(launches([["T.clear(f)"]], "4"), 4))
    assert check_same(filled(LAZY[form], "MAIN", main)) >= 1


@pytest.mark.parametrize("form", range(len(EAGER)))
def test_every_eager_style_is_seen(form: int):
    text = "A: T.Tensor((rows, 64), dtype)\nB: T.Tensor((128,), T.float32)\n" + launches(
        [["T.clear(f)"]], "4"
    )
    assert check_same(filled(EAGER[form], "EAGER", text)) >= 1
