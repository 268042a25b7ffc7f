"""Tile programs beyond the examples: reductions, fragments in all shapes, pipelines that must not reorder,
scalars.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random, run_text
from tests.cuda.test_emulated import close
from tests.emulator.block import run
from tests.emulator.memory import poison

REDUCE = """
@tilelang.jit
def reduce(A, rows: int = 8, cols: int = 64, dim: int = 1, kind="sum", threads: int = 128,
           shared: bool = False, keep: bool = False, clear: bool = True, dtype="float32",
           to_shared: bool = False):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    B = T.empty((N if dim == 0 else M,), "float32")
    kept = cols if dim == 0 else rows
    with T.Kernel(1, threads=threads):
        a = T.alloc_shared((rows, cols), dtype) if shared else T.alloc_fragment((rows, cols), dtype)
        shape = ((1, cols) if dim == 0 else (rows, 1)) if keep else (kept,)
        b = T.alloc_shared(shape, "float32") if to_shared else T.alloc_fragment(shape, "float32")
        T.copy(A[0, 0], a)
        T.fill(b, 3)
        if kind == "sum":
            T.reduce_sum(a, b, dim=dim, clear=clear)
        elif kind == "max":
            T.reduce_max(a, b, dim=dim, clear=clear)
        elif kind == "min":
            T.reduce_min(a, b, dim=dim, clear=clear)
        else:
            T.reduce_absmax(a, b, dim=dim, clear=clear)
        if keep and dim == 0:
            T.copy(b[0, 0:kept], B[0])
        elif keep:
            T.copy(b[0:kept, 0], B[0])
        else:
            T.copy(b, B[0])
    return B
"""
NUMPY = {"sum": np.sum, "max": np.max, "min": np.min, "absmax": lambda x, axis: np.abs(x).max(axis=axis)}


def check_reduce(rng: np.random.Generator, rows: int, cols: int, kind: str = "sum", **choice: object) -> None:
    dtype, dim = str(choice.get("dtype", "float32")), int(str(choice.get("dim", 1)))
    a = random(rng, (rows, cols), dtype)
    b = poison(cols if dim == 0 else rows, "float32")
    shown = {k: repr(v) for k, v in choice.items()}
    run_text(REDUCE, {"A": a, "B": b}, M=rows, N=cols, rows=rows, cols=cols, kind=repr(kind), **shown)
    want = NUMPY[kind](a.astype(np.float32), axis=dim)
    if choice.get("clear") is False:
        want = {"sum": np.add, "max": np.maximum, "min": np.minimum, "absmax": np.maximum}[kind](want, 3)
    close(b, want, 1e-4)


@pytest.mark.parametrize("kind", ["sum", "max", "min", "absmax"])
@pytest.mark.parametrize("clear", [True, False])
def test_kinds(rng: np.random.Generator, kind: str, clear: bool) -> None:
    check_reduce(rng, 8, 64, kind, clear=clear)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(("rows", "cols"), [(1, 1000), (3, 100), (64, 128), (128, 3), (5, 7), (256, 1)])
def test_shapes(rng: np.random.Generator, dim: int, rows: int, cols: int) -> None:
    check_reduce(rng, rows, cols, dim=dim)


@pytest.mark.parametrize("threads", [32, 96, 256])
def test_thread_counts(rng: np.random.Generator, threads: int) -> None:
    check_reduce(rng, 12, 96, threads=threads)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("to_shared", [False, True])
def test_scopes(rng: np.random.Generator, shared: bool, to_shared: bool) -> None:
    check_reduce(rng, 16, 48, shared=shared, to_shared=to_shared)


@pytest.mark.parametrize("dim", [0, 1])
def test_the_reduced_dimension_kept_as_one(rng: np.random.Generator, dim: int) -> None:
    check_reduce(rng, 16, 64, dim=dim, keep=True)


def test_half_precision_is_folded_in_single(rng: np.random.Generator) -> None:
    check_reduce(rng, 4, 2048, dtype="float16")


ATTENTION = """
@tilelang.jit
def attention(Q, K, V, block: int = 64, dim: int = 64, stages: int = 2):
    N = T.const("N")
    Q: T.Tensor((N, dim), "float16")
    K: T.Tensor((N, dim), "float16")
    V: T.Tensor((N, dim), "float16")
    O = T.empty((N, dim), "float16")
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        q = T.alloc_shared((block, dim), "float16")
        k = T.alloc_shared((block, dim), "float16")
        v = T.alloc_shared((block, dim), "float16")
        s = T.alloc_fragment((block, block), "float32")
        p = T.alloc_fragment((block, block), "float16")
        o = T.alloc_fragment((block, dim), "float32")
        m = T.alloc_fragment((block,), "float32")
        m_old = T.alloc_fragment((block,), "float32")
        total = T.alloc_fragment((block,), "float32")
        part = T.alloc_fragment((block,), "float32")
        T.copy(Q[bx * block, 0], q)
        T.clear(o)
        T.clear(total)
        T.fill(m, -T.infinity("float32"))
        for t in T.Pipelined(T.ceildiv(N, block), num_stages=stages):
            T.copy(K[t * block, 0], k)
            T.clear(s)
            T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(m, m_old)
            T.reduce_max(s, m, dim=1, clear=False)
            for i, j in T.Parallel(block, block):
                s[i, j] = T.exp(s[i, j] - m[i])
            T.reduce_sum(s, part, dim=1)
            for i in T.Parallel(block):
                total[i] = total[i] * T.exp(m_old[i] - m[i]) + part[i]
            for i, j in T.Parallel(block, dim):
                o[i, j] *= T.exp(m_old[i] - m[i])
            T.copy(V[t * block, 0], v)
            T.copy(s, p)
            T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
        for i, j in T.Parallel(block, dim):
            o[i, j] /= total[i]
        T.copy(o, O[bx * block, 0])
    return O
"""


@pytest.mark.parametrize("stages", [0, 2, 3])
def test_attention(rng: np.random.Generator, stages: int) -> None:
    n, dim = 192, 64
    q, k, v = (random(rng, (n, dim), "float16") for _ in range(3))
    o = poison((n, dim), "float16")
    run_text(ATTENTION, {"Q": q, "K": k, "V": v, "O": o}, N=n, stages=stages)
    s = q.astype(np.float32) @ k.astype(np.float32).T
    e = np.exp(s - s.max(axis=1, keepdims=True))
    close(o, e / e.sum(axis=1, keepdims=True) @ v.astype(np.float32), 1e-2)


def test_a_tile_read_before_it_is_refilled_keeps_its_order(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def shifted(A):
    N = T.const("N")
    A: T.Tensor((N, 64), "float32")
    B = T.empty((N, 64), "float32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((1, 64), "float32")
        T.clear(s)
        for k in T.Pipelined(N, num_stages=3):
            T.copy(s, B[k, 0])
            T.copy(A[k, 0], s)
    return B
"""
    a, b = random(rng, (6, 64), "float32"), poison((6, 64), "float32")
    run_text(text, {"A": a, "B": b}, N=6)
    assert np.array_equal(b, np.concatenate([np.zeros((1, 64), np.float32), a[:-1]]))


def test_a_tile_read_after_the_loop_holds_the_last_copy(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def last(A):
    N = T.const("N")
    A: T.Tensor((N, 64), "float32")
    B = T.empty((N, 64), "float32")
    C = T.empty((1, 64), "float32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((1, 64), "float32")
        for k in T.Pipelined(N, num_stages=2):
            T.copy(A[k, 0], s)
            T.copy(s, B[k, 0])
        T.copy(s, C[0, 0])
    return B, C
"""
    a, b, c = random(rng, (5, 64), "float32"), poison((5, 64), "float32"), poison((1, 64), "float32")
    run_text(text, {"A": a, "B": b, "C": c}, N=5)
    assert np.array_equal(b, a) and np.array_equal(c[0], a[-1])


def test_two_loops_share_a_tile_with_different_stages(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def twice(A):
    N = T.const("N")
    A: T.Tensor((N, 64), "float32")
    B = T.empty((N, 64), "float32")
    C = T.empty((N, 64), "float32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((1, 64), "float32")
        for r in T.serial(2):
            for k in T.Pipelined(N, num_stages=2):
                T.copy(A[k, 0], s)
                T.copy(s, B[k, 0])
            for k in T.Pipelined(N, num_stages=4):
                T.copy(A[N - 1 - k, 0], s)
                T.copy(s, C[k, 0])
    return B, C
"""
    a, b, c = random(rng, (5, 64), "float32"), poison((5, 64), "float32"), poison((5, 64), "float32")
    run_text(text, {"A": a, "B": b, "C": c}, N=5)
    assert np.array_equal(b, a) and np.array_equal(c, a[::-1])


def test_rows_at_loaded_indices_are_pipelined(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def gather(A, I):
    M, N = T.const("M, N")
    A: T.Tensor((M, 64), "float32")
    I: T.Tensor((N,), "int32")
    B = T.empty((N, 64), "float32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((1, 64), "float32")
        for k in T.Pipelined(N, num_stages=3):
            row = I[k]
            T.copy(A[row, 0], s)
            T.copy(s, B[k, 0])
    return B
"""
    a, b = random(rng, (9, 64), "float32"), poison((7, 64), "float32")
    rows = rng.integers(0, 9, 7).astype(np.int32)
    lowered = lower_text(text, M=9, N=7)
    statistics = run(lowered, {"A": a, "I": rows, "B": b})
    assert np.array_equal(b, a[rows])
    assert statistics.instructions.get("cp_async_commit"), "the copy runs early"


def test_a_copy_that_depends_on_the_loop_stays_in_it(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def chase(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, 64), "int32")
    B = T.empty((N, 64), "int32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((1, 64), "int32")
        at = T.alloc_var("int32", init=0)
        for k in T.Pipelined(N, num_stages=3):
            T.copy(A[at, 0], s)
            T.copy(s, B[k, 0])
            at = s[0, 0]
    return B
"""
    a = rng.integers(0, 9, (9, 64)).astype(np.int32)
    b = poison((6, 64), "int32")
    run_text(text, {"A": a, "B": b}, M=9, N=6)
    at, want = 0, []
    for _ in range(6):
        want.append(a[at])
        at = a[at, 0]
    assert np.array_equal(b, np.array(want))


def test_transposed_read_through_shared(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def transpose(A, m: int = 32, n: int = 48):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float16")
    B = T.empty((N, M), "float32")
    with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=96) as (bx, by):
        s = T.alloc_shared((m, n), "float16")
        t = T.alloc_fragment((n, m), "float32")
        T.copy(A[by * m, bx * n], s)
        for i, j in T.Parallel(n, m):
            t[i, j] = s[j, i] * 2
        T.copy(t, B[bx * n, by * m])
    return B
"""
    a, b = random(rng, (40, 100), "float16"), poison((100, 40), "float32")
    run_text(text, {"A": a, "B": b}, M=40, N=100)
    assert np.array_equal(b, a.T.astype(np.float32) * 2)


def test_serial_and_unrolled_loops_inside_parallel(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def blur(A, n: int = 128, k: int = 4):
    N = T.const("N")
    A: T.Tensor((N + 8,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, n), threads=64) as bx:
        s = T.alloc_shared((n + k,), "float32")
        T.copy(A[bx * n : bx * n + n + k], s)
        for i in T.Parallel(n):
            total = T.alloc_var("float32")
            total = 0
            for d in T.serial(k):
                total += s[i + d]
            B[bx * n + i] = total
    return B
"""
    a, b = random(rng, (208,), "float32"), poison(200, "float32")
    run_text(text, {"A": a, "B": b}, N=200)
    close(b, sum(a[d : d + 200] for d in range(4)), 1e-5)


def test_a_fragment_dimension_indexed_by_a_serial_loop(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def columns(A, m: int = 64, n: int = 4):
    A: T.Tensor((m, n), "float32")
    B = T.empty((m,), "float32")
    with T.Kernel(1, threads=32):
        f = T.alloc_fragment((m, n), "float32")
        total = T.alloc_fragment((m,), "float32")
        T.clear(total)
        T.copy(A, f)
        for c in T.serial(n):
            for i in T.Parallel(m):
                total[i] += f[i, c]
        T.copy(total, B)
    return B
"""
    a, b = random(rng, (64, 4), "float32"), poison(64, "float32")
    run_text(text, {"A": a, "B": b})
    close(b, a.sum(axis=1), 1e-5)


def test_a_fragment_touched_outside_loops_is_held_by_every_thread(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def first(A):
    A: T.Tensor((64,), "float32")
    B = T.empty((64,), "float32")
    with T.Kernel(1, threads=32):
        f = T.alloc_fragment((64,), "float32")
        T.copy(A, f)
        if f[3] > 0:
            f[0] = 7
        else:
            f[0] = -7
        T.copy(f, B)
    return B
"""
    a, b = random(rng, (64,), "float32"), poison(64, "float32")
    run_text(text, {"A": a, "B": b})
    want = a.copy()
    want[0] = 7 if a[3] > 0 else -7
    assert np.array_equal(b, want)


def test_stores_outside_loops_happen_once(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def count(A):
    N = T.const("N")
    A: T.Tensor((N,), "int32")
    B = T.empty((4,), "int32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((4,), "int32")
        T.clear(s)
        for k in T.serial(N):
            s[A[k]] += 1
        T.copy(s, B)
    return B
"""
    a, b = rng.integers(0, 4, 20).astype(np.int32), poison(4, "int32")
    run_text(text, {"A": a, "B": b}, N=20)
    assert np.array_equal(b, np.bincount(a, minlength=4))


def test_parallel_loops_of_other_extents_than_the_fragment(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def partly(A):
    A: T.Tensor((256,), "float32")
    B = T.empty((256,), "float32")
    with T.Kernel(1, threads=128):
        f = T.alloc_fragment((256,), "float32")
        T.copy(A, f)
        for i in T.Parallel(100):
            f[i] = f[i] * 2
        T.copy(f, B)
    return B
"""
    a, b = random(rng, (256,), "float32"), poison(256, "float32")
    run_text(text, {"A": a, "B": b})
    assert np.array_equal(b, np.concatenate([a[:100] * 2, a[100:]]))


def test_elementwise_at_every_odd_size(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def scale(A, m: int = 5, n: int = 229):
    A: T.Tensor((m, n), "float16")
    W = T.empty((m, n), "float32")
    with T.Kernel(1, threads=128):
        f = T.alloc_fragment((m, n), "float16")
        T.copy(A, f)
        for i, j in T.Parallel(m, n):
            W[i, j] = f[i, j] * (i + 1) + j
    return W
"""
    a, w = random(rng, (5, 229), "float16"), poison((5, 229), "float32")
    run_text(text, {"A": a, "W": w})
    i, j = np.meshgrid(np.arange(5), np.arange(229), indexing="ij")
    close(w, (a * (i + 1).astype(np.float16)).astype(np.float16) + j, 2e-3)


def test_accumulators_of_two_policies_are_refused_or_exchanged(rng: np.random.Generator) -> None:
    from tilelang.diagnostics.error import KernelError

    text = """
@tilelang.jit
def both(A):
    A: T.Tensor((64, 64), "float16")
    B = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        x = T.alloc_fragment((64, 64), "float32")
        y = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.clear(x)
        T.clear(y)
        T.gemm(a, a, x, policy=T.GemmWarpPolicy.FullRow)
        T.gemm(a, a, y, policy=T.GemmWarpPolicy.FullCol)
        for i, j in T.Parallel(64, 64):
            x[i, j] += y[i, j]
        T.copy(x, B)
    return B
"""
    with pytest.raises(KernelError) as caught:
        lower_text(text)
    (problem,) = caught.value.problems
    assert problem.rule == "fragment-layout"
    assert "y is laid out by T.gemm at line 17 (its accumulator, policy FullCol)" in problem.message
    assert "x by T.gemm at line 16 (its accumulator, policy FullRow)" in problem.message
    assert len(problem.related) == 3, "the use and both gemms are named"


def test_copies_between_policies_go_through_shared_memory(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def both(A):
    A: T.Tensor((64, 64), "float16")
    B = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        x = T.alloc_fragment((64, 64), "float32")
        y = T.alloc_fragment((64, 64), "float32")
        z = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.clear(x)
        T.clear(y)
        T.gemm(a, a, x, policy=T.GemmWarpPolicy.FullRow)
        T.gemm(a, a, y, policy=T.GemmWarpPolicy.FullCol)
        T.copy(y, z)
        for i, j in T.Parallel(64, 64):
            x[i, j] += z[i, j]
        T.copy(x, B)
    return B
"""
    a, b = random(rng, (64, 64), "float16"), poison((64, 64), "float32")
    run_text(text, {"A": a, "B": b})
    close(b, 2 * (a.astype(np.float32) @ a.astype(np.float32)), 1e-3)


def test_a_loop_that_may_be_left_early_keeps_its_barriers(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def until(A):
    N = T.const("N")
    A: T.Tensor((N, 64), "float32")
    B = T.empty((64,), "float32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((64,), "float32")
        t = T.alloc_shared((64,), "float32")
        for k in T.serial(N):
            for i in T.Parallel(64):
                s[i] = A[k, i]
            if A[k, 0] > 0:
                break
            for i in T.Parallel(64):
                t[i] = s[63 - i]
        for i in T.Parallel(64):
            B[i] = s[63 - i]
    return B
"""
    a, b = random(rng, (6, 64), "float32"), poison(64, "float32")
    a[:, 0] = [-1, -1, -1, 1, -1, -1]
    run_text(text, {"A": a, "B": b}, N=6)
    assert np.array_equal(b, a[3, ::-1])


def test_a_long_loop_over_memory_is_not_unrolled(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def double(A, n: int = 40000):
    A: T.Tensor((n,), "float16")
    B = T.empty((n,), "float16")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n):
            B[i] = A[i] * 2
    return B
"""
    a, b = random(rng, (40000,), "float16"), poison(40000, "float16")
    lowered = lower_text(text)
    assert "#pragma unroll 8" in lowered.source.text
    run(lowered, {"A": a, "B": b})
    assert np.array_equal(b, a * 2)


def test_a_result_that_is_stored_twice_keeps_the_last_store(rng):
    """Other threads fill the corner than those that copied it: all of them wait in between."""
    text = """
@tilelang.jit
def k(A):
    A: T.Tensor((128, 64), "int64")
    B = T.empty((128, 64), "int64")
    with T.Kernel(2, threads=64) as bx:
        f = T.alloc_fragment((64, 64), "int64")
        T.copy(A[bx * 64, 0], f)
        T.copy(f, B[bx * 64, 0])
        T.fill(B[bx * 64 + 60 : bx * 64 + 64, 0:8], 5)
    return B
"""
    assert "__syncthreads" in lower_text(text).source.text
    alone = text.replace("        T.fill(B[bx * 64 + 60 : bx * 64 + 64, 0:8], 5)\n", "")
    assert "__syncthreads" not in lower_text(alone).source.text
    a, b = rng.integers(0, 9, (128, 64)), np.zeros((128, 64), np.int64)
    run_text(text, {"A": a, "B": b})
    a[60:64, :8], a[124:128, :8] = 5, 5
    assert (a == b).all()
