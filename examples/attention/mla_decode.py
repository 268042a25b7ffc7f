"""Decoding with multi-head latent attention: all heads share one compressed key that is also the value.

Teaches: a score that is the sum of two gemms (latent and rotary part), one tile of memory used as keys and
as values, and a page table that says where each page of the cache lies.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit
def mla_decode(
    Q, Q_rope, Cache, Cache_rope, Pages, Lengths, block_H: int = 32, page: int = 64, dtype=T.float16
):
    batch, heads, latent, rope = T.const("batch, heads, latent, rope")
    pages, most_pages = T.const("pages, most_pages")
    Q: T.Tensor((batch, heads, latent), dtype)
    Q_rope: T.Tensor((batch, heads, rope), dtype)
    Cache: T.Tensor((pages, page, latent), dtype)
    Cache_rope: T.Tensor((pages, page, rope), dtype)
    Pages: T.Tensor((batch, most_pages), T.int32)  # of each sequence, in order
    Lengths: T.Tensor((batch,), T.int32)
    Out = T.empty((batch, heads, latent), dtype)

    scale = (latent + rope) ** -0.5 * LOG2_E

    with T.Kernel(T.ceildiv(heads, block_H), batch, threads=128) as (bx, b):
        q = T.alloc_shared((block_H, latent), dtype)
        q_rope = T.alloc_shared((block_H, rope), dtype)
        kv = T.alloc_shared((page, latent), dtype)
        k_rope = T.alloc_shared((page, rope), dtype)
        weights = T.alloc_shared((block_H, page), dtype)
        scores = T.alloc_fragment((block_H, page), T.float32)
        out = T.alloc_fragment((block_H, latent), T.float32)
        top = T.alloc_fragment((block_H,), T.float32)
        top_before = T.alloc_fragment((block_H,), T.float32)
        shrink = T.alloc_fragment((block_H,), T.float32)
        page_sum = T.alloc_fragment((block_H,), T.float32)
        total = T.alloc_fragment((block_H,), T.float32)

        T.copy(Q[b, bx * block_H : (bx + 1) * block_H, :], q)
        T.copy(Q_rope[b, bx * block_H : (bx + 1) * block_H, :], q_rope)
        T.clear(out)
        T.clear(total)
        T.fill(top, -1e30)
        for t in T.serial(T.ceildiv(Lengths[b], page)):
            place = Pages[b, t]
            T.copy(Cache[place, :, :], kv)
            T.copy(Cache_rope[place, :, :], k_rope)
            T.gemm(q, kv, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
            T.gemm(q_rope, k_rope, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, page):
                scores[i, j] = T.if_then_else(t * page + j < Lengths[b], scores[i, j], -1e30)
            T.copy(top, top_before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_H):
                shrink[i] = T.exp2((top_before[i] - top[i]) * scale)
            for i, j in T.Parallel(block_H, page):
                scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
            T.reduce_sum(scores, page_sum, dim=1)
            for i in T.Parallel(block_H):
                total[i] = total[i] * shrink[i] + page_sum[i]
            for i, j in T.Parallel(block_H, latent):
                out[i, j] *= shrink[i]
            T.copy(scores, weights)
            T.gemm(weights, kv, out, policy=T.GemmWarpPolicy.FullCol)

        for i, j in T.Parallel(block_H, latent):
            out[i, j] /= total[i]
        T.copy(out, Out[b, bx * block_H : (bx + 1) * block_H, :])

    return Out


def ref_program(Q, Q_rope, Cache, Cache_rope, Pages, Lengths):
    out = torch.empty_like(Q)
    for b, length in enumerate(Lengths.tolist()):
        used = Pages[b, : -(-length // Cache.shape[1])].long()
        kv = Cache[used].reshape(-1, Cache.shape[2])[:length].float()
        k_rope = Cache_rope[used].reshape(-1, Cache_rope.shape[2])[:length].float()
        scores = Q[b].float() @ kv.T + Q_rope[b].float() @ k_rope.T
        weights = torch.softmax(scores * (Q.shape[2] + Q_rope.shape[2]) ** -0.5, -1)
        out[b] = weights @ kv
    return out


def inputs(batch: int, heads: int, latent: int, rope: int, lengths, page: int = 64, device: str = "cpu"):
    """Random queries, and a cache whose pages lie in random order."""
    most = -(-max(lengths) // page)
    order = torch.randperm(batch * most).int().reshape(batch, most)
    shapes = [
        (batch, heads, latent),
        (batch, heads, rope),
        (batch * most, page, latent),
        (batch * most, page, rope),
    ]
    q, q_rope, cache, cache_rope = (torch.randn(s, dtype=torch.float16, device=device) for s in shapes)
    used = torch.tensor(lengths, dtype=torch.int32, device=device)
    return q, q_rope, cache, cache_rope, order.to(device), used


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lengths, heads, latent, rope = [300, 65], 40, 128, 32
    if device == "cuda":
        lengths, heads, latent, rope = [4096, 65] * 16, 128, 512, 64
    given = inputs(len(lengths), heads, latent, rope, lengths=lengths, device=device)

    found = mla_decode(*given)
    torch.testing.assert_close(found, ref_program(*given), rtol=5e-3, atol=5e-3)

    latency = mla_decode.compile(*given).get_profiler().do_bench(input_tensors=list(given))
    print(f"mla_decode of {given[2].shape[0]} pages on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
