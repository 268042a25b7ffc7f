"""FlashAttention over packed sequences of different lengths: [total, heads, dim] and cumulative lengths.

Teaches: one kernel for every batch (sizes read from the tensors at each launch, a run-time scalar that sizes
the grid), blocks that leave early, and masks from loaded bounds.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def flash_attention_varlen(
    heads: int,
    heads_kv: int,
    dim: int,
    causal: bool = False,
    block_M: int = 128,
    block_N: int = 64,
    num_stages: int = 2,
    threads: int = 256,
    dtype=T.float16,
):
    total_q, total_kv, bounds = T.dynamic("total_q, total_kv, bounds")
    scale = dim**-0.5 * LOG2_E
    group = heads // heads_kv

    @T.prim_func
    def varlen_kernel(
        Q: T.Tensor((total_q, heads, dim), dtype),
        K: T.Tensor((total_kv, heads_kv, dim), dtype),
        V: T.Tensor((total_kv, heads_kv, dim), dtype),
        StartsQ: T.Tensor((bounds,), T.int32),  # sequence b is rows StartsQ[b] to StartsQ[b + 1]
        StartsKV: T.Tensor((bounds,), T.int32),
        longest_q: T.int32,
        Out: T.Tensor((total_q, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(longest_q, block_M), heads, bounds - 1, threads=threads) as (bx, head, b):
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

            start_q = StartsQ[b]
            start_kv = StartsKV[b]
            length_q = StartsQ[b + 1] - start_q
            length_kv = StartsKV[b + 1] - start_kv
            past = length_kv - length_q

            if bx * block_M < length_q:
                row = start_q + bx * block_M
                T.copy(Q[row : row + block_M, head, :], q)  # rows of the next sequence may come along
                T.clear(out)
                T.clear(total)
                T.fill(top, -1e30)

                last = T.max((bx + 1) * block_M + past, 0)
                end = T.min(last, length_kv) if causal else length_kv
                for t in T.Pipelined(T.ceildiv(end, block_N), num_stages=num_stages):
                    T.copy(K[start_kv + t * block_N : start_kv + (t + 1) * block_N, head // group, :], k)
                    T.gemm(q, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                    for i, j in T.Parallel(block_M, block_N):
                        column = t * block_N + j
                        bound = bx * block_M + i + past if causal else length_kv
                        seen = (column < length_kv) & (column <= bound)
                        scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity(T.float32))
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
                    T.copy(V[start_kv + t * block_N : start_kv + (t + 1) * block_N, head // group, :], v)
                    T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)

                for i, j in T.Parallel(block_M, dim):
                    if bx * block_M + i < length_q:  # the rows behind are another sequence's
                        Out[row + i, head, j] = T.if_then_else(total[i] > 0, out[i, j] / total[i], 0)

    return varlen_kernel


def ref_program(Q, K, V, StartsQ, StartsKV, causal=False):
    out = torch.empty_like(Q)
    starts_q, starts_kv = StartsQ.tolist(), StartsKV.tolist()
    for b in range(len(starts_q) - 1):
        rows, columns = slice(starts_q[b], starts_q[b + 1]), slice(starts_kv[b], starts_kv[b + 1])
        q, k, v = Q[rows].float(), K[columns].float(), V[columns].float()
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
        if causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
            scores = scores.masked_fill(hidden.triu(k.shape[0] - q.shape[0] + 1), float("-inf"))
        weights = torch.softmax(scores, -1).nan_to_num(0)  # a row that sees nothing
        out[rows] = torch.einsum("hqk,khd->qhd", weights, v).to(Q.dtype)
    return out


def starts(lengths, device="cpu"):
    """Where each sequence of a packed batch starts, and where the last one ends."""
    return torch.tensor([0, *lengths], device=device).cumsum(0).int()


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lengths, heads, heads_kv, dim = [70, 1, 130], 2, 1, 64
    if device == "cuda":
        lengths, heads, heads_kv, dim = [4096, 1, 777, 2048, 130], 32, 8, 128
    bounds = starts(lengths, device)
    q = torch.randn(sum(lengths), heads, dim, dtype=torch.float16, device=device)
    k, v = (torch.randn(sum(lengths), heads_kv, dim, dtype=torch.float16, device=device) for _ in range(2))

    for causal in (False, True):
        kernel = flash_attention_varlen(heads, heads_kv, dim, causal)
        out = kernel(q, k, v, bounds, bounds, max(lengths))
        torch.testing.assert_close(out, ref_program(q, k, v, bounds, bounds, causal), rtol=5e-3, atol=5e-3)
        latency = kernel.get_profiler().do_bench(input_tensors=[q, k, v, bounds, bounds, max(lengths)])
        flops = sum(4 * n * n for n in lengths) * heads * dim / (2 if causal else 1)
        print(
            f"flash_attention_varlen {lengths} {causal=} on {device}: correct, "
            f"{flops / latency / 1e9:.3f} TFLOP/s"
        )


if __name__ == "__main__":
    main()
