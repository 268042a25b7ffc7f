"""Which operation takes which operand from which memory: every combination, for GPUs and the CPU."""

from __future__ import annotations

from itertools import product

import pytest

from tests.analysis.kernels import problems
from tilelang.diagnostics.problem import Severity

ALLOCATIONS = {"shared": "T.alloc_shared", "fragment": "T.alloc_fragment", "local": "T.alloc_local"}
SCOPES = ("global", *ALLOCATIONS)
HEAD = """
@tilelang.jit
def k(A, B, C, R):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    C: T.Tensor((64, 64), T.float32)
    R: T.Tensor((64,), T.float16)
    with T.Kernel(1, threads=128) as bx:
"""
# What each operation of a GPU takes; on the CPU products take and give private arrays too.
TILES = {"shared", "fragment"}
REDUCTIONS = {*product(TILES, TILES), ("local", "local")}


def operand(name: str, scope: str, tensor: str, shape: str, dtype: str) -> tuple[str, list[str]]:
    """The expression of an operand in a scope, and the statements that make and fill it."""
    if scope == "global":
        return tensor, []
    return name, [f"{name} = {ALLOCATIONS[scope]}({shape}, T.{dtype})", f"T.clear({name})"]


def rules(lines: list[str], target: str) -> set[str]:
    body = HEAD + "\n".join(" " * 8 + line for line in lines) + "\n"
    return {p.rule for p in problems(body, target) if p.severity is Severity.ERROR}


@pytest.mark.parametrize("target", ["cuda:sm_90", "hip:gfx942", "cpu"])
@pytest.mark.parametrize(("src", "dst"), product(SCOPES, SCOPES))
def test_copy_goes_between_all_scopes(src: str, dst: str, target: str):
    a, make_a = operand("a", src, "A", "(64, 64)", "float16")
    b, make_b = operand("b", dst, "B", "(64, 64)", "float16")
    assert rules([*make_a, *make_b, f"T.copy({a}, {b})", f"T.fill({b}, 1)"], target) == set()


@pytest.mark.parametrize("target", ["cuda:sm_90", "cpu"])
@pytest.mark.parametrize(("src", "dst"), product(SCOPES, SCOPES))
def test_reduction_scopes(src: str, dst: str, target: str):
    a, make_a = operand("a", src, "A", "(64, 64)", "float16")
    b, make_b = operand("b", dst, "R", "(64,)", "float16")
    found = rules([*make_a, *make_b, f"T.reduce_sum({a}, {b}, dim=1)"], target)
    assert found == (set() if (src, dst) in REDUCTIONS else {"reduce-scope"})


@pytest.mark.parametrize("target", ["cuda:sm_90", "hip:gfx942", "cpu"])
@pytest.mark.parametrize(("a", "c"), product(SCOPES, SCOPES))
def test_product_scopes(a: str, c: str, target: str):
    x, make_x = operand("x", a, "A", "(64, 64)", "float16")
    z, make_z = operand("z", c, "C", "(64, 64)", "float32")
    y, make_y = operand("y", "shared", "B", "(64, 64)", "float16")
    found = rules([*make_x, *make_y, *make_z, f"T.gemm({x}, {y}, {z})"], target)
    operands, accumulators = TILES, {"fragment"}
    if target == "cpu":
        operands = accumulators = {*TILES, "local"}
    right = a in operands and c in accumulators
    assert found == (set() if right else {"gemm-scope"})
