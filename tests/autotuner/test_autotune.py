"""`@tilelang.autotune`: what is tried, what is chosen, what is remembered, and what a failure says."""

from __future__ import annotations

import time

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.autotuner import (
    AutoTuneImpl,
    AutoTuner,
    AutotuneResult,
    get_autotune_inputs,
    set_autotune_inputs,
)
from tilelang.autotuner.configurations import expand
from tilelang.autotuner.param import CompileArgs
from tilelang.autotuner.trial import Bench, ProfileArgs, TrialTimeout


def scale_factory(N, block=64):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2.0

    return kernel


def tuned(configs, **how):
    return tilelang.autotune(configs=configs, warmup=1, rep=2, **how)(tilelang.jit(out_idx=-1)(scale_factory))


@tilelang.autotune(configs={"block": [32, 64]}, warmup=1, rep=2)
@tilelang.jit
def scale(A, factor: float = 2.0, block: int = 16):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * factor
    return B


def test_configurations_are_a_list_every_combination_or_a_function():
    assert expand([{"a": 1}, {"a": 2}], (), {}) == [{"a": 1}, {"a": 2}]
    assert expand({"a": [1, 2], "b": [3]}, (), {}) == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
    assert expand({"a": [1, 2], "b": 3}, (), {}) == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
    assert expand(lambda: [{"a": 1}], (7,), {}) == [{"a": 1}]
    assert expand(lambda m, n: [{"a": m + n}], (1, 2, 3), {}) == [{"a": 3}]
    assert expand(lambda *args, **kwargs: [{"a": len(args) + len(kwargs)}], (1, 2), {"k": 3}) == [{"a": 3}]


def test_no_configuration_and_one_that_is_no_mapping_are_refused():
    with pytest.raises(ValueError, match="No configurations to tune"):
        expand([], (), {})
    with pytest.raises(TypeError, match="configuration 1 is 64"):
        expand([{"a": 1}, 64], (), {})


def test_a_function_that_makes_them_is_asked_once():
    asked = []

    def configs(n):
        asked.append(n)
        return [{"block": 32}, {"block": 64}]

    function = tuned(configs)
    function(100)
    function(100)
    assert asked == [100]


def test_a_lazy_call_returns_the_fastest_kernel_with_its_times():
    function = tuned([{"block": 32}, {"block": 64}], ref_prog=lambda a: a * 2)
    kernel = function(100)
    assert kernel.config in ({"block": 32}, {"block": 64})
    assert kernel.latency > 0 and kernel.ref_latency > 0
    a = torch.randn(100)
    torch.testing.assert_close(kernel(a), a * 2)
    assert function(100) is kernel


def test_an_eager_call_is_tuned_on_its_tensors_and_run():
    a = torch.randn(100)
    torch.testing.assert_close(scale(a), a * 2)
    torch.testing.assert_close(scale(a, factor=3.0), a * 3)
    assert scale.tune(a).config in ({"block": 32}, {"block": 64})


def test_a_call_that_gives_the_tuned_parameters_does_not_search():
    a = torch.randn(50)
    assert scale.tune(a, block=128) is None
    torch.testing.assert_close(scale(a, block=128), a * 2)
    function = tuned([{"block": 0}])
    assert function(50, 64).latency is None


def test_configurations_that_fail_are_passed_over():
    function = tuned([{"block": "no size"}, {"block": 32}])
    assert function(64).config == {"block": 32}


def test_a_wrong_result_is_passed_over_and_nothing_left_says_why():
    function = tuned([{"block": 32}, {"block": 64}], ref_prog=lambda a: a * 3)
    with pytest.raises(
        RuntimeError,
        match=r"Auto-tuning failed.*none of 2 configurations.*\n  \{'block': 32\}: AssertionError: Too many",
    ):
        function(64)
    unchecked = tuned([{"block": 32}], ref_prog=lambda a: a * 3, skip_check=True)
    assert unchecked(64).config == {"block": 32}


def test_a_check_of_the_authors_own():
    seen = []
    function = tuned(
        [{"block": 32}], ref_prog=lambda a: a * 2, manual_check_prog=lambda x, y: seen.append((x, y))
    )
    function(64)
    (found,), (expected,) = seen[0]
    torch.testing.assert_close(found, expected)


def test_the_result_is_found_again_by_another_process(monkeypatch):
    first = tuned([{"block": 32}, {"block": 64}])(100)
    monkeypatch.setattr(Bench, "run", lambda self, kernel: pytest.fail("searched again"))
    again = tuned([{"block": 32}, {"block": 64}])(100)
    assert (again.config, again.latency) == (first.config, first.latency)
    monkeypatch.setenv("TILELANG_AUTO_TUNING_DISABLE_CACHE", "1")
    with pytest.raises(pytest.fail.Exception, match="searched again"):
        tuned([{"block": 32}, {"block": 64}])(100)


def test_other_configurations_and_sizes_are_another_search():
    assert tuned([{"block": 32}])(100).config == {"block": 32}
    assert tuned([{"block": 128}])(100).config == {"block": 128}


def test_a_configuration_may_carry_pass_configs():
    key = tilelang.PassConfigKey.TL_ENABLE_FAST_MATH
    kernel = tuned([{"block": 32, "pass_configs": {key: True}}])(64)
    assert kernel.prim_func.attrs[key.value]
    eager = tilelang.autotune(configs=[{"block": 32, "pass_configs": {key: True}}], warmup=1, rep=1)(
        scale.function
    )
    a = torch.randn(10)
    torch.testing.assert_close(eager(a), a * 2)


def test_inputs_given_around_the_call():
    given = torch.arange(64, dtype=torch.float32)
    seen = []
    function = tuned([{"block": 32}], ref_prog=lambda a: seen.append(a) or a * 2)
    with set_autotune_inputs(given):
        assert get_autotune_inputs() == [given]
        function(64)
    assert get_autotune_inputs() is None
    assert torch.equal(seen[0], given)


def test_inputs_made_by_the_authors_own_function():
    seen = []

    def supply(params):
        seen.append([(p.name, p.shape) for p in params])
        return [torch.ones(64)]

    tuned([{"block": 32}, {"block": 64}], supply_prog=supply, cache_input_tensors=True)(64)
    assert seen == [[("A", [64])]]


def test_a_tuner_by_hand():
    tuner = AutoTuner.from_kernel(lambda block=64: scale_factory(80, block), [{"block": 16}, {"block": 32}])
    tuner.set_compile_args(out_idx=-1, target="cpu").set_profile_args(ref_prog=lambda a: a * 2)
    result = tuner.run(warmup=1, rep=2, timeout=30)
    assert isinstance(result, AutotuneResult)
    a = torch.randn(80)
    torch.testing.assert_close(result.kernel(a), a * 2)
    assert result.ref_latency > 0 and "B" in result.libcode


def test_a_kernel_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(Bench, "_measure", lambda self, kernel: time.sleep(3))
    with pytest.raises(TrialTimeout, match=r"no result within 0\.1 s"):
        Bench(ProfileArgs(timeout=0.1)).run(object())


def test_autotune_stands_above_jit():
    with pytest.raises(TypeError, match=r"stands above @tilelang\.jit"):
        tilelang.autotune(configs=[{"block": 1}])(scale_factory)


def test_what_a_tuner_was_told(tmp_path):
    configs = [{"block": 32}, {"block": 64}]
    tuner = AutoTuner.from_kernel(lambda block: scale_factory(128, block), configs)
    assert tuner.compile_args == CompileArgs() and tuner.profile_args.timeout == 30
    tuner.set_compile_args(out_idx=[-1], target="cpu").set_profile_args(warmup=1, rep=1)
    assert tuner.compile_args.out_idx == [-1] and tuner.profile_args.warmup == 1
    assert hash(CompileArgs(out_idx=[1])) == hash(CompileArgs(out_idx=[1])) != hash(CompileArgs(out_idx=[2]))
    assert tuner.cache_dir.name == "autotuner" and isinstance(tuner.generate_cache_key({"n": 1}, {}), str)
    found = tuner.run(1, 1, use_pipeline=True, enable_grouped_compile=True, benchmark_multi_gpu=False)
    assert found.config in configs and found.libcode == found.kernel.get_kernel_source()
    found.save_to_disk(tmp_path / "result")
    again = AutotuneResult.load_from_disk(tmp_path / "result", tuner.compile_args)
    a = torch.randn(128)
    torch.testing.assert_close(again.kernel(a), a * 2)
    assert again.config == found.config and again.latency == found.latency
    kernel = CompileArgs(out_idx=[-1], target="cpu").compile_program(scale_factory(128))
    torch.testing.assert_close(kernel(a), a * 2)
    with pytest.raises(ValueError, match="no kernel"):
        AutotuneResult().save_to_disk(tmp_path / "none")


def test_a_tuned_function_says_how_it_searches():
    function = tuned([{"block": 32}], timeout=7)
    assert isinstance(function, AutoTuneImpl) and function.warmup == 1 and function.timeout == 7
    assert function.jit_impl.out_idx == [-1] and function.get_tunner().configs == [{"block": 32}]
    with pytest.raises(AttributeError, match="colour"):
        function.colour  # noqa: B018


def test_what_the_authors_factory_raises_is_raised():
    def factory(block):
        assert block != 32, "no such block"
        return scale_factory(64, block)

    tuner = AutoTuner(factory, [{"block": 64}, {"block": 32}]).set_compile_args(out_idx=-1, target="cpu")
    with pytest.raises(AssertionError, match="no such block"):
        tuner.run(warmup=1, rep=2)


def test_an_entry_that_is_no_parameter_is_named():
    tuner = AutoTuner(scale_factory, [{"blok": 64}])
    with pytest.raises(ValueError, match=r"Unused keys in config: \{'blok'\}; scale_factory takes N, block"):
        tuner.run()


def test_kernels_may_be_made_by_hand():
    asked = []

    def make(block, __pass_configs__):
        asked.append((block, __pass_configs__))
        return tilelang.compile(scale_factory(96, block), out_idx=-1, target="cpu")

    configs = [{"block": 32}, {"block": 48, "pass_configs": {"tl.disable_tma_lower": True}}]
    tuner = AutoTuner(scale_factory, configs)
    tuner.jit_compile = make
    tuner.set_kernel_parameters(((96,), ()), {})
    assert tuner.run(warmup=1, rep=2).config in configs
    assert sorted(asked, key=str) == [(32, None), (48, {"tl.disable_tma_lower": True})]


def test_tile_functions_may_be_made_by_hand():
    tuner = AutoTuner(scale_factory, [{"block": 32}]).set_compile_args(out_idx=-1, target="cpu")
    tuner.jit_elaborate = lambda block, __pass_configs__: scale_factory(88, block)
    a = torch.randn(88)
    torch.testing.assert_close(tuner.run(warmup=1, rep=2).kernel(a), a * 2)


def test_a_saved_result_says_which_and_how_fast(tmp_path):
    tuner = AutoTuner(lambda block=64: scale_factory(72, block), [{"block": 24}])
    found = tuner.set_compile_args(out_idx=-1, target="cpu").run(warmup=1, rep=2)
    found.save_to_disk(tmp_path / "found")
    assert (tmp_path / "found" / "best_config.json").read_text() == '{"block": 24}'
    again = AutotuneResult.load_from_disk(tmp_path / "found")
    assert (again.config, again.latency) == (found.config, found.latency)
