"""FlashAttention for training with grouped heads, [batch, seq, heads, dim]: the backward, behind autograd.

Teaches: a block of keys that gathers the gradients of all query heads that share it (no atomics for dK),
scores on their side so that weights stay in registers, and kernels in a torch.autograd.Function.
"""

import torch

import tilelang
import tilelang.language as T
from tilelang.profiler import do_bench

LOG2_E = 1.4426950408889634
FAST = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}


@tilelang.jit(pass_configs=FAST)
def delta_rows(Out, dOut, block: int = 64, threads: int = 128, dtype=T.bfloat16):
    """The sum of Out * dOut over every row."""
    batch, seq, heads, dim = T.const("batch, seq, heads, dim")
    Out: T.Tensor((batch, seq, heads, dim), dtype)
    dOut: T.Tensor((batch, seq, heads, dim), dtype)
    Delta = T.empty((batch, heads, seq), T.float32)

    with T.Kernel(T.ceildiv(seq, block), heads, batch, threads=threads) as (bx, head, b):
        out = T.alloc_fragment((block, dim), dtype)
        d_out = T.alloc_fragment((block, dim), dtype)
        products = T.alloc_fragment((block, dim), T.float32)
        delta = T.alloc_fragment((block,), T.float32)
        T.copy(Out[b, bx * block : (bx + 1) * block, head, :], out)
        T.copy(dOut[b, bx * block : (bx + 1) * block, head, :], d_out)
        for i, j in T.Parallel(block, dim):
            products[i, j] = T.cast(out[i, j], T.float32) * d_out[i, j]
        T.reduce_sum(products, delta, dim=1)
        T.copy(delta, Delta[b, head, bx * block : (bx + 1) * block])

    return Delta


@tilelang.jit(pass_configs=FAST)
def gqa_backward(
    Q,
    K,
    V,
    dOut,
    LogSum,
    Delta,
    dQ,
    causal: bool = True,
    block_M: int = 64,
    block_N: int = 64,
    num_stages: int = 2,
    threads: int = 128,
    dtype=T.bfloat16,
):
    batch, seq, heads, dim, heads_kv = T.const("batch, seq, heads, dim, heads_kv")
    Q: T.Tensor((batch, seq, heads, dim), dtype)
    K: T.Tensor((batch, seq, heads_kv, dim), dtype)
    V: T.Tensor((batch, seq, heads_kv, dim), dtype)
    dOut: T.Tensor((batch, seq, heads, dim), dtype)
    LogSum: T.Tensor((batch, heads, seq), T.float32)  # natural logarithm of every row's sum
    Delta: T.Tensor((batch, heads, seq), T.float32)
    dQ: T.Tensor((batch, seq, heads, dim), T.float32)  # zero at first: blocks of keys add to it
    dK = T.empty((batch, seq, heads_kv, dim), dtype)
    dV = T.empty((batch, seq, heads_kv, dim), dtype)

    scale = dim**-0.5
    group = heads // heads_kv

    with T.Kernel(T.ceildiv(seq, block_N), heads_kv, batch, threads=threads) as (bx, head_kv, b):
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

        T.copy(K[b, bx * block_N : (bx + 1) * block_N, head_kv, :], k)
        T.copy(V[b, bx * block_N : (bx + 1) * block_N, head_kv, :], v)
        T.clear(d_k)
        T.clear(d_v)

        first = bx * block_N // block_M if causal else 0
        for member in T.serial(group):
            head = head_kv * group + member
            for t in T.Pipelined(first, T.ceildiv(seq, block_M), num_stages=num_stages):
                rows = t * block_M
                T.copy(Q[b, rows : rows + block_M, head, :], q)
                T.copy(dOut[b, rows : rows + block_M, head, :], d_out)
                T.copy(LogSum[b, head, rows : rows + block_M], log_sum)
                T.copy(Delta[b, head, rows : rows + block_M], delta)

                T.gemm(k, q, weights, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(
                    v, d_out, d_scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow
                )
                for i, j in T.Parallel(block_N, block_M):
                    row, column = rows + j, bx * block_N + i
                    seen = (row < seq) & (column <= row) if causal else (row < seq) & (column < seq)
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
                    if rows + i < seq:
                        T.atomic_add(dQ[b, rows + i, head, j], d_q[i, j])

        T.copy(d_k, dK[b, bx * block_N : (bx + 1) * block_N, head_kv, :])
        T.copy(d_v, dV[b, bx * block_N : (bx + 1) * block_N, head_kv, :])

    return dK, dV


class Attention(torch.autograd.Function):
    """Attention with grouped heads whose gradients come from the kernels above."""

    @staticmethod
    def forward(ctx, q, k, v, causal=True):
        out, log_sum = ref_forward(q, k, v, causal)
        ctx.save_for_backward(q, k, v, out, log_sum)
        ctx.causal = causal
        return out

    @staticmethod
    def backward(ctx, *grad_outputs):
        q, k, v, out, log_sum = ctx.saved_tensors
        d_out = grad_outputs[0].contiguous()
        d_q = torch.zeros(q.shape, device=q.device)
        d_k, d_v = gqa_backward(q, k, v, d_out, log_sum, delta_rows(out, d_out), d_q, causal=ctx.causal)
        return d_q.to(q.dtype), d_k, d_v, None


def ref_forward(q, k, v, causal=True):
    """(output, logarithm of the rows' sums); `flash_attention_bhsd` is the kernel for it."""
    dtype, group = q.dtype, q.shape[2] // k.shape[2]
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    out = (torch.softmax(scores, -1) @ v).transpose(1, 2).to(dtype).contiguous()
    return out, torch.logsumexp(scores, -1)


def ref_program(Q, K, V, dOut, causal=True):
    """(dQ, dK, dV) by torch."""
    q, k, v = (x.detach().float().requires_grad_() for x in (Q, K, V))
    ref_forward(q, k, v, causal)[0].backward(dOut.float())
    return q.grad, k.grad, v.grad


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, seq, heads, heads_kv, dim = (1, 2048, 32, 8, 128) if device == "cuda" else (1, 100, 4, 2, 32)
    q, d_out = (torch.randn(batch, seq, heads, dim, device=device).bfloat16() for _ in range(2))
    k, v = (torch.randn(batch, seq, heads_kv, dim, device=device).bfloat16() for _ in range(2))
    leaves = [x.requires_grad_() for x in (q, k, v)]

    for causal in (False, True):
        out: torch.Tensor = Attention.apply(*leaves, causal)  # pyright: ignore[reportAssignmentType]
        found = torch.autograd.grad(out, leaves, d_out)
        for grad, expected in zip(found, ref_program(q, k, v, d_out, causal), strict=True):
            torch.testing.assert_close(grad.float(), expected, rtol=3e-2, atol=3e-2)

    q, k, v = (x.detach() for x in leaves)
    log_sum, delta = (torch.randn(batch, heads, seq, device=device) for _ in range(2))
    d_q = torch.zeros(batch, seq, heads, dim, device=device)
    latency = do_bench(lambda: gqa_backward(q, k, v, d_out, log_sum, delta, d_q))
    print(f"gqa_backward {tuple(q.shape)} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
