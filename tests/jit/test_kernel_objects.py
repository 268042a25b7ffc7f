"""Kernels and kernel functions as objects: what tvm takes them for, what they say about themselves, copies in
other processes.
"""

from __future__ import annotations

import gc
import logging
import pickle

import pytest
import torch
import tvm
from tvm import tirx as X

import tilelang
import tilelang.language as T
from tilelang.backend.target import (
    auto_detect_target,
    determine_target,
    list_target_detectors,
    register_target_detector,
    register_target_normalizer,
)
from tilelang.cache import clear_cache
from tilelang.engine.param import CompiledArtifact, KernelParam
from tilelang.jit import JITKernel, target_detectors
from tilelang.runtime.bind import ArgumentError


def adding(n=64, step=1.0):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] + step

    return main


@tilelang.jit(out_idx=[-1], target="cpu", verbose=False, compile_flags="-O2", execution_backend="cython")
def add(n, step=1.0):
    return adding(n, step)


@tilelang.jit(target="cpu")
def increase(A, step: float = 1.0):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            B[i] = A[i] + step
            C[i] = A[i] - step
    return B, C


class TestTileFunctions:
    def test_tvm_takes_a_kernel_function(self):
        main = adding()
        assert isinstance(main, X.PrimFunc) and isinstance(main, tvm.ir.BaseFunc)
        module = tvm.IRModule({"main": main})
        assert isinstance(module["main"], X.PrimFunc) and module["main"].attrs["global_symbol"] == "main"
        tvm.ir.assert_structural_equal(main, adding())
        with pytest.raises(ValueError):
            tvm.ir.assert_structural_equal(main, adding(128))

    def test_a_module_of_one_function_compiles(self):
        module = tvm.IRModule({"main": adding()})
        a = torch.randn(64)
        for given in (module, module["main"], adding().with_attr("global_symbol", "other")):
            torch.testing.assert_close(tilelang.compile(given, out_idx=[1], target="cpu")(a), a + 1)
        two = tvm.IRModule({"a": adding().with_attr("global_symbol", "a"), "b": adding()})
        with pytest.raises(ValueError, match="this one has 2"):
            tilelang.compile(two, target="cpu")

    def test_its_text_and_its_parts(self):
        main = adding()
        assert "def main" in str(main) and "def main" in repr(main) and "def main" in main.script()
        first = main.buffer_map[main.params[0]]
        assert (first.name, [int(n) for n in first.shape], first.dtype) == ("A", [64], "float32")
        main.note = 3
        assert main.note == 3 and callable(main.orig_func)


class TestOptions:
    def test_a_function_says_what_it_was_given(self):
        assert add.target == "cpu" and add.execution_backend == "cython" and add.compile_flags == ["-O2"]
        assert increase.execution_backend is None and increase.compile_flags is None
        assert add.target_host is None and add.verbose is False and add.debug_root_path is None
        assert "def add" in add.func_source and add.func is add.function

    def test_a_kernel_says_what_it_was_compiled_with(self):
        kernel = add(64)
        assert kernel.execution_backend == "cython" and kernel.compile_flags == ["-O2"]
        assert kernel.pass_configs == {} and kernel.verbose is False and kernel.target_host is None
        assert tilelang.compile(adding(), target="cpu").execution_backend == "tvm_ffi"

    @pytest.mark.parametrize("backend", ["nvrtc", "torch", "dlpack"])
    def test_a_backend_that_the_target_lacks(self, backend):
        with pytest.raises(ValueError, match=backend):
            tilelang.compile(adding(), target="cpu", execution_backend=backend)

    def test_a_backend_that_the_chosen_target_lacks(self, monkeypatch):
        monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
        function = tilelang.jit(execution_backend="nvrtc")(adding)
        with pytest.raises(ValueError, match="for target 'cpu'"):
            function(64)

    def test_what_a_search_chose_wins(self):
        a = torch.randn(64)
        torch.testing.assert_close(add(64, __tune_params={"step": 3.0})(a), a + 3)
        torch.testing.assert_close(increase(a, __tune_params={"step": 2.0})[0], a + 2)
        kernel = increase.compile(N=64, __tune_params={"step": 4.0})
        torch.testing.assert_close(kernel(a)[1], a - 4)

    def test_several_outputs_are_a_list(self):
        a = torch.randn(32)
        assert type(increase(a)) is list and type(increase.compile(a)(a)) is list

    def test_sources_are_left_where_they_were_asked_for(self, tmp_path):
        function = tilelang.jit(target="cpu", debug_root_path=str(tmp_path / "made"))(adding)
        function(64)
        names = sorted(p.name for p in (tmp_path / "made").iterdir())
        assert names == ["tilelang_jit_kernel_adding.tirx.py", "tilelang_jit_program_adding.py"]
        tilelang.jit(target="c", debug_root_path=str(tmp_path / "made"))(adding)(64)
        assert "#include" in (tmp_path / "made" / "tilelang_jit_kernel_adding.c").read_text()
        kernel = function(64)
        kernel.export_sources(kernel_path=tmp_path / "deep" / "kernel.txt")
        assert (tmp_path / "deep" / "kernel.txt").read_text() == kernel.kernel_source

    def test_targets_by_name(self):
        assert determine_target("cuda") == "cuda" and determine_target({"kind": "c"}) == {"kind": "c"}
        assert (
            determine_target({"kind": "cuda", "arch": "sm_80"}, return_object=True).attrs["arch"] == "sm_80"
        )
        with pytest.raises(ValueError, match="abacus"):
            determine_target("abacus")

    def test_the_logger(self):
        assert tilelang.logger is logging.getLogger("tilelang")


class TestIdentity:
    def test_equal_kernels_are_one_object_while_somebody_holds_it(self, monkeypatch, tmp_path):
        monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
        monkeypatch.delenv("TILELANG_DISABLE_CACHE", raising=False)
        first = tilelang.compile(adding(step=7.0), out_idx=[1], target="cpu")
        assert tilelang.compile(adding(step=7.0), out_idx=[1], target="cpu") is first
        assert tilelang.compile(adding(step=8.0), out_idx=[1], target="cpu") is not first
        assert tilelang.compile(adding(step=7.0), target="cpu") is not first
        clear_cache()
        second = tilelang.compile(adding(step=7.0), out_idx=[1], target="cpu")
        assert second is not first
        del second
        gc.collect()
        a = torch.randn(64)
        torch.testing.assert_close(first(a), a + 7)

    def test_none_without_the_cache(self, monkeypatch):
        monkeypatch.setenv("TILELANG_DISABLE_CACHE", "true")
        assert not tilelang.is_cache_enabled()
        kernels = [tilelang.compile(adding(), out_idx=[1], target="cpu") for _ in range(2)]
        assert kernels[0] is not kernels[1]

    def test_a_kernel_goes_to_another_process(self):
        kernel = add(64).update_tuner_result(1.5, {"step": 1.0}, None)
        copy = pickle.loads(pickle.dumps(kernel))
        a = torch.randn(64)
        torch.testing.assert_close(copy(a), a + 1)
        assert isinstance(copy, JITKernel) and copy.prim_func is None and copy.latency == 1.5
        assert copy.kernel_source == kernel.kernel_source and copy.execution_backend == "cython"


class TestLowered:
    def test_the_artifact_holds_the_device_code(self):
        target = tvm.target.Target({"kind": "cuda", "arch": "sm_80"})
        lowered = tilelang.lower(adding(), target=target)
        host, device, params, source = [
            getattr(lowered, n) for n in ("host_mod", "device_mod", "params", "kernel_source")
        ]
        assert CompiledArtifact(host, device, params, source).rt_mod is None
        assert isinstance(device, tvm.IRModule) and "threadIdx.x" in device.script() and not host.functions

    def test_parameters_from_a_tile_function(self):
        main = adding()
        param = KernelParam.from_buffer(main.buffer_map[main.params[0]])
        assert param.shape == [64] and param.torch_dtype() is torch.float32
        number = KernelParam.from_var(X.Var("n", "int32"))
        assert number.is_scalar() and number.dtype == "int32" and number.name == "n"


class TestCallsByName:
    def test_inputs_may_be_named(self):
        kernel = tilelang.compile(adding(), out_idx=[1], target="cpu")
        a, b = torch.randn(64), torch.zeros(64)
        torch.testing.assert_close(kernel(A=a), a + 1)
        tilelang.compile(adding(), target="cpu")(a, B=b)
        torch.testing.assert_close(b, a + 1)

    @pytest.mark.parametrize(
        ("args", "named", "says"),
        [
            ((), {"C": 1}, "main has no input C; it takes A, B"),
            ((torch.zeros(64),), {"A": 1}, "main got A twice, by position and by name"),
            ((), {"B": 1}, "main got no A; it takes A, B"),
        ],
    )
    def test_wrong_names_are_told(self, args, named, says):
        with pytest.raises(ArgumentError, match=says):
            tilelang.compile(adding(), target="cpu")(*args, **named)


class TestFunctionsWithoutALaunch:
    def test_the_cpu_runs_their_statements_once(self):
        @T.prim_func
        def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32"), C: T.Tensor((1,), "int32")):
            for i, j in T.grid(8, 4):
                B[i, j] = A[i, j] * 2
            C[0] += 1

        kernel = tilelang.compile(main, target="cpu")
        a, b, c = torch.randn(8, 4), torch.zeros(8, 4), torch.zeros(1, dtype=torch.int32)
        kernel(a, b, c)
        torch.testing.assert_close(b, a * 2)
        assert c.item() == 1
        assert "def main" in main.script()

    def test_a_gpu_does_not(self):
        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            for i in T.serial(8):
                A[i] = 0.0

        with pytest.raises(ValueError, match=r"main has no T\.Kernel: cuda:sm_80 runs grids of blocks"):
            tilelang.compile(main, target="cuda:sm_80")


def test_a_kernel_is_made_by_its_class_too():
    kernel = JITKernel(func=adding(), out_idx=[-1], target="c", execution_backend="cython")
    assert torch.equal(kernel(torch.zeros(64)), torch.ones(64))
    assert torch.equal(JITKernel(adding(), -1, "auto", "cpu").run_once(lambda a: a[:0]), torch.zeros(0))
    assert kernel.n_regs is kernel.n_spills is kernel.n_max_threads is None


@pytest.mark.parametrize("given", [None, 3, add, lambda: 1])
def test_what_is_no_kernel_is_an_assertion_as_in_the_language(given):
    with pytest.raises(AssertionError, match="target function must be a PrimFunc"):
        tilelang.compile(given, target="cpu")
    with pytest.raises(AssertionError, match="unknown target 'nope'"):
        tilelang.compile(adding(), target="nope")


def test_targets_are_found_and_spelled_as_registered(monkeypatch):
    monkeypatch.setattr(target_detectors, "_DETECTORS", {})
    monkeypatch.setattr(target_detectors, "_NORMALIZERS", {})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("TILELANG_DEFAULT_TARGET", raising=False)
    register_target_detector("absent", lambda: None)
    assert determine_target("auto") == "llvm"
    register_target_detector("found", lambda: {"kind": "cuda", "arch": "sm_80"})
    assert list_target_detectors() == ("cuda", "absent", "found")
    assert auto_detect_target() == {"kind": "cuda", "arch": "sm_80"} == determine_target("auto")
    assert "__global__" in tilelang.lower(adding()).kernel_source
    with pytest.raises(ValueError, match="Target detector 'found' is already registered"):
        register_target_detector("found", lambda: None)
    register_target_normalizer("ours", lambda target: "c" if target == "ours" else None)
    assert determine_target("ours") == "c" and tilelang.lower(adding(), target="ours").target.kind.name == "c"
    with pytest.raises(ValueError, match="Target normalizer 'ours' is already registered"):
        register_target_normalizer("ours", lambda target: None)
