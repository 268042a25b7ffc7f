"""Mixture of experts: each token goes through the experts that it chose, rows gathered inside the gemm.

Teaches: a gather by loaded indices as the first operand, blocks that read which expert they work for, and a
scatter with T.atomic_add weighted by the router.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def expert_gemm(
    X,
    W,
    Rows,
    Experts,
    Weights,
    Out,
    block_M: int = 32,
    block_N: int = 64,
    block_K: int = 32,
    dtype=T.float16,
):
    tokens, K, experts, N, slots, blocks = T.const("tokens, K, experts, N, slots, blocks")
    X: T.Tensor((tokens, K), dtype)
    W: T.Tensor((experts, N, K), dtype)
    Rows: T.Tensor((slots,), T.int32)  # the token of each slot, -1 for padding
    Experts: T.Tensor((blocks,), T.int32)  # the expert of each block of block_M slots
    Weights: T.Tensor((slots,), T.float32)
    Out: T.Tensor((tokens, N), T.float32)  # zero at first: experts add their shares

    with T.Kernel(T.ceildiv(N, block_N), blocks, threads=128) as (bx, by):
        x = T.alloc_shared((block_M, block_K), dtype)
        w = T.alloc_shared((block_N, block_K), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        expert = Experts[by]
        T.clear(acc)
        for k in T.serial(T.ceildiv(K, block_K)):
            for i, j in T.Parallel(block_M, block_K):
                row = Rows[by * block_M + i]
                x[i, j] = T.if_then_else((row >= 0) & (k * block_K + j < K), X[row, k * block_K + j], 0)
            T.copy(W[expert, bx * block_N : (bx + 1) * block_N, k * block_K : (k + 1) * block_K], w)
            T.gemm(x, w, acc, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            row = Rows[by * block_M + i]
            if (row >= 0) & (bx * block_N + j < N):
                T.atomic_add(Out[row, bx * block_N + j], acc[i, j] * Weights[by * block_M + i])


def sort_by_expert(chosen, weights, experts, block_M=32):
    """(token of each slot, expert of each block, weight of each slot); experts fill whole blocks."""
    rows, owners, shares = [], [], []
    for expert in range(experts):
        token, choice = (chosen == expert).nonzero(as_tuple=True)
        padding = -len(token) % block_M
        rows.append(torch.nn.functional.pad(token, (0, padding), value=-1))
        shares.append(torch.nn.functional.pad(weights[token, choice], (0, padding)))
        owners += [expert] * ((len(token) + padding) // block_M)
    owner = torch.tensor(owners, dtype=torch.int32, device=chosen.device)
    return torch.cat(rows).int(), owner, torch.cat(shares).float()


def reference(X, W, chosen, weights):
    out = torch.zeros(X.shape[0], W.shape[1], device=X.device)
    for token in range(X.shape[0]):
        for expert, weight in zip(chosen[token], weights[token], strict=True):
            out[token] += weight * (W[expert].float() @ X[token].float())
    return out


def main(tokens: int = 100, K: int = 72, N: int = 96, experts: int = 4, top: int = 2) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(tokens, K, dtype=torch.float16, device=device)
    w = torch.randn(experts, N, K, dtype=torch.float16, device=device)
    weights, chosen = torch.softmax(torch.randn(tokens, experts, device=device), -1).topk(top)
    rows, owner, shares = sort_by_expert(chosen, weights, experts)
    out = torch.zeros(tokens, N, device=device)

    expert_gemm(x, w, rows, owner, shares, out)
    torch.testing.assert_close(out, reference(x, w, chosen, weights), rtol=1e-3, atol=1e-2)

    kernel = expert_gemm.compile(x, w, rows, owner, shares, out)
    latency = kernel.get_profiler().do_bench(input_tensors=[x, w, rows, owner, shares, out])
    print(f"expert_gemm, {tokens} tokens on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
