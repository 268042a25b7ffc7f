"""Decoding with multi-head latent attention at the size of the large models: 128 heads over one paged cache.

Teaches: shared memory used to the last kilobyte (keys that are values too), sequences split into parts, and a
workspace of the kernel's own between two launches.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def mla_decode_split(
    Q,
    Q_rope,
    Cache,
    Cache_rope,
    Pages,
    Lengths,
    scale: float,
    splits: int = 4,
    block_H: int = 64,
    page: int = 64,
    num_stages: int = 2,
    threads: int = 256,
    dtype=T.bfloat16,
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

    Partial = T.alloc_global((splits, batch, heads, latent), T.float32)
    LogSum = T.alloc_global((splits, batch, heads), T.float32)

    with T.Kernel(T.ceildiv(heads, block_H), splits, batch, threads=threads) as (bx, split, b):
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

        length = Lengths[b]
        used = T.ceildiv(length, page)
        share = T.ceildiv(used, splits)
        begin = T.min(split * share, used)
        end = T.min(begin + share, used)
        for t in T.Pipelined(begin, end, num_stages=num_stages):
            place = Pages[b, t]
            T.copy(Cache[place, :, :], kv)
            T.copy(Cache_rope[place, :, :], k_rope)
            T.gemm(q, kv, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
            T.gemm(q_rope, k_rope, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, page):
                seen = t * page + j < length
                scores[i, j] = T.if_then_else(seen, scores[i, j] * (scale * LOG2_E), -T.infinity(T.float32))
            T.copy(top, top_before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_H):
                shrink[i] = T.exp2(top_before[i] - top[i])
            for i, j in T.Parallel(block_H, page):
                scores[i, j] = T.exp2(scores[i, j] - top[i])
            T.reduce_sum(scores, page_sum, dim=1)
            for i in T.Parallel(block_H):
                total[i] = total[i] * shrink[i] + page_sum[i]
            for i, j in T.Parallel(block_H, latent):
                out[i, j] *= shrink[i]
            T.copy(scores, weights)
            T.gemm(weights, kv, out, policy=T.GemmWarpPolicy.FullCol)

        for i, j in T.Parallel(block_H, latent):
            out[i, j] = T.if_then_else(total[i] > 0, out[i, j] / total[i], 0)
        T.copy(out, Partial[split, b, bx * block_H : (bx + 1) * block_H, :])
        for i in T.Parallel(block_H):
            if bx * block_H + i < heads:
                LogSum[split, b, bx * block_H + i] = T.log2(total[i]) + top[i]

    with T.Kernel(heads, batch, threads=128) as (head, b):
        merged = T.alloc_fragment((latent,), T.float32)
        top_part = T.alloc_var(T.float32, init=-1e30)
        whole = T.alloc_var(T.float32, init=0.0)

        T.clear(merged)
        for split in T.serial(splits):
            top_part = T.max(top_part, LogSum[split, b, head])
        for split in T.serial(splits):
            weight = T.exp2(LogSum[split, b, head] - top_part)
            whole += weight
            for j in T.Parallel(latent):
                merged[j] += Partial[split, b, head, j] * weight
        for j in T.Parallel(latent):
            Out[b, head, j] = merged[j] / whole

    return Out


def ref_program(Q, Q_rope, Cache, Cache_rope, Pages, Lengths, scale):
    out = torch.empty_like(Q)
    for b, length in enumerate(Lengths.tolist()):
        used = Pages[b, : -(-length // Cache.shape[1])].long()
        kv = Cache[used].flatten(0, 1)[:length].float()
        k_rope = Cache_rope[used].flatten(0, 1)[:length].float()
        scores = Q[b].float() @ kv.T + Q_rope[b].float() @ k_rope.T
        out[b] = torch.softmax(scores * scale, -1) @ kv
    return out


def inputs(lengths, heads: int, latent: int, rope: int, page: int = 64, device: str = "cpu"):
    """Random queries, and a cache whose pages lie in random order."""
    most = -(-max(lengths) // page)
    pages = len(lengths) * most
    shapes = ((len(lengths), heads), (len(lengths), heads), (pages, page), (pages, page))
    q, q_rope, cache, cache_rope = (
        torch.randn(*shape, width, dtype=torch.bfloat16, device=device)
        for shape, width in zip(shapes, (latent, rope, latent, rope), strict=True)
    )
    table = torch.randperm(pages, device=device).int().reshape(len(lengths), most)
    return q, q_rope, cache, cache_rope, table, torch.tensor(lengths, dtype=torch.int32, device=device)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lengths, heads, latent, rope, options = [150, 1], 16, 64, 32, {"block_H": 16, "threads": 64}
    if device == "cuda":
        lengths, heads, latent, rope, options = [4096, 100] * 32, 128, 512, 64, {}
    given = inputs(lengths, heads, latent, rope, device=device)
    scale = (128 + rope) ** -0.5  # of the heads before they were compressed

    found = mla_decode_split(*given, scale=scale, **options)
    Q, Q_rope, Cache, Cache_rope, Pages, Lengths = given
    expected = ref_program(Q, Q_rope, Cache, Cache_rope, Pages, Lengths, scale)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)

    kernel = mla_decode_split.compile(*given, scale=scale, **options)
    latency = kernel.get_profiler().do_bench(input_tensors=list(given))
    flops = 2 * sum(lengths) * heads * (2 * latent + rope)
    speed = f"{flops / latency / 1e9:.3f} TFLOP/s"
    print(f"mla_decode_split, {len(lengths)} sequences on {device}: correct, {speed}")


if __name__ == "__main__":
    main()
