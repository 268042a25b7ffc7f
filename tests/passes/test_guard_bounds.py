"""Guards stand exactly where an access may leave a global tensor."""

from __future__ import annotations

import pytest
from tvm import tirx as X

from tests.ir.hand_made import gemm_relu, vector_add
from tilelang.passes.guard_bounds import guard_bounds
from tilelang.passes.plan_pipelines import plan_pipelines
from tilelang.passes.walk import calls, walk
from tilelang.targets.simt.expand import expand_elementwise


def guards(func: X.PrimFunc) -> list[str]:
    """Conditions of `if` and of if_then_else, in order, without the pipeline's own."""
    found = [str(s.condition) for s in walk(func.body) if isinstance(s, X.IfThenElse)]
    found += [str(c.args[0]) for c in calls(func.body) if c.op.name.endswith("if_then_else")]
    return [text for text in found if not text.startswith("ko + ")]


def guarded_gemm(m: int, n: int, k: int) -> list[str]:
    return guards(guard_bounds(expand_elementwise(plan_pipelines(gemm_relu(m, n, k)).func)))


def test_what_divides_needs_none() -> None:
    assert guards(guard_bounds(vector_add(1024))) == []
    assert guarded_gemm(1024, 1024, 1024) == []


def test_a_store_that_is_guarded_guards_its_operands() -> None:
    (condition,) = guards(guard_bounds(vector_add(1000)))
    assert condition == "bx * 128 + i < 1000"


def test_only_the_ragged_dimension_is_tested() -> None:
    found = guarded_gemm(1000, 1024, 1024)
    assert found and all("by" in text and "bx" not in text for text in found)
    found = guarded_gemm(1024, 1024, 1000)
    assert found and all("by" not in text for text in found)


def test_a_size_known_at_launch_is_tested_against() -> None:
    (condition,) = guards(guard_bounds(vector_add(X.Var("n", "int32"))))
    assert condition == "bx * 128 + i < n"


@pytest.mark.parametrize("known", [True, False])
def test_a_condition_of_the_author_is_believed(known: bool) -> None:
    a = X.decl_buffer((100,), "float32", "a")
    i = X.Var("i", "int32")
    store = X.BufferStore(a, X.BufferLoad(a, [i]) * X.const(2, "float32"), [i])
    body = X.IfThenElse(i < (100 if known else 101), store, None)
    func = X.PrimFunc([a], X.For(i, 0, 128, X.ForKind.SERIAL, body)).with_attr("global_symbol", "f")
    assert len(guards(guard_bounds(func))) == (1 if known else 2)


@pytest.mark.parametrize("rows", [8192, None])
@pytest.mark.parametrize(("more", "guarded"), [(0, False), (1, True)])
def test_every_p_th_row_is_inside(rows: int | None, more: int, guarded: bool) -> None:
    """`for k in range(ceildiv(rows - first, 264))` stops at the last row of those from `first` on."""
    size = rows or X.Var("M", "int32")
    a = X.decl_buffer((size,), "float32", "a")
    first, k = X.Var("bx", "int32"), X.Var("k", "int32")
    store = X.BufferStore(a, X.const(0, "float32"), [first + k * 264 + more])
    count = X.FloorDiv(size - first + 263, X.const(264, "int32"))
    loop = X.For(k, 0, count, X.ForKind.SERIAL, store)
    func = X.PrimFunc([a], X.For(first, 0, 264, X.ForKind.SERIAL, loop)).with_attr("global_symbol", "f")
    assert len(guards(guard_bounds(func))) == guarded
