"""What kernels hand out: their target, adapter, parameters and tile function; options set later."""

from __future__ import annotations

import pickle

import pytest
import torch
import tvm
from tvm import tirx as X

import tilelang
import tilelang.language as T
from tilelang.engine.callback import register_c_postproc_callback
from tilelang.jit.adapter import BaseKernelAdapter, CythonKernelAdapter, TVMFFIKernelAdapter
from tilelang.jit.adapter.utils import is_cpu_target, is_cuda_target, is_hip_target
from tilelang.jit.kernel_param import kernel_params
from tilelang.jit.kernel_target import KernelTarget
from tilelang.jit.postprocess import unregister_postproc

m = T.dynamic("m")


@T.prim_func
def rows(A: T.Tensor((m, 16), "float32"), B: T.Tensor((m * 2, 16), "float32")):
    with T.Kernel(m, threads=32) as bx:
        for i in T.Parallel(16):
            B[bx * 2, i] = A[bx, i] + 1.0
            B[bx * 2 + 1, i] = A[bx, i] - 1.0


@pytest.fixture(scope="module")
def kernel():
    return tilelang.compile(rows, target="c", execution_backend="cython")


class TestTargets:
    def test_a_target_is_tvms_and_prints_as_ours(self, kernel):
        target = kernel.target
        assert isinstance(target, tvm.target.Target) and target.kind.name == "c"
        assert str(target).startswith("cpu:") and target == "cpu" and target != "cuda"
        assert tilelang.compile(rows, target="cpu").target.kind.name == "llvm"
        with target:
            assert tilelang.lower(rows).target == target
        assert is_cpu_target(target) and not is_cuda_target(target)
        assert pickle.loads(pickle.dumps(target)) == target

    @pytest.mark.parametrize(
        ("name", "kind", "attribute", "arch"),
        [("cuda:sm_80", "cuda", "arch", "sm_80"), ("hip:gfx90a", "rocm", "mcpu", "gfx90a")],
    )
    def test_architectures(self, name, kind, attribute, arch):
        target = KernelTarget(name)
        assert target == name and target.kind.name == kind and target.attrs[attribute] == arch
        assert target != KernelTarget("metal") and is_hip_target(target) == (kind == "rocm")
        assert tilelang.arch.target.parse_target(target).name == name


class TestAdapters:
    def test_an_adapter_is_of_its_backend_and_launches(self, kernel):
        adapter = kernel.adapter
        assert isinstance(adapter, CythonKernelAdapter) and isinstance(adapter, BaseKernelAdapter)
        assert isinstance(tilelang.compile(rows, target="cpu").adapter, TVMFFIKernelAdapter)
        a, b = torch.randn(3, 16), torch.empty(6, 16)
        for launch in (adapter, adapter.func):
            launch(a, b.zero_())
            torch.testing.assert_close(b[::2], a + 1)

    def test_an_adapter_knows_what_it_was_made_from(self, kernel):
        adapter = kernel.adapter
        assert adapter.get_kernel_source() == adapter.lib_code == kernel.kernel_source
        assert adapter.get_host_source() == kernel.host_source and adapter.target == kernel.target
        assert adapter._legalize_result_idx([-1, 0]) == [1, 0] and adapter._legalize_result_idx(None) == []
        assert adapter.result_idx == [] and [p.name for p in adapter.params] == ["A", "B"]
        assert next(iter(adapter.ir_module.functions.values())).attrs["global_symbol"] == "rows"
        assert not hasattr(adapter, "lib")
        with pytest.raises(AttributeError, match="no library is compiled for a launch"):
            adapter.libpath  # noqa: B018

    def test_an_executable_takes_the_outputs_too(self):
        adapter = tilelang.compile(rows, target="cpu", out_idx=[1]).adapter
        a, b = torch.randn(3, 16), torch.empty(6, 16)
        assert adapter.executable(a, b) is None and adapter.executable is adapter.executable
        assert torch.equal(b[1::2], a - 1) and torch.equal(adapter(a), b)
        assert adapter.dynamic_symbolic_map == {"m": (0, 0, 0, 1)}


class TestParametersAndTileFunctions:
    def test_run_time_sizes_are_variables(self, kernel):
        first, second = (p.shape for p in kernel.params)
        func = kernel.prim_func
        assert isinstance(first[0], X.Var) and first[0].name == "m" and first[1] == 16
        assert first[0].same_as(func.buffer_map[func.params[0]].shape[0])
        (again, _), (doubled, _) = (p.shape for p in kernel_params(kernel.artifact.plan))
        assert again.name == "m" and doubled.a.same_as(again) and second[0].b.value == 2

    def test_a_tile_function_says_which_parameter_is_which_tensor(self):
        @tilelang.jit(target="cpu")
        def double(A):
            N = T.const("N")
            A: T.Tensor((N,), "float32")
            B = T.empty((N,), "float32")
            with T.Kernel(1, threads=32):
                for i in T.Parallel(N):
                    B[i] = A[i] * 2
            return B

        for func in (double.get_tir(N=8), rows.with_attr("global_symbol", "other"), rows):
            assert isinstance(func, X.PrimFunc)
            assert [b.name for b in func.buffer_map.values()] == ["A", "B"]
        assert rows.with_attr("note", 3).without_attr("note").buffer_map
        tvm.ir.assert_structural_equal(double.get_tir(N=8), double.compile(N=8).prim_func)


class TestOptionsSetLater:
    def test_they_hold_from_then_on(self):
        def step(n):
            @T.prim_func
            def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
                with T.Kernel(1, threads=32):
                    for i in T.Parallel(n):
                        B[i] = A[i] + 1

            return main

        function = tilelang.jit(step)
        function.target, function.out_idx = "cpu", [-1]
        function.pass_configs = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}
        a = torch.randn(8)
        kernel = function(8)
        torch.testing.assert_close(kernel(a), a + 1)
        assert kernel.pass_configs == {"tl.enable_fast_math": True} and kernel.target == "llvm"
        function.execution_backend = "cython"
        assert function(8) is not kernel and function(8).execution_backend == "cython"
        with pytest.raises(ValueError, match="for target 'cpu'"):
            function.execution_backend = "nvrtc"
        with pytest.raises(ValueError, match="abacus"):
            function.target = "abacus"
        assert function.target == "cpu"


class TestTheShownC:
    @pytest.fixture(autouse=True)
    def forget(self):
        yield
        unregister_postproc("c")

    def test_comments_may_be_added(self):
        @register_c_postproc_callback
        def sign(code, target):
            assert target.kind.name == "c"
            return f"// mine\n{code}/* end */"

        source = tilelang.compile(rows, target="c").get_kernel_source()
        assert source.startswith("// mine\n") and source.endswith("/* end */")

    def test_but_no_code(self):
        tilelang.register_c_postproc(lambda code, target: code.replace("1.0", "2.0"))
        with pytest.raises(ValueError, match="more than comments"):
            tilelang.compile(rows, target="c")
        tilelang.register_c_postproc(lambda code, target: None)
        with pytest.raises(TypeError, match="returned NoneType"):
            tilelang.compile(rows, target="c")


def test_a_call_may_say_how_it_is_launched(kernel):
    a, b = torch.ones(3, 16), torch.zeros(6, 16)
    kernel(a, b, stream=0, skip_tensor_validation=True)
    assert torch.equal(b[::2], a + 1)
    kernel(a, B=b.zero_(), stream=None)
    assert torch.equal(b[1::2], a - 1)
    with pytest.raises(ValueError, match="no input steam"):
        kernel(a, b, steam=0)


def test_a_parameter_may_be_called_stream():
    @T.prim_func
    def main(stream: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                B[i] = stream[i] * 2

    doubled = tilelang.compile(main, out_idx=-1, target="c")
    assert torch.equal(doubled(stream=torch.ones(4)), torch.full((4,), 2.0))
