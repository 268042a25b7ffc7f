"""Sizes of T.dynamic made outside a kernel, wherever they are kept, and what tells them from numbers."""

from __future__ import annotations

import functools

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.analysis.check import check_source


class Config:
    rows = T.dynamic("rows")
    columns = 4


SIZES = {"rows": T.dynamic("rows"), "of": (T.dynamic("n"), 4)}
SHAPE = [T.dynamic("rows"), 4]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(Config.rows, Config.columns), (SIZES["rows"], SIZES["of"][1]), (SHAPE[0], SHAPE[1])],
)
def test_sizes_by_name(rows, columns):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((rows, columns), "float32")):
        with T.Kernel(T.ceildiv(rows, 2), threads=1) as bx:
            for i, j in T.grid(2, columns):
                if bx * 2 + i < rows:
                    B[bx * 2 + i, j] = A[bx * 2 + i, j] + T.max(rows, 2)

    check(main, 3.0)


def test_sizes_in_objects_and_containers():
    config = Config()

    @T.prim_func
    def main(A: T.Tensor((config.rows, SHAPE[1]), "float32"), B: T.Tensor((config.rows, 4), "float32")):
        with T.Kernel(T.ceildiv(config.rows, 2), threads=1) as bx:
            for i, j in T.grid(2, SHAPE[1]):
                if bx * 2 + i < config.rows:
                    B[bx * 2 + i, j] = A[bx * 2 + i, j] + T.cast(config.rows - 1, "float32")

    check(main, 2.0)

    @T.prim_func
    def ranges(A: T.Tensor((SIZES["rows"], 4), "float32"), B: T.Tensor((SIZES["rows"], 4), "float32")):
        with T.Kernel(1, threads=1):
            for i in range(SIZES["rows"]):
                for j in range(SIZES["of"][1]):
                    B[i, j] = A[i, j] + SIZES["rows"]

    check(ranges, 3.0)


def test_sizes_that_functions_are_given():
    tiles = functools.partial(T.ceildiv, SHAPE[0])

    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32")):
        with T.Kernel(tiles(2), threads=1) as bx:
            for i, j in T.grid(2, 4):
                if bx * 2 + i < SHAPE[0]:
                    B[bx * 2 + i, j] = A[bx * 2 + i, j] + sum(SHAPE)

    check(main, 7.0)


def check(main, added):
    a, b = torch.ones(3, 4), torch.zeros(3, 4)
    tilelang.compile(main, target="c")(a, b)
    assert torch.equal(b, a + added)


def test_sizes_are_told_from_numbers():
    size = T.dynamic("m")
    assert isinstance(size, T.Var) and isinstance(size, T.PrimExpr)
    assert isinstance(size + 1, T.PrimExpr) and not isinstance(size + 1, T.Var)
    assert not isinstance(5, T.Var) and not isinstance(size, T.SizeVar)
    assert T.Var("n", T.int64).dtype == "int64"


def test_a_macro_asks_what_it_is_given():
    @T.macro
    def mark(A, n):
        if isinstance(n, T.Var):
            A[0] = 1.0
        elif isinstance(n, T.PrimExpr):
            A[0] = 2.0
        else:
            A[0] = 3.0 if isinstance(A, T.Buffer) else 4.0

    @T.prim_func
    def main(A: T.Tensor((1,), "float32"), B: T.Tensor((1,), "float32"), C: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=1) as bx:
            mark(A, bx)
            mark(B, bx + 1)
            mark(C, 4)

    made = tilelang.compile(main, target="c", out_idx=[0, 1, 2])()
    assert [t.item() for t in made] == [1.0, 2.0, 3.0]


def test_the_editor_knows_them_too():
    text = """
import tilelang
import tilelang.language as T

SIZES = {"rows": T.dynamic("rows")}

@T.prim_func
def main(A: T.Tensor((SIZES["rows"], 4), "float32"), B: T.Tensor((SIZES["rows"], 4), "float32")):
    with T.Kernel(T.ceildiv(SIZES["rows"], 2), threads=32) as bx:
        for i, j in T.Parallel(2, 4):
            B[bx * 2 + i, j] = A[bx * 2 + i, j] + SIZES["rows"]
"""
    problems = check_source("k.py", text, "cuda:sm_90").all_problems()
    assert {p.rule for p in problems} <= {"guarded-tail"}
