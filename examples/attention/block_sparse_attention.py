"""Attention that only visits the blocks of keys that a mask names, as long prompts are read with.

Teaches: a mask loaded into local memory before the loop, and tiles skipped by a condition that is the same
for the whole block.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def block_sparse_attention(
    batch: int,
    heads: int,
    seq_q: int,
    seq_kv: int,
    dim: int,
    causal: bool = True,
    block_M: int = 64,
    block_N: int = 64,
    num_stages: int = 2,
    threads: int = 128,
    dtype=T.float16,
):
    scale = dim**-0.5 * LOG2_E
    past = seq_kv - seq_q
    rows, columns = T.ceildiv(seq_q, block_M), T.ceildiv(seq_kv, block_N)

    @T.prim_func
    def block_sparse_kernel(
        Q: T.Tensor((batch, heads, seq_q, dim), dtype),
        K: T.Tensor((batch, heads, seq_kv, dim), dtype),
        V: T.Tensor((batch, heads, seq_kv, dim), dtype),
        Visits: T.Tensor((batch, heads, rows, columns), T.bool),
        Out: T.Tensor((batch, heads, seq_q, dim), dtype),
    ):
        with T.Kernel(rows, heads, batch, threads=threads) as (bx, head, b):
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
            visit = T.alloc_local((columns,), T.bool)

            T.copy(Q[b, head, bx * block_M : (bx + 1) * block_M, :], q)
            T.clear(out)
            T.clear(total)
            T.fill(top, -1e30)
            for t in T.serial(columns):
                visit[t] = Visits[b, head, bx, t]

            end = (bx + 1) * block_M + past
            tiles = T.ceildiv(T.min(end, seq_kv), block_N) if causal else columns
            for t in T.Pipelined(tiles, num_stages=num_stages):
                if visit[t]:
                    T.copy(K[b, head, t * block_N : (t + 1) * block_N, :], k)
                    T.gemm(q, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                    for i, j in T.Parallel(block_M, block_N):
                        column = t * block_N + j
                        bound = bx * block_M + i + past if causal else seq_kv - 1
                        scores[i, j] = T.if_then_else(
                            (column <= bound) & (column < seq_kv), scores[i, j], -T.infinity(T.float32)
                        )
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
                    T.copy(V[b, head, t * block_N : (t + 1) * block_N, :], v)
                    T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)

            for i, j in T.Parallel(block_M, dim):
                out[i, j] = T.if_then_else(total[i] > 0, out[i, j] / total[i], 0)  # rows that visit nothing
            T.copy(out, Out[b, head, bx * block_M : (bx + 1) * block_M, :])

    return block_sparse_kernel


def ref_program(Q, K, V, Visits, causal=True, block_M=64, block_N=64):
    q, k, v = (x.float() for x in (Q, K, V))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    seen = Visits.repeat_interleave(block_M, 2).repeat_interleave(block_N, 3)
    seen = seen[:, :, : q.shape[2], : k.shape[2]]
    if causal:
        seen = seen & torch.ones_like(seen).tril(k.shape[2] - q.shape[2])
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1).nan_to_num(0)
    return (weights @ v).to(Q.dtype)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, heads, seq, dim = (1, 32, 4096, 128) if device == "cuda" else (1, 2, 300, 64)
    q, k, v = (torch.randn(batch, heads, seq, dim, dtype=torch.float16, device=device) for _ in range(3))
    tiles = -(-seq // 64)
    visits = torch.rand(batch, heads, tiles, tiles, device=device) < 0.3
    visits |= torch.eye(tiles, dtype=torch.bool, device=device)

    kernel = block_sparse_attention(batch, heads, seq, seq, dim)
    found = kernel(q, k, v, visits)
    torch.testing.assert_close(found, ref_program(q, k, v, visits), rtol=5e-3, atol=5e-3)

    latency = kernel.get_profiler().do_bench(input_tensors=[q, k, v, visits])
    print(f"block_sparse_attention {tuple(q.shape)} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
