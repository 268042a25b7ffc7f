"""Ways to write copies and loops: slices, more dimensions, strides, conditions, private arrays, thread
shapes.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch

from tests.cuda.kernels import lower_example, lower_text, random, run_text
from tests.cuda.test_emulated import close
from tests.emulator.block import run
from tests.emulator.memory import numpy_dtype, poison


def test_slices_on_both_sides(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def slices(A):
    A: T.Tensor((3, 40, 50), "float16")
    B = T.empty((32, 64), "float16")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((2, 32, 64), "float16")
        t = T.alloc_shared((32, 64), "float16")
        T.clear(s)
        T.copy(A[2, 4:36, 8:50], s[1, 0:32, 16:58])
        T.copy(s[1, 0:32, 0:64], t)
        T.copy(t, B)
    return B
"""
    a, b = random(rng, (3, 40, 50), "float16"), poison((32, 64), "float16")
    run_text(text, {"A": a, "B": b})
    want = np.zeros((32, 64), np.float16)
    want[:, 16:58] = a[2, 4:36, 8:50]
    assert np.array_equal(b, want)


def test_batched_gemm_over_a_third_dimension(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def batched(A, B):
    N = T.const("N")
    A: T.Tensor((2, N, 64), "float16")
    B: T.Tensor((2, 64, 32), "float16")
    C = T.empty((2, N, 32), "float32")
    with T.Kernel(T.ceildiv(N, 32), 2, threads=64) as (bx, bz):
        a = T.alloc_shared((32, 32), "float16")
        b = T.alloc_shared((32, 32), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[bz, bx * 32, k * 32], a)
            T.copy(B[bz, k * 32, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C[bz, bx * 32, 0])
    return C
"""
    a, b = random(rng, (2, 50, 64), "float16"), random(rng, (2, 64, 32), "float16")
    c = poison((2, 50, 32), "float32")
    run_text(text, {"A": a, "B": b, "C": c}, N=50)
    close(c, a.astype(np.float32) @ b.astype(np.float32), 1e-3)


def test_strided_tensors(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def rows(A):
    A: T.StridedTensor((20, 24), (32, 1), "float32")
    B = T.empty((20, 24), "float32")
    with T.Kernel(1, threads=32):
        for i, j in T.Parallel(20, 24):
            B[i, j] = A[i, j] + 1
    return B
"""
    a, b = random(rng, (20, 32), "float32"), poison((20, 24), "float32")
    run_text(text, {"A": a, "B": b})
    assert np.array_equal(b, a[:, :24] + 1)


def test_a_pipeline_that_does_not_begin_at_zero(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def tail(A, first: int = 2):
    N = T.const("N")
    A: T.Tensor((N, 64), "float32")
    B = T.empty((64,), "float32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((1, 64), "float32")
        total = T.alloc_fragment((64,), "float32")
        T.clear(total)
        for k in T.Pipelined(first, N, num_stages=3):
            T.copy(A[k, 0], s)
            for i in T.Parallel(64):
                total[i] += s[0, i]
        T.copy(total, B)
    return B
"""
    a, b = random(rng, (7, 64), "float32"), poison(64, "float32")
    run_text(text, {"A": a, "B": b}, N=7)
    close(b, a[2:].sum(axis=0), 1e-5)


def test_conditions_inside_parallel_loops(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def causal(A):
    N = T.const("N")
    A: T.Tensor((N, N), "float32")
    B = T.empty((N, N), "float32")
    with T.Kernel(T.ceildiv(N, 16), threads=64) as bx:
        f = T.alloc_fragment((16, 64), "float32")
        for i, j in T.Parallel(16, 64):
            f[i, j] = T.if_then_else(bx * 16 + i >= j, A[bx * 16 + i, j], -1.0)
        for i, j in T.Parallel(16, 64):
            if j % 2 == 0:
                f[i, j] = f[i, j] * 2
            else:
                f[i, j] = f[i, j] - 1
        T.copy(f, B[bx * 16, 0])
    return B
"""
    n = 60
    a, b = random(rng, (n, n), "float32"), poison((n, n), "float32")
    run_text(text, {"A": a, "B": b}, N=n)
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    x = np.where(i >= j, a, -1).astype(np.float32)
    assert np.array_equal(b, np.where(j % 2 == 0, x * 2, x - 1))


def test_reads_before_the_beginning_give_zero(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def shifted(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = A[bx * 128 + i - 3]
    return B
"""
    a, b = random(rng, (200,), "float32"), poison(200, "float32")
    run_text(text, {"A": a, "B": b}, N=200)
    assert np.array_equal(b, np.concatenate([np.zeros(3, np.float32), a[:-3]]))


def test_in_place_and_two_stores_in_one_loop(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def update(A, B):
    N = T.const("N")
    A: T.Tensor((N,), "float16")
    B: T.Tensor((N,), "float16")
    C = T.empty((N,), "float16")
    with T.Kernel(T.ceildiv(N, 512), threads=64) as bx:
        for i in T.Parallel(512):
            A[bx * 512 + i] = A[bx * 512 + i] + B[bx * 512 + i]
            C[bx * 512 + i] = A[bx * 512 + i] * 2
    return C
"""
    a, b, c = random(rng, (1000,), "float16"), random(rng, (1000,), "float16"), poison(1000, "float16")
    want = a + b
    run_text(text, {"A": a, "B": b, "C": c}, N=1000)
    assert np.array_equal(a, want) and np.array_equal(c, want * 2)


def test_a_scalar_used_twice_is_read_once(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def square(A, S):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    S: T.Tensor((1,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 256), threads=64) as bx:
        for i in T.Parallel(256):
            x = A[bx * 256 + i]
            y = x * S[0]
            B[bx * 256 + i] = y * y + x
    return B
"""
    a, s, b = random(rng, (1000,), "float32"), np.array([3], np.float32), poison(1000, "float32")
    lowered = lower_text(text, N=1000)
    run(lowered, {"A": a, "S": s, "B": b})
    close(b, (a * 3) ** 2 + a, 1e-5)
    assert "A_vec" in lowered.source.text, "a named value does not keep loads narrow"


@pytest.mark.parametrize("threads", ["(32, 4)", "(8, 4, 2)"])
def test_threads_in_several_dimensions(rng: np.random.Generator, threads: str) -> None:
    text = f"""
@tilelang.jit
def add_one(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 256), threads={threads}) as bx:
        f = T.alloc_fragment((256,), "float32")
        total = T.alloc_fragment((1,), "float32")
        T.copy(A[bx * 256], f)
        T.reduce_sum(f, total, dim=0)
        for i in T.Parallel(256):
            f[i] = f[i] + total[0]
        T.copy(f, B[bx * 256])
    return B
"""
    a, b = random(rng, (512,), "float32"), poison(512, "float32")
    run_text(text, {"A": a, "B": b}, N=512)
    blocks = a.reshape(2, 256)
    close(b, (blocks + blocks.sum(axis=1, keepdims=True)).ravel(), 1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bfloat16", "float64"])
def test_elementwise_dtypes(rng: np.random.Generator, dtype: str) -> None:
    text = """
@tilelang.jit
def add(A, B, dtype="int8"):
    N = T.const("N")
    A: T.Tensor((N,), dtype)
    B: T.Tensor((N,), dtype)
    C = T.empty((N,), dtype)
    with T.Kernel(T.ceildiv(N, 1024), threads=64) as bx:
        for i in T.Parallel(1024):
            C[bx * 1024 + i] = A[bx * 1024 + i] + B[bx * 1024 + i]
    return C
"""
    a, b, c = random(rng, (1504,), dtype), random(rng, (1504,), dtype), poison(1504, dtype)
    run_text(text, {"A": a, "B": b, "C": c}, N=1504, dtype=repr(dtype))
    assert np.array_equal(c, a + b)


def test_private_arrays(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def polynomial(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        c = T.alloc_local((4,), "float32")
        for d in T.serial(4):
            c[d] = d + 1
        for i in T.Parallel(128):
            x = A[bx * 128 + i]
            B[bx * 128 + i] = ((c[3] * x + c[2]) * x + c[1]) * x + c[0]
    return B
"""
    a, b = random(rng, (300,), "float32"), poison(300, "float32")
    run_text(text, {"A": a, "B": b}, N=300)
    close(b, ((4 * a + 3) * a + 2) * a + 1, 1e-5)


def test_shared_tiles_of_a_loop_share_their_bytes(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def two_steps(A):
    A: T.Tensor((64, 64), "float32")
    B = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((64, 64), "float32")
        t = T.alloc_shared((64, 64), "float32")
        f = T.alloc_fragment((64, 64), "float32")
        T.copy(A, s)
        for i, j in T.Parallel(64, 64):
            f[i, j] = s[j, i]
        T.sync_threads()
        T.copy(f, t)
        for i, j in T.Parallel(64, 64):
            B[i, j] = t[63 - i, j]
    return B
"""
    a, b = random(rng, (64, 64), "float32"), poison((64, 64), "float32")
    lowered = lower_text(text)
    run(lowered, {"A": a, "B": b})
    assert np.array_equal(b, a.T[::-1])
    assert lowered.plan.shared_bytes == 64 * 64 * 4


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("n", [24, 23])
def test_scales_of_a_ragged_tile_reach_every_thread_that_multiplies_by_them(
    rng: np.random.Generator, n: int, dtype: str
) -> None:
    """The tile of column scales lies in each warp and in each row of lanes: a guarded wide load fills them
    all.
    """
    text = """
@tilelang.jit
def scaled(A, B, Rows, Columns, dtype: str = "float32"):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float16")
    B: T.Tensor((N, K), "float16")
    Rows: T.Tensor((M,), dtype)
    Columns: T.Tensor((N,), dtype)
    C = T.empty((M, N), "float32")
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=128) as (bx, by):
        a = T.alloc_shared((32, 16), "float16")
        b = T.alloc_shared((32, 16), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        rows = T.alloc_fragment((32,), dtype)
        columns = T.alloc_fragment((32,), dtype)
        T.clear(c)
        for k in T.serial(T.ceildiv(K, 16)):
            T.copy(A[by * 32, k * 16], a)
            T.copy(B[bx * 32, k * 16], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(Rows[by * 32], rows)
        T.copy(Columns[bx * 32], columns)
        for i, j in T.Parallel(32, 32):
            c[i, j] *= T.cast(rows[i], "float32") * T.cast(columns[j], "float32")
        T.copy(c, C[by * 32, bx * 32])
    return C
"""
    m, k = 42, 24
    a, b = random(rng, (m, k), "float16"), random(rng, (n + 32, k), "float16")
    rows, columns = random(rng, (m,), dtype), random(rng, (n + 32,), dtype)
    c = poison((m, n + 32), "float32")
    tensors = {"A": a, "B": b, "Rows": rows, "Columns": columns, "C": c}
    run_text(text, tensors, M=m, N=n + 32, K=k, dtype=repr(dtype))
    scales = rows.astype(np.float32)[:, None] * columns.astype(np.float32)
    close(c, a.astype(np.float32) @ b.astype(np.float32).T * scales, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tensors"),
    [
        ("fp8_channel_scaled", ("A", "B", "A_scales", "B_scales", "C")),
        ("w8a8_epilogue", ("X", "W", "X_scales", "W_scales", "Bias", "Y")),
    ],
)
def test_scaled_products_of_eight_bits_at_sizes_that_no_tile_divides(
    name: str, tensors: tuple[str, ...]
) -> None:
    module = importlib.import_module(f"examples.gemm_variants.{name}")
    torch.manual_seed(0)
    given = module.inputs(50, 72, 144)
    want = module.ref_program(*given)
    arrays = [numpy_of(t) for t in (*given, torch.full_like(want, torch.nan))]
    lowered = lower_example(f"gemm_variants/{name}", "cuda:sm_90", M=50, N=72, K=144)
    run(lowered, dict(zip(tensors, arrays, strict=True)))
    np.testing.assert_allclose(arrays[-1].astype(np.float32), want.float().numpy(), 1.6e-2, 2e-3)


def numpy_of(t: torch.Tensor) -> np.ndarray:
    """The tensor's bits as an array of its dtype, which numpy may know only through ml_dtypes."""
    return t.view(torch.uint8).numpy().view(numpy_dtype(str(t.dtype).removeprefix("torch.")))


OWN = """
@tilelang.jit
def k(A, B):
    A: T.Tensor((N, 12), "float16")
    B: T.Tensor((N, 12), "float16")
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        own = T.alloc_local((2, 4), "float16")
        T.copy(A[t, 0:4], own[0, :])
        T.copy(A[t, 4:8], own[1, :])
        T.fill(own[1, 1:3], 7)
        T.copy(own[1, :], B[t, 4:8])
        T.copy(own[0, 0:3], B[t, 9:12])
"""


def test_what_a_thread_copies_for_itself_is_moved_at_once() -> None:
    lowered = lower_text(OWN.replace("N", "60"))
    a, b = np.arange(720).reshape(60, 12).astype("float16"), np.zeros((60, 12), "float16")
    want = b.copy()
    want[:, 4:8], want[:, 5:7], want[:, 9:] = a[:, 4:8], 7, a[:, :3]
    run(lowered, {"A": a, "B": b})
    np.testing.assert_array_equal(b, want)
    text = lowered.source.text
    assert text.count("*(const uint2*)&A[") == 2 and "*(uint2*)&B[" in text


def test_counts_of_bits(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def bits(A):
    A: T.Tensor((64,), "int32")
    B = T.empty((3, 64), "int32")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        B[0, tx] = T.popcount(A[tx])
        B[1, tx] = T.clz(A[tx])
        B[2, tx] = T.__ffs(A[tx])
    return B
"""
    a, b = rng.integers(-8, 8, 64).astype(np.int32) << 12, poison((3, 64), "int32")
    run_text(text, {"A": a, "B": b})
    words = [int(x) & 0xFFFFFFFF for x in a]
    assert b[0].tolist() == [w.bit_count() for w in words]
    assert b[1].tolist() == [32 - w.bit_length() for w in words]
    assert b[2].tolist() == [(w & -w).bit_length() for w in words]


def test_fast_and_exact_functions(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def functions(A):
    A: T.Tensor((64,), "float32")
    B = T.empty((3, 64), "float32")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        B[0, tx] = T.__exp(A[tx])
        B[1, tx] = T.ieee_fdiv(A[tx], T.float32(3), "rn")
        B[2, tx] = T.hypot(A[tx], T.float32(2))
    return B
"""
    a, b = random(rng, (64,), "float32"), poison((3, 64), "float32")
    run_text(text, {"A": a, "B": b})
    close(b, np.stack([np.exp(a), a / 3, np.hypot(a, 2)]), 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_passes_a_clamp(dtype: str) -> None:
    text = f"""
@tilelang.jit
def bounded(A):
    A: T.Tensor((64,), "{dtype}")
    B = T.empty((64,), "{dtype}")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            B[i] = T.clamp(A[i], -3.0, 4.0)
    return B
"""
    a = (np.arange(64) - 20.0).astype(numpy_dtype(dtype))
    a[::7] = np.nan
    b = poison((64,), dtype)
    run_text(text, {"A": a, "B": b})
    want = torch.clamp(torch.from_numpy(a.astype(np.float64)), -3, 4).numpy()
    assert np.array_equal(b.astype(np.float64), want, equal_nan=True)
