"""The data operations as text of every GPU language: compiled by NVIDIA's compiler and by clang for AMD."""

from __future__ import annotations

import pytest

from tests.cuda.kernels import lower_text
from tests.emit.host_run import needs_clang
from tilelang.arch.target import Target, parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.targets.cuda.toolchain import compile_source, nvcc, nvrtc
from tilelang.targets.hip.toolchain import assembly

needs_cuda = pytest.mark.skipif(nvrtc() is None and nvcc() is None, reason="no CUDA compiler on this machine")

ATOMICS = """
@tilelang.jit
def updates(A, C, L, dtype):
    A: T.Tensor((64, 64), dtype)
    C: T.Tensor((64, 64), dtype)
    L: T.Tensor((16,), dtype)
    with T.Kernel(2, threads=128):
        shared = T.alloc_shared((64,), dtype)
        tile = T.alloc_fragment((64, 64), dtype)
        T.clear(shared)
        T.copy(A, tile)
        T.atomic_add(C, tile)
        for i, j in T.Parallel(64, 64):
            T.atomic_add(shared[j], A[i, j])
            T.atomic_max(C[j, i], A[i, j])
            T.atomic_min(C[j, i], A[i, j])
            T.atomic_add(L[0], A[i, j])
        T.copy(shared, C[0, 0:64])
"""
ORDERS = """
@tilelang.jit
def orders(A, C, dtype):
    A: T.Tensor((16,), dtype)
    C: T.Tensor((16,), dtype)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(16):
            T.atomic_add(C[i], A[i], memory_order="release")
            T.atomic_add(C[i], A[i], memory_order="acquire")
            T.atomic_max(C[i], A[i], memory_order="acq_rel")
            T.atomic_min(C[i], A[i], memory_order="seq_cst")
            T.atomic_store(C[i], T.atomic_load(A[i], memory_order="acquire"), memory_order="release")
            T.atomic_store(C[i], T.atomic_load(A[i]))
            T.atomic_store(C[i], T.atomic_load(A[i], memory_order="relaxed"), memory_order="relaxed")
"""
BITS = """
@tilelang.jit
def bits(C, dtype):
    C: T.Tensor((16,), dtype)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(16):
            old = T.atomic_add(C[i], 1, return_prev=True)
            T.atomic_or(C[i], old)
            T.atomic_or(C[i], 3, memory_order="release")
"""
REST = """
@tilelang.jit
def rest(A, B, C):
    A: T.Tensor((32, 64), "float32")
    B: T.Tensor((32, 64), "float32")
    C: T.Tensor((32, 128), "float16")
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((32, 64), "float32")
        part = T.alloc_fragment((32, 64), "float32")
        turned = T.alloc_shared((64, 32), "float32")
        space = T.alloc_global((64, 32), "float32")
        columns = T.alloc_reducer((64,), "float32", op="max")
        out = T.alloc_fragment((64,), "float32")
        T.annotate_layout({tile: T.Layout(tile.shape, lambda i, j: (i, j ^ (i % 8 * 4)))})
        T.copy(A, tile)
        T.transpose(tile, turned)
        T.copy(turned, space)
        T.cumsum(tile, part, dim=1)
        T.reducer_init(columns)
        for i, j in T.Parallel(32, 64):
            T.reducer_update(columns[j], part[i, j])
        T.finalize_reducer(columns, out)
        T.copy(out, B[0, 0:64])
        T.copy(T.view(part, (32, 128), "float16"), C)
        if T.any_of(out[0:1]):
            B[1, 1] = 1
"""
GUARDED = """
@tilelang.jit
def guarded(A, B, old):
    A: T.Tensor((100,), "float16")
    B: T.Tensor((100,), "float16")
    old: T.Tensor((128,), "float16")
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        old[t * 2 : t * 2 + 2] = T.atomic_addx2(B[t * 2], A[t * 2], return_prev=True)
"""
TALK = """
@tilelang.jit
def talk(A):
    A: T.Tensor((4,), "float16")
    with T.Kernel(1, threads=32) as bx:
        part = T.alloc_fragment((4,), "float16")
        T.copy(A, part)
        T.print(part, msg="50%")
        T.print(bx)
        T.device_assert(A[0] < 3, 'a "quoted" text')
        assert A[1] < 3
"""
CUDA = ["cuda:sm_80", "cuda:sm_90"]
HIP = ["hip:gfx90a", "hip:gfx942"]


def compile_cuda(text: str, target: str, **choice: object) -> None:
    compile_source(lower_text(text, target, **choice).source, parse_target(target))


def compile_hip(text: str, target: str, **choice: object) -> str:
    arch = target.partition(":")[2]
    return assembly(lower_text(text, target, **choice).source, Target("hip", arch))


@needs_cuda
@pytest.mark.parametrize("target", CUDA)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint32", "int64"])
def test_atomics_compile_for_cuda(target: str, dtype: str) -> None:
    compile_cuda(ATOMICS, target, dtype=repr(dtype))
    compile_cuda(ORDERS, target, dtype=repr(dtype))
    if "int" in dtype:
        compile_cuda(BITS, target, dtype=repr(dtype))


@needs_clang
@pytest.mark.parametrize("target", HIP)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint32", "int64"])
def test_atomics_compile_for_hip(target: str, dtype: str) -> None:
    assert "atomic" in compile_hip(ATOMICS, target, dtype=repr(dtype))
    compile_hip(ORDERS, target, dtype=repr(dtype))
    if "int" in dtype:
        compile_hip(BITS, target, dtype=repr(dtype))


@needs_cuda
@pytest.mark.parametrize("target", CUDA)
@pytest.mark.parametrize("text", [REST, TALK, GUARDED])
def test_the_rest_compiles_for_cuda(target: str, text: str) -> None:
    compile_cuda(text, target)


@needs_clang
@pytest.mark.parametrize("target", HIP)
def test_the_rest_compiles_for_hip(target: str) -> None:
    compile_hip(REST, target)


def test_metal_has_atomics_of_32_bits() -> None:
    for dtype in ("int32", "uint32"):
        source = lower_text(ATOMICS, "metal", dtype=repr(dtype)).source.text
        name = {"int32": "int", "uint32": "uint"}[dtype]
        assert f"atomic_fetch_add_explicit((device atomic_{name}*)" in source
        assert f"atomic_fetch_add_explicit((threadgroup atomic_{name}*)" in source
    lower_text(REST, "metal")
    with pytest.raises(KernelError, match=r"T\.atomic_add on metal:metal3 cannot update float16 elements"):
        lower_text(ATOMICS, "metal", dtype="'float16'")
    with pytest.raises(KernelError, match="metal:metal3 has no atomics of memory order release"):
        lower_text(BITS, "metal", dtype="'int32'")


@pytest.mark.parametrize("target", ["hip:gfx942", "metal"])
def test_printing_is_refused_where_there_is_no_printf(target: str) -> None:
    with pytest.raises(KernelError, match=r"T\.print"):
        lower_text(TALK, target)
