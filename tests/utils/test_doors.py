"""Names that kernels and tests import from elsewhere than the rooms the code lives in."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
import tilelang.testing
from tilelang import PassConfigKey, cache, dtypes, env
from tilelang.autotuner.capture import set_autotune_inputs
from tilelang.autotuner.param import AutotuneResult, CompileArgs, ProfileArgs
from tilelang.contrib import nvcc, nvrtc
from tilelang.engine import lower
from tilelang.engine.callback import register_cuda_postproc_callback
from tilelang.engine.param import KernelParam
from tilelang.env import CacheState, EnvVar
from tilelang.errors import ArgumentError, KernelError, ToolchainError
from tilelang.jit.exceptions import JITNoBuilderError
from tilelang.jit.postprocess import unregister_postproc
from tilelang.transform import simplify_prim_func
from tilelang.transform.pass_config import normalize_pass_configs
from tilelang.utils import language as about
from tilelang.utils.device import device_synchronize, get_available_cpu_count


@T.prim_func
def double(A: T.Tensor((64,), "float16"), n: T.int32, B: T.Tensor((64,), "uint8")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = A[i] * n


def test_they_are_the_same_objects():
    assert lower is tilelang.lower and set_autotune_inputs is tilelang.autotuner.set_autotune_inputs
    assert AutotuneResult is tilelang.autotuner.AutotuneResult
    assert ProfileArgs(warmup=3).timeout == 30 and CompileArgs(out_idx=[1]).options().out_idx == (1,)
    assert dtypes.float16x4 == T.float16x4 and dtypes.bool == T.bool
    assert tilelang.Layout is T.Layout and tilelang.Fragment is T.Fragment
    assert simplify_prim_func(double) is double
    given = {PassConfigKey.TL_ENABLE_FAST_MATH: True, "tl.disable_wgmma": False}
    assert normalize_pass_configs(given) == {"tl.enable_fast_math": True, "tl.disable_wgmma": False}
    with pytest.raises(JITNoBuilderError):
        T.alloc_shared((4,), "float32")


def test_parameters_say_what_they_take():
    half, number, byte = tilelang.compile(double, target="cpu").params
    assert isinstance(half, KernelParam) and half.shape == [64] and half.dtype == "float16"
    assert half.torch_dtype() is torch.float16 and half.tilelang_dtype() == T.float16
    assert number.is_scalar() and number.shape == [] and not half.is_scalar()
    assert byte.is_unsigned() and not (byte.is_boolean() or byte.is_float8() or byte.is_float4())


def test_the_environment_is_read_and_set(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILELANG_VERBOSE", "1")
    assert str(tmp_path) == env.TILELANG_CACHE_DIR and env.get_default_verbose()
    env.TILELANG_DEFAULT_TARGET = "cpu"
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")  # so that it is taken back
    assert env.get_default_target() == "cpu" and env.get_compile_timeout_seconds() is None
    env.disable_cache()
    assert not env.is_cache_enabled() and not tilelang.is_cache_enabled()
    env.enable_cache()
    assert env.is_cache_enabled() and not env.is_cache_globally_disabled()


def test_the_cache_can_be_emptied(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    (tmp_path / "of another").mkdir()
    cache.cached(double, target="cpu")
    assert len(list(tmp_path.iterdir())) == 2
    cache.clear_cache()
    assert [p.name for p in tmp_path.iterdir()] == ["of another"]


def test_sources_are_edited_by_a_decorated_function():
    @register_cuda_postproc_callback
    def edit(source, target):
        return f"// edited for {target.kind.name}\n{source}"

    try:
        assert tilelang.lower(double, target="cuda:sm_80").kernel_source.startswith("// edited for cuda\n")
        with pytest.raises(ValueError, match="registered"):
            register_cuda_postproc_callback(False)(edit)
    finally:
        unregister_postproc("cuda")


def test_what_a_cuda_target_has():
    hopper = {"kind": "cuda", "arch": "sm_90a"}
    assert nvcc.get_target_compute_version(hopper) == "9.0" and nvcc.parse_compute_version("8.6") == (8, 6)
    assert nvcc.get_target_arch("9.0") == "90a" and nvcc.get_target_arch((8, 6)) == "86"
    assert nvcc.is_hopper(hopper) and nvcc.have_tma(hopper) and not nvcc.have_tma("cuda:sm_80")
    assert nvcc.have_fp8("8.9") and not nvcc.have_bf16("7.5") and nvcc.have_tensorcore(target="cuda:sm_70")
    with pytest.raises(RuntimeError, match=r"9\.0"):
        nvcc.parse_compute_version("sm_90")
    device_synchronize()
    assert get_available_cpu_count() >= 1


def test_the_driver_of_this_machine_is_asked():
    from tilelang.carver.arch import driver

    if torch.cuda.is_available():
        assert driver.get_num_sms() > 0 and driver.get_max_dynamic_shared_size_bytes(format="kb") >= 48
        assert driver.get_device_name() and driver.get_registers_per_block() >= 32768
        with pytest.raises(ValueError, match="bits"):
            driver.get_shared_memory_per_block(format="bits")
    else:
        assert driver.get_device_name() is None and driver.get_max_dynamic_shared_size_bytes() is None
        with pytest.raises(RuntimeError, match="no GPU 0"):
            driver.get_num_sms()


def test_a_deprecated_function_warns():
    @tilelang.deprecated("old", "new", "0.2")
    def old():
        return 3

    with pytest.warns(DeprecationWarning, match="old is deprecated and goes in version 0.2: use new"):
        assert old() == 3


def test_measured_functions_are_listed(capsys):
    tilelang.testing.process_func(lambda n: n / 2, "half", n=3)
    tilelang.testing.regression(prefixes=("regression_of_",))
    assert capsys.readouterr().out.splitlines() == [
        "half: 1.5",
        "[1/1] regression_of_doubling",
        "doubling: 8.0",
    ]
    with pytest.raises(ValueError, match="positive"):
        tilelang.testing.process_func(lambda: -1.0)


def regression_of_doubling():
    tilelang.testing.process_func(lambda n: n * 2.0, "doubling", n=4)


def test_the_cache_switch_of_the_process(monkeypatch):
    monkeypatch.delenv("TILELANG_DISABLE_CACHE", raising=False)
    CacheState.disable()
    try:
        assert not CacheState.is_enabled() and not env.is_cache_enabled()
    finally:
        CacheState.enable()
    assert CacheState.is_enabled() and EnvVar("TILELANG_NO_SUCH_THING", "7").get() == "7"
    monkeypatch.setenv("TILELANG_COMPILE_TIMEOUT_SECONDS", "-1")
    with pytest.raises(ValueError, match="positive"):
        env.get_compile_timeout_seconds()


def test_modules_that_only_pass_on_a_name():
    import tilelang.engine.lower as module
    from tilelang.profiler import get_tensor_supply, torch_assert_close
    from tilelang.tileop.base import GemmWarpPolicy

    assert module is tilelang.lower and tilelang.engine.lower is tilelang.lower
    assert GemmWarpPolicy is T.GemmWarpPolicy
    assert torch_assert_close is tilelang.utils.torch_assert_close and callable(get_tensor_supply())
    with pytest.raises(AttributeError, match=r"tilelang.transform.LayoutInference is a pass of another"):
        tilelang.transform.LayoutInference()


def test_exceptions_are_found_in_one_place():
    kernel = tilelang.compile(double, target="cpu")
    with pytest.raises(ArgumentError, match="takes 3 arguments"):
        kernel()
    with pytest.raises(KernelError):

        @T.prim_func
        def wrong(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                A[0, 0] = 1.0


def test_kernels_ask_what_a_tile_is():
    said = {}

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), S: T.StridedTensor((8, 4), (16, 1), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 4), "float16")
            fixed = T.alloc_shared((8,), "float16", scope="shared")
            flags = T.alloc_shared((8,), "bool")
            acc = T.alloc_fragment((8,), "float32")
            own = T.alloc_local((8,), "float32")
            kinds = {"tile": tile, "fixed": fixed, "flags": flags, "acc": acc, "own": own, "A": A}
            for name, buffer in kinds.items():
                asked = (about.is_global, about.is_shared, about.is_fragment, about.is_local)
                said[name] = [question(buffer) for question in asked]
                said[name].append(about.is_shared_dynamic(buffer))
                said[name].append(buffer.scope())
            said["shape"] = (about.retrieve_shape(A), about.retrieve_shape(A[1:3, 0:4]))
            said["stride"] = (about.retrieve_stride(A), about.retrieve_stride(S))
            said["elements"] = (about.get_buffer_elems(tile), about.retrieve_dtype(tile))
            S[0, 0] = A[0, 0]

    assert said["tile"] == [False, True, False, False, True, "shared.dyn"]
    assert said["fixed"] == said["flags"] == [False, True, False, False, False, "shared"]
    assert said["acc"] == [False, False, True, False, False, "local.fragment"]
    assert said["own"] == [False, False, False, True, False, "local"]
    assert said["A"] == [True, False, False, False, False, "global"]
    assert said["shape"] == ([64, 32], [2, 4]) and said["stride"] == ([32, 1], [16, 1])
    assert said["elements"] == (32, "float16")
    assert about.get_prim_func_name(main) == "main" and about.get_prim_func_name(None, "x") == "x"


CODE = 'extern "C" __global__ void add(float* a) { a[threadIdx.x] += 1.0f; }'


@pytest.mark.parametrize("compiler", [nvcc, nvrtc])
def test_cuda_of_the_author_is_compiled(compiler):
    if compiler is nvrtc:
        try:
            assert nvrtc.get_nvrtc_version() >= (12, 0)
        except ToolchainError:
            pytest.skip("NVRTC is not installed")
    else:
        try:
            nvcc.get_nvcc_compiler()
        except RuntimeError:
            pytest.skip("nvcc is not installed")
    assert compiler.compile_cuda(CODE, "cubin", 80)[:4] == b"\x7fELF"
    assert b".target sm_90a" in compiler.compile_cuda(CODE, arch="sm_90a", options="-lineinfo")
    with pytest.raises(ValueError, match="not 'obj'"):
        compiler.compile_cuda(CODE, "obj", 80)
    with pytest.raises(ValueError, match="no CUDA architecture: 'hopper'"):
        compiler.compile_cuda(CODE, arch="hopper")
    with pytest.raises(ToolchainError, match="no_such_name") as refused:
        compiler.compile_cuda(CODE.replace("1.0f", "no_such_name"), arch=80)
    assert "bug of the compiler" not in str(refused.value)
