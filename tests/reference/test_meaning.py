"""The reference says what a program means: against torch and the CPU target, and what it refuses."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import reference
from tilelang.reference import ReferenceFailure
from tilelang.reference.errors import NoMeaning


@tilelang.jit
def gemm_relu(A, B, block: int = 32, stages: int = 2):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        a = T.alloc_shared((block, block), T.float16)
        b = T.alloc_shared((block, block), T.float16)
        c = T.alloc_fragment((block, block), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block), num_stages=stages):
            T.copy(A[by * block, k * block], a)
            T.copy(B[k * block, bx * block], b)
            T.gemm(a, b, c)
        for i, j in T.Parallel(block, block):
            c[i, j] = T.max(c[i, j], 0)
        T.copy(c, C[by * block, bx * block])
    return C


@tilelang.jit
def softmax(X, rows: int = 4):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        x = T.alloc_fragment((rows, N), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        T.copy(X[bx * rows, 0], x)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(rows, N):
            x[i, j] = T.exp(x[i, j] - top[i])
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(rows, N):
            x[i, j] = x[i, j] / total[i]
        T.copy(x, Y[bx * rows, 0])
    return Y


@tilelang.jit
def collatz(X):
    """Serial loops, conditions, break and continue with other bounds for every lane."""
    N = T.const("N")
    X: T.Tensor((N,), T.int32)
    Y = T.empty((N,), T.int32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            x = T.alloc_var(T.int32)
            steps = T.alloc_var(T.int32, init=0)
            x = X[i]
            for _ in range(200):
                if x == 1:
                    break
                steps += 1
                if x % 2 == 0:
                    x = x // 2
                    continue
                x = 3 * x + 1
            Y[i] = steps
    return Y


@tilelang.jit
def histogram(X, H, bins: int = 5):
    N = T.const("N")
    X: T.Tensor((N,), T.int32)
    H: T.Tensor((bins,), T.int32)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
        for i in T.Parallel(32):
            if bx * 32 + i < N:
                T.atomic_add(H[X[bx * 32 + i]], 1)


@tilelang.jit
def past_the_tile(X):
    N = T.const("N")
    X: T.Tensor((N,), T.int32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        tile = T.alloc_shared((8,), T.float32)
        T.clear(tile)
        for i in T.Parallel(N):
            Y[i] = tile[X[i]]
    return Y


@tilelang.jit
def half_written(X):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            if i % 2 == 0:
                Y[i] = X[i]
    return Y


@pytest.mark.parametrize("shape", [(32, 32, 32), (50, 70, 40), (1, 33, 65)])
def test_a_gemm_is_what_torch_computes(shape):
    m, n, k = shape
    a, b = torch.randn(m, k, dtype=torch.float16), torch.randn(k, n, dtype=torch.float16)
    found = reference.run(gemm_relu.compile(a, b), a, b)
    expected = torch.relu(a.double() @ b.double())
    assert found.dtype is torch.float16
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)


def test_it_is_closer_to_the_truth_than_the_kernel():
    torch.manual_seed(0)  # a sum in the middle of two halves may fall to either side
    a, b = torch.randn(32, 512, dtype=torch.float16), torch.randn(512, 32, dtype=torch.float16)
    kernel = gemm_relu.compile(a, b)
    expected = torch.relu(a.double() @ b.double()).half()
    assert torch.equal(kernel.reference(a, b), expected)


def test_reductions_and_functions():
    x = torch.randn(10, 37)
    found = softmax.compile(x).reference(x)
    torch.testing.assert_close(found, torch.softmax(x, -1))


def test_every_lane_takes_its_own_way():
    x = torch.arange(1, 60, dtype=torch.int32)
    kernel = collatz.compile(x)
    found = kernel.reference(x)
    assert found[26] == 111  # 27 is the famous one
    assert torch.equal(found, kernel(x))


def test_tensors_are_written_in_place_and_atomics_count():
    x = torch.randint(0, 5, (100,), dtype=torch.int32)
    counts = torch.zeros(5, dtype=torch.int32)
    reference.run(histogram.compile(x, counts), x, counts)
    assert torch.equal(counts, torch.bincount(x, minlength=5).int())


def test_what_nobody_wrote_is_nan():
    x = torch.randn(9)
    found = half_written.compile(x).reference(x)
    assert found[::2].equal(x[::2]) and bool(found[1::2].isnan().all())


def test_an_access_outside_a_tile_names_tile_index_and_line():
    x = torch.tensor([0, 7, 8], dtype=torch.int32)
    line = past_the_tile.function.__code__.co_firstlineno + 9
    with pytest.raises(ReferenceFailure, match=rf"line {line}: tile\[8\] is outside tile of shape \(8\)"):
        past_the_tile.compile(x).reference(x)


def test_what_it_cannot_take_is_said():
    kernel = softmax.compile(M=4, N=8)
    with pytest.raises(TypeError, match="takes 1 arguments, got 2"):
        kernel.reference(torch.zeros(4, 8), 1)
    with pytest.raises(ReferenceFailure, match=r"X must have shape \(4, 8\), got \(4, 9\)"):
        kernel.reference(torch.zeros(4, 9))
    with pytest.raises(TypeError, match="has no tile function"):
        reference.run(object())
    assert issubclass(NoMeaning, NotImplementedError)


@tilelang.jit(target="cpu")
def doubled_by_threads(A):
    A: T.Tensor((64,), T.float32)
    B = T.empty((64,), T.float32)
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding(0)
        s = T.alloc_shared((64,), T.float32)
        for i in T.Parallel(64):
            s[i] = A[i] + 1
        T.sync_threads()
        if tx < 32:
            s[tx] = s[tx] * 2
        T.sync_threads()
        for i in T.Parallel(64):
            B[i] = s[i]
    return B


def test_thread_code_goes_on_behind_a_parallel_loop():
    """Each thread is there again, after the loop that all of them shared."""
    a = torch.arange(64.0)
    found = doubled_by_threads.compile(a).reference(a)
    assert torch.equal(found, (a + 1) * torch.where(a < 32, 2, 1))


@tilelang.jit
def padded(X):
    X: T.Tensor((5, 6), T.float32)
    Y = T.empty((8, 8), T.float32)
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((8, 8), T.float32)
        T.annotate_safe_value({X: -3.0})
        T.copy(X[0, 0], s)
        T.copy(s, Y)
    return Y


def test_reads_outside_give_the_safe_value() -> None:
    x = torch.arange(30).float().reshape(5, 6)
    want = torch.nn.functional.pad(x, (0, 2, 0, 3), value=-3.0)
    kernel = padded.compile(x)
    assert torch.equal(kernel.reference(x), want)
    assert torch.equal(kernel(x), want)


@tilelang.jit
def first_bits(X):
    X: T.Tensor((64,), T.int32)
    Y = T.empty((2, 64), T.int32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            Y[0, i] = T.clz(X[i])
            Y[1, i] = T.__ffs(X[i])
    return Y


def test_places_of_the_first_bits() -> None:
    x = torch.arange(-32, 32, dtype=torch.int32) << 12
    kernel = first_bits.compile(x)
    assert torch.equal(kernel.reference(x), kernel(x))


@tilelang.jit
def of_two_numbers(X, Z):
    X: T.Tensor((64,), T.float32)
    Z: T.Tensor((64,), T.float32)
    Y = T.empty((3, 64), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            Y[0, i] = T.copysign(X[i], Z[i])
            Y[1, i] = T.hypot(X[i], Z[i])
            Y[2, i] = T.ldexp(X[i], 3)
    return Y


def test_functions_of_two_numbers() -> None:
    x, z = torch.randn(2, 64)
    want = torch.stack([torch.copysign(x, z), torch.hypot(x, z), 8 * x])
    torch.testing.assert_close(of_two_numbers.compile(x, z).reference(x, z), want)


@tilelang.jit
def extremes(A, keep: bool, clear: bool):
    A: T.Tensor((3, 8), T.float32)
    R = T.empty((3, 3), T.float32)
    with T.Kernel(1, threads=32):
        tile = T.alloc_fragment((3, 8), T.float32)
        out = T.alloc_fragment((3,), T.float32)
        T.copy(A, tile)
        T.fill(out, 0)
        T.reduce_max(tile, out, dim=1, clear=clear, nan_propagate=keep)
        T.copy(out, R[0, :])
        T.fill(out, 0)
        T.reduce_min(tile, out, dim=1, clear=clear, nan_propagate=keep)
        T.copy(out, R[1, :])
        T.fill(out, 0)
        T.reduce_absmax(tile, out, dim=1, clear=clear, nan_propagate=keep)
        T.copy(out, R[2, :])
    return R


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("keep", [True, False])
def test_nan_among_the_operands_of_an_extreme(keep: bool, clear: bool) -> None:
    a = torch.arange(24.0).reshape(3, 8) - 9
    a[1, 4] = float("nan")
    compiled = extremes.compile(a, keep, clear)
    want = compiled(a)
    assert torch.isnan(want[:, 1]).all() == keep
    torch.testing.assert_close(compiled.reference(a), want, rtol=0, atol=0, equal_nan=True)


@tilelang.jit
def larger_and_smaller(A, B):
    A: T.Tensor((64,), T.float32)
    B: T.Tensor((64,), T.float32)
    R = T.empty((3, 64), T.float32)
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            R[0, i] = T.max(A[i], B[i])
            R[1, i] = T.min(A[i], B[i])
            R[2, i] = T.max(0.0, A[i])
    return R


def test_the_larger_of_a_number_and_nan_is_the_number() -> None:
    a, b = torch.arange(64.0) - 20, torch.arange(64.0).flip(0) - 40
    a[::5] = float("nan")
    b[::3] = float("nan")
    compiled = larger_and_smaller.compile(a, b)
    want = torch.stack([torch.fmax(a, b), torch.fmin(a, b), torch.fmax(a, torch.zeros(64))])
    torch.testing.assert_close(compiled(a, b), want, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(compiled.reference(a, b), want, rtol=0, atol=0, equal_nan=True)
