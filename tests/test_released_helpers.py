"""Helpers around kernels that release 0.1.15 has: the cache as an object, profilers by hand, toolchains."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.jit.test_kernel_objects import adding
from tilelang.cache import KernelCache, _dispatch_map, cached
from tilelang.cache.kernel_cache import CythonKernelCache
from tilelang.engine.lower import get_host_call, is_device_call
from tilelang.jit.diagnostics import jit_phase
from tilelang.jit.postprocess import unregister_postproc
from tilelang.language.utils import index_to_coordinates, linear_index
from tilelang.layout import SwizzleMode
from tilelang.profiler import Profiler, TensorSupplyType
from tilelang.profiler.bench import suppress_stdout_stderr
from tilelang.profiler.wall import bench_with_wall
from tilelang.targets.toolchain_error import ToolchainError
from tilelang.tools.compile_only import (
    compile_kernel_source,
    discover_prim_func,
    load_example,
    resolve_target,
)
from tilelang.tools.plot_layout import plot_fragment_tv


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILELANG_DISABLE_CACHE", raising=False)


@pytest.mark.usefixtures("own_cache")
class TestCache:
    def test_it_is_one_object_of_each_class(self):
        assert KernelCache() is KernelCache() and CythonKernelCache() is not KernelCache()
        assert _dispatch_map["cython"] is CythonKernelCache()
        kernel = KernelCache().cached(adding(step=5.0), out_idx=[1], target="cpu")
        assert cached(adding(step=5.0), [1], target="cpu") is kernel
        assert kernel in KernelCache()._memory_cache.values()
        KernelCache()._memory_cache.clear()
        again = cached(adding(step=5.0), [1], target="cpu")
        assert again is not kernel and again.artifact == kernel.artifact
        assert os.listdir(KernelCache().cache_root_dir)
        KernelCache().clear_cache()
        assert not os.listdir(KernelCache().cache_root_dir)

    def test_edited_sources_are_found_again_by_the_process(self):
        seen = []
        try:
            tilelang.register_hip_postproc(
                lambda source, target: seen.append(1) or f"// {len(seen)}\n{source}"
            )
            first = tilelang.compile(adding(), target="hip:gfx942")
            assert tilelang.compile(adding(), target="hip:gfx942") is first
            KernelCache()._memory_cache.clear()
            again = tilelang.compile(adding(), target="hip:gfx942")
            assert len(seen) == 1 and again.kernel_source == first.kernel_source
            assert not os.path.exists(KernelCache().cache_root_dir) or not os.listdir(
                KernelCache().cache_root_dir
            )
            tilelang.register_hip_postproc(lambda source, target: f"// other\n{source}")
            assert tilelang.compile(adding(), target="hip:gfx942").kernel_source.startswith("// other")
        finally:
            unregister_postproc("hip")
        assert not tilelang.compile(adding(), target="hip:gfx942").kernel_source.startswith("//")


class TestProfiler:
    def test_one_made_by_hand(self):
        kernel = tilelang.compile(adding(), out_idx=[-1], target="c")
        profiler = Profiler(kernel.params, [-1], TensorSupplyType.One)
        with pytest.raises(ValueError, match="has no kernel"):
            profiler.run_once()
        profiler.with_default_adapter(kernel.adapter)
        assert profiler.result_idx == [1] and [p.name for p in profiler.params] == ["A", "B"]
        torch.testing.assert_close(profiler.run_once(), torch.full((64,), 2.0))
        profiler.assert_allclose(lambda a: a + 1)
        with pytest.raises(AssertionError, match="Too many mismatched elements"):
            profiler.assert_allclose(lambda a: a + 2)
        assert profiler.do_bench(warmup=1, rep=1) > 0

    def test_the_backend_of_c_is_cython(self):
        assert tilelang.compile(adding(), target="c").execution_backend == "cython"
        assert tilelang.compile(adding(), target="llvm").execution_backend == "tvm_ffi"

    def test_the_clock_alone(self):
        calls = []
        low, high = bench_with_wall(
            lambda: calls.append(1), 5, [0.0, 1.0], synchronize=lambda: calls.append(2)
        )
        assert calls == [1, 2] * 5 and 0 < low <= high
        assert bench_with_wall(lambda: None, 3, return_mode="max") > 0

    def test_nothing_is_seen(self):
        code = (
            "import os\nfrom tilelang.profiler.bench import suppress_stdout_stderr\n"
            "with suppress_stdout_stderr():\n    print('a', flush=True)\n    os.write(1, b'b')\nprint('c')\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "c\n" and callable(suppress_stdout_stderr)


class TestCompiled:
    def test_what_a_function_has_compiled_is_counted(self):
        function = tilelang.jit(out_idx=[1], target="cpu")(adding)
        assert len(function._kernel_cache) == 0
        kernel = function(32)
        function(32), function(48)
        assert len(function._kernel_cache) == 2 and kernel in function._kernel_cache.values()

    def test_parameters_compare_by_type_and_shape(self):
        kernel = tilelang.compile(adding(), target="cpu")
        assert kernel.params[0] == tilelang.engine.param.KernelParam(T.float32, [64]) == kernel.params[1]


class TestLowered:
    def test_device_code(self):
        lowered = tilelang.lower(adding(), target="cuda:sm_80")
        functions = list(lowered.device_mod.functions.values())
        assert functions and all(map(is_device_call, functions)) and not any(map(get_host_call(), functions))
        assert not is_device_call(tilelang.compile(adding(), target="cpu").prim_func)

    def test_the_source_alone(self, tmp_path):
        assert "__global__" in compile_kernel_source(adding(), "cuda")
        assert "float* B" in compile_kernel_source(adding())
        with pytest.raises(ValueError, match="explicit"):
            resolve_target("auto")
        (tmp_path / "example.py").write_text(
            "import tilelang\nimport tilelang.language as T\n\n@tilelang.jit(out_idx=[0])\ndef ones(n=32):\n"
            "    @T.prim_func\n    def main(A: T.Tensor((n,), 'float32')):\n"
            "        with T.Kernel(1, threads=32):\n            T.fill(A, 1.0)\n    return main\n"
        )
        found = discover_prim_func(load_example(str(tmp_path / "example.py")))
        assert found.attrs["global_symbol"] == "main"

    def test_phases_in_the_log(self, caplog):
        with (
            caplog.at_level(logging.INFO, "tilelang.jit.diagnostics"),
            jit_phase("lower", enabled=True, name_of="k"),
        ):
            pass
        assert [r.message.split(" after")[0] for r in caplog.records] == [
            "start of lower name_of=k",
            "end of lower",
        ]


class TestLayouts:
    def test_swizzles(self):
        assert [m.swizzle_byte_size() for m in SwizzleMode] == [1, 32, 64, 128]
        assert [m.swizzle_atom_size() for m in SwizzleMode] == [1, 2, 4, 8]
        assert [m.smem_alignment() for m in SwizzleMode] == [128, 256, 512, 1024]
        assert [m.wgmma_layout_type() for m in SwizzleMode] == [0, 3, 2, 1]
        assert [m.tcgen05_layout_type() for m in SwizzleMode] == [0, 6, 4, 2]
        assert SwizzleMode.NONE.is_none() and SwizzleMode.SWIZZLE_64B.is_swizzle_64b()

    def test_symbolic_extents(self):
        m = T.dynamic("m")
        assert list(map(str, T.Layout((m, 8), lambda i, j: (j, i)).get_output_shape())) == ["8", "m"]
        assert str(T.Layout((m, 8), lambda i, j: i * 8 + j).get_output_shape()[0]) == "m * 8"
        with pytest.raises(TypeError, match="no bound"):
            T.Layout((m, 8), lambda i, j: (i, j ^ (i % 8))).get_output_shape()

    def test_indices(self):
        assert index_to_coordinates(37, [4, 16]) == [2, 5] and index_to_coordinates(100, [4, 16]) == [2, 4]
        assert (
            linear_index(1, 2, 10) == 12 and linear_index(1, 2, 3, 10, 100) == 1203 and linear_index(5) == 5
        )
        with pytest.raises(ValueError, match="one less"):
            linear_index(1, 2)

    def test_a_fragment_by_thread_and_register(self, tmp_path):
        fragment = T.Fragment((4, 4), forward_thread_fn=lambda i, j: i, forward_index_fn=lambda i, j: j)
        plot_fragment_tv(fragment, str(tmp_path), "f", apply_idx_fn=lambda i, j: i * 4 + j, formats="svg")
        text = (tmp_path / "f.svg").read_text()
        assert "threads by registers" in text and all(f">{n}<" in text for n in range(16))
        with pytest.raises(TypeError, match=r"T\.Fragment"):
            plot_fragment_tv(T.Layout((4,), lambda i: i))


class TestDevices:
    def test_attributes(self):
        from tilelang.carver.arch import driver

        kept = driver.get_persisting_l2_cache_max_size()
        assert kept is None if driver.get_device_name() is None else kept >= 0
        threads = driver.get_device_attribute(1)  # of a block
        assert threads is None if driver.get_device_name() is None else threads == 1024


class TestToolchains:
    def test_places(self, monkeypatch):
        from tilelang import libinfo

        monkeypatch.setenv("CUDA_HOME", "/somewhere")
        from tilelang.env import CUDA_HOME, ROCM_HOME

        assert CUDA_HOME == "/somewhere" and isinstance(ROCM_HOME, str)
        with pytest.raises(RuntimeError, match="no library of its own"):
            libinfo.find_lib_path("tilelang")

    @pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++"))), reason="needs a C++ compiler")
    def test_a_library_of_c(self, tmp_path):
        import ctypes

        from tilelang.contrib import cc

        source, library = tmp_path / "a.cc", tmp_path / "a.so"
        source.write_text('extern "C" int twice(int x) { return 2 * x; }\n')
        cc.create_shared(str(library), str(source), options=["-O1"])
        assert ctypes.CDLL(str(library)).twice(21) == 42
        assert cc.get_target_by_dump_machine(cc.get_cc())()
        source.write_text("int f( {\n")
        with pytest.raises(ToolchainError, match=r"a\.cc"):
            cc.create_shared(str(library), [str(source)])

    def test_amd(self, tmp_path):
        from tilelang.contrib import hipcc, rocm

        assert rocm.parse_compute_version("9.0") == (9, 0) and rocm.have_matrixcore("9.0")
        assert rocm.get_rocm_arch("/nowhere") == "gfx900" and rocm.find_lld(required=False) is not None
        with pytest.raises(ValueError, match="hsaco"):
            hipcc.compile_hip("", "ptx")
        code = 'extern "C" __attribute__((global)) void k(float* a) { a[0] = 1.0f; }\n'
        try:
            made = hipcc.compile_hip(code, path_target=str(tmp_path / "k.hsaco"))
        except ToolchainError as error:
            assert "clang" in str(error)
        else:
            assert made[:4] == b"\x7fELF" and (tmp_path / "k.hsaco").read_bytes() == bytes(made)
