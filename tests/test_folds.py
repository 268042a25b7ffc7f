"""Reductions, scans, reducers, T.any_of and T.all_of against torch on both devices."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES, compiled_for, random
from tilelang.diagnostics.error import KernelError

pytestmark = pytest.mark.parametrize("device", DEVICES)


def integers(*shape: int, dtype: torch.dtype, device: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-5, 6, shape, generator=generator).to(dtype).to(device)


@tilelang.jit
def folded(A, kind: str, dtype, dim: int, source: str, target: str, clear: bool = True):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    K = M if dim % 2 == 1 else N
    R = T.empty((K,), dtype)
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((M, N), dtype) if source == "shared" else T.alloc_fragment((M, N), dtype)
        out = T.alloc_shared((K,), dtype) if target == "shared" else T.alloc_fragment((K,), dtype)
        T.copy(A, tile)
        T.fill(out, 3)
        T.reduce(tile, out, kind, dim, clear)
        T.copy(out, R)
    return R


def expected(kind: str, a: torch.Tensor, dim: int) -> torch.Tensor:
    def bits(combine):
        parts = a.unbind(dim)
        total = parts[0]
        for part in parts[1:]:
            total = combine(total, part)
        return total

    return {
        "sum": lambda: a.sum(dim),
        "max": lambda: a.amax(dim),
        "min": lambda: a.amin(dim),
        "abssum": lambda: a.abs().sum(dim),
        "absmax": lambda: a.abs().amax(dim),
        "bitand": lambda: bits(torch.bitwise_and),
        "bitor": lambda: bits(torch.bitwise_or),
        "bitxor": lambda: bits(torch.bitwise_xor),
    }[kind]()


@pytest.mark.parametrize("kind", ["sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor"])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize(("source", "target"), [("fragment", "fragment"), ("shared", "shared")])
def test_reductions_of_every_kind(device, kind, dim, source, target):
    dtype = torch.int32 if kind.startswith("bit") else torch.float32
    a = integers(32, 48, dtype=dtype, device=device)
    found = compiled_for(folded, device)(a, kind=kind, dtype=dtype, dim=dim, source=source, target=target)
    assert torch.equal(found, expected(kind, a, dim).to(dtype))


@pytest.mark.parametrize("kind", ["sum", "max", "bitxor"])
def test_reductions_into_old_contents(device, kind):
    a = integers(32, 48, dtype=torch.int32, device=device)
    found = compiled_for(folded, device)(
        a, kind=kind, dtype=torch.int32, dim=1, source="fragment", target="fragment", clear=False
    )
    combine = {"sum": torch.add, "max": torch.maximum, "bitxor": torch.bitwise_xor}[kind]
    assert torch.equal(found, combine(expected(kind, a, 1).int(), torch.full_like(found, 3)))


@tilelang.jit
def scanned(A, kind: str, dtype, dim: int, reverse: bool, source: str, in_place: bool):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    B = T.empty((M, N), dtype)
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((M, N), dtype) if source == "shared" else T.alloc_fragment((M, N), dtype)
        out = T.alloc_fragment((M, N), dtype)
        T.copy(A, tile)
        if in_place:
            if kind == "sum":
                T.cumsum(tile, dim=dim, reverse=reverse)
            else:
                T.cummax(tile, dim=dim, reverse=reverse)
            T.copy(tile, B)
        else:
            if kind == "sum":
                T.cumsum(tile, out, dim=dim, reverse=reverse)
            else:
                T.cummax(tile, out, dim=dim, reverse=reverse)
            T.copy(out, B)
    return B


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("source", ["shared", "fragment"])
@pytest.mark.parametrize("in_place", [False, True])
def test_scans(device, kind, dim, reverse, source, in_place):
    a = integers(16, 40, dtype=torch.float32, device=device)
    found = compiled_for(scanned, device)(
        a, kind=kind, dtype=torch.float32, dim=dim, reverse=reverse, source=source, in_place=in_place
    )
    turned = a.flip(dim) if reverse else a
    want = turned.cumsum(dim) if kind == "sum" else turned.cummax(dim).values
    assert torch.equal(found, want.flip(dim) if reverse else want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_scans_of_other_dtypes(device, dtype):
    a = integers(4, 64, dtype=dtype, device=device)
    found = compiled_for(scanned, device)(
        a, kind="sum", dtype=dtype, dim=1, reverse=False, source="shared", in_place=True
    )
    assert torch.equal(found.double(), a.double().cumsum(1).to(dtype).double())


@tilelang.jit
def running_sum(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((N,), "float32")
        T.copy(A, tile)
        T.cumsum(tile)
        T.copy(tile, B)
    return B


@pytest.mark.parametrize("n", [1, 2, 77, 256])
def test_one_dimension(device, n):
    a = integers(n, dtype=torch.float32, device=device)
    assert torch.equal(compiled_for(running_sum, device)(a), a.cumsum(0))


@tilelang.jit
def reducers(A, op: str, dtype, old: bool, parts: int):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    columns = T.empty((N,), dtype)
    total = T.empty((1,), dtype)
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((M // parts, N), dtype)
        by_column = T.alloc_reducer((N,), dtype, op=op)
        whole = T.alloc_reducer(1, dtype, op=op)
        out = T.alloc_fragment((N,), dtype)
        if old:
            T.fill(by_column, 2)
            T.fill(whole, 2)
        else:
            T.reducer_init(by_column, 2)
            T.reducer_init(whole, 2)
        for k in T.serial(parts):
            T.copy(A[k * (M // parts), 0], tile)
            for i, j in T.Parallel(M // parts, N):
                if old and op == "sum":
                    by_column[j] += tile[i, j]
                    whole[0] += tile[i, j]
                elif old:
                    by_column[j] = T.max(by_column[j], tile[i, j])
                    whole[0] = T.max(tile[i, j], whole[0])
                else:
                    T.reducer_update(by_column[j], tile[i, j])
                    T.reducer_update(whole[0], tile[i, j])
        if old:
            T.finalize_reducer(by_column)
            T.copy(by_column, columns)
            T.finalize_reducer(whole)
            total[0] = whole[0]
        else:
            T.finalize_reducer(by_column, out)
            T.copy(out, columns)
            T.finalize_reducer(whole, total)
    return columns, total


@pytest.mark.parametrize(("op", "old"), [("sum", True), ("max", True), ("sum", False), ("max", False)])
@pytest.mark.parametrize("parts", [1, 3])
def test_reducers(device, op, old, parts):
    a = integers(48, 40, dtype=torch.float32, device=device)
    columns, total = compiled_for(reducers, device)(a, op=op, dtype=torch.float32, old=old, parts=parts)
    if op == "sum":
        assert torch.equal(columns, a.sum(0) + 2)
        assert float(total) == float(a.sum() + 2)
    else:
        assert torch.equal(columns, a.amax(0).clamp(min=2))
        assert float(total) == max(float(a.max()), 2)


@pytest.mark.parametrize("op", ["min", "bitand", "bitor", "bitxor"])
def test_reducers_of_other_kinds(device, op):
    a = integers(48, 40, dtype=torch.int32, device=device)
    columns, _ = compiled_for(reducers, device)(a, op=op, dtype=torch.int32, old=False, parts=1)
    combine = {
        "min": torch.minimum,
        "bitand": torch.bitwise_and,
        "bitor": torch.bitwise_or,
        "bitxor": torch.bitwise_xor,
    }[op]
    want = torch.full((40,), 2, dtype=torch.int32, device=device)
    for row in a:
        want = combine(want, row)
    assert torch.equal(columns, want)


@tilelang.jit
def questions(A, low: int, high: int):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    R = T.empty((4,), "int32")
    with T.Kernel(1, threads=128):
        positive = T.alloc_shared((N,), "bool")
        for i in T.Parallel(N):
            positive[i] = A[i] > 0
        T.clear(R[0:4])
        if T.any_of(positive):
            R[0] = 1
        if T.all_of(positive):
            R[1] = 1
        if T.any_of(A[low:high]):
            R[2] = 1
        if T.all_of(positive[low:high]):
            R[3] = 1
    return R


def test_any_and_all(device):
    a = integers(64, dtype=torch.float32, device=device)
    a[10:20] = torch.arange(1, 11, device=device)
    found = compiled_for(questions, device)(a, low=12, high=18).tolist()
    assert found == [1, int(bool((a > 0).all())), 1, 1]
    zeros = torch.zeros(64, device=device)
    assert compiled_for(questions, device)(zeros, low=0, high=5).tolist() == [0, 0, 0, 0]
    assert (
        compiled_for(questions, device)(random(64, device=device).abs() + 1, low=0, high=5).tolist()
        == [1] * 4
    )


@tilelang.jit
def gemv(A, B, rows: int, columns: int):
    N, K = T.const("N, K")
    A: T.Tensor((K,), "float32")
    B: T.Tensor((N, K), "float32")
    C = T.empty((N,), "float32")
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
    return C


@pytest.mark.parametrize(("rows", "columns"), [(4, 32), (2, 64)])
def test_allreduce_over_a_thread_axis(device, rows, columns):
    a = integers(4 * columns, dtype=torch.float32, device=device)
    b = integers(8, 4 * columns, dtype=torch.float32, device=device, seed=1)
    assert torch.equal(compiled_for(gemv, device)(a, b, rows=rows, columns=columns), b @ a)


@tilelang.jit
def with_nan(A, kind: str, keep: bool, dim: int, dtype):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    R = T.empty((M if dim == 1 else N,), dtype)
    with T.Kernel(1, threads=64):
        tile = T.alloc_fragment((M, N), dtype)
        out = T.alloc_fragment((M if dim == 1 else N,), dtype)
        T.copy(A, tile, annotations={"coalesced_width": 2})
        if kind == "max":
            T.reduce_max(tile, out, dim=dim, nan_propagate=keep)
        elif kind == "min":
            T.reduce_min(tile, out, dim=dim, nan_propagate=keep)
        else:
            T.reduce_absmax(tile, out, dim=dim, nan_propagate=keep)
        T.copy(out, R)
    return R


@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_nan_is_the_result_where_it_is_asked_for(device, kind, dim, dtype):
    a = integers(8, 48, dtype=dtype, device=device)
    a[3, 5] = a[6, 40] = float("nan")
    found = compiled_for(with_nan, device)(a, kind=kind, keep=True, dim=dim, dtype=dtype)
    want = {"max": a.amax(dim), "min": a.amin(dim), "absmax": a.abs().amax(dim)}[kind]
    torch.testing.assert_close(found, want, rtol=0, atol=0, equal_nan=True)


@tilelang.jit
def folded_by_each_thread(A, kind: str, dtype, dim: int, clear: bool):
    K = 3 if dim else 5
    A: T.Tensor((8, 3, 5), dtype)
    R = T.empty((8, K), dtype)
    with T.Kernel(1, threads=8):
        t = T.get_thread_binding()
        own = T.alloc_local((3, 5), dtype)
        out = T.alloc_local((K,), dtype)
        for i, j in T.grid(3, 5):
            own[i, j] = A[t, i, j]
        T.fill(out, 2)
        T.reduce(own, out, kind, dim, clear)
        for i in T.serial(K):
            R[t, i] = out[i]
    return R


@pytest.mark.parametrize(
    ("kind", "dim", "clear"), [("sum", 1, True), ("max", 0, False), ("abssum", 1, False)]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.int32])
def test_each_thread_folds_an_array_of_its_own(device, kind, dim, clear, dtype):
    a = integers(8, 3, 5, dtype=dtype, device=device)
    found = compiled_for(folded_by_each_thread, device)(a, kind, dtype, dim, clear)
    expected = {"sum": a.sum(dim + 1), "max": a.amax(dim + 1), "abssum": a.abs().sum(dim + 1)}[kind]
    if not clear:
        expected = expected.clamp(min=2) if kind == "max" else expected + 2
    assert torch.equal(found, expected.to(dtype))


@pytest.mark.parametrize("kind", ["max", "min", "absmax", "bitand", "bitor", "bitxor"])
@pytest.mark.parametrize("dim", [0, 1])
def test_truth_values(device, kind, dim):
    generator = torch.Generator().manual_seed(2)
    a = (torch.rand((16, 64), generator=generator) < 0.97).to(device)
    a[3], a[:, 5] = False, True
    found = compiled_for(folded, device)(a, kind, torch.bool, dim - 2 if dim else 0, "fragment", "fragment")
    every, some, odd = a.all(dim), a.any(dim), a.sum(dim) % 2 == 1
    expected = {"max": some, "absmax": some, "bitor": some, "min": every, "bitand": every, "bitxor": odd}
    assert torch.equal(found, expected[kind])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint64])
def test_all_bits_of_unsigned_integers(device, dtype):
    a = torch.full((16, 64), torch.iinfo(dtype).max, dtype=dtype, device=device)
    found = compiled_for(folded, device)(a, "bitand", dtype, 1, "fragment", "fragment")
    assert torch.equal(found.view(torch.uint8), torch.full_like(found.view(torch.uint8), 255))


@tilelang.jit
def reduced_truth(A, op: str):
    A: T.Tensor((16, 64), "bool")
    R = T.empty((64,), "bool")
    with T.Kernel(1, threads=128):
        fold = T.alloc_reducer((64,), "bool", op=op)
        out = T.alloc_fragment((64,), "bool")
        T.reducer_init(fold)
        for i, j in T.Parallel(16, 64):
            T.reducer_update(fold[j], A[i, j])
        T.finalize_reducer(fold, out)
        T.copy(out, R)
    return R


@pytest.mark.parametrize("op", ["max", "min", "bitxor"])
def test_reducers_of_truth_values(device, op):
    a = (torch.rand((16, 64), generator=torch.Generator().manual_seed(3)) < 0.9).to(device)
    expected = {"max": a.any(0), "min": a.all(0), "bitxor": a.sum(0) % 2 == 1}[op]
    assert torch.equal(compiled_for(reduced_truth, device)(a, op), expected)


@pytest.mark.parametrize(
    ("op", "dtype", "said"),
    [("bitand", "float32", "the bits of integers and bool"), ("sum", "bool", "adds numbers, not bool")],
)
def test_reducers_that_no_dtype_has(device, op, dtype, said):
    with pytest.raises(KernelError, match=said):
        compiled_for(reducers, device).compile(M=4, N=4, op=op, dtype=dtype, old=False, parts=1)
