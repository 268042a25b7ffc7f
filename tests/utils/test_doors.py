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
from tilelang.contrib import nvcc
from tilelang.engine import lower
from tilelang.engine.callback import register_cuda_postproc_callback
from tilelang.engine.param import KernelParam
from tilelang.env import CacheState, EnvVar
from tilelang.jit.exceptions import JITNoBuilderError
from tilelang.jit.postprocess import unregister_postproc
from tilelang.transform import simplify_prim_func
from tilelang.transform.pass_config import normalize_pass_configs
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
        return f"// edited for {target}\n{source}"

    try:
        assert tilelang.lower(double, target="cuda:sm_80").kernel_source.startswith(
            "// edited for cuda:sm_80"
        )
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
