"""Native sparse attention, the selected branch: each query attends to a few blocks of keys chosen for it.

Teaches: a block per query whose rows are the heads of a group, loaded block numbers that place a copy, and
tile operations under a condition that holds for the whole thread block.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def native_sparse_attention(
    Q, K, V, Chosen, block_S: int = 64, num_stages: int = 2, threads: int = 64, dtype=T.float16
):
    batch, seq, heads, dim = T.const("batch, seq, heads, dim")
    seq_kv, heads_kv, choices = T.const("seq_kv, heads_kv, choices")
    Q: T.Tensor((batch, seq, heads, dim), dtype)
    K: T.Tensor((batch, seq_kv, heads_kv, dim), dtype)
    V: T.Tensor((batch, seq_kv, heads_kv, dim), dtype)
    Chosen: T.Tensor((batch, seq, heads_kv, choices), T.int32)  # numbers of blocks; negative: none
    Out = T.empty((batch, seq, heads, dim), dtype)

    scale = dim**-0.5 * LOG2_E
    group = heads // heads_kv
    rows = T.max(16, group)  # the fewest that a tensor core multiplies

    with T.Kernel(seq, heads_kv, batch, threads=threads) as (position, head, b):
        q = T.alloc_shared((rows, dim), dtype)
        k = T.alloc_shared((block_S, dim), dtype)
        v = T.alloc_shared((block_S, dim), dtype)
        weights = T.alloc_shared((rows, block_S), dtype)
        scores = T.alloc_fragment((rows, block_S), T.float32)
        out = T.alloc_fragment((rows, dim), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        top_before = T.alloc_fragment((rows,), T.float32)
        shrink = T.alloc_fragment((rows,), T.float32)
        block_sum = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        for i, j in T.Parallel(rows, dim):
            q[i, j] = T.if_then_else(i < group, Q[b, position, head * group + i, j], 0)
        T.clear(out)
        T.clear(total)
        T.fill(top, -1e30)

        for c in T.Pipelined(choices, num_stages=num_stages):
            start = Chosen[b, position, head, c] * block_S
            if (start >= 0) & (start <= position):
                T.copy(K[b, start : start + block_S, head, :], k)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(rows, block_S):
                    seen = start + j <= position
                    scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity(T.float32))
                T.copy(top, top_before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(rows):
                    shrink[i] = T.exp2((top_before[i] - top[i]) * scale)
                for i, j in T.Parallel(rows, block_S):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, block_sum, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * shrink[i] + block_sum[i]
                for i, j in T.Parallel(rows, dim):
                    out[i, j] *= shrink[i]
                T.copy(scores, weights)
                T.copy(V[b, start : start + block_S, head, :], v)
                T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullCol)

        for i, j in T.Parallel(rows, dim):
            if i < group:
                Out[b, position, head * group + i, j] = T.if_then_else(total[i] > 0, out[i, j] / total[i], 0)

    return Out


def ref_program(Q, K, V, Chosen, block_S=64):
    group = Q.shape[2] // K.shape[2]
    k, v = (x.repeat_interleave(group, dim=2).float() for x in (K, V))
    scores = torch.einsum("bqhd,bkhd->bhqk", Q.float(), k) * Q.shape[3] ** -0.5
    places = torch.arange(K.shape[1], device=Q.device)
    chosen = (Chosen[..., None] == places // block_S).any(-2)  # [batch, query, head, key]
    seen = chosen & (places <= torch.arange(Q.shape[1], device=Q.device)[:, None, None])
    seen = seen.permute(0, 2, 1, 3).repeat_interleave(group, dim=1)
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1).nan_to_num(0)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v).to(Q.dtype)


def choose(batch: int, seq: int, heads_kv: int, choices: int, block_S: int = 64, device: str = "cpu"):
    """For each query some of the blocks up to its own, the own one among them; -1 where there are too few."""
    own = torch.arange(seq, device=device)[None, :, None, None] // block_S
    blocks = torch.arange(-(-seq // block_S), device=device)
    rank = torch.rand(batch, seq, heads_kv, len(blocks), device=device)
    rank = torch.where(blocks == own, 2.0, torch.where(blocks < own, rank, -1.0))
    values, chosen = rank.topk(min(choices, len(blocks)), dim=-1)
    return torch.where(values >= 0, chosen, -1).int().contiguous()


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, seq, heads, heads_kv, dim, choices = (1, 150, 4, 2, 32, 2)
    if device == "cuda":
        batch, seq, heads, heads_kv, dim, choices = (1, 4096, 32, 2, 128, 16)
    q = torch.randn(batch, seq, heads, dim, dtype=torch.float16, device=device)
    k, v = (torch.randn(batch, seq, heads_kv, dim, dtype=torch.float16, device=device) for _ in range(2))
    chosen = choose(batch, seq, heads_kv, choices, device=device)

    found = native_sparse_attention(q, k, v, chosen)
    torch.testing.assert_close(found, ref_program(q, k, v, chosen), rtol=5e-3, atol=5e-3)

    kernel = native_sparse_attention.compile(q, k, v, chosen)
    latency = kernel.get_profiler().do_bench(input_tensors=[q, k, v, chosen])
    print(f"native_sparse_attention {tuple(q.shape)} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
