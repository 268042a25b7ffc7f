"""What is known and raised where a `@T.prim_func` is defined, and what `@tilelang.jit` makes of functions."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.diagnostics.error import KernelError


def copied(rows, columns):
    def define():
        @T.prim_func
        def kernel(A: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=64):
                s = T.alloc_shared((64, 64), "float32")
                T.copy(A[0:rows, 0:columns], s)

        return kernel

    return define


def multiplied():
    @T.prim_func
    def kernel(C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.gemm(a, b, c)

    return kernel


def escaping():
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            total = 0
            for i in T.serial(8):
                total = total + A[i]
            A[0] = total

    return kernel


def misspelt():
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            A[0] = T.abss(A[1])

    return kernel


def misfitting():
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            T.copy(A, A, width=3)

    return kernel


def python_abs():
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            A[0] = abs(A[1])

    return kernel


def raising():
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            A[1 // 0] = 1

    return kernel


@pytest.mark.parametrize(
    ("define", "kind"),
    [
        (copied(64, 65), ValueError),
        (multiplied, AssertionError),
        (escaping, RuntimeError),
        (misspelt, AttributeError),
        (misfitting, TypeError),
        (python_abs, TypeError),
        (raising, ZeroDivisionError),
    ],
)
def test_a_mistake_is_raised_at_the_definition_as_what_python_has_for_it(define, kind):
    with pytest.raises(kind) as caught:
        define()
    assert isinstance(caught.value, KernelError) and caught.value.problems
    assert not str(caught.value).startswith(("'", '"'))  # text that a KeyError would have quoted


def test_what_only_some_target_refuses_waits_for_the_target():
    @T.prim_func
    def kernel(A: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            a, c = T.alloc_shared((16, 16), "float16"), T.alloc_local((16, 16), "float32")
            T.copy(A, a)
            T.clear(c)
            T.gemm(a, a, c)  # registers of one thread: on the CPU only
            T.copy(c, C)

    with pytest.raises(KernelError):
        tilelang.lower(kernel, target="cuda:sm_80")
    a = torch.randn(16, 16).half()
    found = tilelang.compile(kernel, out_idx=-1, target="cpu")(a)
    torch.testing.assert_close(found, a.float() @ a.float(), atol=1e-2, rtol=1e-2)


def test_a_kernel_keeps_the_names_of_its_definition():
    kernels = []
    for scale in (2.0, 3.0):

        @T.prim_func
        def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=8):
                for i in T.Parallel(8):
                    B[i] = A[i] * scale  # noqa: B023 - read at the definition

        kernels.append(kernel)
    a = torch.arange(8.0)
    for out_idx in (None, -1):
        for factor, kernel in zip((2.0, 3.0), kernels, strict=True):
            compiled = tilelang.compile(kernel, out_idx, target="cpu")
            b = torch.empty(8)
            found = compiled(a) if out_idx else compiled(a, b)
            torch.testing.assert_close(b if found is None else found, a * factor)


def test_a_kernel_answers_as_its_tile_function():
    kernel = copied(64, 64)()
    assert kernel.attrs["global_symbol"] == "kernel" and len(kernel.params) == 1
    assert "def kernel" in kernel.script()
    assert isinstance(kernel, T.PrimFunc)
    assert isinstance(tilelang.compile(kernel, target="c").prim_func, T.PrimFunc)


def doubled(n):
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * 2

    return kernel


def test_a_factory_may_leave_its_kernel_to_another_function():
    @tilelang.jit(target="cpu")
    def factory(n):
        return doubled(n)

    a, b = torch.randn(32), torch.empty(32)
    factory(32)(a, b)
    torch.testing.assert_close(b, a * 2)
    assert factory.mode == "lazy" and factory.is_lazy_mode() and factory.out_idx is None

    @tilelang.jit(out_idx=[-1], target="cpu")
    def returning(n):
        return doubled(n)

    assert returning.is_lazy_mode() and returning.out_idx == [-1]
    torch.testing.assert_close(returning.compile(32)(a), a * 2)


def test_a_loop_over_threads_is_each_thread_once():
    @T.prim_func
    def kernel(A: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.thread_binding(8, 40, thread="threadIdx.x"):
                A[i] = i
            for i in T.thread_binding(32, "threadIdx.x"):
                if i < 8:
                    A[i] = -i

    a = torch.zeros(40, dtype=torch.int32)
    tilelang.compile(kernel, target="cpu")(a)
    assert a.tolist() == [*(-i for i in range(8)), *range(8, 40)]

    with pytest.raises(KernelError, match="the block has 32 threads"):

        @T.prim_func
        def wrong(A: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=32):
                for i in T.thread_binding(64, "threadIdx.x"):
                    A[i] = i


def test_older_names_of_annotations():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "float32"), p: T.handle):
        with T.Kernel(1, threads=8):
            B = T.make_tensor(p, (8,), "float32")
            for i in T.Parallel(8):
                B[i] = A[i] + 1

    a, b = torch.randn(8), torch.empty(8)
    tilelang.compile(kernel, target="cpu")(a, b)
    torch.testing.assert_close(b, a + 1)


def returning():
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            A[0] = 1
        return A

    return kernel


def stepping_back():
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            s = T.alloc_shared((8,), "float32")
            B = T.view(s, (8,), strides=(-1,))
            T.copy(A, B)

    return kernel


def overfull():
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            x = T.alloc_var("float32", 1, "local.var", 3)
            A[0] = x

    return kernel


@pytest.mark.parametrize(
    ("define", "words"),
    [(returning, "only tensors made by T.empty"), (stepping_back, "negative"), (overfull, "no more")],
)
def test_what_a_definition_cannot_mean(define, words):
    with pytest.raises(KernelError, match=words):
        define()


def test_the_address_that_a_buffer_gives_of_itself():
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32, prelude="__device__ void put(float* x) { *x = 1; }"):
            T.call_extern("handle", "put", A.access_ptr("w", offset=3))

    assert "put(&A[3])" in tilelang.lower(kernel, target="cuda:sm_80").kernel_source
    with pytest.raises(KernelError, match="access_mask"):

        @T.prim_func
        def wrong(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=32):
                T.call_extern("handle", "put", A.access_ptr())
