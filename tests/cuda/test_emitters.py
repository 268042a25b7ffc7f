"""T.TensorCoreIntrinEmitter and the instructions it writes, run by the emulator: a product step by step."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import HEAD, random, run_text
from tests.cuda.test_emulated import close
from tests.cuda.test_packed_elements import codes_of, numbers, packed
from tests.emulator.memory import poison
from tilelang import language as T
from tilelang.analysis.check import check_source
from tilelang.cuda.intrinsics import get_ldmatrix_offset, get_swizzle_layout, mma_store_index_map
from tilelang.diagnostics.problem import Severity

PRODUCT = """
@tilelang.jit
def product(A, B, dtype="float16", accum="float32", ta=False, tb=True, bm=64, bn=64, bk=32, rows=2, columns=2,
            swizzled=True, stages=2, first=False, through_shared=True):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if ta else (M, K), dtype)
    B: T.Tensor((N, K) if tb else (K, N), dtype)
    C = T.empty((M, N), accum)
    e = T.TensorCoreIntrinEmitter(
        a_dtype=dtype, b_dtype=dtype, accum_dtype=accum, a_transposed=ta, b_transposed=tb,
        block_row_warps=rows, block_col_warps=columns, warp_row_tiles=bm // rows,
        warp_col_tiles=bn // columns, chunk=bk, is_m_first=first,
    )
    x, y = e.micro_size_x, e.micro_size_y
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=e.threads) as (bx, by):
        a = T.alloc_shared((bk, bm) if ta else (bm, bk), dtype)
        b = T.alloc_shared((bn, bk) if tb else (bk, bn), dtype)
        c = T.alloc_shared((bm // x, bn // y, x, y), accum)
        a_local = T.alloc_local((e.warp_rows * e.local_size_a,), dtype)
        b_local = T.alloc_local((e.warp_cols * e.local_size_b,), dtype)
        c_local = T.alloc_local((e.warp_rows * e.warp_cols * e.local_size_out,), accum)
        if swizzled:
            T.annotate_layout({a: T.make_mma_swizzle_layout(a), b: T.make_mma_swizzle_layout(b)})
        T.clear(c_local)
        for ko in T.Pipelined(K // bk, num_stages=stages):
            if ta:
                T.copy(A[ko * bk, by * bm], a)
            else:
                T.copy(A[by * bm, ko * bk], a)
            if tb:
                T.copy(B[bx * bn, ko * bk], b)
            else:
                T.copy(B[ko * bk, bx * bn], b)
            for ki in T.serial(bk // e.micro_size_k):
                e.ldmatrix_a(a_local, a, ki)
                e.ldmatrix_b(b_local, b, ki)
                e.mma(a_local, b_local, c_local, ki)
        if through_shared:
            e.stmatrix(c_local, c)
            for i, j in T.Parallel(bm, bn):
                C[by * bm + i, bx * bn + j] = c[i // x, j // y, i % x, j % y]
        else:
            e.stmatrix(c_local, C, pid_m=by, pid_n=bx)
    return C
"""
CASES = [
    {"accum": "float16", "bn": 48, "bm": 32, "rows": 1, "columns": 2},
    {"ta": True, "tb": False, "swizzled": False, "through_shared": False, "bm": 32},
    {"tb": False, "bm": 32, "rows": 1, "columns": 4, "first": True, "bk": 64},
    {"dtype": "int8", "accum": "int32", "bk": 64, "bm": 32, "bn": 32},
    {"dtype": "float32", "bk": 16, "bm": 32, "bn": 32, "ta": True, "tb": False, "through_shared": False},
    {"dtype": "float64", "accum": "float64", "bk": 16, "bm": 16, "bn": 16, "swizzled": False},
]
MORE = [
    {},
    {"ta": True, "stages": 0},
    {"dtype": "bfloat16", "bn": 16},
    {"dtype": "int8", "accum": "int32", "ta": True, "tb": False, "stages": 0, "through_shared": False},
    {"dtype": "float8_e4m3fn", "bk": 64, "swizzled": False, "target": "cuda:sm_90"},
    {"dtype": "float32", "bk": 16, "bm": 32},
]


CALLS = {
    "e.ldmatrix_a(a_local, a, ki)",
    "e.ldmatrix_b(b_local, b, ki)",
    "e.mma(a_local, b_local, c_local, ki)",
}


def named(choice):
    return "-".join(f"{k}={v}" for k, v in choice.items()) or "plain"


@pytest.mark.parametrize(
    "choice", [*CASES, *(pytest.param(c, marks=pytest.mark.slow) for c in MORE)], ids=named
)
def test_a_product_step_by_step(choice, rng):
    dtype, accum = choice.get("dtype", "float16"), choice.get("accum", "float32")
    m, n, k = 2 * choice.get("bm", 64), 2 * choice.get("bn", 64), 2 * choice.get("bk", 32)
    a = random(rng, (k, m) if choice.get("ta") else (m, k), dtype)
    b = random(rng, (n, k) if choice.get("tb", True) else (k, n), dtype)
    c = poison((m, n), accum)
    shown = {key: value if key == "target" else repr(value) for key, value in choice.items()}
    run_text(PRODUCT, {"A": a, "B": b, "C": c}, M=m, N=n, K=k, **shown)
    left, right = a.astype(np.float64), b.astype(np.float64)
    want = (left.T if choice.get("ta") else left) @ (right.T if choice.get("tb", True) else right)
    close(c, want, 0.05 if accum == "float16" else 0.01 if dtype == "float32" else 1e-4)


def test_a_product_of_packed_integers(rng):
    """Registers of 4-bit elements, in the emitter for operands that may lie in another order."""
    text = PRODUCT.replace("T.TensorCoreIntrinEmitter(", "T.TensorCoreIntrinEmitterWithLadderTransform(")
    a, b, c = codes_of((32, 256)), codes_of((32, 256)), poison((32, 32), "int32")
    sizes = {"bm": "32", "bn": "32", "bk": "128", "columns": "1"}
    run_text(
        text,
        {"A": packed(a), "B": packed(b), "C": c},
        M=32,
        N=32,
        K=256,
        dtype="'int4'",
        accum="'int32'",
        **sizes,
    )
    assert (c == (numbers("int4", a) @ numbers("int4", b).T).astype(np.int32)).all()


SMALL = """
@tilelang.jit
def small(A, B, shape="m8n8k16", left="int8", right="int8"):
    A: T.Tensor((8, 16), "uint8")
    B: T.Tensor((8, 16), "uint8")
    C = T.empty((8, 8), "int32")
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        a, b, c = T.alloc_local((4,), "uint8"), T.alloc_local((4,), "uint8"), T.alloc_local((2,), "int32")
        T.clear(c)
        for i in T.unroll(4):
            a[i] = A[tx // 4, tx % 4 * 4 + i]
            b[i] = B[tx // 4, tx % 4 * 4 + i]
        T.ptx_mma("int32", shape, "row", "col", left, right, "int32", a.data, 0, b.data, 0, c.data, 0, False)
        for i in T.unroll(2):
            C[tx // 4, tx % 4 * 2 + i] = c[i]
    return C
"""


@pytest.mark.parametrize(
    ("left", "right"), [("int8", "int8"), ("uint8", "int8"), ("int4", "int4"), ("uint4", "int4")]
)
def test_products_of_eight_rows(left, right, rng):
    a, b = rng.integers(0, 256, (2, 8, 16)).astype(np.uint8)
    c = poison((8, 8), "int32")
    shape = "m8n8k16" if left.endswith("8") else "m8n8k32"
    run_text(SMALL, {"A": a, "B": b, "C": c}, shape=repr(shape), left=repr(left), right=repr(right))

    def seen(x, dtype):
        if dtype.endswith("8"):
            return x.view(dtype).astype(np.int64)
        return numbers(dtype, np.stack([x & 15, x >> 4], -1).reshape(8, 32)).astype(np.int64)

    assert (c == seen(a, left) @ seen(b, right).T).all()


LADDER = """
@tilelang.jit
def ladder(A, B, dtype="float16", accum="float32", kinds=(0, 0)):
    e = T.TensorCoreIntrinEmitterWithLadderTransform(
        a_dtype=dtype, b_dtype=dtype, accum_dtype=accum, b_transposed=True, block_row_warps=1,
        block_col_warps=2, warp_row_tiles=32, warp_col_tiles=16, chunk=64,
        transform_kind_a=kinds[0], transform_kind_b=kinds[1],
    )
    mk = e.micro_size_k
    of_a = (2, 64 // mk, 16, mk) if kinds[0] else (32, 64)
    of_b = (2, 64 // mk, 16, mk) if kinds[1] else (32, 64)
    A: T.Tensor(of_a, dtype)
    B: T.Tensor(of_b, dtype)
    C = T.empty((32, 32), accum)
    with T.Kernel(1, threads=64):
        a, b = T.alloc_shared(of_a, dtype), T.alloc_shared(of_b, dtype)
        a_local = T.alloc_local((e.warp_rows * e.local_size_a,), dtype)
        b_local = T.alloc_local((e.warp_cols * e.local_size_b,), dtype)
        c_local = T.alloc_local((e.warp_rows * e.warp_cols * e.local_size_out,), accum)
        T.clear(c_local)
        T.copy(A, a)
        T.copy(B, b)
        for ki in T.serial(64 // mk):
            e.ldmatrix_a(a_local, a, ki)
            e.ldmatrix_b(b_local, b, ki)
            e.mma(a_local, b_local, c_local)
        e.stmatrix(c_local, C)
    return C
"""


def rearranged(x, kind, of_a):
    """[32, 64] as an operand of this kind, by what ldmatrix does (PTX ISA 9.7.15.5.15)."""
    if kind == 0:
        return x
    k, wide = 32 // x.itemsize, 16 // x.itemsize
    tiles = x.reshape(2, 16, 64 // k, k).swapaxes(1, 2)
    if kind == 1:
        return np.ascontiguousarray(tiles)
    # [..., matrix, row, 16 bytes]: those of A go down the rows first, those of B along K first.
    parts = tiles.reshape(2, 64 // k, 2, 8, 2, wide)
    order = (0, 1, 4, 2, 3, 5) if of_a else (0, 1, 2, 4, 3, 5)
    matrices = parts.transpose(order).reshape(2, 64 // k, 4, 8, wide)
    if kind == 3:  # lane 4 r + t holds registers t of row r of each matrix
        matrices = matrices.reshape(2, 64 // k, 4, 32, wide // 4).swapaxes(2, 3)
    return np.ascontiguousarray(matrices).reshape(2, 64 // k, 16, k)


@pytest.mark.parametrize("dtype", ["float16", "int8", "float32"])
@pytest.mark.parametrize("kinds", [(0, 1), (1, 2), (2, 3), (3, 0)])
def test_operands_rearranged_beforehand(dtype, kinds, rng):
    accum = "int32" if dtype == "int8" else "float32"
    a, b = random(rng, (32, 64), dtype), random(rng, (32, 64), dtype)
    c = poison((32, 32), accum)
    given = {"A": rearranged(a, kinds[0], True), "B": rearranged(b, kinds[1], False), "C": c}
    run_text(LADDER, given, dtype=repr(dtype), accum=repr(accum), kinds=repr(kinds))
    close(c, a.astype(np.float64) @ b.astype(np.float64).T, 0.01 if dtype == "float32" else 1e-4)


def test_what_cannot_be_rearranged():
    with pytest.raises(ValueError, match="transform_kind_b=2 rearranges tiles of 16 rows with K innermost"):
        T.TensorCoreIntrinEmitterWithLadderTransform(transform_kind_b=2, warp_row_tiles=16, warp_col_tiles=16)
    with pytest.raises(ValueError, match="transform_kind_a is 0, 1, 2 or 3, not 4"):
        T.TensorCoreIntrinEmitterWithLadderTransform(transform_kind_a=4, warp_row_tiles=16, warp_col_tiles=16)


def test_where_lanes_point_to():
    """All 16 rows of 32 bytes, each half once; the other order of matrices where they are turned over."""
    for matrix, dtype, turned, per in (
        ("A", "float16", False, 8),
        ("B", "float16", True, 8),
        ("A", "int8", False, 16),
        ("B", "int8", True, 16),
    ):
        found = [get_ldmatrix_offset(matrix, lane, 0, 64, dtype, turned) for lane in range(32)]
        assert set(found) == {(row, column) for row in range(16) for column in (0, per)}
        assert found[8] == ((0, per) if turned else (8, 0))
    with pytest.raises(ValueError, match="only for A as"):
        get_ldmatrix_offset("A", 0, 0, 64, "int8", True)


def test_nothing_is_said_of_it_for_a_gpu_and_its_line_for_another_target():
    """Problems of what an emitter writes stand at the author's call of it."""
    text = HEAD + PRODUCT
    for target, rules in (("cuda:sm_80", set()), ("cpu", {"missing-on-target"})):
        found = check_source("kernel.py", text, target).all_problems()
        grave = [p for p in found if p.severity in (Severity.ERROR, Severity.WARNING)]
        assert {p.rule for p in grave} == rules
        lines = {text.split("\n")[p.span.line - 1].strip() for p in grave}
        assert lines == (CALLS if rules else set())


WRONG = """
@tilelang.jit
def k(A, B):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    with T.Kernel(1, threads=32):
        a = T.alloc_shared((64, 64), T.float16)
        r = T.alloc_local((8,), T.float16)
        c = T.alloc_local((8,), T.float32)
        T.copy(A, a)
        T.clear(c)
        T.ptx_ldmatrix(False, 4, T.access_ptr(a[0, 0], "r"), T.access_ptr(r[0], "w"))
        types = "fp16", "fp16", "fp32"
        T.ptx_mma("float32", "m16n8k16", "row", "col", *types, r.data, 0, r.data, 0, c.data, 0)
        B[0, 0] = c[0]
"""


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("False, 4,", "False, 3,", "`num` is 1, 2 or 4 matrices, not 3"),
        ('T.access_ptr(a[0, 0], "r")', "a[0, 0]", "`src_access_ptr` must be an address"),
        ("m16n8k16", "m16n16k16", "there is m16n8k16, m16n8k8"),
        ('"fp16", "fp16", "fp32"', '"fp16", "int8", "fp32"', "multiplies float16 by int8 into float32"),
        ('"row", "col"', '"row", "row"', '`B_layout` is "col"'),
        ("c.data", "a.data", "`accumulator` must be an array of registers"),
    ],
)
def test_what_an_instruction_does_not_take(right, wrong, message):
    assert right in WRONG
    found = check_source("kernel.py", HEAD + WRONG.replace(right, wrong), "cuda:sm_80").all_problems()
    assert any(message in p.message and p.rule == "bad-arguments" for p in found), found
    assert not [
        p
        for p in check_source("kernel.py", HEAD + WRONG, "cuda:sm_80").all_problems()
        if p.severity is Severity.ERROR
    ]


def test_eight_rows_of_a_swizzled_tile_lie_in_different_banks():
    for row_size, dtype, chunk in (
        (32, "float16", 8),
        (64, "float16", 8),
        (128, "int8", 16),
        (16, "float16", 8),
    ):
        places = [get_swizzle_layout(row, 0, row_size, dtype) for row in range(8)]
        row_bytes = row_size * 16 // chunk
        banks = {(row * row_bytes + column * 16 // chunk) // 16 % 8 for _, row, column in places}
        assert len(banks) == 8, (row_size, dtype)
    with pytest.raises(ValueError, match="rows of 20 bytes"):
        get_swizzle_layout(0, 0, 10, "float16")


def test_registers_of_a_result_cover_its_tile_once():
    places = {mma_store_index_map(lane, register) for lane in range(32) for register in range(8)}
    assert places == {(row, column) for row in range(16) for column in range(16)}


def test_a_tile_that_no_instruction_fits():
    with pytest.raises(ValueError, match="warp_row_tiles must be a multiple of 16, not 24"):
        T.TensorCoreIntrinEmitter(warp_row_tiles=24, warp_col_tiles=8)
