"""FlashAttention, backward: dQ, dK and dV from the output's gradient, with the scores computed again.

Teaches: a block that keeps a tile of K and V and walks over Q, gemms with either operand transposed, and
T.atomic_add of dQ, to which many blocks contribute.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit
def attention_backward(
    Q,
    K,
    V,
    dOut,
    LogSum,
    Delta,
    dQ,
    causal: bool = False,
    block_M: int = 32,
    block_N: int = 64,
    threads: int = 128,
    dtype=T.float16,
):
    batch, heads, seq, dim = T.const("batch, heads, seq, dim")
    Q: T.Tensor((batch, heads, seq, dim), dtype)
    K: T.Tensor((batch, heads, seq, dim), dtype)
    V: T.Tensor((batch, heads, seq, dim), dtype)
    dOut: T.Tensor((batch, heads, seq, dim), dtype)
    LogSum: T.Tensor((batch, heads, seq), T.float32)  # log2 of every row's sum of exponentials
    Delta: T.Tensor((batch, heads, seq), T.float32)  # sum of dOut * Out over every row
    dQ: T.Tensor((batch, heads, seq, dim), T.float32)  # zero at first: blocks add to it
    dK = T.empty((batch, heads, seq, dim), dtype)
    dV = T.empty((batch, heads, seq, dim), dtype)

    scale = dim**-0.5

    with T.Kernel(T.ceildiv(seq, block_N), heads, batch, threads=threads) as (bx, head, b):
        k = T.alloc_shared((block_N, dim), dtype)
        v = T.alloc_shared((block_N, dim), dtype)
        q = T.alloc_shared((block_M, dim), dtype)
        d_out = T.alloc_shared((block_M, dim), dtype)
        weights_cast = T.alloc_shared((block_M, block_N), dtype)
        d_scores_cast = T.alloc_shared((block_M, block_N), dtype)
        log_sum = T.alloc_shared((block_M,), T.float32)
        delta = T.alloc_shared((block_M,), T.float32)
        weights = T.alloc_fragment((block_M, block_N), T.float32)
        d_scores = T.alloc_fragment((block_M, block_N), T.float32)
        d_q = T.alloc_fragment((block_M, dim), T.float32)
        d_k = T.alloc_fragment((block_N, dim), T.float32)
        d_v = T.alloc_fragment((block_N, dim), T.float32)

        T.copy(K[b, head, bx * block_N : (bx + 1) * block_N, :], k)
        T.copy(V[b, head, bx * block_N : (bx + 1) * block_N, :], v)
        T.clear(d_k)
        T.clear(d_v)

        first = bx * block_N // block_M if causal else 0  # rows above see nothing of these columns
        for t in T.serial(first, T.ceildiv(seq, block_M)):
            rows = t * block_M
            T.copy(Q[b, head, rows : rows + block_M, :], q)
            T.copy(dOut[b, head, rows : rows + block_M, :], d_out)
            T.copy(LogSum[b, head, rows : rows + block_M], log_sum)
            T.copy(Delta[b, head, rows : rows + block_M], delta)

            T.gemm(q, k, weights, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                row, column = rows + i, bx * block_N + j
                seen = (row < seq) & (column < seq)
                seen = seen & (column <= row) if causal else seen
                weights[i, j] = T.if_then_else(seen, T.exp2(weights[i, j] * (scale * LOG2_E) - log_sum[i]), 0)
            T.copy(weights, weights_cast)
            T.gemm(weights_cast, d_out, d_v, transpose_A=True)

            T.gemm(d_out, v, d_scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                d_scores[i, j] = weights[i, j] * (d_scores[i, j] - delta[i]) * scale
            T.copy(d_scores, d_scores_cast)
            T.gemm(d_scores_cast, q, d_k, transpose_A=True)
            T.gemm(d_scores_cast, k, d_q, clear_accum=True)
            T.atomic_add(dQ[b, head, rows : rows + block_M, :], d_q)

        T.copy(d_k, dK[b, head, bx * block_N : (bx + 1) * block_N, :])
        T.copy(d_v, dV[b, head, bx * block_N : (bx + 1) * block_N, :])

    return dK, dV


def forward(Q, K, V, causal=False):
    """(output, log2 of the rows' sums) in float32."""
    q, k, v = (x.float() for x in (Q, K, V))
    scores = q @ k.transpose(-1, -2) * Q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=Q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1) * LOG2_E


def gradients(Q, K, V, dOut, causal=False):
    """(dQ, dK, dV) by torch."""
    q, k, v = (x.detach().float().requires_grad_() for x in (Q, K, V))
    forward(q, k, v, causal)[0].backward(dOut.float())
    return q.grad, k.grad, v.grad


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, heads, seq, dim = (1, 16, 2048, 64) if device == "cuda" else (1, 2, 150, 64)
    q, k, v, d_out = (torch.randn(batch, heads, seq, dim, device=device).half() for _ in range(4))
    for causal in (False, True):
        out, log_sum = forward(q, k, v, causal)
        delta = (out * d_out.float()).sum(-1)
        d_q = torch.zeros(batch, heads, seq, dim, device=device)
        d_k, d_v = attention_backward(q, k, v, d_out, log_sum, delta, d_q, causal=causal)
        expected = gradients(q, k, v, d_out, causal)
        for found, want in zip((d_q, d_k, d_v), expected, strict=True):
            torch.testing.assert_close(found.float(), want, rtol=2e-2, atol=2e-2)

    kernel = attention_backward.compile(q, k, v, d_out, log_sum, delta, d_q)
    latency = kernel.get_profiler().do_bench(input_tensors=[q, k, v, d_out, log_sum, delta, d_q])
    print(f"attention_backward {tuple(q.shape)} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
