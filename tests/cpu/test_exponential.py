"""exp and exp2 of the CPU target against double precision: 2 units in the last place, and the corners."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import compiled_for


@tilelang.jit
def applied(A, name: str = "exp", dtype=T.float32):
    N = T.const("N")
    A: T.Tensor((N,), dtype)
    B = T.empty((N,), dtype)
    with T.Kernel(T.ceildiv(N, 1024), threads=128) as bx:
        for i in T.Parallel(1024):
            B[bx * 1024 + i] = T.exp(A[bx * 1024 + i]) if name == "exp" else T.exp2(A[bx * 1024 + i])
    return B


@pytest.mark.parametrize(("name", "low", "high"), [("exp", -87.3, 88.7), ("exp2", -126.0, 127.99)])
def test_normal_results_are_within_two_units(name, low, high):
    x = torch.cat([torch.linspace(low, high, 200_000), torch.linspace(-1, 1, 50_001)])
    found = compiled_for(applied, "cpu")(x, name=name)
    exact = getattr(torch, name)(x.double())
    unit = torch.exp2(torch.floor(torch.log2(exact)) - 23)
    assert ((found.double() - exact).abs() / unit).max() <= 2


@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_corners(name):
    infinity, nan = float("inf"), float("nan")
    x = torch.tensor([0.0, -0.0, infinity, -infinity, nan, 1e30, -1e30, 200.0, -200.0, 1e-40])
    found = compiled_for(applied, "cpu")(x, name=name)
    assert torch.equal(
        found.nan_to_num(7),
        torch.tensor(
            [1, 1, 3.4028234663852886e38, 0, 7, 3.4028234663852886e38, 0, 3.4028234663852886e38, 0, 1]
        ),
    )
    assert found[2].isinf()
    assert found[4].isnan()


def test_denormal_results():
    x = torch.tensor([-127.0, -130.5, -140.0, -149.0, -149.9, -150.5])
    found = compiled_for(applied, "cpu")(x, name="exp2")
    torch.testing.assert_close(found, torch.exp2(x.double()).float(), rtol=0, atol=1.5e-45)


def test_other_dtypes():
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.linspace(-5, 5, 1000).to(dtype)
        found = compiled_for(applied, "cpu")(x, dtype=dtype)
        torch.testing.assert_close(found, torch.exp(x.float()).to(dtype), rtol=torch.finfo(dtype).eps, atol=0)


def test_no_call_is_left_in_the_loop():
    assert "T.exp(" not in compiled_for(applied, "cpu").get_kernel_source(N=4096)
