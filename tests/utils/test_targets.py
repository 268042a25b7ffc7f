"""Questions about targets and parts of tensors, profilers and searches, by the names that callers know."""

from __future__ import annotations

import pytest
import torch
import tvm
from tvm import tirx as X

import tilelang
import tilelang.language as T
from tilelang.contrib import nvcc
from tilelang.cuda import target as cuda
from tilelang.engine.lower import extrac_params, is_cpu_device_backend
from tilelang.metal.target import target_is_metal
from tilelang.profiler import do_bench
from tilelang.rocm import target as rocm
from tilelang.testing import target_is_cdna, target_is_cuda, target_is_gfx950, torch_assert_close
from tilelang.transform import PassContext, get_pass_context
from tilelang.utils import language as about

ASKED = {
    "is_volta": cuda.target_is_volta,
    "is_turing": cuda.target_is_turing,
    "is_ampere": cuda.target_is_ampere,
    "is_hopper": cuda.target_is_hopper,
    "is_sm120": cuda.target_is_sm120,
    "async_copy": cuda.target_has_async_copy,
    "bulk_copy": cuda.target_has_bulk_copy,
    "ldmatrix": cuda.target_has_ldmatrix,
    "stmatrix": cuda.target_has_stmatrix,
}


@pytest.mark.parametrize(
    ("arch", "yes"),
    [
        ("sm_75", "is_turing ldmatrix"),
        ("sm_86", "is_ampere async_copy ldmatrix"),
        ("sm_90a", "is_hopper async_copy bulk_copy ldmatrix stmatrix"),
        ("sm_100", "async_copy bulk_copy ldmatrix stmatrix"),
        ("sm_120", "is_sm120 async_copy bulk_copy ldmatrix stmatrix"),
    ],
)
def test_what_nvidia_targets_are_and_have(arch, yes):
    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    assert target_is_cuda(target) and not target_is_metal(target)
    assert {name for name, asks in ASKED.items() if asks(target)} == set(yes.split())
    assert not any(asks("hip:gfx942") or asks("c") for asks in ASKED.values())


def test_what_amd_targets_are():
    assert (
        target_is_cdna("hip:gfx942") and not target_is_gfx950("hip:gfx942") and target_is_gfx950("hip:gfx950")
    )
    assert rocm.target_get_warp_size("hip:gfx942") == 64 and rocm.target_get_mcpu("hip:gfx90a") == "gfx90a"
    assert rocm.target_is_rdna("hip:gfx1100") and rocm.target_get_rdna_generation("hip:gfx1100") == 11
    assert not rocm.target_is_hip("cuda:sm_90") and rocm.target_get_rdna_generation("hip:gfx942") == 0
    assert nvcc.get_target_arch_and_code({"kind": "cuda", "arch": "sm_90"}) == ("90a", None)
    with pytest.raises(ValueError, match="abacus"):
        target_is_cuda("abacus")


@T.prim_func
def double(A: T.Tensor((64,), "float32"), n: T.int32, B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = A[i] * n


def test_parameters_before_compiling():
    a, n, _ = extrac_params(double)
    assert (a.name, a.shape, a.dtype) == ("A", [64], "float32") and n.is_scalar() and n.dtype == "int32"
    assert is_cpu_device_backend("llvm") and not is_cpu_device_backend("cuda")


def test_the_pass_context_around_a_call():
    with PassContext(config={"tl.disable_wgmma": True}) as context:
        assert get_pass_context().same_as(context)


def test_tiles_outside_a_kernel():
    tile = X.decl_buffer((4, 8), "float16", scope="shared.dyn")
    assert about.retrieve_shape(tile) == [4, 8] and about.retrieve_stride(tile) == [8, 1]
    assert about.bits_product((4, 8), "float16") == 512 and about.is_shared(tile)
    assert tilelang.utils.get_prim_func_name(double) == "double"
    assert tilelang.DataType("float16") == "float16"


@pytest.fixture(scope="module")
def kernel():
    return tilelang.compile(double, out_idx=[2], target="cpu")


class TestProfilers:
    def test_inputs_and_parameters(self, kernel):
        profiler = kernel.get_profiler(tilelang.TensorSupplyType.One)
        assert [p.name for p in profiler.params] == ["A", "n", "B"] and profiler.params[0].shape == [64]
        assert [getattr(i, "shape", i) for i in profiler._get_inputs()] == [(64,), 1]
        assert len(profiler._get_inputs(with_output=True)) == 3
        assert profiler.supply(profiler.params[2]).sum() == 64
        assert profiler.adapter.result_idx == [2]

    def test_another_adapter(self, kernel):
        other = tilelang.compile(double, out_idx=[2], target="c", execution_backend="cython").adapter
        profiler = kernel.get_profiler().with_default_adapter(other)
        profiler.assert_allclose(lambda a, n: a * n)
        assert profiler.func is other
        with pytest.raises(AssertionError, match="Too many mismatched elements: B differs"):
            profiler.assert_allclose(lambda a, n: a * n + 1)

    def test_results_of_a_kernel_without_outputs(self):
        writes = tilelang.compile(double, target="cpu").get_profiler()
        with pytest.raises(AssertionError, match="or out_idx should name the results"):
            writes.assert_allclose(lambda a, n, b: a * n)

    def test_wrong_modes(self):
        with pytest.raises(ValueError, match="Invalid return_mode: most"):
            do_bench(lambda: None, backend="wall", return_mode="most")
        with pytest.raises(ValueError, match="Unknown profiler backend: clock"):
            do_bench(lambda: None, backend="clock")


def test_comparisons_say_it_in_known_words():
    with pytest.raises(AssertionError, match="Too many mismatched elements"):
        torch_assert_close(torch.zeros(2), torch.ones(2))
    with pytest.raises(AssertionError, match="The values for attribute 'shape' do not match"):
        torch_assert_close(torch.zeros(2), torch.ones(3))


class TestSearches:
    @staticmethod
    def tuned(configs):
        @tilelang.autotune(configs=configs, warmup=1, rep=1)
        @tilelang.jit(out_idx=[-1], target="cpu")
        def double_by(n, block=64):
            return double

        return double_by

    def test_keys_that_are_no_parameters(self):
        with pytest.raises(ValueError, match=r"Unused keys in config: \{'blok'\}; double_by takes n, block"):
            self.tuned([{"blok": 1}, {"block": 2}])(64)

    def test_nothing_to_try(self):
        with pytest.raises(ValueError, match="No configurations to tune"):
            self.tuned([])(64)
