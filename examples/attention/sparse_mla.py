"""Latent attention over chosen tokens only: each query has its own list of keys, gathered row by row.

Teaches: a gather that fills a shared tile from loaded row numbers, a mask kept in shared memory, and a slice
of the tile of keys that serves as values.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def sparse_mla(
    heads: int = 128,
    latent: int = 512,
    rope: int = 64,
    chosen: int = 2048,
    block_H: int = 64,
    block_N: int = 64,
    num_stages: int = 1,
    threads: int = 256,
    dtype=T.bfloat16,
):
    tokens, cached = T.dynamic("tokens, cached")
    width = latent + rope
    scale = width**-0.5 * LOG2_E
    parts = -(-heads // block_H)

    @T.prim_func
    def sparse_mla_kernel(
        Q: T.Tensor((tokens, heads, width), dtype),
        Cache: T.Tensor((cached, width), dtype),
        Chosen: T.Tensor((tokens, chosen), T.int32),  # rows of the cache; negative: none
        Out: T.Tensor((tokens, heads, latent), dtype),
    ):
        with T.Kernel(parts, tokens, threads=threads) as (bx, token):
            q = T.alloc_shared((block_H, width), dtype)
            kv = T.alloc_shared((block_N, width), dtype)
            seen = T.alloc_shared((block_N,), T.bool)
            weights = T.alloc_shared((block_H, block_N), dtype)
            scores = T.alloc_fragment((block_H, block_N), T.float32)
            out = T.alloc_fragment((block_H, latent), T.float32)
            top = T.alloc_fragment((block_H,), T.float32)
            top_before = T.alloc_fragment((block_H,), T.float32)
            shrink = T.alloc_fragment((block_H,), T.float32)
            tile_sum = T.alloc_fragment((block_H,), T.float32)
            total = T.alloc_fragment((block_H,), T.float32)

            T.copy(Q[token, bx * block_H : (bx + 1) * block_H, :], q)
            T.clear(out)
            T.clear(total)
            T.fill(top, -1e30)
            for t in T.Pipelined(T.ceildiv(chosen, block_N), num_stages=num_stages):
                for i in T.Parallel(block_N):
                    seen[i] = T.if_then_else(
                        t * block_N + i < chosen, Chosen[token, t * block_N + i] >= 0, False
                    )
                for i, j in T.Parallel(block_N, width):
                    # Rows that are not seen have weight 0, which must not meet NaN.
                    row = T.if_then_else(t * block_N + i < chosen, Chosen[token, t * block_N + i], -1)
                    kv[i, j] = T.if_then_else(row >= 0, Cache[T.max(row, 0), j], 0)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.if_then_else(seen[j], 0, -T.infinity(T.float32))
                T.gemm(q, kv, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(top, top_before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    shrink[i] = T.exp2((top_before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, tile_sum, dim=1)
                for i in T.Parallel(block_H):
                    total[i] = total[i] * shrink[i] + tile_sum[i]
                for i, j in T.Parallel(block_H, latent):
                    out[i, j] *= shrink[i]
                T.copy(scores, weights)
                T.gemm(weights, kv[:, 0:latent], out, policy=T.GemmWarpPolicy.FullCol)

            for i, j in T.Parallel(block_H, latent):
                out[i, j] = T.if_then_else(total[i] > 0, out[i, j] / total[i], 0)
            T.copy(out, Out[token, bx * block_H : (bx + 1) * block_H, :])

    return sparse_mla_kernel


def ref_program(Q, Cache, Chosen, latent):
    out = torch.empty(*Q.shape[:2], latent, dtype=Q.dtype, device=Q.device)
    for token in range(Q.shape[0]):
        kv = Cache[Chosen[token][Chosen[token] >= 0].long()].float()
        scores = Q[token].float() @ kv.T * Q.shape[2] ** -0.5
        out[token] = torch.softmax(scores, -1) @ kv[:, :latent]
    return out


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokens, cached, heads, latent, rope, chosen, options = (
        3,
        90,
        16,
        64,
        32,
        50,
        {"block_H": 16, "threads": 64},
    )
    if device == "cuda":
        tokens, cached, heads, latent, rope, chosen, options = (512, 8192, 128, 512, 64, 2048, {})
    q = torch.randn(tokens, heads, latent + rope, dtype=torch.bfloat16, device=device)
    cache = torch.randn(cached, latent + rope, dtype=torch.bfloat16, device=device)
    rows = torch.rand(tokens, cached, device=device).topk(chosen).indices.int()
    rows[:, chosen // 2 :: 3] = -1

    kernel = sparse_mla(heads, latent, rope, chosen, **options)
    found = kernel(q, cache, rows)
    torch.testing.assert_close(found, ref_program(q, cache, rows, latent), rtol=2e-2, atol=2e-2)

    latency = kernel.get_profiler().do_bench(input_tensors=[q, cache, rows])
    flops = 2 * tokens * chosen * heads * (2 * latent + rope)
    print(f"sparse_mla of {tokens} queries on {device}: correct, {flops / latency / 1e9:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
