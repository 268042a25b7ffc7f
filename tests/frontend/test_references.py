"""Parameters of macros that stand for the caller's variable: `T.Ref`, and `T.Var` in older kernels."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


@T.macro
def by_reference(x: T.Ref):
    x = 7  # noqa: F841 - the caller's


@T.macro
def by_older_name(x: T.Var):
    x = 7  # noqa: F841


@T.macro
def by_value(x: T.int32):
    x = 7  # noqa: F841


@T.macro
def without_annotation(x):
    x = 7  # noqa: F841


@pytest.mark.parametrize(
    ("macro", "expected"), [(by_reference, 7), (by_older_name, 7), (by_value, 3), (without_annotation, 3)]
)
def test_what_a_macro_assigns(macro, expected):
    @T.prim_func
    def main(A: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            x = T.alloc_var("int32", 3)
            local = T.alloc_local((2,), "int32")
            local[1] = 3
            macro(x)
            macro(local[1])
            A[0] = x
            A[1] = local[1]

    made = tilelang.compile(main, out_idx=0, target="c")()
    assert torch.equal(made, torch.full((2,), expected, dtype=torch.int32))


def test_a_reference_keeps_the_element_that_it_was_given():
    @T.macro
    def move_on(x: T.Ref, k: T.Ref):
        k = 2  # noqa: F841
        x = 9  # noqa: F841

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                A[i] = 0
            k = T.alloc_var("int32", 1)
            move_on(A[k], k)
            A[3] = k

    assert tilelang.compile(main, out_idx=0, target="c")().tolist() == [0, 9, 0, 2]
