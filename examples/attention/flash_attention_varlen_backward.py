"""FlashAttention over packed sequences of different lengths, backward: gradients of [total, heads, dim].

Teaches: one backward for every batch (sizes and longest sequence are known at the launch), a pipeline that is
steered by bounds from memory, and stores that stop where the sequence does.
"""

import itertools

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def varlen_backward(
    Q,
    K,
    V,
    dOut,
    LogSum,
    Delta,
    Starts,
    dQ,
    longest: T.int32,
    causal: bool = True,
    block_M: int = 64,
    block_N: int = 64,
    num_stages: int = 2,
    threads: int = 128,
    dtype=T.bfloat16,
):
    heads, dim, heads_kv = T.const("heads, dim, heads_kv")
    total, bounds = T.dynamic("total, bounds")
    Q: T.Tensor((total, heads, dim), dtype)
    K: T.Tensor((total, heads_kv, dim), dtype)
    V: T.Tensor((total, heads_kv, dim), dtype)
    dOut: T.Tensor((total, heads, dim), dtype)
    LogSum: T.Tensor((heads, total), T.float32)  # natural logarithm of every row's sum
    Delta: T.Tensor((heads, total), T.float32)  # sum of Out * dOut over every row
    Starts: T.Tensor((bounds,), T.int32)  # sequence b is rows Starts[b] to Starts[b + 1]
    dQ: T.Tensor((total, heads, dim), T.float32)  # zero at first: blocks of keys add to it
    dK = T.empty((total, heads_kv, dim), dtype)
    dV = T.empty((total, heads_kv, dim), dtype)

    scale = dim**-0.5
    group = heads // heads_kv

    with T.Kernel(T.ceildiv(longest, block_N), heads_kv, bounds - 1, threads=threads) as (bx, head_kv, b):
        k = T.alloc_shared((block_N, dim), dtype)
        v = T.alloc_shared((block_N, dim), dtype)
        q = T.alloc_shared((block_M, dim), dtype)
        d_out = T.alloc_shared((block_M, dim), dtype)
        log_sum = T.alloc_shared((block_M,), T.float32)
        delta = T.alloc_shared((block_M,), T.float32)
        # Scores stand on their side, keys x queries: the weights are then operand A of both dV and dK.
        weights = T.alloc_fragment((block_N, block_M), T.float32)
        weights_cast = T.alloc_fragment((block_N, block_M), dtype)
        d_scores = T.alloc_fragment((block_N, block_M), T.float32)
        d_scores_cast = T.alloc_fragment((block_N, block_M), dtype)
        d_scores_shared = T.alloc_shared((block_N, block_M), dtype)
        d_q = T.alloc_fragment((block_M, dim), T.float32)
        d_k = T.alloc_fragment((block_N, dim), T.float32)
        d_v = T.alloc_fragment((block_N, dim), T.float32)

        start = Starts[b]
        length = Starts[b + 1] - start
        if bx * block_N < length:
            left = start + bx * block_N
            T.copy(K[left : left + block_N, head_kv, :], k)  # rows of the next sequence may come along
            T.copy(V[left : left + block_N, head_kv, :], v)
            T.clear(d_k)
            T.clear(d_v)

            first = bx * block_N // block_M if causal else 0
            for member in T.serial(group):
                head = head_kv * group + member
                for t in T.Pipelined(first, T.ceildiv(length, block_M), num_stages=num_stages):
                    rows = start + t * block_M
                    T.copy(Q[rows : rows + block_M, head, :], q)
                    T.copy(dOut[rows : rows + block_M, head, :], d_out)
                    T.copy(LogSum[head, rows : rows + block_M], log_sum)
                    T.copy(Delta[head, rows : rows + block_M], delta)

                    T.gemm(k, q, weights, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                    T.gemm(
                        v,
                        d_out,
                        d_scores,
                        transpose_B=True,
                        clear_accum=True,
                        policy=T.GemmWarpPolicy.FullRow,
                    )
                    for i, j in T.Parallel(block_N, block_M):
                        row, column = t * block_M + j, bx * block_N + i
                        bound = row if causal else length - 1
                        seen = (row < length) & (column < length) & (column <= bound)
                        power = weights[i, j] * (scale * LOG2_E) - log_sum[j] * LOG2_E
                        weights[i, j] = T.if_then_else(seen, T.exp2(power), 0)
                    for i, j in T.Parallel(block_N, block_M):
                        d_scores[i, j] = weights[i, j] * (d_scores[i, j] - delta[j]) * scale
                    T.copy(weights, weights_cast)
                    T.gemm(weights_cast, d_out, d_v, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(d_scores, d_scores_cast)
                    T.gemm(d_scores_cast, q, d_k, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(d_scores_cast, d_scores_shared)
                    T.gemm(d_scores_shared, k, d_q, transpose_A=True, clear_accum=True)
                    for i, j in T.Parallel(block_M, dim):
                        if t * block_M + i < length:
                            T.atomic_add(dQ[rows + i, head, j], d_q[i, j])

            for i, j in T.Parallel(block_N, dim):
                if bx * block_N + i < length:  # the rows behind are another sequence's
                    dK[left + i, head_kv, j] = d_k[i, j]
            for i, j in T.Parallel(block_N, dim):
                if bx * block_N + i < length:
                    dV[left + i, head_kv, j] = d_v[i, j]

    return dK, dV


def forward(Q, K, V, Starts, causal=True):
    """(output, logarithm of the rows' sums [heads, total]), in float32; differentiable."""
    starts, outs, sums = Starts.tolist(), [], []
    for low, high in itertools.pairwise(starts):
        q, k, v = Q[low:high].float(), K[low:high].float(), V[low:high].float()
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
        if causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        outs.append(torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), v))
        sums.append(torch.logsumexp(scores, -1))
    return torch.cat(outs), torch.cat(sums, dim=1)


def ref_program(Q, K, V, dOut, Starts, causal=True):
    """(dQ, dK, dV) by torch, sequence by sequence."""
    q, k, v = (x.detach().float().requires_grad_() for x in (Q, K, V))
    forward(q, k, v, Starts, causal)[0].backward(dOut.float())
    return q.grad, k.grad, v.grad


def inputs(lengths, heads: int, heads_kv: int, dim: int, device: str):
    """(q, k, v, the output's gradient, where sequences begin and the last one ends)."""
    total = sum(lengths)
    q, d_out = (torch.randn(total, heads, dim, device=device).bfloat16() for _ in range(2))
    k, v = (torch.randn(total, heads_kv, dim, device=device).bfloat16() for _ in range(2))
    starts = torch.tensor([0, *lengths], device=device).cumsum(0).int()
    return q, k, v, d_out, starts


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lengths, sizes = (
        ([1000, 37, 2048, 1, 900], (32, 8, 128)) if device == "cuda" else ([70, 1, 33], (4, 2, 32))
    )
    q, k, v, d_out, starts = inputs(lengths, *sizes, device)

    for causal in (True, False):
        out, log_sum = forward(q, k, v, starts, causal)
        delta = (out * d_out.float()).sum(-1).T.contiguous()
        d_q = torch.zeros(q.shape, device=device)
        d_k, d_v = varlen_backward(
            q, k, v, d_out, log_sum, delta, starts, d_q, longest=max(lengths), causal=causal
        )
        for found, expected in zip((d_q, d_k, d_v), ref_program(q, k, v, d_out, starts, causal), strict=True):
            torch.testing.assert_close(found.float(), expected, rtol=3e-2, atol=3e-2)

    given = (q, k, v, d_out, log_sum, delta, starts, d_q)
    latency = tilelang.profiler.do_bench(lambda: varlen_backward(*given, longest=max(lengths)))
    print(f"varlen_backward {tuple(q.shape)} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
