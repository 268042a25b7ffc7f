"""Helpers that tests of kernels use: marks, seeds, tolerant comparison, inputs, host arithmetic."""

from __future__ import annotations

import pytest
import torch
from tvm import tirx

import tilelang
import tilelang.testing
from tilelang.runtime.plan import ScalarParam, TensorParam
from tilelang.utils.language import get_buffer_region_from_load
from tilelang.utils.tensor import (
    TensorSupplyType,
    fp8_remove_negative_zeros_,
    get_tensor_supply,
    is_float8_dtype,
    torch_assert_close,
)


def test_a_share_of_mismatches_is_tolerated():
    a = torch.zeros(1000)
    b = a.clone()
    b[3] = 1
    assert torch_assert_close(a, b, max_mismatched_ratio=0.001)
    b[4] = float("nan")
    with pytest.raises(AssertionError, match=r"C and D differ in 2 of 1000 .* first at \(3,\): 0 and 1"):
        torch_assert_close(a, b, max_mismatched_ratio=0.001, base_name="C", ref_name="D")


def test_what_does_not_agree_is_named():
    with pytest.raises(AssertionError, match=r"LHS has shape \(2,\), RHS \(3,\)"):
        torch_assert_close(torch.zeros(2), torch.zeros(3))
    with pytest.raises(AssertionError, match=r"dtype torch.float32, RHS torch.float16"):
        torch_assert_close(torch.zeros(2), torch.zeros(2, dtype=torch.float16))
    torch_assert_close(torch.zeros(2), torch.zeros(2, dtype=torch.float16), check_dtype=False)


def test_inputs_by_distribution():
    supply = get_tensor_supply(TensorSupplyType.One)
    made = supply(TensorParam("A", "float16", (4, 8)))
    assert made.dtype is torch.float16 and made.shape == (4, 8) and bool((made == 1).all())
    assert supply(ScalarParam("n", "int32")) == 1


def test_fp8_helpers():
    assert is_float8_dtype(torch.float8_e4m3fn) and not is_float8_dtype(torch.float16)
    tensor = torch.tensor([-0.0, 1.0]).to(torch.float8_e4m3fn)
    fp8_remove_negative_zeros_(tensor)
    assert tensor.view(torch.uint8).tolist() == [0, 0x38]


def test_the_region_of_a_load():
    buffer = tirx.decl_buffer((8, 8), "float32", name="b")
    assert str(get_buffer_region_from_load(tirx.BufferLoad(buffer, [1, tirx.Ramp(0, 1, 4)]))) == "b[1, 0:4]"
    load = tirx.BufferLoad(buffer, [1, 2])
    assert get_buffer_region_from_load(load) is None
    assert str(get_buffer_region_from_load(load, [2, 2])) == "b[1:3, 2:4]"


def test_host_arithmetic():
    assert [tilelang.cdiv(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [tilelang.next_power_of_2(n) for n in (0, 1, 2, 3, 64, 65)] == [1, 1, 2, 4, 64, 128]


def test_seeds_repeat():
    tilelang.testing.set_random_seed(1)
    first = torch.randn(3)
    tilelang.testing.set_random_seed(1)
    assert torch.equal(first, torch.randn(3))


def test_marks_skip_where_there_is_no_device():
    def test():
        pass

    def other():
        pass

    marked = tilelang.testing.requires_cuda_compute_version_ge(99)(test)
    mark = marked.pytestmark[-1]
    assert mark.args == (True,) and "ge 99.0" in mark.kwargs["reason"]
    assert tilelang.testing.requires_package("torch", "numpy")(other).pytestmark[0].args == (False,)
    lacking = tilelang.testing.requires_package("torch", "no_such_thing")(other).pytestmark
    assert lacking[-1].args == (True,) and "no_such_thing" in lacking[-1].kwargs["reason"]
    assert tilelang.testing.requires_llvm()(other).pytestmark[-2].args == (False,)
    mark, *_ = tilelang.testing.requires_metal.marks()
    assert mark.args == (not torch.backends.mps.is_available(),) and "Apple" in mark.kwargs["reason"]


def test_what_only_writes_sources_needs_no_device():
    def test() -> None: ...

    def other() -> None: ...

    marked = tilelang.testing.requires_metal(support_required="compile-only")(test)
    assert [m.name for m in marked.pytestmark] == ["gpu", "metal"]
    tilelang.testing.requires_metal(other, support_required="optional")
    assert len(other.pytestmark) == 2  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="Unknown feature support type: run"):
        tilelang.testing.requires_cuda(test, support_required="run")


def test_tests_of_a_device_are_chosen_by_marks():
    for requirement, names in (
        (tilelang.testing.requires_cuda, ["gpu", "cuda"]),
        (tilelang.testing.requires_rocm, ["gpu", "rocm"]),
        (tilelang.testing.requires_llvm, ["llvm"]),
    ):
        assert [m.name for m in requirement.marks()] == ["skipif", *names]

    @tilelang.testing.requires_cuda_compute_version(9)
    def on_hopper(): ...

    assert {m.name for m in on_hopper.pytestmark} == {"skipif", "gpu", "cuda"}
