"""Tensors and tiles of 4-bit elements on CUDA, in the emulator: two in a byte, the first in its low half."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.test_packed_tensors import VALUES
from tests.cuda.kernels import lower_text
from tests.emit.host_run import needs_clang
from tests.emulator.block import run
from tests.emulator.memory import numpy_dtype, poison
from tilelang.arch.float_formats import FORMATS
from tilelang.diagnostics.error import KernelError
from tilelang.targets.driver import build

RNG = np.random.default_rng(0)


def packed(codes: np.ndarray) -> np.ndarray:
    """Two codes to a byte."""
    return np.ascontiguousarray(codes[..., ::2] | codes[..., 1::2] << 4, np.uint8)


def codes_of(shape: tuple[int, ...]) -> np.ndarray:
    return RNG.integers(0, 16, shape)


def numbers(dtype: str, codes: np.ndarray) -> np.ndarray:
    return np.array(VALUES[dtype], np.float32)[codes]


COPY = """
@tilelang.jit
def k(A, B, dtype=T.int4):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    B: T.Tensor((M, N), dtype)
    with T.Kernel(T.ceildiv(M, 32), threads=64) as bx:
        s = T.alloc_shared((32, N), dtype)
        f = T.alloc_fragment((32, N), dtype)
        T.copy(A[bx * 32, 0], s)
        T.copy(s, f)
        T.copy(f, B[bx * 32, 0])
"""


@pytest.mark.parametrize("shape", [(64, 64), (48, 38), (40, 2)])
def test_copied_as_bytes(shape: tuple[int, int]) -> None:
    lowered = lower_text(COPY, "cuda:sm_90", M=shape[0], N=shape[1], dtype="T.float4_e2m1fn")
    given = packed(codes_of(shape))
    found = poison(given.shape, "uint8")
    run(lowered, {"A": given, "B": found})
    assert (found == given).all()
    if shape == (64, 64):
        assert "*(uint4*)&s[tx * 16] = *(const uint4*)&A[" in lowered.source.text
        assert "store_half" not in lowered.source.text


CONVERT = """
@tilelang.jit
def k(A, B, given=T.int4, made=T.float16):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), given)
    B: T.Tensor((M, N), made)
    with T.Kernel(1, threads=32) as bx:
        s = T.alloc_shared((M, N), given)
        f = T.alloc_fragment((M, N), given)
        g = T.alloc_fragment((M, N), made)
        T.copy(A, s)
        T.copy(s, f)
        for i, j in T.Parallel(M, N):
            g[i, j] = T.cast(f[i, j], made)
        T.copy(g, B)
"""


OTHERS = ["float16", "bfloat16", "float32", "float8_e4m3fn", "int32"]


@pytest.mark.parametrize(
    ("dtype", "other"),
    [
        *(("float4_e2m1fn", o) for o in OTHERS),
        ("int4", "float16"),
        ("int4", "int8"),
        ("uint4", "float8_e5m2"),
    ],
)
def test_converted_exactly(dtype: str, other: str) -> None:
    codes = np.arange(16 * 16).reshape(16, 16) % 16
    lowered = lower_text(CONVERT, "cuda:sm_90", M=16, N=16, given=f"T.{dtype}", made=f"T.{other}")
    found = poison((16, 16), other)
    run(lowered, {"A": packed(codes), "B": found})
    expected = numbers(dtype, codes).astype(numpy_dtype(other)).astype(np.float32)
    if other.startswith("int"):
        expected = np.trunc(expected)
    assert (found.astype(np.float32) == expected).all()


@pytest.mark.parametrize(
    ("dtype", "other"),
    [*(("float4_e2m1fn", o) for o in OTHERS), ("int4", "float16"), ("int4", "int8"), ("uint4", "float32")],
)
def test_converted_back(dtype: str, other: str) -> None:
    given = RNG.uniform(-7.9, 7.9, (16, 16)).astype(np.float32)
    given[0, :8] = [0.25, 0.75, 1.25, 2.5, 3.5, 5.0, -0.25, -5.0]  # halfway
    given = given.astype(numpy_dtype(other))
    lowered = lower_text(CONVERT, "cuda:sm_90", M=16, N=16, given=f"T.{other}", made=f"T.{dtype}")
    found = poison((16, 8), "uint8")
    run(lowered, {"A": given, "B": found})
    if dtype == "float4_e2m1fn":
        encode = np.vectorize(FORMATS[dtype].encode, otypes=[np.uint8])
        expected = encode(given.astype(np.float64))
    else:
        expected = given.astype(np.float32).astype(np.int32) & 15
    assert (found == packed(expected)).all()


TRANSPOSED = """
@tilelang.jit
def k(A, B, dtype=T.int4):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    B: T.Tensor((N, M), dtype)
    with T.Kernel(1, threads=64) as bx:
        s = T.alloc_shared((N, M + 1), dtype)
        for i, j in T.Parallel(M, N):
            s[j, i] = A[i, j]
        for j, i in T.Parallel(N, M):
            B[j, i] = s[j, i]
"""


@pytest.mark.parametrize("dtype", sorted(VALUES))
def test_halves_of_a_byte_written_by_different_threads(dtype: str) -> None:
    codes = codes_of((6, 10))
    lowered = lower_text(TRANSPOSED, "cuda:sm_80", M=6, N=10, dtype=f"T.{dtype}")
    found = poison((10, 3), "uint8")
    run(lowered, {"A": packed(codes), "B": found})
    assert (found == packed(codes.T)).all()
    assert "store_half(&s[" in lowered.source.text


ARITHMETIC = """
@tilelang.jit
def k(A, B, C, dtype=T.int4):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    B: T.Tensor((M, N), dtype)
    C: T.Tensor((M,), T.int32)
    with T.Kernel(1, threads=32) as bx:
        f = T.alloc_fragment((M, N), dtype)
        wide = T.alloc_fragment((M, N), T.int32)
        total = T.alloc_fragment((M,), T.int32)
        few = T.alloc_local((3,), dtype)
        one = T.alloc_var(dtype, 5)
        T.copy(A, f)
        for i, j in T.Parallel(M, N):
            wide[i, j] = f[i, j]
            f[i, j] = T.if_then_else(f[i, j] > 2, f[i, j] - 1, T.cast(3, dtype))
        T.reduce_sum(wide, total)
        T.copy(total, C)
        for k in T.serial(3):
            few[k] = k
        one = few[2] + one
        for i, j in T.Parallel(M, N):
            B[i, j] = T.if_then_else(j == 1, one, f[i, j])
"""


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_computed_with(dtype: str) -> None:
    codes = codes_of((8, 24))
    lowered = lower_text(ARITHMETIC, "cuda:sm_80", M=8, N=24, dtype=f"T.{dtype}")
    found, total = poison((8, 12), "uint8"), poison((8,), "int32")
    run(lowered, {"A": packed(codes), "B": found, "C": total})
    values = numbers(dtype, codes).astype(int)
    expected = np.where(values > 2, values - 1, 3)
    expected[:, 1] = 7
    assert (total == values.sum(1)).all()
    assert (found == packed(expected & 15)).all()


GEMM = """
@tilelang.jit
def k(A, B, S, C, dtype=T.int4):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), dtype)
    S: T.Tensor((N, K // 32), T.float16)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=64) as (bx, by):
        a = T.alloc_shared((32, 32), T.float16)
        stored = T.alloc_shared((32, 32), dtype)
        b = T.alloc_shared((32, 32), T.float16)
        acc = T.alloc_fragment((32, 32), T.float32)
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 32, k * 32], a)
            T.copy(B[bx * 32, k * 32], stored)
            for i, j in T.Parallel(32, 32):
                b[i, j] = T.cast(stored[i, j], T.float16) * S[bx * 32 + i, k]
            T.gemm(a, b, acc, transpose_B=True)
        T.copy(acc, C[by * 32, bx * 32])
"""


@pytest.mark.parametrize("dtype", sorted(VALUES))
def test_multiplied_after_conversion(dtype: str) -> None:
    codes, scales = codes_of((64, 96)), RNG.choice([0.5, 1.0, 2.0], (64, 3)).astype(np.float16)
    a = RNG.normal(size=(40, 96)).astype(np.float16)
    lowered = lower_text(GEMM, "cuda:sm_80", M=40, N=64, K=96, dtype=f"T.{dtype}")
    found = poison((40, 64), "float32")
    run(lowered, {"A": a, "B": packed(codes), "S": scales, "C": found})
    b = numbers(dtype, codes) * np.repeat(scales, 32, 1).astype(np.float32)
    np.testing.assert_allclose(found, a.astype(np.float32) @ b.T, rtol=1e-4, atol=1e-3)
    assert "cp_async_" in lowered.source.text


@pytest.mark.parametrize(
    ("text", "target"),
    [
        pytest.param(GEMM, "cuda:sm_90", id="gemm-cuda"),
        pytest.param(TRANSPOSED, "cuda:sm_80", id="transposed-cuda"),
        pytest.param(GEMM, "hip:gfx942", id="gemm-hip", marks=needs_clang),
        pytest.param(TRANSPOSED, "hip:gfx942", id="transposed-hip", marks=needs_clang),
    ],
)
def test_compiles(text: str, target: str) -> None:
    sizes = {"M": 64, "N": 64, **({"K": 64} if text is GEMM else {})}
    assert build(lower_text(text, target, dtype="T.float4_e2m1fn", **sizes)).binary


ROWS = """
@tilelang.jit
def k(A, B, dtype=T.int4):
    n = T.dynamic("n")
    A: T.Tensor((8, n), dtype)
    B: T.Tensor((8, n), T.float32)
    with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
        s = T.alloc_shared((8, 32), dtype)
        T.copy(A[0, bx * 32], s)
        T.copy(s, B[0, bx * 32])
"""


@pytest.mark.parametrize("n", [32, 38, 64])
def test_rows_of_any_even_length(n: int) -> None:
    codes = codes_of((8, n))
    found = poison((8, n), "float32")
    run(lower_text(ROWS, "cuda:sm_90"), {"A": packed(codes), "B": found}, {"n": n})
    assert (found == numbers("int4", codes)).all()


def test_an_atomic_update_is_refused() -> None:
    text = ROWS.replace("T.copy(s, B[0, bx * 32])", "T.atomic_add(A[0, 0], s[0, 0])")
    with pytest.raises(KernelError, match="int4"):
        lower_text(text, "cuda:sm_90")


PRODUCT = """
@tilelang.jit
def k(A, B, C, dtype=T.int4, other=T.int4, ta=False, tb=True):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if ta else (M, K), dtype)
    B: T.Tensor((N, K) if tb else (K, N), other)
    C: T.Tensor((M, N), T.int32)
    with T.Kernel(1, threads=64) as bx:
        a = T.alloc_shared((64, M) if ta else (M, 64), dtype)
        b = T.alloc_shared((N, 64) if tb else (64, N), other)
        c = T.alloc_fragment((M, N), T.int32)
        T.clear(c)
        for k in T.Pipelined(K // 64, num_stages=2):
            T.copy(A[k * 64, 0] if ta else A[0, k * 64], a)
            T.copy(B[0, k * 64] if tb else B[k * 64, 0], b)
            T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
        T.copy(c, C)
"""


@pytest.mark.parametrize(
    ("dtype", "other", "ta", "tb"),
    [("int4", "int4", False, True), ("uint4", "uint4", False, True), ("int4", "int4", True, False)],
)
def test_multiplied_as_they_are(dtype: str, other: str, ta: bool, tb: bool) -> None:
    a, b = codes_of((32, 128)), codes_of((48, 128))
    choice = {"dtype": f"T.{dtype}", "other": f"T.{other}", "ta": ta, "tb": tb}
    lowered = lower_text(PRODUCT, "cuda:sm_90", M=32, N=48, K=128, **choice)
    found = poison((32, 48), "int32")
    run(lowered, {"A": packed(a.T if ta else a), "B": packed(b if tb else b.T), "C": found})
    assert (found == (numbers(dtype, a) @ numbers(other, b).T).astype(np.int32)).all()
    assert "mma_m16n8k64_" in lowered.source.text
    assert ("ldmatrix_x4(" in lowered.source.text) is tb
    assert build(lowered).binary


CONVERTED = """
@tilelang.jit
def k(A, B, C, dtype=T.float4_e2m1fn):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), dtype)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), threads=128) as bx:
        a = T.alloc_shared((M, 64), T.bfloat16)
        stored = T.alloc_shared((64, 64), dtype)
        held = T.alloc_fragment((64, 64), dtype)
        b = T.alloc_fragment((64, 64), T.bfloat16)
        ready = T.alloc_shared((64, 64), T.bfloat16)
        acc = T.alloc_fragment((M, 64), T.float32)
        T.clear(acc)
        for k in T.Pipelined(K // 64, num_stages=3):
            T.copy(A[0, k * 64], a)
            T.copy(B[bx * 64, k * 64], stored)
            T.copy(stored, held)
            T.copy(held, b)
            T.copy(b, ready)
            T.gemm(a, ready, acc, transpose_B=True)
        T.copy(acc, C[0, bx * 64])
"""


@pytest.mark.parametrize("dtype", ["float4_e2m1fn", "int4"])
def test_copies_convert(dtype: str) -> None:
    """Tile to fragment to another dtype, on wgmma: both numbers of a byte are converted at once."""
    codes = codes_of((128, 192))
    a = RNG.normal(size=(64, 192)).astype(numpy_dtype("bfloat16"))
    lowered = lower_text(CONVERTED, "cuda:sm_90", M=64, N=128, K=192, dtype=f"T.{dtype}")
    found = poison((64, 128), "float32")
    run(lowered, {"A": a, "B": packed(codes), "C": found})
    np.testing.assert_allclose(found, a.astype(np.float32) @ numbers(dtype, codes).T, rtol=1e-4, atol=1e-3)
    assert f"decode_{'float4' if dtype != 'int4' else dtype}x2_bfloat16(" in lowered.source.text
    assert build(lowered).binary
