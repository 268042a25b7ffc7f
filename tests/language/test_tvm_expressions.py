"""Expressions that kernels make with TVM's own classes: names for values, operations found by their name."""

from __future__ import annotations

import math

import pytest
import torch
from tvm import tirx
from tvm.tirx.op import Op

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES
from tilelang import reference
from tilelang.diagnostics.error import KernelError

X0 = tirx.Var("x0", "float32")


def named(value, body):
    """`body` of the value, which is computed once."""
    name = tirx.Var("held", value.dtype)
    return tirx.Let(name, value, body(name))


def stepwise(x):
    """Names the value inside the body too: a statement that stands before the one of the outer name."""
    low = T.float32(0.0)
    missing = T.isnan(x)
    return tirx.Select(missing, low, T.max(x, low) + x)


@T.prim_func
def names(A: T.Tensor((8, 16), "float32"), n: T.int32, B: T.Tensor((8, 16), "float32")):
    with T.Kernel(8, threads=32) as b:
        for i in T.Parallel(16):
            twice = named(A[b, i] * 2.0, stepwise)
            # Read only where the tensor has such an element.
            after = T.if_then_else(i + n < 16, named(A[b, i + n], lambda v: v * v), 1.0)
            B[b, i] = named(twice + after, lambda v: named(v - 1.0, lambda w: v * w + tirx.Let(X0, v, X0)))


def names_by_torch(a: torch.Tensor, n: int) -> torch.Tensor:
    twice = torch.where(a.isnan(), 0.0, (2 * a).clamp(min=0) + 2 * a)
    later = torch.ones_like(a)
    later[:, : 16 - n] = a[:, n:] ** 2
    v = twice + later
    return v * (v - 1) + v


@pytest.mark.parametrize("device", DEVICES)
def test_a_name_for_a_value_holds_for_what_the_body_states_too(device: str):
    a = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    a[2, 9] = math.nan
    b = torch.zeros(8, 16, device=device)
    tilelang.compile(names, target=device)(a.to(device), 3, b)
    torch.testing.assert_close(b.cpu(), names_by_torch(a, 3), equal_nan=True)
    meant = torch.zeros(8, 16)
    reference.run(names, a, 3, meant)
    torch.testing.assert_close(meant, names_by_torch(a, 3), equal_nan=True)


def keeping(dtype: str):
    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((2, 64), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                C[0, i] = tirx.call_intrin(dtype, Op.get("tl.max_nan"), A[i], B[i])
                C[1, i] = tirx.call_intrin(dtype, Op.get("tl.min_nan"), A[i], B[i])

    return main


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_larger_and_smaller_ones_keep_nan(dtype: torch.dtype, device: str):
    a, b = torch.randn(2, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    a[3], b[5], a[7] = math.nan, math.nan, math.inf
    expected = torch.stack([torch.maximum(a, b), torch.minimum(a, b)])
    kernel = keeping(str(dtype).removeprefix("torch."))
    found = torch.zeros(2, 64, dtype=dtype, device=device)
    tilelang.compile(kernel, target=device)(a.to(device), b.to(device), found)
    torch.testing.assert_close(found.cpu(), expected, equal_nan=True)
    meant = torch.zeros(2, 64, dtype=dtype)
    reference.run(kernel, a, b, meant)
    torch.testing.assert_close(meant, expected, equal_nan=True)


@pytest.mark.toolchain
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])
def test_they_are_one_instruction_of_narrow_floats(target: str):
    for dtype in ("float16", "bfloat16", "float32"):
        kernel = tilelang.compile(keeping(dtype), target=target)
        assert "return __hmax_nan(a, b);" in kernel.get_kernel_source()


@T.macro
def flat_copy(X, Y, rows, columns):
    flat, out = T.Tensor((rows * columns,), "float32", X.data), T.Tensor((rows * columns,), "float32", Y.data)
    with T.Kernel(rows, threads=32) as b:
        tile = T.alloc_shared((columns,), "float32")
        T.copy(flat[b * columns], tile)
        T.copy(tile, out[b * columns])


@T.prim_func
def through_views(X: T.Tensor((6, 2, 8), "float32"), Y: T.Tensor((6, 2, 8), "float32")):
    flat_copy(X, Y, 6, 16)


@pytest.mark.parametrize("device", DEVICES)
def test_another_shape_of_a_tensor_may_be_made_before_the_launch(device: str):
    x = torch.randn(6, 2, 8, generator=torch.Generator().manual_seed(0))
    y = torch.zeros(6, 2, 8, device=device)
    tilelang.compile(through_views, target=device)(x.to(device), y)
    assert torch.equal(y.cpu(), x)


M = T.dynamic("m", torch.int32)


@T.prim_func
def placed(X: T.Tensor((M, 32), "float32"), Y: T.Tensor((M, 32), "float32")):
    with T.Kernel(M, threads=32) as b:
        row = T.alloc_fragment((32,), "float32", scope="shared")  # the scope decides, not the name
        T.annotate_layout({row: lambda i: 31 - i})
        T.copy(X[b, 0], row)
        t = T.get_thread_binding()
        Y[b, t] = row[31 - t]


@pytest.mark.parametrize("device", DEVICES)
def test_the_scope_decides_where_an_allocation_lies(device: str):
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(0))
    y = torch.zeros(5, 32, device=device)
    tilelang.compile(placed, target=device)(x.to(device), y)
    assert torch.equal(y.cpu(), x.flip(1))
    assert "__shared__" in tilelang.lower(placed, target="cuda:sm_90").kernel_source


def test_a_scope_that_there_is_not_is_said():
    with pytest.raises(KernelError, match=r"`scope` is one of 'shared.dyn', .*, not 'registers'"):

        @T.prim_func
        def wrong(X: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                T.alloc_local((4,), "float32", scope="registers")
