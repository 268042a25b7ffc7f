"""Scans, reducers and further reductions in the emulator, which fails on races and on missing barriers."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random, run_text
from tests.emulator.block import run
from tests.emulator.memory import poison
from tests.test_folds import reduced_truth
from tilelang.diagnostics.error import KernelError

SCAN = """
@tilelang.jit
def scan(A, B, kind, dim, reverse, source, threads):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float32")
    B: T.Tensor((M, N), "float32")
    with T.Kernel(1, threads=threads):
        s = T.alloc_shared((M, N), "float32")
        f = T.alloc_fragment((M, N), "float32")
        T.copy(A, s)
        if source == "fragment":
            T.copy(s, f)
            if kind == "sum":
                T.cumsum(f, s, dim=dim, reverse=reverse)
            else:
                T.cummax(f, s, dim=dim, reverse=reverse)
        elif kind == "sum":
            T.cumsum(s, dim=dim, reverse=reverse)
        else:
            T.cummax(s, dim=dim, reverse=reverse)
        T.copy(s, B)
"""


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("source", "threads"), [("shared", 64), ("fragment", 128), ("shared", 48)])
def test_scans(
    rng: np.random.Generator, kind: str, dim: int, reverse: bool, source: str, threads: int
) -> None:
    a, b = random(rng, (6, 40), "int32").astype("float32"), poison((6, 40), "float32")
    run_text(
        SCAN,
        {"A": a, "B": b},
        M=6,
        N=40,
        kind=repr(kind),
        dim=dim,
        reverse=reverse,
        source=repr(source),
        threads=threads,
    )
    turned = np.flip(a, dim) if reverse else a
    want = (np.cumsum if kind == "sum" else np.maximum.accumulate)(turned, axis=dim)
    assert np.array_equal(b, np.flip(want, dim) if reverse else want)


ANY_SCAN = """
@tilelang.jit
def scan(A, B, shape, dtype, kind, dim, reverse, threads):
    A: T.Tensor(shape, dtype)
    B: T.Tensor(shape, dtype)
    with T.Kernel(1, threads=threads):
        s = T.alloc_shared(shape, dtype)
        T.copy(A, s)
        if kind == "sum":
            T.cumsum(s, dim=dim, reverse=reverse)
        else:
            T.cummax(s, dim=dim, reverse=reverse)
        T.copy(s, B)
"""


@pytest.mark.parametrize(
    ("shape", "dim", "threads"),
    [
        ((1000,), 0, 128),  # one line in pieces, by one warp
        ((96, 128), 1, 256),  # a warp to a line, neighbours in registers
        ((40, 8), 1, 64),  # several lines to a warp
        ((128, 5), 0, 96),  # lines across memory
        ((64, 64), 0, 64),  # a thread to a line
        ((3, 33, 2), 1, 48),  # half a warp more
        ((2, 3, 16), 2, 33),  # no two threads that may exchange anything
        ((1, 1), 1, 32),
    ],
)
@pytest.mark.parametrize(("kind", "dtype"), [("sum", "int32"), ("sum", "float16"), ("max", "float32")])
def test_lines_of_any_length(
    rng: np.random.Generator, shape: tuple[int, ...], dim: int, threads: int, kind: str, dtype: str
) -> None:
    for reverse in (False, True):
        a = rng.integers(-3, 4, shape).astype(dtype)
        if kind == "max":  # the number wins
            a[rng.random(shape) < 0.2] = np.nan
        b = poison(shape, dtype)
        given = {"shape": repr(shape), "dtype": repr(dtype), "kind": repr(kind)}
        run_text(ANY_SCAN, {"A": a, "B": b}, **given, dim=dim, reverse=reverse, threads=threads)
        turned = np.flip(a, dim) if reverse else a
        if kind == "sum":
            want = np.cumsum(turned, axis=dim, dtype="float32" if dtype == "float16" else dtype)
        else:
            want = np.fmax.accumulate(turned, axis=dim)
        want = (np.flip(want, dim) if reverse else want).astype(dtype)
        assert np.array_equal(b, want, equal_nan=kind == "max")


REDUCER = """
@tilelang.jit
def reducer(A, B, C, op, n):
    A: T.Tensor((n, 24), "float32")
    B: T.Tensor((24,), "float32")
    C: T.Tensor((1,), "float32")
    with T.Kernel(1, threads=64):
        columns = T.alloc_reducer((24,), "float32", op=op)
        total = T.alloc_reducer(1, "float32", op=op, replication="all")
        T.reducer_init(columns)
        T.fill(total, 1)
        for k in T.serial(n // 16):
            for i, j in T.Parallel(16, 24):
                if i != 3:
                    T.reducer_update(columns[j], A[k * 16 + i, j])
                T.reducer_update(total[0], A[k * 16 + i, j])
        T.finalize_reducer(columns, B)
        T.finalize_reducer(total)
        C[0] = total[0]
"""


@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reducers(rng: np.random.Generator, op: str) -> None:
    a = random(rng, (32, 24), "int32").astype("float32")
    b, c = poison(24, "float32"), poison(1, "float32")
    run_text(REDUCER, {"A": a, "B": b, "C": c}, op=repr(op), n=32)
    fold = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]
    rows = np.delete(a, [3, 19], axis=0)
    assert np.array_equal(b, fold.reduce(rows, axis=0))
    assert c[0] == fold(fold.reduce(a.ravel()), 1)


BITS = """
@tilelang.jit
def bits(A, B, kind, source):
    A: T.Tensor((8, 64), "int32")
    B: T.Tensor((8,), "int32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((8, 64), "int32")
        f = T.alloc_fragment((8, 64), "int32")
        r = T.alloc_fragment((8,), "int32")
        T.copy(A, s)
        T.copy(s, f)
        if source == "shared":
            T.reduce(s, r, kind, 1, True)
        else:
            T.reduce(f, r, kind, 1, True)
        T.copy(r, B)
"""


@pytest.mark.parametrize("kind", ["bitand", "bitor", "bitxor", "abssum"])
@pytest.mark.parametrize("source", ["shared", "fragment"])
def test_reductions(rng: np.random.Generator, kind: str, source: str) -> None:
    a, b = rng.integers(-1000, 1000, (8, 64)).astype("int32"), poison(8, "int32")
    run_text(BITS, {"A": a, "B": b}, kind=repr(kind), source=repr(source))
    fold = {
        "bitand": lambda: np.bitwise_and.reduce(a, axis=1),
        "bitor": lambda: np.bitwise_or.reduce(a, axis=1),
        "bitxor": lambda: np.bitwise_xor.reduce(a, axis=1),
        "abssum": lambda: np.abs(a).sum(1),
    }[kind]
    assert np.array_equal(b, fold())


GEMV = """
@tilelang.jit
def gemv(A, B, C, rows, columns):
    N, K = T.const("N, K")
    A: T.Tensor((K,), "float32")
    B: T.Tensor((N, K), "float32")
    C: T.Tensor((N,), "float32")
    with T.Kernel(T.ceildiv(N, rows), threads=(columns, rows)) as bn:
        tk = T.get_thread_binding(0)
        tn = T.get_thread_binding(1)
        acc = T.alloc_local((1,), "float32")
        out = T.alloc_local((1,), "float32")
        T.clear(acc)
        for k in T.serial(K // columns):
            acc[0] += A[k * columns + tk] * B[bn * rows + tn, k * columns + tk]
        with T.attr(
            T.comm_reducer(lambda x, y: x + y, [T.Cast("float32", 0)]),
            "reduce_scope",
            T.reinterpret(T.uint64(0), dtype="handle"),
        ):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), acc[0], True, out[0], tk, dtype="handle"))
        if tk == 0:
            C[bn * rows + tn] = out[0]
"""


@pytest.mark.parametrize(("rows", "columns"), [(4, 32), (8, 8), (2, 64), (4, 24)])
def test_allreduce_over_a_thread_axis(rng: np.random.Generator, rows: int, columns: int) -> None:
    n, k = 8, 4 * columns
    a, b = (random(rng, shape, "int32").astype("float32") for shape in ((k,), (n, k)))
    c = poison(n, "float32")
    run_text(GEMV, {"A": a, "B": b, "C": c}, N=n, K=k, rows=rows, columns=columns)
    assert np.array_equal(c, b @ a)


NAN = """
@tilelang.jit
def with_nan(A, R, dim):
    A: T.Tensor((8, 48), "float32")
    R: T.Tensor((8 if dim == 1 else 48,), "float32")
    with T.Kernel(1, threads=64):
        tile = T.alloc_fragment((8, 48), "float32")
        out = T.alloc_fragment((8 if dim == 1 else 48,), "float32")
        T.copy(A, tile)
        T.reduce_max(tile, out, dim=dim, nan_propagate=True)
        T.copy(out, R)
"""


@pytest.mark.parametrize("dim", [0, 1])
def test_nan_is_the_result_where_it_is_asked_for(rng: np.random.Generator, dim: int) -> None:
    a, r = random(rng, (8, 48), "float32"), poison(8 if dim == 1 else 48, "float32")
    a[3, 5] = a[6, 40] = np.nan
    run_text(NAN, {"A": a, "R": r}, dim=dim)
    np.testing.assert_array_equal(r, a.max(dim))


FULL = """
@tilelang.jit
def peaks(A, fill: int):
    A: T.Tensor((2, 2048), "float32")
    Top = T.empty((2,), "float32")
    Sum = T.empty((2,), "float32")
    with T.Kernel(1, threads=128):
        filler = T.alloc_shared((fill,), "float32")
        a = T.alloc_fragment((2, 2048), "float32")
        top = T.alloc_fragment((2,), "float32")
        total = T.alloc_fragment((2,), "float32")
        for i in T.Parallel(fill):
            filler[i] = 1
        T.copy(A, a)
        T.reduce_max(a, top, dim=1)
        T.reduce_sum(a, total, dim=1)
        for i in T.Parallel(2):
            Top[i] = top[i]
            Sum[i] = total[i] + filler[fill - 1 - i] - 1
    return Top, Sum
"""


@pytest.mark.parametrize(("left", "more"), [(256, 0), (128, 1)])
def test_reductions_take_turns_in_one_workspace_where_memory_is_scarce(
    rng: np.random.Generator, left: int, more: int
) -> None:
    limit = 101376  # of sm_89; a workspace begins at a multiple of 128
    a, top, total = random(rng, (2, 2048), "float32"), poison(2, "float32"), poison(2, "float32")
    lowered = lower_text(FULL, "cuda:sm_89", fill=(limit - left) // 4)
    assert lowered.plan.shared_bytes <= limit
    statistics = run(lowered, {"A": a, "Top": top, "Sum": total})
    assert np.array_equal(top, a.max(1))
    np.testing.assert_allclose(total, a.sum(1), rtol=1e-4, atol=1e-3)
    assert statistics.barriers == 2 + more, "one before each fold, one before the second may reuse the space"


PRIVATE = """
@tilelang.jit
def k(A, R, dim, clear):
    K = 3 if dim else 5
    A: T.Tensor((32, 3, 5), "float32")
    R: T.Tensor((32, K), "float32")
    with T.Kernel(1, threads=32):
        t = T.get_thread_binding()
        own = T.alloc_local((3, 5), "float32")
        out = T.alloc_local((K,), "float32")
        for i, j in T.grid(3, 5):
            own[i, j] = A[t, i, j]
        T.fill(out, 2)
        T.reduce_sum(own, out, dim=dim, clear=clear)
        for i in T.serial(K):
            R[t, i] = out[i]
"""


@pytest.mark.parametrize("dim", [0, 1])
def test_each_thread_folds_an_array_of_its_own(rng: np.random.Generator, dim: int) -> None:
    a = random(rng, (32, 3, 5), "int32").astype("float32")
    r = poison((32, 3 if dim else 5), "float32")
    run_text(PRIVATE, {"A": a, "R": r}, dim=dim, clear=dim == 0)
    assert np.array_equal(r, a.sum(dim + 1) + (0 if dim == 0 else 2))


TRUTH = """
@tilelang.jit
def k(A, B, kind):
    A: T.Tensor((8, 40), "bool")
    B: T.Tensor((8,), "bool")
    with T.Kernel(1, threads=64):
        a = T.alloc_fragment((8, 40), "bool")
        b = T.alloc_fragment((8,), "bool")
        T.copy(A, a)
        T.reduce(a, b, kind, 1, True)
        T.copy(b, B)
"""


@pytest.mark.parametrize("kind", ["max", "min", "bitxor"])
def test_truth_values(rng: np.random.Generator, kind: str) -> None:
    a, b = rng.random((8, 40)) < 0.97, np.zeros(8, "bool")
    a[3] = False
    run_text(TRUTH, {"A": a, "B": b}, kind=repr(kind))
    fold = {"max": np.logical_or, "min": np.logical_and, "bitxor": np.logical_xor}[kind]
    assert np.array_equal(b, fold.reduce(a, axis=1))


@pytest.mark.parametrize(
    ("op", "meaning"), [("max", np.any), ("min", np.all), ("bitxor", np.bitwise_xor.reduce)]
)
def test_reducers_of_truth_values(op, meaning, rng):
    a, r = rng.random((16, 64)) < 0.9, np.zeros(64, bool)
    run_text(inspect.getsource(reduced_truth.function), {"A": a, "R": r}, op=repr(op))
    assert (r == meaning(a, axis=0)).all()


PART = """
@tilelang.jit
def part(A, B, r0, r1, c0, c1, dim, threads):
    A: T.Tensor((16, 16), "float32")
    B: T.Tensor((c1 - c0 if dim == 0 else r1 - r0,), "float32")
    with T.Kernel(1, threads=threads):
        f = T.alloc_fragment((16, 16), "float32")
        t = T.alloc_shared((c1 - c0 if dim == 0 else r1 - r0,), "float32")
        for i, j in T.Parallel(16, 16):
            f[i, j] = A[i, j] * 2
        T.reduce_max(f[r0:r1, c0:c1], t, dim=dim)
        T.copy(t, B)
"""


@pytest.mark.parametrize(
    "part", [(14, 15, 4, 14), (0, 16, 5, 16), (4, 8, 8, 16), (3, 11, 7, 9), (0, 2, 0, 3)]
)
@pytest.mark.parametrize(("dim", "threads"), [(0, 128), (1, 64), (0, 32)])
def test_parts_of_fragments(
    rng: np.random.Generator, part: tuple[int, int, int, int], dim: int, threads: int
) -> None:
    """The layout of a part that does not begin at the fragment's first element is not the fragment's."""
    r0, r1, c0, c1 = part
    a, b = (
        random(rng, (16, 16), "int32").astype("float32"),
        poison((c1 - c0 if dim == 0 else r1 - r0,), "float32"),
    )
    run_text(PART, {"A": a, "B": b}, r0=r0, r1=r1, c0=c0, c1=c1, dim=dim, threads=threads)
    assert np.array_equal(b, 2 * a[r0:r1, c0:c1].max(axis=dim))


def test_a_part_that_no_layout_serves_is_refused(rng: np.random.Generator) -> None:
    with pytest.raises(KernelError, match="use a shared copy of f here"):
        lower_text(PART, "cuda:sm_90", r0=2, r1=4, c0=0, c1=3, dim=0, threads=128)
