"""Forms that the examples do not show, against torch on both devices: operands, stages, attention."""

import enum
from dataclasses import dataclass

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES, compiled_for, random

pytestmark = pytest.mark.parametrize("device", DEVICES)


@tilelang.jit
def gemm(
    A,
    B,
    trans_a: bool,
    trans_b: bool,
    a_scope: str,
    dtype,
    accum,
    policy,
    threads: int,
    stages: int,
    blocks: tuple,
):
    M, N, K = T.const("M, N, K")
    block_M, block_N, block_K = blocks
    A: T.Tensor((K, M) if trans_a else (M, K), dtype)
    B: T.Tensor((N, K) if trans_b else (K, N), dtype)
    C = T.empty((M, N), accum)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_K, block_M) if trans_a else (block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_N, block_K) if trans_b else (block_K, block_N), dtype)
        A_local = T.alloc_fragment((block_K, block_M) if trans_a else (block_M, block_K), dtype)
        acc = T.alloc_fragment((block_M, block_N), accum)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            if trans_a:
                T.copy(A[k * block_K, by * block_M], A_shared)
            else:
                T.copy(A[by * block_M, k * block_K], A_shared)
            if trans_b:
                T.copy(B[bx * block_N, k * block_K], B_shared)
            else:
                T.copy(B[k * block_K, bx * block_N], B_shared)
            if a_scope == "fragment":
                T.copy(A_shared, A_local)
                T.gemm(A_local, B_shared, acc, trans_a, trans_b, policy=policy, clear_accum=k == 0)
            else:
                T.gemm(A_shared, B_shared, acc, trans_a, trans_b, policy=policy, clear_accum=k == 0)
        T.copy(acc, C[by * block_M, bx * block_N])
    return C


def check_gemm(device, *, trans_a=False, trans_b=False, a_scope="shared", dtype=torch.float16, policy=None,
               threads=128, stages=2, blocks=(64, 64, 32), shape=(128, 192, 160)):  # fmt: skip
    m, n, k = shape
    integer = dtype is torch.int8
    accum = torch.int32 if integer else torch.float32
    a = random(*((k, m) if trans_a else (m, k)), dtype=dtype, device=device)
    b = random(*((n, k) if trans_b else (k, n)), dtype=dtype, device=device, seed=1)
    run = compiled_for(gemm, device)
    found = run(
        a, b, trans_a=trans_a, trans_b=trans_b, a_scope=a_scope, dtype=dtype, accum=accum,
        policy=policy or T.GemmWarpPolicy.Square, threads=threads, stages=stages, blocks=blocks,
    )  # fmt: skip
    left = (a.T if trans_a else a).double().cpu()
    right = (b.T if trans_b else b).double().cpu()
    # TF32 keeps 10 bits of each factor; f16 and bf16 products are exact in the f32 accumulator.
    tolerance = 0 if integer else 4e-3 if dtype is torch.float32 else 1e-4
    expected = left @ right
    assert (found.double().cpu() - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int8])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
def test_transposes_in_every_dtype(device, trans_a, trans_b, dtype):
    check_gemm(device, trans_a=trans_a, trans_b=trans_b, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int8])
def test_left_operand_in_registers(device, dtype):
    check_gemm(device, a_scope="fragment", dtype=dtype)
    check_gemm(device, a_scope="fragment", dtype=dtype, trans_b=True)


@pytest.mark.parametrize(
    "policy", [T.GemmWarpPolicy.Square, T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol]
)
@pytest.mark.parametrize("threads", [32, 64, 128, 256])
def test_warp_partitions(device, threads, policy):
    check_gemm(device, threads=threads, policy=policy, blocks=(128, 64, 32))


@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("k", [16, 32, 40, 320])
def test_stages_against_trip_counts(device, stages, k):
    check_gemm(device, stages=stages, shape=(64, 64, k))


@pytest.mark.parametrize("shape", [(1, 1, 1), (65, 67, 33), (100, 63, 72), (31, 200, 8)])
def test_rows_that_are_not_aligned(device, shape):
    check_gemm(device, shape=shape)
    check_gemm(device, shape=shape, trans_b=True, dtype=torch.bfloat16)


@tilelang.jit(out_idx=[3])
def attention(heads, length, dim, causal, block_M=64, block_N=32, stages=2, threads=128):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape = [length, heads, dim]

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        Output: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, threads=threads) as (bx, by):
            Q_shared = T.alloc_shared([block_M, dim], "float16")
            K_shared = T.alloc_shared([block_N, dim], "float16")
            V_shared = T.alloc_shared([block_N, dim], "float16")
            scores = T.alloc_fragment([block_M, block_N], "float32")
            weights = T.alloc_fragment([block_M, block_N], "float16")
            out = T.alloc_fragment([block_M, dim], "float32")
            top = T.alloc_fragment([block_M], "float32")
            top_before = T.alloc_fragment([block_M], "float32")
            shrink = T.alloc_fragment([block_M], "float32")
            row_sum = T.alloc_fragment([block_M], "float32")
            total = T.alloc_fragment([block_M], "float32")

            T.copy(Q[bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            blocks = (
                T.ceildiv(T.min((bx + 1) * block_M, length), block_N)
                if causal
                else T.ceildiv(length, block_N)
            )
            for k in T.Pipelined(blocks, num_stages=stages):
                T.copy(K[k * block_N : (k + 1) * block_N, by, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    hidden = k * block_N + j >= length
                    if causal:
                        hidden = hidden or k * block_N + j > bx * block_M + i
                    scores[i, j] = T.if_then_else(hidden, -T.infinity("float32"), 0)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, top_before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    shrink[i] = T.exp2(top_before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * shrink[i] + row_sum[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= shrink[i]
                T.copy(V[k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= total[i]
            T.copy(out, Output[bx * block_M : (bx + 1) * block_M, by, :])

    return main


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [128, 200])
@pytest.mark.parametrize("stages", [1, 2])
def test_attention(device, causal, length, stages):
    heads, dim = 2, 64
    q, k, v = (random(length, heads, dim, dtype=torch.float16, device=device, seed=s) for s in range(3))
    found = compiled_for(attention, device)(heads, length, dim, causal, stages=stages)(q, k, v)
    scores = torch.einsum("qhd,khd->hqk", q.double(), k.double()) / dim**0.5
    if causal:
        scores = scores.masked_fill(
            torch.ones(length, length, dtype=torch.bool, device=device).triu(1), float("-inf")
        )
    expected = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v.double())
    torch.testing.assert_close(found.double(), expected, rtol=5e-3, atol=5e-3)


@tilelang.jit
def rounding(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = (A[bx * 128 + i] + 1e8) - 1e8 + A[bx * 128 + i] * 0
    return B


def test_floats_are_no_reals(device):
    """What algebra would simplify away: a sum that rounds, and zero times infinity or NaN."""
    a = torch.tensor([1.25, -3.0, float("inf"), float("nan")] * 50, device=device)
    torch.testing.assert_close(compiled_for(rounding, device)(a), (a + 1e8) - 1e8 + a * 0, equal_nan=True)


class Fold(enum.Enum):
    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True)
class Options:
    fold: Fold = Fold.SUM
    block: int = 64


@tilelang.jit
def compared_conditions(X, options: Options):
    N = T.const("N")
    X: T.Tensor((N,), "int32")
    Y = T.empty((N,), "int32")
    match options:
        case Options(Fold.SUM, block=64):
            other = 3
        case Options(fold=Fold.MAX):
            other = 4
        case _:
            other = 5
    with T.Kernel(T.ceildiv(N, options.block), threads=64) as b:
        for i in T.Parallel(options.block):
            odd = X[b * options.block + i] % 2 == 1
            late = T.if_then_else(odd != (i > 48), 2, other)
            Y[b * options.block + i] = T.if_then_else(odd == (i < 32), 1, late)
    return Y


def test_conditions_are_compared_and_options_matched(device):
    x = torch.randint(0, 9, (128,), dtype=torch.int32, device=device)
    i = torch.arange(128, device=device) % 64
    odd = x % 2 == 1
    for fold, other in zip(Fold, (3, 4), strict=True):
        found = compiled_for(compared_conditions, device)(x, Options(fold))
        expected = torch.where(odd == (i < 32), 1, torch.where(odd != (i > 48), 2, other))
        assert torch.equal(found, expected.to(torch.int32))


@tilelang.jit
def same_memory(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float16")
    B = T.empty((M, N), "float16")
    with T.Kernel(T.ceildiv(M * N, 64), threads=64) as b:
        flat = T.Tensor((M * N,), "float16", A.data)
        out = T.Tensor((M * N,), "float16", data=B.data)
        tile = T.alloc_shared((64,), "float16")
        T.copy(flat[b * 64], tile)
        for i in T.Parallel(64):
            if b * 64 + i < M * N:
                out[b * 64 + i] = tile[i] + 1
    return B


def test_a_tensor_made_of_the_memory_of_another(device):
    a = random(7, 30, dtype=torch.float16, device=device)
    assert torch.equal(compiled_for(same_memory, device)(a), a + 1)
