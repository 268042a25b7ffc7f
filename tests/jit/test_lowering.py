"""Ways to a kernel besides the decorator: `lower`, `par_compile`, targets around a call, edited sources."""

from __future__ import annotations

import ast
import gc
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import tvm
import tvm_ffi

import tilelang
import tilelang.language as T
from tilelang.jit.postprocess import unregister_postproc
from tilelang.parsing import parse


@T.prim_func
def double(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = A[i] * 2.0


@T.prim_func
def wrong(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((32,), "float32")
        T.copy(A[0:64], s[0:64])
        for i in T.Parallel(64):
            B[i + 64] = A[i]


@tilelang.jit(out_idx=-1)
def scale(N, block=64):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2.0

    return kernel


@pytest.fixture
def edits():
    yield
    unregister_postproc("cuda")


def test_lower_shows_source_and_parameters():
    artifact = tilelang.lower(double, target="hip:gfx942")
    assert "__global__" in artifact.kernel_source and artifact.target == "hip:gfx942"
    assert [p.name for p in artifact.params] == ["A", "B"]
    on_cpu = tilelang.lower(double, target="cpu")
    a, b = torch.randn(64), torch.empty(64)
    on_cpu.rt_mod(a, b)
    torch.testing.assert_close(b, a * 2)


@T.prim_func
def exponential(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = T.exp(A[i])


def test_a_pass_context_around_lower_may_name_the_options_of_the_language():
    fast = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True, "tirx.disable_vectorize": False}

    def source() -> str:
        return tilelang.lower(exponential, target="cuda:sm_90").kernel_source

    with tvm.transform.PassContext(opt_level=3, config=fast) as context:
        assert "__expf(" in source()
        assert dict(context.config) == {"tirx.disable_vectorize": False}
        with tvm.transform.PassContext():  # nothing comes through from outside
            assert "__expf(" not in source()
    assert "__expf(" not in source()
    with tvm.transform.PassContext(config={"tl.enable_fast_math": True}):
        assert "__expf(" in source()


def test_a_pass_context_refuses_what_nobody_knows():
    with pytest.raises(AttributeError, match=r"tl\.enable_magic"):
        tvm.transform.PassContext(config={"tl.enable_magic": True})


def test_the_target_around_a_call_is_the_default():
    with tvm.target.Target("metal"):
        assert tilelang.lower(double).target == "metal"
    assert tilelang.lower(double).target == "cpu"


def test_par_compile_of_functions_and_of_configurations():
    kernels = tilelang.par_compile([double, double], target="cpu", out_idx=-1, num_workers=2)
    a = torch.randn(64)
    for kernel in kernels:
        torch.testing.assert_close(kernel(a), a * 2)
    both = scale.par_compile([{"N": 64, "block": 32}, (100, 16)])
    assert [k.params[0].shape for k in both] == [[64], [100]]


def test_texts_are_parsed_in_threads_while_garbage_is_collected():
    """CPython 3.11 mixes up the depths of two parses at once, as this shows without a lock."""
    text = Path(ast.__file__).read_text(encoding="utf-8")
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()

    def let_others_run(phase: str, info: object) -> None:
        for _ in range(200):
            pass

    gc.callbacks.append(let_others_run)
    gc.set_threshold(100)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            trees = list(pool.map(parse, [text] * 16))
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(let_others_run)
    assert {len(tree.body) for tree in trees} == {len(ast.parse(text).body)}


def test_par_compile_raises_or_passes_over_what_does_not_compile(caplog):
    with pytest.raises(ValueError, match="past"):
        tilelang.par_compile([double, wrong], target="cpu")
    with caplog.at_level(logging.WARNING, "tilelang"):
        good, bad = tilelang.par_compile([double, wrong], target="cpu", ignore_error=True)
    assert good is not None and bad is None
    assert "passed over a kernel" in caplog.text


def test_the_generated_source_can_be_edited(edits):
    def comment(source, target):
        assert target.kind.name == "cuda"
        return "// edited\n" + source

    tilelang.register_cuda_postproc(comment)
    with pytest.raises(ValueError, match="registered already"):
        tilelang.register_cuda_postproc(comment, override=False)
    from tilelang.targets.cuda import toolchain

    if toolchain.nvrtc() is None and toolchain.nvcc() is None:
        pytest.skip("no CUDA compiler is installed")
    assert tilelang.lower(double, target="cuda:sm_80").kernel_source.startswith("// edited\n")
    tilelang.register_cuda_postproc(lambda source, target: None)
    with pytest.raises(TypeError, match="returned NoneType; expected the source"):
        tilelang.lower(double, target="cuda:sm_80")


def test_a_function_registered_with_tvm_edits_it_too(edits):
    name = "tilelang_callback_cuda_postproc"
    tvm_ffi.register_global_func(name, lambda source, target: f"// first\n{source}", override=True)
    assert tilelang.lower(double, target="cuda:sm_80").kernel_source.startswith("// first\n")
    tvm_ffi.register_global_func(name, lambda source, target: f"// second\n{source}", override=True)
    assert tilelang.lower(double, target="cuda:sm_80").kernel_source.startswith("// second\n")


def test_a_pass_configuration_without_effect_is_mentioned(caplog):
    with caplog.at_level(logging.INFO, "tilelang"):
        tilelang.compile(
            double, target="cpu", pass_configs={tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True}
        )
        tilelang.compile(double, target="cpu", pass_configs={tilelang.PassConfigKey.TL_PASS_PROFILE: True})
    assert "tl.pass_profile has no effect" in caplog.text
    assert "disable_warp_specialized" not in caplog.text


def test_what_lowering_was_given_and_made_is_left_in_files(tmp_path):
    configs = {"tl.enable_dump_ir": True, "tl.dump_ir_path": str(tmp_path / "ir")}
    for _ in range(2):  # also where the kernel is known
        tilelang.compile(double, target="cpu", pass_configs=configs)
        names = sorted(p.name for p in (tmp_path / "ir").iterdir())
        assert [n.split(".", 1)[0] for n in names] == ["000_double", "001_double", "002_double"]
        assert "def double(" in (tmp_path / "ir" / names[0]).read_text()
        (tmp_path / "ir" / names[0]).unlink()


def test_a_tile_function_takes_what_its_kernel_returns():
    made = scale.get_tir(64)
    a, b = torch.ones(64), torch.zeros(64)
    assert tilelang.compile(made, target="cpu")(a, b) is None and bool((b != 0).all())
    assert torch.equal(tilelang.compile(made, out_idx=-1, target="cpu")(a), b)


def test_a_configuration_to_compile_is_a_tuple_or_a_mapping():
    with pytest.raises(ValueError, match="Invalid config type: int, expected a tuple or a mapping, not 16"):
        scale.par_compile([16])


def test_the_environment_names_a_backend_where_a_kernel_names_none(monkeypatch):
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "cython")
    assert tilelang.compile(double, target="cpu").execution_backend == "cython"
    assert tilelang.compile(double, target="cpu", execution_backend="tvm_ffi").execution_backend == "tvm_ffi"
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "nvrtc")
    with pytest.raises(ValueError, match="Invalid execution backend 'nvrtc' for target 'cpu'"):
        tilelang.compile(double, target="cpu")


@pytest.mark.parametrize(
    "configs, said",
    [
        ({"tl.enable_fast_maths": True}, "Invalid config option 'tl.enable_fast_maths'.*enable_fast_math'"),
        ({"tl.disable_tma_lower": "yes"}, "'tl.disable_tma_lower' is 'yes'; expected bool or int"),
        ({tilelang.PassConfigKey.TL_LAYOUT_COST_MODEL: 3}, "expected str"),
    ],
)
def test_pass_configurations_that_nothing_reads_are_attribute_errors(configs, said):
    with pytest.raises(AttributeError, match=said):
        tilelang.compile(double, target="cpu", pass_configs=configs)
    tilelang.compile(double, target="cpu", pass_configs={"tirx.disable_assert": True})  # one of tvm's own


def test_kernels_print_and_export_what_was_generated(tmp_path, capsys):
    kernel = tilelang.compile(double, target="cpu")
    kernel.print_source_code("both", file=tmp_path / "both.txt")
    assert kernel.kernel_source in (tmp_path / "both.txt").read_text()
    kernel.show_source("host")
    assert "launch plan" in capsys.readouterr().out
    kernel.export_library(tmp_path / "double.bin")
    assert (tmp_path / "double.bin").stat().st_size
    with pytest.raises(ValueError, match="write kernel, host or both"):
        kernel.show_source("device")
    with pytest.raises(ValueError, match="was not tuned"):
        kernel.get_tuner_result()
    kernel.run_once()


def test_the_log_level_is_set_by_number_or_name():
    logger = logging.getLogger("tilelang")
    before = logger.level
    try:
        tilelang.set_log_level("warning")
        assert logger.level == logging.WARNING
        tilelang.set_log_level(logging.DEBUG)
        assert logger.level == logging.DEBUG
        tilelang.set_log_level("loud")
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before)
