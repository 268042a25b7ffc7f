"""FlashAttention, forward: softmax(Q K^T) V with one pass over K and V and no score matrix in memory.

Teaches: the online softmax (a running maximum that rescales what was summed), two gemms that hand a fragment
to each other, grouped-query heads, causal masks, and sequences of any length.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634  # exp(x) = exp2(x * LOG2_E), and exp2 is the cheapest exponential


@tilelang.jit
def flash_attention(
    Q,
    K,
    V,
    causal: bool = False,
    block_M: int = 64,
    block_N: int = 64,
    num_stages: int = 2,
    threads: int = 128,
    dtype=T.float16,
):
    batch, seq_q, heads, dim = T.const("batch, seq_q, heads, dim")
    seq_kv, heads_kv = T.const("seq_kv, heads_kv")
    Q: T.Tensor((batch, seq_q, heads, dim), dtype)
    K: T.Tensor((batch, seq_kv, heads_kv, dim), dtype)
    V: T.Tensor((batch, seq_kv, heads_kv, dim), dtype)
    Out = T.empty((batch, seq_q, heads, dim), dtype)

    scale = dim**-0.5 * LOG2_E
    group = heads // heads_kv  # query heads that share a head of K and V
    past = seq_kv - seq_q  # the queries are the last ones of the sequence

    with T.Kernel(T.ceildiv(seq_q, block_M), heads, batch, threads=threads) as (bx, head, b):
        q = T.alloc_shared((block_M, dim), dtype)
        k = T.alloc_shared((block_N, dim), dtype)
        v = T.alloc_shared((block_N, dim), dtype)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), dtype)
        out = T.alloc_fragment((block_M, dim), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        top_before = T.alloc_fragment((block_M,), T.float32)
        shrink = T.alloc_fragment((block_M,), T.float32)
        tile_sum = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)

        T.copy(Q[b, bx * block_M : (bx + 1) * block_M, head, :], q)
        T.clear(out)
        T.clear(total)
        T.fill(top, -T.infinity(T.float32))

        # Under a causal mask, tiles beyond the last row's own position hold nothing for this block.
        last = (bx + 1) * block_M + past
        tiles = T.ceildiv(T.min(last, seq_kv), block_N) if causal else T.ceildiv(seq_kv, block_N)
        for t in T.Pipelined(tiles, num_stages=num_stages):
            T.copy(K[b, t * block_N : (t + 1) * block_N, head // group, :], k)
            for i, j in T.Parallel(block_M, block_N):
                column = t * block_N + j
                seen = (column < seq_kv) & (column <= bx * block_M + i + past) if causal else column < seq_kv
                scores[i, j] = T.if_then_else(seen, 0, -T.infinity(T.float32))
            T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

            T.copy(top, top_before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_M):
                # A row that sees nothing yet has no maximum: exp2(-inf - -inf) would be NaN.
                top[i] = T.max(top[i], -1e30)
                shrink[i] = T.exp2((top_before[i] - top[i]) * scale)
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
            T.reduce_sum(scores, tile_sum, dim=1)
            for i in T.Parallel(block_M):
                total[i] = total[i] * shrink[i] + tile_sum[i]
            for i, j in T.Parallel(block_M, dim):
                out[i, j] *= shrink[i]

            T.copy(scores, weights)
            T.copy(V[b, t * block_N : (t + 1) * block_N, head // group, :], v)
            T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)

        for i, j in T.Parallel(block_M, dim):
            out[i, j] /= total[i]
        T.copy(out, Out[b, bx * block_M : (bx + 1) * block_M, head, :])

    return Out


def ref_program(Q, K, V, causal=False):
    q, k, v = (x.transpose(1, 2).float() for x in (Q, K, V))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    mask = None
    if causal:
        ones = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
        mask = ones.tril(k.shape[2] - q.shape[2])
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return out.transpose(1, 2).to(Q.dtype)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, seq, heads, heads_kv, dim = (2, 4096, 32, 8, 128) if device == "cuda" else (2, 300, 4, 2, 64)
    q = torch.randn(batch, seq, heads, dim, dtype=torch.float16, device=device)
    k = torch.randn(batch, seq, heads_kv, dim, dtype=torch.float16, device=device)
    v = torch.randn(batch, seq, heads_kv, dim, dtype=torch.float16, device=device)

    for causal in (False, True):
        found = flash_attention(q, k, v, causal=causal)
        torch.testing.assert_close(found, ref_program(q, k, v, causal), rtol=5e-3, atol=5e-3)

    latency = flash_attention.compile(q, k, v, causal=True).get_profiler().do_bench()
    flops = 2 * batch * heads * seq * seq * dim  # half of 4 * ..., since half of the scores are masked
    print(f"flash_attention {tuple(q.shape)} on {device}: correct, {flops / latency / 1e6:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
