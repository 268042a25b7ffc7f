"""Measuring on the CPU: what is counted, what is returned, and inputs for every kind of parameter."""

from __future__ import annotations

import time

import pytest
import torch

from tests.runtime.plans import plan, tensor
from tilelang import language as T
from tilelang.profiler import TensorSupplyType, do_bench
from tilelang.profiler.supply import inputs_for
from tilelang.runtime.plan import ScalarParam


def test_milliseconds_per_call():
    calls = []
    found = do_bench(lambda: (calls.append(1), time.sleep(0.002)), _n_warmup=2, _n_repeat=5, backend="wall")
    assert 2 <= found < 20
    assert len(calls) == 1 + 1 + 2 + 5  # loading, estimating, warming up, measuring


def test_quantiles_and_return_modes():
    pauses = iter([0.0, 0.0, 0.0, 0.001, 0.002, 0.005])

    def step():
        time.sleep(next(pauses))

    low, middle, high = do_bench(step, _n_warmup=1, _n_repeat=3, quantiles=[0, 0.5, 1], backend="wall")
    assert low < middle < high
    assert 5 <= high < 50
    assert do_bench(lambda: None, _n_repeat=3, return_mode="min", backend="wall") <= do_bench(
        lambda: time.sleep(0.001), _n_repeat=3, return_mode="max", backend="wall"
    )


def test_inputs_follow_the_plan_and_are_seeded():
    kernel = plan(
        tensor("A", "M", 4, dtype="float16"),
        tensor("B", 3, dtype="int8"),
        tensor("mask", 5, dtype="bool"),
        ScalarParam("n", "int32"),
        tensor("S", "M", 2, strides=(8, 1)),
        tensor("C", "M"),
        outputs=(5,),
    )
    inputs = inputs_for(kernel, sizes={"M": 6})
    a, b, mask, n, s = inputs
    assert (a.shape, a.dtype) == ((6, 4), torch.float16)
    assert (b.dtype, mask.dtype, n) == (torch.int8, torch.bool, 1)
    assert s.stride() == (8, 1)
    assert all(
        torch.equal(x, y)
        for x, y in zip(inputs, inputs_for(kernel, sizes={"M": 6}), strict=True)
        if x is not n
    )
    assert a.std() > 0.5
    zeros = inputs_for(kernel, TensorSupplyType.Zero, {"M": 6})
    assert not zeros[0].any()


@pytest.mark.parametrize(("dtype", "one"), [("int4", 0x11), ("uint4", 0x11), ("float4_e2m1fn", 0x22)])
def test_inputs_of_elements_that_share_a_byte(dtype, one):
    kernel = plan(tensor("A", 3, "M", dtype=dtype), tensor("S", 3, "M", dtype=dtype, strides=("2 * M", 1)))
    given = inputs_for(kernel, sizes={"M": 6})
    a, s = (x.view(torch.uint8) for x in given)
    assert given[0].dtype == T.dtype(dtype).as_torch() and a.shape == s.shape == (3, 3)
    assert s.stride() == (6, 1) and len(set(a.flatten().tolist())) > 4
    ones = inputs_for(kernel, TensorSupplyType.One, {"M": 6})
    assert (ones[0].view(torch.uint8) == one).all()


def test_a_missing_size_is_named():
    with pytest.raises(
        ValueError, match=r"has run-time sizes: pass dynamic_symbolic_constraints=\{'M': 1024\}"
    ):
        inputs_for(plan(tensor("A", "M")))
