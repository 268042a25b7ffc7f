"""FlashAttention, forward, as one would deploy it: [batch, heads, seq, dim], tiles of 128, and the log-sums.

Teaches: a lazy factory with macros, tiles that need no mask in a loop of their own (the diagonal ones follow
in a second pipeline over the same shared memory), and logits scaled inside exp2 by a fused multiply-add.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[3, 4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def flash_attention_bhsd(
    batch: int,
    heads: int,
    heads_kv: int,
    seq_q: int,
    seq_kv: int,
    dim: int,
    causal: bool = False,
    block_M: int = 128,
    block_N: int = 128,
    num_stages: int = 2,
    threads: int = 256,
    dtype=T.bfloat16,
):
    scale = dim**-0.5 * LOG2_E
    group = heads // heads_kv
    past = seq_kv - seq_q

    @T.prim_func
    def flash_attention_kernel(
        Q: T.Tensor((batch, heads, seq_q, dim), dtype),
        K: T.Tensor((batch, heads_kv, seq_kv, dim), dtype),
        V: T.Tensor((batch, heads_kv, seq_kv, dim), dtype),
        Out: T.Tensor((batch, heads, seq_q, dim), dtype),
        LogSum: T.Tensor((batch, heads, seq_q), T.float32),  # natural logarithm of the sums, for a backward
    ):
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

            @T.macro
            def soften():
                """Scores to weights; what was summed so far shrinks to the new maximum."""
                T.copy(top, top_before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    top[i] = T.max(top[i], -1e30)  # a row that sees nothing yet
                    shrink[i] = T.exp2((top_before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, tile_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * shrink[i] + tile_sum[i]
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= shrink[i]

            @T.macro
            def attend(t, masked):
                T.copy(K[b, head // group, t * block_N : (t + 1) * block_N, :], k)
                if masked:  # decided while compiling: two bodies
                    for i, j in T.Parallel(block_M, block_N):
                        column = t * block_N + j
                        seen = column < seq_kv
                        if causal:
                            seen = (column < seq_kv) & (column <= bx * block_M + i + past)
                        scores[i, j] = T.if_then_else(seen, 0, -T.infinity(T.float32))
                else:
                    T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                soften()
                T.copy(scores, weights)
                T.copy(V[b, head // group, t * block_N : (t + 1) * block_N, :], v)
                T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)

            T.copy(Q[b, head, bx * block_M : (bx + 1) * block_M, :], q)
            T.clear(out)
            T.clear(total)
            T.fill(top, -T.infinity(T.float32))

            # Every row of the block sees the first `whole` tiles completely.
            first_row = bx * block_M + past
            last_row = first_row + block_M - 1
            tiles = T.ceildiv(T.min(last_row + 1, seq_kv), block_N) if causal else T.ceildiv(seq_kv, block_N)
            whole = T.max(T.min(first_row + 1, seq_kv), 0) // block_N if causal else seq_kv // block_N
            for t in T.Pipelined(whole, num_stages=num_stages):
                attend(t, False)
            for t in T.Pipelined(whole, tiles, num_stages=num_stages):
                attend(t, True)

            for i, j in T.Parallel(block_M, dim):
                out[i, j] = T.if_then_else(total[i] > 0, out[i, j] / total[i], 0)
            T.copy(out, Out[b, head, bx * block_M : (bx + 1) * block_M, :])
            for i in T.Parallel(block_M):
                total[i] = (T.log2(total[i]) + top[i] * scale) / LOG2_E
            T.copy(total, LogSum[b, head, bx * block_M : (bx + 1) * block_M])

    return flash_attention_kernel


def ref_program(Q, K, V, causal=False):
    """(output, logarithm of the sums)."""
    q, k, v = (x.float() for x in (Q, K, V))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(hidden.triu(k.shape[2] - q.shape[2] + 1), float("-inf"))
    return (torch.softmax(scores, -1) @ v).to(Q.dtype), torch.logsumexp(scores, -1)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, heads, heads_kv, seq, dim = (2, 32, 8, 4096, 128) if device == "cuda" else (1, 2, 1, 300, 64)
    q = torch.randn(batch, heads, seq, dim, dtype=torch.bfloat16, device=device)
    k, v = (torch.randn(batch, heads_kv, seq, dim, dtype=torch.bfloat16, device=device) for _ in range(2))

    for causal in (False, True):
        kernel = flash_attention_bhsd(batch, heads, heads_kv, seq, seq, dim, causal)
        out, log_sum = kernel(q, k, v)
        for b in range(batch):  # one sequence at a time: the reference keeps all scores
            expected, expected_sum = ref_program(q[b : b + 1], k[b : b + 1], v[b : b + 1], causal)
            torch.testing.assert_close(out[b : b + 1], expected, rtol=2e-2, atol=2e-2)
            torch.testing.assert_close(log_sum[b : b + 1], expected_sum, rtol=1e-3, atol=1e-3)
        latency = kernel.get_profiler().do_bench()
        flops = 4 * batch * heads * seq * seq * dim / (2 if causal else 1)
        print(
            f"flash_attention_bhsd {tuple(q.shape)} {causal=} on {device}: correct, "
            f"{flops / latency / 1e9:.3f} TFLOP/s"
        )


if __name__ == "__main__":
    main()
