"""Launches in conditions and loops of the function, and names between launches, on both devices."""

import pytest
import torch

import tilelang
import tilelang.language as T
import tilelang.reference
from tests.on_device import DEVICES
from tilelang.diagnostics.error import KernelError

SIZE = 64


@T.prim_func
def many(A: T.Tensor((SIZE,), "float32"), k: T.int32, B: T.Tensor((SIZE,), "float32")):
    with T.Kernel(2, threads=32) as bx:
        for i in T.Parallel(32):
            B[bx * 32 + i] = 1.0
    if k > 10:
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((32,), "float32")
            T.copy(A[bx * 32 : bx * 32 + 32], tile)
            for i in T.Parallel(32):
                B[bx * 32 + i] += tile[31 - i]
    else:
        with T.Kernel(1, threads=32):
            for i in T.Parallel(SIZE):
                B[i] -= 7.0
    for r in T.serial(1, 4):
        if k * r > 20:
            with T.Kernel(r, threads=16) as bx:
                for i in T.Parallel(16):
                    B[bx * 16 + i] *= r
    m = k // 10 + 1
    with T.Kernel(m, threads=16) as bx:
        for i in T.Parallel(16):
            B[bx * 16 + i] += m


def meaning(a: torch.Tensor, k: int) -> torch.Tensor:
    b = torch.ones(SIZE)
    if k > 10:
        b += a.reshape(2, 32).flip(1).reshape(-1)
    else:
        b -= 7
    for r in range(1, 4):
        if k * r > 20:
            b[: 16 * r] *= r
    m = k // 10 + 1
    b[: 16 * m] += m
    return b


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("k", [8, 11, 25])
def test_each_launch_runs_where_and_as_often_as_the_function_says(device, k):
    a = torch.linspace(-3, 3, SIZE)
    b = torch.full((SIZE,), float("nan"), device=device)
    tilelang.compile(many, target=device)(a.to(device), k, b)
    assert torch.allclose(b.cpu(), meaning(a, k))


def test_the_meaning_of_the_program_agrees():
    a, b = torch.linspace(-3, 3, SIZE), torch.full((SIZE,), float("nan"))
    tilelang.reference.run(many, a, 25, b)
    assert torch.allclose(b, meaning(a, 25))


def test_launches_that_only_a_host_could_count_are_refused():
    with pytest.raises(KernelError, match="how often this loop runs is known only when the kernel runs"):

        @T.prim_func
        def counted(k: T.int32, B: T.Tensor((SIZE,), "float32")):
            for _ in T.serial(k):
                with T.Kernel(1, threads=32):
                    B[0] = 1.0

    with pytest.raises(KernelError, match="with 1000 iterations"):

        @T.prim_func
        def waiting(B: T.Tensor((SIZE,), "float32")):
            for _ in T.serial(1000):
                with T.Kernel(1, threads=32):
                    B[0] = 1.0


def test_what_a_launch_writes_decides_about_no_launch():
    @T.prim_func
    def toggled(F: T.Tensor((1,), "int32"), B: T.Tensor((SIZE,), "float32")):
        if F[0] > 0:
            with T.Kernel(1, threads=32):
                F[0] = 0
        else:  # each launch asks for itself: this one would run too
            with T.Kernel(1, threads=32):
                B[0] = 1.0

    with pytest.raises(ValueError, match=r"F is read outside of T\.Kernel and written in a launch"):
        tilelang.compile(toggled, target="cpu")


def test_a_tensor_that_no_launch_writes_may_decide():
    @T.prim_func
    def chosen(F: T.Tensor((1,), "int32"), B: T.Tensor((SIZE,), "float32")):
        if F[0] > 0:
            with T.Kernel(1, threads=32):
                B[0] = 1.0
        else:
            with T.Kernel(1, threads=32):
                B[0] = 2.0

    kernel = tilelang.compile(chosen, target="cpu")
    for flag, expected in ((1, 1.0), (0, 2.0)):
        b = torch.zeros(SIZE)
        kernel(torch.tensor([flag], dtype=torch.int32), b)
        assert b[0] == expected


@T.prim_func
def named(F: T.Tensor((1,), "int32"), B: T.Tensor((SIZE,), "float32")):
    n = F[0]
    with T.Kernel(1, threads=32):
        B[0] = n
    with T.Kernel(2, threads=32) as bx:
        B[bx + 1] = n * bx


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_read_before_all_launches_is_there_for_each(device):
    b = torch.zeros(SIZE, device=device)
    tilelang.compile(named, target=device)(torch.tensor([3], dtype=torch.int32, device=device), b)
    assert b[:4].tolist() == [3.0, 0.0, 3.0, 0.0]


def test_a_statement_that_no_launch_does_is_refused():
    @T.prim_func
    def between(k: T.int32, B: T.Tensor((SIZE,), "float32")):
        if k > 0:
            with T.Kernel(1, threads=32):
                B[0] = 1.0
        B[1] = 5.0
        with T.Kernel(1, threads=32):
            B[2] = 1.0

    with pytest.raises(KernelError, match=r"B is written outside of T\.Kernel"):
        tilelang.compile(between, target="cpu")


@pytest.mark.parametrize("dtype", ["float16", "bool", "int64"])
def test_the_dtype_of_a_number_may_be_a_name_of_the_factory(dtype):
    kind = getattr(T, dtype)  # stands in annotations alone: Python keeps it in no closure

    @T.prim_func
    def shifted(x: kind, A: T.Tensor((SIZE,), "float32"), B: T.Tensor((SIZE,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(SIZE):
                B[i] = A[i] + T.cast(x, "float32")

    a, b = torch.linspace(-3, 3, SIZE), torch.zeros(SIZE)
    tilelang.compile(shifted, target="cpu")(1, a, b)
    assert torch.equal(b, a + 1)
