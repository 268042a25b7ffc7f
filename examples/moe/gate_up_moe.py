"""A mixture of experts with gated feed-forward networks: silu(X G^T) * (X U^T) in one kernel, then down.

Teaches: two products of one gathered tile in a pipeline (its rows are fetched ahead like those of any tile),
an epilogue that needs both results, and a scatter weighted by the router.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gate_up(
    X,
    Gate,
    Up,
    Rows,
    Experts,
    block_M: int = 64,
    block_N: int = 64,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    dtype=T.bfloat16,
):
    """What each slot's expert makes of its token, before the down projection."""
    tokens, K, experts, inner, slots, blocks = T.const("tokens, K, experts, inner, slots, blocks")
    X: T.Tensor((tokens, K), dtype)
    Gate: T.Tensor((experts, inner, K), dtype)
    Up: T.Tensor((experts, inner, K), dtype)
    Rows: T.Tensor((slots,), T.int32)  # the token of each slot, -1 for padding
    Experts: T.Tensor((blocks,), T.int32)  # the expert of each block of block_M slots
    Hidden = T.empty((slots, inner), dtype)

    with T.Kernel(T.ceildiv(inner, block_N), blocks, threads=threads) as (bx, by):
        x = T.alloc_shared((block_M, block_K), dtype)
        g = T.alloc_shared((block_N, block_K), dtype)
        u = T.alloc_shared((block_N, block_K), dtype)
        gate = T.alloc_fragment((block_M, block_N), T.float32)
        up = T.alloc_fragment((block_M, block_N), T.float32)

        expert = Experts[by]
        T.clear(gate)
        T.clear(up)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            for i, j in T.Parallel(block_M, block_K):
                row = Rows[by * block_M + i]
                x[i, j] = T.if_then_else((row >= 0) & (k * block_K + j < K), X[row, k * block_K + j], 0)
            T.copy(Gate[expert, bx * block_N : (bx + 1) * block_N, k * block_K : (k + 1) * block_K], g)
            T.copy(Up[expert, bx * block_N : (bx + 1) * block_N, k * block_K : (k + 1) * block_K], u)
            T.gemm(x, g, gate, transpose_B=True)
            T.gemm(x, u, up, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            up[i, j] *= gate[i, j] * T.sigmoid(gate[i, j])
        T.copy(up, Hidden[by * block_M : (by + 1) * block_M, bx * block_N : (bx + 1) * block_N])

    return Hidden


@tilelang.jit
def down(
    Hidden,
    Down,
    Rows,
    Experts,
    Weights,
    Out,
    block_M: int = 64,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    dtype=T.bfloat16,
):
    """The down projection of each slot, times the router's weight, added to its token's row of Out."""
    tokens, N, experts, inner, slots, blocks = T.const("tokens, N, experts, inner, slots, blocks")
    Hidden: T.Tensor((slots, inner), dtype)
    Down: T.Tensor((experts, N, inner), dtype)
    Rows: T.Tensor((slots,), T.int32)
    Experts: T.Tensor((blocks,), T.int32)
    Weights: T.Tensor((slots,), T.float32)
    Out: T.Tensor((tokens, N), T.float32)  # zero at first: experts add their shares

    with T.Kernel(T.ceildiv(N, block_N), blocks, threads=threads) as (bx, by):
        h = T.alloc_shared((block_M, block_K), dtype)
        w = T.alloc_shared((block_N, block_K), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        expert = Experts[by]
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(inner, block_K), num_stages=num_stages):
            T.copy(Hidden[by * block_M : (by + 1) * block_M, k * block_K : (k + 1) * block_K], h)
            T.copy(Down[expert, bx * block_N : (bx + 1) * block_N, k * block_K : (k + 1) * block_K], w)
            T.gemm(h, w, acc, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            row = Rows[by * block_M + i]
            if (row >= 0) & (bx * block_N + j < N):
                T.atomic_add(Out[row, bx * block_N + j], acc[i, j] * Weights[by * block_M + i])


def sort_by_expert(chosen, weights, experts, block_M=64):
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


def moe(X, Gate, Up, Down, chosen, weights, block_M: int = 64):
    """[tokens, N] in float32: sum over each token's experts of weight * down(silu(gate) * up)."""
    rows, owners, shares = sort_by_expert(chosen, weights, len(Gate), block_M)
    hidden = gate_up(X, Gate, Up, rows, owners, block_M=block_M)
    out = torch.zeros(len(X), Down.shape[1], device=X.device)
    down(hidden, Down, rows, owners, shares, out, block_M=block_M)
    return out


def ref_program(X, Gate, Up, Down, chosen, weights):
    """Expert by expert."""
    out = torch.zeros(len(X), Down.shape[1], device=X.device)
    for expert in range(len(Gate)):
        token, choice = (chosen == expert).nonzero(as_tuple=True)
        x = X[token].float()
        gate, up = x @ Gate[expert].float().T, x @ Up[expert].float().T
        hidden = (torch.nn.functional.silu(gate) * up).to(X.dtype).float()
        out.index_add_(0, token, hidden @ Down[expert].float().T * weights[token, choice][:, None])
    return out


def inputs(tokens: int, K: int, inner: int, experts: int, top: int, device: str):
    """Tokens, the three weights of each expert, which experts each token chose, and how much each counts."""
    x = torch.randn(tokens, K, device=device).bfloat16()
    gate, up = (torch.randn(experts, inner, K, device=device).bfloat16() / K**0.5 for _ in range(2))
    down_weights = torch.randn(experts, K, inner, device=device).bfloat16() / inner**0.5
    weights, chosen = torch.softmax(torch.randn(tokens, experts, device=device), -1).topk(top)
    return x, gate, up, down_weights, chosen, weights


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = (4096, 2048, 1408, 64, 6) if device == "cuda" else (100, 72, 96, 4, 2)
    given = inputs(*sizes, device)

    found = moe(*given)
    torch.testing.assert_close(found, ref_program(*given), rtol=2e-2, atol=2e-2)

    latency = tilelang.profiler.do_bench(lambda: moe(*given))
    print(f"gate_up_moe, {sizes[0]} tokens on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
