"""What `target="c"` shows: C text that a C compiler takes, and that computes what the kernel does."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest
import torch
import tvm

import tilelang
import tilelang.language as T

COMPILER = shutil.which("cc") or shutil.which("gcc")


@T.prim_func
def scale(A: T.Tensor((100,), "float32"), B: T.Tensor((100,), "float32")):
    with T.Kernel(T.ceildiv(100, 32), threads=32) as bx:
        for i in T.Parallel(32):
            B[bx * 32 + i] = T.exp(A[bx * 32 + i]) * 0.5 + 1


@T.prim_func
def product(A: T.Tensor((32, 32)), B: T.Tensor((32, 32)), C: T.Tensor((32, 32))):
    with T.Kernel(2, threads=128) as by:
        a = T.alloc_shared((16, 32), "float32")
        b = T.alloc_shared((32, 32), "float32")
        acc = T.alloc_fragment((16, 32), "float32")
        T.copy(A[by * 16, 0], a)
        T.copy(B, b)
        T.gemm(a, b, acc, clear_accum=True)
        T.copy(acc, C[by * 16, 0])


@T.prim_func
def brain(A: T.Tensor((16,), "bfloat16")):
    with T.Kernel(1, threads=16):
        for i in T.Parallel(16):
            A[i] = A[i] + 1


def run(kernel, tensors, folder):
    """Compile the shown source and run all blocks of it on `tensors`."""
    assert COMPILER is not None
    source, library = folder / "kernel.c", folder / "kernel.so"
    source.write_text(kernel.get_kernel_source(), encoding="utf-8")
    flags = ["-std=c11", "-O1", "-shared", "-fPIC", "-o", library]
    subprocess.run([COMPILER, *flags, source, "-lm"], check=True)
    plan = kernel.artifact.plan
    scratch = [ctypes.create_string_buffer(int(n)) for n in plan.workspace]
    blocks = 1
    for n in plan.grid:
        blocks *= int(n)
    function = getattr(ctypes.CDLL(str(library)), plan.entry)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
    function(*pointers, *(ctypes.cast(s, ctypes.c_void_p) for s in scratch), 0, blocks)


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
@pytest.mark.parametrize("func", [scale, product])
def test_the_text_computes_what_the_kernel_does(func, tmp_path):
    kernel = tilelang.compile(func, target="c")
    made = [torch.randn([int(n) for n in p.shape]) for p in kernel.params]
    kernel(*made)
    again = [*made[:-1], torch.zeros_like(made[-1])]
    run(kernel, again, tmp_path)
    torch.testing.assert_close(again[-1], made[-1])


def test_only_the_target_c_shows_it():
    text = tilelang.compile(scale, target="c").get_kernel_source()
    assert "void scale_kernel(float* A, float* B, int32_t block_begin, int32_t block_end) {" in text
    assert text.startswith("#include <math.h>")
    assert tilelang.lower(scale, target={"kind": "c"}).kernel_source == text
    for other in ("cpu", "llvm"):
        assert "int32_t" not in tilelang.compile(scale, target=other).get_kernel_source()


def test_bfloat16_is_its_bits():
    assert "uint16_t* A" in tilelang.compile(brain, target="c").get_kernel_source()


def test_what_c_has_no_words_for_is_shown_as_loops(monkeypatch):
    def refuse(*args):
        raise tvm.error.InternalError("no C type")

    monkeypatch.setattr("tilelang.targets.cpu.c_source._printed", refuse)
    assert "def brain" in tilelang.compile(brain, target={"kind": "c"}).get_kernel_source()


def test_constants_are_exact():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            A[0] = 0.1
            A[1] = -16777215.0
            A[2] = -T.infinity("float32")
            A[3] = 1e-30

    text = tilelang.compile(main, target="c").get_kernel_source()
    for line in ("A[0] = 0.1f;", "A[1] = (-16777215.0f);", "A[2] = (-INFINITY);", "A[3] = 1e-30f;"):
        assert line in text
