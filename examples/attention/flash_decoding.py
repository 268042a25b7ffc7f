"""Flash decoding: attention of one new token per sequence, the cached keys split over blocks and then merged.

Teaches: two launches in one kernel, a workspace between them (partial outputs with the logarithm of their
sums), and lengths that differ from sequence to sequence.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit
def flash_decoding(Q, K, V, Lengths, Partial, LogSum, block_H: int = 16, block_N: int = 64, dtype=T.float16):
    batch, heads, dim = T.const("batch, heads, dim")
    seq, heads_kv, splits = T.const("seq, heads_kv, splits")
    Q: T.Tensor((batch, heads, dim), dtype)
    K: T.Tensor((batch, seq, heads_kv, dim), dtype)
    V: T.Tensor((batch, seq, heads_kv, dim), dtype)
    Lengths: T.Tensor((batch,), T.int32)  # how much of each cache is filled
    Partial: T.Tensor((splits, batch, heads, dim), T.float32)  # workspaces
    LogSum: T.Tensor((splits, batch, heads), T.float32)
    Out = T.empty((batch, heads, dim), dtype)

    scale = dim**-0.5 * LOG2_E
    group = heads // heads_kv
    part = T.ceildiv(T.ceildiv(seq, splits), block_N) * block_N

    # Each block: some query heads of one group, one part of the keys.
    with T.Kernel(heads_kv * T.ceildiv(group, block_H), splits, batch, threads=128) as (bx, split, b):
        q = T.alloc_shared((block_H, dim), dtype)
        k = T.alloc_shared((block_N, dim), dtype)
        v = T.alloc_shared((block_N, dim), dtype)
        scores = T.alloc_fragment((block_H, block_N), T.float32)
        weights = T.alloc_shared((block_H, block_N), dtype)
        out = T.alloc_fragment((block_H, dim), T.float32)
        top = T.alloc_fragment((block_H,), T.float32)
        top_before = T.alloc_fragment((block_H,), T.float32)
        shrink = T.alloc_fragment((block_H,), T.float32)
        tile_sum = T.alloc_fragment((block_H,), T.float32)
        total = T.alloc_fragment((block_H,), T.float32)

        tiles_of_group = T.ceildiv(group, block_H)
        kv_head = bx // tiles_of_group
        first_head = kv_head * group + bx % tiles_of_group * block_H
        length = Lengths[b]

        T.clear(q)  # heads beyond the group must not bring NaN into the gemm
        for i, j in T.Parallel(block_H, dim):
            if bx % tiles_of_group * block_H + i < group:
                q[i, j] = Q[b, first_head + i, j]
        T.clear(out)
        T.clear(total)
        T.fill(top, -1e30)
        for t in T.Pipelined(part // block_N, num_stages=2):
            start = split * part + t * block_N
            T.copy(K[b, start : start + block_N, kv_head, :], k)
            T.copy(V[b, start : start + block_N, kv_head, :], v)
            T.gemm(q, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, block_N):
                seen = (start + j < length) & (start + j < seq)
                scores[i, j] = T.if_then_else(seen, scores[i, j], -1e30)
            T.copy(top, top_before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_H):
                shrink[i] = T.exp2((top_before[i] - top[i]) * scale)
            for i, j in T.Parallel(block_H, block_N):
                seen = (start + j < length) & (start + j < seq)
                scores[i, j] = T.if_then_else(seen, T.exp2((scores[i, j] - top[i]) * scale), 0)
            T.reduce_sum(scores, tile_sum, dim=1)
            for i in T.Parallel(block_H):
                total[i] = total[i] * shrink[i] + tile_sum[i]
            for i, j in T.Parallel(block_H, dim):
                out[i, j] *= shrink[i]
            T.copy(scores, weights)
            T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullCol)

        for i, j in T.Parallel(block_H, dim):
            if bx % tiles_of_group * block_H + i < group:
                Partial[split, b, first_head + i, j] = T.if_then_else(total[i] > 0, out[i, j] / total[i], 0)
        for i in T.Parallel(block_H):
            if bx % tiles_of_group * block_H + i < group:
                LogSum[split, b, first_head + i] = T.if_then_else(
                    total[i] > 0, T.log2(total[i]) + top[i] * scale, -T.infinity(T.float32)
                )

    # The parts weigh as much as the exponentials that they have summed.
    with T.Kernel(heads, batch, threads=128) as (head, b):
        merged = T.alloc_fragment((dim,), T.float32)
        top_part = T.alloc_var(T.float32, init=-1e30)
        weight = T.alloc_var(T.float32)
        whole = T.alloc_var(T.float32, init=0)
        T.clear(merged)
        for split in T.serial(splits):
            top_part = T.max(top_part, LogSum[split, b, head])
        for split in T.serial(splits):
            weight = T.exp2(LogSum[split, b, head] - top_part)
            whole += weight
            for j in T.Parallel(dim):
                merged[j] += Partial[split, b, head, j] * weight
        for j in T.Parallel(dim):
            Out[b, head, j] = merged[j] / whole

    return Out


def ref_program(Q, K, V, Lengths, Partial=None, LogSum=None):
    _, heads, dim = Q.shape
    k, v = (x.repeat_interleave(heads // K.shape[2], dim=2).float() for x in (K, V))
    scores = torch.einsum("bhd,bshd->bhs", Q.float(), k) * dim**-0.5
    beyond = torch.arange(K.shape[1], device=Q.device)[None] >= Lengths[:, None]
    weights = torch.softmax(scores.masked_fill(beyond[:, None], float("-inf")), dim=-1)
    return torch.einsum("bhs,bshd->bhd", weights, v).to(Q.dtype)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, heads, heads_kv, seq, dim = (32, 32, 8, 8192, 128) if device == "cuda" else (3, 8, 2, 500, 64)
    splits = 4
    q = torch.randn(batch, heads, dim, dtype=torch.float16, device=device)
    k = torch.randn(batch, seq, heads_kv, dim, dtype=torch.float16, device=device)
    v = torch.randn(batch, seq, heads_kv, dim, dtype=torch.float16, device=device)
    lengths = torch.linspace(1, seq, batch, device=device).int()
    partial = torch.empty(splits, batch, heads, dim, device=device)
    log_sum = torch.empty(splits, batch, heads, device=device)

    found = flash_decoding(q, k, v, lengths, partial, log_sum)
    torch.testing.assert_close(found, ref_program(q, k, v, lengths), rtol=2e-3, atol=2e-3)

    kernel = flash_decoding.compile(q, k, v, lengths, partial, log_sum)
    latency = kernel.get_profiler().do_bench(input_tensors=[q, k, v, lengths, partial, log_sum])
    print(f"flash_decoding {tuple(k.shape)} on {device}: correct, {4 * k.numel() / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
