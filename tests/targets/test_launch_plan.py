"""Launch plans: symbols, grid expressions, outputs, what cannot be planned."""

from __future__ import annotations

import pytest
from tvm import tirx as X

from tests.ir.hand_made import gemm_relu, vector_add
from tilelang.arch.target import Target
from tilelang.runtime.plan import LaunchPlan, TensorParam
from tilelang.targets import driver
from tilelang.targets.launch_plan import launch_plan, size_expr


def test_fixed_sizes_give_numbers() -> None:
    plan = launch_plan(gemm_relu(), "cuda", shared_bytes=49152)
    assert (plan.grid, plan.threads, plan.symbols) == ((8, 8), (128,), ())
    assert plan.arguments == ("A", "B", "C")
    assert LaunchPlan.from_json(plan.to_json()) == plan


def alignments(func: X.PrimFunc) -> dict[str, int]:
    plan = driver.lower(func, Target("cuda", "sm_90")).plan
    assert LaunchPlan.from_json(plan.to_json()) == plan
    return {p.name: p.alignment for p in plan.params if isinstance(p, TensorParam)}


def test_parameters_are_aligned_as_wide_as_they_are_moved() -> None:
    """A and B go to shared memory 16 bytes at a time, C comes from registers in pairs of float16."""
    assert alignments(gemm_relu()) == {"A": 16, "B": 16, "C": 4}
    assert alignments(vector_add(100)) == {"A": 1, "B": 1, "C": 1}


def test_a_dynamic_size_is_a_symbol_and_an_argument() -> None:
    plan = launch_plan(vector_add(X.Var("n", "int32")), "cuda")
    assert plan.symbols == ("n",)
    assert plan.arguments == ("A", "B", "C", "n")
    (extent,) = plan.grid
    assert [eval(extent, {"n": n}) for n in (1, 128, 129, 1000)] == [1, 1, 2, 8]


def test_on_the_cpu_blocks_are_loops() -> None:
    plan = launch_plan(vector_add(), "cpu")
    assert (plan.grid, plan.threads, plan.kind) == ((1,), (1,), "cpu")


def test_outputs_come_from_the_function_unless_given() -> None:
    func = vector_add().with_attr("tl.outputs", [2])
    assert launch_plan(func, "cuda").outputs == (2,)
    assert launch_plan(func, "cuda", outputs=(1,)).outputs == (1,)


def test_a_grid_that_no_argument_determines_is_refused() -> None:
    func = vector_add()
    free = X.Var("blocks", "int32")
    node = X.AttrStmt(func.body.node, "thread_extent", free, func.body.body)
    with pytest.raises(ValueError, match="blocks, which no argument determines"):
        launch_plan(func.with_body(node), "cuda")


def test_sizes_are_written_in_python() -> None:
    m, n = X.Var("m", "int32"), X.Var("n", "int32")
    for value in (X.Max(m, n) * 2 + (m - n) % 3, (m + n) // 4 - X.Min(m, 7), m * (n + 1)):
        text = size_expr(value)
        got = eval(text, {"m": 10, "n": 4})
        want = eval(str(value).replace("T.", ""), {"m": 10, "n": 4, "max": max, "min": min})
        assert got == want
