"""Attention with a sink per head and a sliding window: old tokens fall out of sight, the sink stays.

Teaches: a loop whose first tile depends on the block, a mask from both sides, and an extra logit that only
the denominator sees, added once after the loop.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def attention_sink(
    Q,
    K,
    V,
    Sinks,
    window: int = 0,
    block_M: int = 128,
    block_N: int = 64,
    num_stages: int = 2,
    threads: int = 256,
    dtype=T.bfloat16,
):
    batch, heads, seq_q, dim = T.const("batch, heads, seq_q, dim")
    heads_kv, seq_kv = T.const("heads_kv, seq_kv")
    Q: T.Tensor((batch, heads, seq_q, dim), dtype)
    K: T.Tensor((batch, heads_kv, seq_kv, dim), dtype)
    V: T.Tensor((batch, heads_kv, seq_kv, dim), dtype)
    Sinks: T.Tensor((heads,), dtype)  # a learned logit, not scaled
    Out = T.empty((batch, heads, seq_q, dim), dtype)

    scale = dim**-0.5 * LOG2_E
    group = heads // heads_kv
    past = seq_kv - seq_q

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

        T.copy(Q[b, head, bx * block_M : (bx + 1) * block_M, :], q)
        T.clear(out)
        T.clear(total)
        T.fill(top, -1e30)

        row = bx * block_M + past  # the position of the block's first row
        first = T.max(row - window + 1, 0) // block_N if window else 0
        last = T.ceildiv(T.min(row + block_M, seq_kv), block_N)
        for t in T.Pipelined(first, last, num_stages=num_stages):
            T.copy(K[b, head // group, t * block_N : (t + 1) * block_N, :], k)
            for i, j in T.Parallel(block_M, block_N):
                distance = row + i - (t * block_N + j)
                seen = (distance >= 0) & (distance < window) if window else distance >= 0
                scores[i, j] = T.if_then_else(seen, 0, -T.infinity(T.float32))
            T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(top, top_before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_M):
                shrink[i] = T.exp2((top_before[i] - top[i]) * scale)
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
            T.reduce_sum(scores, tile_sum, dim=1)
            for i in T.Parallel(block_M):
                total[i] = total[i] * shrink[i] + tile_sum[i]
            for i, j in T.Parallel(block_M, dim):
                out[i, j] *= shrink[i]
            T.copy(scores, weights)
            T.copy(V[b, head // group, t * block_N : (t + 1) * block_N, :], v)
            T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)

        sink = T.cast(Sinks[head], T.float32) * LOG2_E
        for i in T.Parallel(block_M):
            total[i] += T.exp2(sink - top[i] * scale)
        for i, j in T.Parallel(block_M, dim):
            out[i, j] /= total[i]
        T.copy(out, Out[b, head, bx * block_M : (bx + 1) * block_M, :])

    return Out


def ref_program(Q, K, V, Sinks, window=0):
    q, k, v = (x.float() for x in (Q, K, V))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    rows = torch.arange(q.shape[2], device=q.device)[:, None] + k.shape[2] - q.shape[2]
    distance = rows - torch.arange(k.shape[2], device=q.device)
    hidden = (distance < 0) | (distance >= window) if window else distance < 0
    scores = scores.masked_fill(hidden, float("-inf"))
    sink = Sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)
    weights = torch.softmax(torch.cat([scores, sink], -1), -1)[..., :-1]
    return (weights @ v).to(Q.dtype)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, heads, heads_kv, seq, dim, window = (1, 2, 1, 300, 64, 100)
    if device == "cuda":
        batch, heads, heads_kv, seq, dim, window = (2, 64, 8, 4096, 64, 128)
    q = torch.randn(batch, heads, seq, dim, dtype=torch.bfloat16, device=device)
    k, v = (torch.randn(batch, heads_kv, seq, dim, dtype=torch.bfloat16, device=device) for _ in range(2))
    sinks = torch.randn(heads, dtype=torch.bfloat16, device=device)

    for seen in (0, window):
        found = attention_sink(q, k, v, sinks, window=seen)
        for b in range(batch):
            expected = ref_program(q[b : b + 1], k[b : b + 1], v[b : b + 1], sinks, seen)
            torch.testing.assert_close(found[b : b + 1], expected, rtol=2e-2, atol=2e-2)
        latency = attention_sink.compile(q, k, v, sinks, window=seen).get_profiler().do_bench()
        print(f"attention_sink {tuple(q.shape)} window {seen} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
