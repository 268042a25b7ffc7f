"""Decoding over a paged cache with grouped heads: a block table says where the keys lie, parts are merged.

Teaches: one kernel for every batch and cache size, loaded page numbers that steer prefetched copies, and a
workspace that the kernel allocates for itself between two launches.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def paged_decoding(
    heads: int = 32,
    heads_kv: int = 8,
    dim: int = 128,
    page: int = 64,
    splits: int = 8,
    block_H: int = 16,
    num_stages: int = 2,
    threads: int = 128,
    dtype=T.float16,
):
    batch, pages, most_pages = T.dynamic("batch, pages, most_pages")
    scale = dim**-0.5 * LOG2_E
    group = heads // heads_kv  # these heads read the same keys: they are the rows of one gemm
    parts = -(-group // block_H)

    @T.prim_func
    def paged_kernel(
        Q: T.Tensor((batch, heads, dim), dtype),
        K: T.Tensor((pages, page, heads_kv, dim), dtype),
        V: T.Tensor((pages, page, heads_kv, dim), dtype),
        Table: T.Tensor((batch, most_pages), T.int32),  # the pages of each sequence, in order
        Lengths: T.Tensor((batch,), T.int32),
        Out: T.Tensor((batch, heads, dim), dtype),
    ):
        Partial = T.alloc_global((batch, heads, splits, dim), T.float32)
        LogSum = T.alloc_global((batch, heads, splits), T.float32)

        with T.Kernel(heads_kv * parts, splits, batch, threads=threads) as (bx, split, b):
            q = T.alloc_shared((block_H, dim), dtype)
            k = T.alloc_shared((page, dim), dtype)
            v = T.alloc_shared((page, dim), dtype)
            weights = T.alloc_shared((block_H, page), dtype)
            scores = T.alloc_fragment((block_H, page), T.float32)
            out = T.alloc_fragment((block_H, dim), T.float32)
            top = T.alloc_fragment((block_H,), T.float32)
            top_before = T.alloc_fragment((block_H,), T.float32)
            shrink = T.alloc_fragment((block_H,), T.float32)
            page_sum = T.alloc_fragment((block_H,), T.float32)
            total = T.alloc_fragment((block_H,), T.float32)

            head_kv = bx // parts
            first = bx % parts * block_H  # of the heads in the group
            for i, j in T.Parallel(block_H, dim):
                q[i, j] = T.if_then_else(first + i < group, Q[b, head_kv * group + first + i, j], 0)
            T.clear(out)
            T.clear(total)
            T.fill(top, -1e30)

            length = Lengths[b]
            used = T.ceildiv(length, page)
            share = T.ceildiv(used, splits)
            begin = T.min(split * share, used)
            end = T.min(begin + share, used)
            for t in T.Pipelined(begin, end, num_stages=num_stages):
                place = Table[b, t]
                T.copy(K[place, :, head_kv, :], k)
                T.copy(V[place, :, head_kv, :], v)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(block_H, page):
                    seen = t * page + j < length
                    scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity(T.float32))
                T.copy(top, top_before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    shrink[i] = T.exp2((top_before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_H, page):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, page_sum, dim=1)
                for i in T.Parallel(block_H):
                    total[i] = total[i] * shrink[i] + page_sum[i]
                for i, j in T.Parallel(block_H, dim):
                    out[i, j] *= shrink[i]
                T.copy(scores, weights)
                T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullCol)

            for i, j in T.Parallel(block_H, dim):
                if first + i < group:
                    mean = T.if_then_else(total[i] > 0, out[i, j] / total[i], 0)
                    Partial[b, head_kv * group + first + i, split, j] = mean
            for i in T.Parallel(block_H):
                if first + i < group:
                    LogSum[b, head_kv * group + first + i, split] = T.log2(total[i]) + top[i] * scale

        with T.Kernel(heads, batch, threads=dim) as (head, b):
            merged = T.alloc_fragment((dim,), T.float32)
            top_part = T.alloc_var(T.float32, init=-1e30)
            whole = T.alloc_var(T.float32, init=0.0)

            T.clear(merged)
            for split in T.serial(splits):
                top_part = T.max(top_part, LogSum[b, head, split])
            for split in T.serial(splits):
                weight = T.exp2(LogSum[b, head, split] - top_part)  # 0 for a part without keys
                whole += weight
                for j in T.Parallel(dim):
                    merged[j] += Partial[b, head, split, j] * weight
            for j in T.Parallel(dim):
                Out[b, head, j] = merged[j] / whole

    return paged_kernel


def ref_program(Q, K, V, Table, Lengths):
    out = torch.empty_like(Q)
    group = Q.shape[1] // K.shape[2]
    for b, length in enumerate(Lengths.tolist()):
        used = Table[b, : -(-length // K.shape[1])].long()
        k, v = (x[used].flatten(0, 1)[:length].repeat_interleave(group, dim=1).float() for x in (K, V))
        scores = torch.einsum("hd,shd->hs", Q[b].float(), k) * Q.shape[2] ** -0.5
        out[b] = torch.einsum("hs,shd->hd", torch.softmax(scores, -1), v)
    return out


def inputs(lengths, heads: int, heads_kv: int, dim: int, page: int = 64, device: str = "cpu"):
    """Random queries, and a cache whose pages lie in random order."""
    most = -(-max(lengths) // page)
    pages = len(lengths) * most
    q = torch.randn(len(lengths), heads, dim, dtype=torch.float16, device=device)
    k, v = (torch.randn(pages, page, heads_kv, dim, dtype=torch.float16, device=device) for _ in range(2))
    table = torch.randperm(pages, device=device).int().reshape(len(lengths), most)
    return q, k, v, table, torch.tensor(lengths, dtype=torch.int32, device=device)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lengths, heads, heads_kv, dim = [300, 1, 65], 8, 2, 64
    if device == "cuda":
        lengths, heads, heads_kv, dim = [8192, 1, 4000, 65] * 8, 32, 8, 128
    kernel = paged_decoding(heads, heads_kv, dim)
    given = inputs(lengths, heads, heads_kv, dim, device=device)

    torch.testing.assert_close(kernel(*given), ref_program(*given), rtol=5e-3, atol=5e-3)

    latency = kernel.get_profiler().do_bench(input_tensors=list(given))
    read = sum(lengths) * heads_kv * dim * 2 * 2
    print(f"paged_decoding, {len(lengths)} sequences on {device}: correct, {read / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
