"""Atomic updates against torch on both devices: elements, tiles, neighbours, old values, memory orders."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES, compiled_for, random

pytestmark = pytest.mark.parametrize("device", DEVICES)
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int32, torch.int64]


@tilelang.jit
def add_tiles(A, C, dtype, out_dtype, block: int = 32, rows: int = 16):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    C: T.Tensor((rows, N), out_dtype)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, rows), threads=64) as (bx, by):
        tile = T.alloc_fragment((rows, block), dtype)
        T.copy(A[by * rows, bx * block], tile)
        T.atomic_add(C[0, bx * block], tile)


@tilelang.jit
def fold(A, C, kind: str, dtype, order=None):
    N = T.const("N")
    A: T.Tensor((N,), dtype)
    C: T.Tensor((8,), dtype)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            if kind == "add":
                T.atomic_add(C[(bx * 128 + i) % 8], A[bx * 128 + i], memory_order=order)
            elif kind == "max":
                T.atomic_max(C[(bx * 128 + i) % 8], A[bx * 128 + i], memory_order=order)
            else:
                T.atomic_min(C[(bx * 128 + i) % 8], A[bx * 128 + i], memory_order=order)


def folded(kind: str, a: torch.Tensor) -> torch.Tensor:
    rows = a.reshape(-1, 8).double()
    return {"add": rows.sum(0), "max": rows.amax(0), "min": rows.amin(0)}[kind]


@pytest.mark.parametrize("kind", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_elements_of_every_dtype(device, kind, dtype):
    a = torch.randint(-4, 5, (1024,), generator=torch.Generator().manual_seed(1)).to(dtype).to(device)
    c = torch.zeros(8, dtype=dtype, device=device)
    compiled_for(fold, device)(a, c, kind=kind, dtype=dtype)
    expected = folded(kind, a)
    if kind != "add":
        expected = torch.maximum(expected, c.double() * 0) if kind == "max" else expected.clamp(max=0)
    assert torch.equal(c.double(), expected)


@pytest.mark.parametrize("order", ["relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_memory_orders_change_no_result(device, order, dtype):
    for kind in ("add", "max"):
        a = torch.arange(512, device=device).to(dtype)
        c = torch.zeros(8, dtype=dtype, device=device)
        compiled_for(fold, device)(a, c, kind=kind, dtype=dtype, order=order)
        assert torch.equal(c.double(), folded(kind, a))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("shape", [(64, 96), (50, 70), (16, 33)])
def test_tiles_with_copy_rules_and_ragged_ends(device, dtype, shape):
    a = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(2)).to(dtype).to(device)
    c = torch.zeros(16, shape[1], dtype=dtype, device=device)
    compiled_for(add_tiles, device)(a, c, dtype=a.dtype, out_dtype=c.dtype)
    expected = torch.zeros(16, shape[1], dtype=torch.double, device=device)
    for start in range(0, shape[0], 16):
        part = a[start : start + 16].double()
        expected[: len(part)] += part
    assert torch.equal(c.double(), expected)


def test_tiles_are_converted(device):
    a = random(32, 64, dtype=torch.float32, device=device).half().float()
    c = torch.zeros(16, 64, dtype=torch.float16, device=device)
    compiled_for(add_tiles, device)(a, c, dtype=a.dtype, out_dtype=c.dtype)
    torch.testing.assert_close(c, (a[:16] + a[16:]).half(), rtol=2e-3, atol=2e-3)


@tilelang.jit
def histogram(X, bins: int = 16):
    N = T.const("N")
    X: T.Tensor((N,), "int32")
    H = T.empty((bins,), "int32")
    with T.Kernel(1, threads=128):
        counts = T.alloc_shared((bins,), "int32")
        T.clear(counts)
        for k in T.serial(T.ceildiv(N, 128)):
            for i in T.Parallel(128):
                if k * 128 + i < N:
                    T.atomic_add(counts[X[k * 128 + i] % bins], 1)
        T.copy(counts, H)
    return H


def test_histogram_in_shared_memory(device):
    x = torch.randint(0, 1000, (1000,), generator=torch.Generator().manual_seed(3)).int().to(device)
    assert torch.equal(compiled_for(histogram, device)(x), torch.bincount(x % 16, minlength=16).int())


@tilelang.jit
def compact(X, Out, Count, dtype):
    """Positive elements, in any order: each takes the next free place."""
    N = T.const("N")
    X: T.Tensor((N,), dtype)
    Out: T.Tensor((N,), dtype)
    Count: T.Tensor((1,), "int32")
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            if bx * 128 + i < N and X[bx * 128 + i] > 0:
                place = T.atomic_add(Count[0], 1, return_prev=True)
                Out[place] = X[bx * 128 + i]


def test_old_values(device):
    x = random(1000, device=device)
    out, count = torch.zeros(1000, device=device), torch.zeros(1, dtype=torch.int32, device=device)
    compiled_for(compact, device)(x, out, count, dtype=torch.float32)
    n = int(count)
    assert n == int((x > 0).sum())
    assert torch.equal(out[:n].sort().values, x[x > 0].sort().values)


@tilelang.jit
def add_neighbours(A, C, dtype, lanes: int, source: str):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    C: T.Tensor((M, N), dtype)
    with T.Kernel(3, threads=128):
        shared = T.alloc_shared((M, N), dtype)
        fragment = T.alloc_fragment((M, N), dtype)
        T.copy(A, shared)
        T.copy(A, fragment)
        for i, j in T.Parallel(M, N // lanes):
            if lanes == 2:
                if source == "global":
                    T.atomic_addx2(C[i, j * 2], A[i, j * 2])
                elif source == "shared":
                    T.atomic_addx2(C[i, j * 2 : j * 2 + 2], shared[i, j * 2 : j * 2 + 2])
                else:
                    T.atomic_addx2(C[i, j * 2], fragment[i, j * 2])
            else:
                if source == "global":
                    T.atomic_addx4(C[i, j * 4], A[i, j * 4])
                elif source == "shared":
                    T.atomic_addx4(C[i, j * 4], shared[i, j * 4])
                else:
                    T.atomic_addx4(C[i, j * 4], fragment[i, j * 4])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("source", ["global", "shared", "fragment"])
def test_neighbours(device, dtype, lanes, source):
    a = torch.randint(-4, 5, (16, 64), generator=torch.Generator().manual_seed(4)).to(dtype).to(device)
    c = torch.zeros_like(a)
    compiled_for(add_neighbours, device)(a, c, dtype=dtype, lanes=lanes, source=source)
    assert torch.equal(c, a * 3)


@tilelang.jit
def outside_of_loops(C, threads: int):
    C: T.Tensor((4,), "int32")
    with T.Kernel(3, threads=threads):
        T.atomic_add(C[0], 1)
        T.atomic_max(C[1], 5)
        T.atomic_or(C[2], 6)
        T.atomic_store(C[3], T.atomic_load(C[1], memory_order="relaxed") + 2, memory_order="release")


@pytest.mark.parametrize("threads", [1, 64])
def test_every_thread_does_it_outside_of_parallel_loops(device, threads):
    c = torch.zeros(4, dtype=torch.int32, device=device)
    compiled_for(outside_of_loops, device)(c, threads=threads)
    assert c.tolist() == [3 * threads, 5, 6, 7]


@tilelang.jit
def by_index(X, Index, C):
    N, K = T.const("N, K")
    X: T.Tensor((N,), "float32")
    Index: T.Tensor((N,), "int32")
    C: T.Tensor((K,), "float32")
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            T.atomic_add(C[Index[bx * 128 + i]], X[bx * 128 + i])


def test_updates_outside_of_a_tensor_are_skipped(device):
    x = torch.ones(300, device=device)
    where = torch.randint(-3, 13, (300,), generator=torch.Generator().manual_seed(5)).int()
    expected = torch.bincount(where[(where >= 0) & (where < 10)], minlength=10).float()
    # Iterations past the end of Index read index 0 and add X's zeros.
    c = torch.zeros(10, device=device)
    compiled_for(by_index, device)(x, where.to(device), c)
    assert torch.equal(c.cpu(), expected)


@tilelang.jit
def previous(A, C, lanes):
    A: T.Tensor((4, 64), "float32")
    C: T.Tensor((4, 64), "float32")
    old = T.empty((4, 64), "float16")
    with T.Kernel(4, threads=64 // lanes) as bx:
        j = T.get_thread_binding() * lanes
        if lanes == 2:
            before = T.atomic_addx2(C[bx, j], A[bx, j], return_prev=True)
            old[bx, j : j + 2] = T.add2(before, before)
        else:
            old[bx, j : j + 4] = T.atomic_addx4(C[bx, j], A[bx, j], return_prev=True) * 2
    return old


@pytest.mark.parametrize("lanes", [2, 4])
def test_old_values_of_neighbours(device: str, lanes: int) -> None:
    a, c = (torch.randint(-9, 9, (4, 64)).float().to(device) for _ in range(2))
    now = c.clone()
    old = compiled_for(previous, device)(a, now, lanes)
    assert torch.equal(old, (2 * c).half())
    assert torch.equal(now, a + c)


@tilelang.jit
def numbers_over_tiles(C, D, by: float):
    C: T.Tensor((2, 8, 32), "float32")
    D: T.Tensor((16,), "int32")
    with T.Kernel(2, threads=64) as bx:
        shared = T.alloc_shared((16,), "int32")
        T.atomic_add(C[bx, 2:6, :], by)
        T.atomic_max(C[1 - bx, 0:8, 30:32], 7)
        T.clear(shared)
        T.atomic_add(shared, 3)
        T.atomic_add(D[0:16], shared)


def test_a_number_goes_to_every_element_of_a_tile(device: str) -> None:
    c, d = (torch.randint(-9, 9, shape).to(device) for shape in ((2, 8, 32), (16,)))
    now, count = c.float(), d.int()
    compiled_for(numbers_over_tiles, device)(now, count, 0.5)
    expected = c.float()
    rows, columns = expected[:, 2:6, :30], expected[:, :, 30:]
    rows += 0.5
    assert torch.equal(now[:, :, :30], expected[:, :, :30])
    outside = torch.ones(8, dtype=torch.bool, device=device)
    outside[2:6] = False
    assert torch.equal(now[:, outside, 30:], columns[:, outside].clamp(min=7))
    first, last = (columns.clamp(min=7) + 0.5)[:, 2:6], (columns + 0.5).clamp(min=7)[:, 2:6]  # either order
    assert ((now[:, 2:6, 30:] == first) | (now[:, 2:6, 30:] == last)).all()
    assert torch.equal(count, d.int() + 6)
