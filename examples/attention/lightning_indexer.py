"""Scores of a lightning indexer: which keys a query should look at, from cheap products of many small heads.

Teaches: FP8 operands with a scale per key, a fragment seen under another shape to reduce over heads, and a
range of keys that is found at run time in scalar variables.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def indexer_scores(
    Q,
    K,
    Scales,
    Weights,
    First,
    Last,
    block_Q: int = 4,
    block_N: int = 128,
    num_stages: int = 2,
    threads: int = 256,
    dtype=T.float8_e4m3fn,
):
    seq_q, heads, dim, seq_kv = T.const("seq_q, heads, dim, seq_kv")
    Q: T.Tensor((seq_q, heads, dim), dtype)
    K: T.Tensor((seq_kv, dim), dtype)
    Scales: T.Tensor((seq_kv,), T.float32)  # of the keys
    Weights: T.Tensor((seq_q, heads), T.float32)  # how much a head counts for a query
    First: T.Tensor((seq_q,), T.int32)  # query i scores keys First[i] to Last[i] - 1
    Last: T.Tensor((seq_q,), T.int32)
    Scores = T.empty((seq_q, seq_kv), T.float32)

    with T.Kernel(T.ceildiv(seq_q, block_Q), threads=threads) as bx:
        q = T.alloc_shared((block_Q * heads, dim), dtype)
        k = T.alloc_shared((block_N, dim), dtype)
        scales = T.alloc_fragment((block_N,), T.float32)
        weights = T.alloc_fragment((block_Q, heads), T.float32)
        products = T.alloc_fragment((block_N, block_Q * heads), T.float32)
        by_head = T.reshape(products, (block_N, block_Q, heads))
        scores = T.alloc_fragment((block_N, block_Q), T.float32)
        begin = T.alloc_var(T.int32, init=2147483647)
        end = T.alloc_var(T.int32, init=0)

        for i in T.serial(block_Q):
            if bx * block_Q + i < seq_q:
                begin = T.min(begin, First[bx * block_Q + i])
                end = T.max(end, T.min(Last[bx * block_Q + i], seq_kv))

        for i, j in T.Parallel(block_Q * heads, dim):
            row = bx * block_Q + i // heads
            q[i, j] = T.if_then_else(row < seq_q, Q[row, i % heads, j], 0)
        T.copy(Weights[bx * block_Q : (bx + 1) * block_Q, :], weights)

        for t in T.Pipelined(T.ceildiv(end - begin, block_N), num_stages=num_stages):
            start = begin + t * block_N
            T.copy(K[start : start + block_N, :], k)
            T.copy(Scales[start : start + block_N], scales)
            T.gemm(k, q, products, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            for n, i, h in T.Parallel(block_N, block_Q, heads):
                by_head[n, i, h] = T.max(by_head[n, i, h], 0) * weights[i, h]
            T.reduce_sum(by_head, scores, dim=-1)
            for i, n in T.Parallel(block_Q, block_N):
                row, column = bx * block_Q + i, start + n
                if (row < seq_q) & (column < seq_kv):
                    Scores[row, column] = scores[n, i] * scales[n]

    return Scores


@tilelang.jit
def hide_unscored(Scores, First, Last, block_N: int = 1024, threads: int = 256):
    """Minus infinity outside of each query's range, in place."""
    seq_q, seq_kv = T.const("seq_q, seq_kv")
    Scores: T.Tensor((seq_q, seq_kv), T.float32)
    First: T.Tensor((seq_q,), T.int32)
    Last: T.Tensor((seq_q,), T.int32)

    with T.Kernel(T.ceildiv(seq_kv, block_N), seq_q, threads=threads) as (bx, row):
        for j in T.Parallel(block_N):
            column = bx * block_N + j
            if (column < First[row]) | (column >= Last[row]):
                Scores[row, column] = -T.infinity(T.float32)


def ref_program(Q, K, Scales, Weights, First, Last):
    products = torch.einsum("qhd,kd->qhk", Q.float(), K.float()).relu()
    scores = torch.einsum("qhk,qh->qk", products, Weights) * Scales
    places = torch.arange(K.shape[0], device=K.device)
    seen = (places >= First[:, None]) & (places < Last[:, None])
    return scores.masked_fill(~seen, float("-inf"))


def inputs(seq: int, heads: int, dim: int, device: str = "cpu"):
    """Queries over all keys up to their own, keys quantised row by row."""
    q = torch.randn(seq, heads, dim, device=device).to(torch.float8_e4m3fn)
    keys = torch.randn(seq, dim, device=device)
    scales = keys.abs().amax(-1) / 448
    k = (keys / scales[:, None]).to(torch.float8_e4m3fn)
    weights = torch.randn(seq, heads, device=device) * heads**-0.5
    last = torch.arange(1, seq + 1, dtype=torch.int32, device=device)
    return q, k, scales, weights, torch.zeros_like(last), last


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    seq, heads, dim = (4096, 32, 128) if device == "cuda" else (70, 8, 32)
    given = inputs(seq, heads, dim, device)

    found = indexer_scores(*given)
    hide_unscored(found, *given[-2:])
    torch.testing.assert_close(found, ref_program(*given), rtol=2e-2, atol=2e-2)

    latency = indexer_scores.compile(*given).get_profiler().do_bench(input_tensors=list(given))
    flops = seq * seq * heads * dim
    print(f"indexer_scores of {seq} queries on {device}: correct, {flops / latency / 1e9:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
