"""The gated delta rule, forward, chunk by chunk: S = a (S - b k (k^T S - v^T)), o = S^T q, in four kernels.

Teaches: a scan along a tile (the sums of the gates), a triangular inverse in shared memory (the WY form of a
chunk's updates), a state carried through a loop of gemms, and kernels put together in plain Python.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634
CHUNK = 64


@tilelang.jit
def gate_sums(Gates, block_H: int = 8, threads: int = 128, chunk: int = CHUNK):
    """Sums of the gates (natural logarithms of what the state keeps) from the beginning of each chunk."""
    batch, seq, heads = T.const("batch, seq, heads")
    Gates: T.Tensor((batch, seq, heads), T.float32)
    Sums = T.empty((batch, seq, heads), T.float32)

    with T.Kernel(T.ceildiv(heads, block_H), T.ceildiv(seq, chunk), batch, threads=threads) as (bx, c, b):
        tile = T.alloc_shared((chunk, block_H), T.float32)
        T.copy(Gates[b, c * chunk : (c + 1) * chunk, bx * block_H : (bx + 1) * block_H], tile)
        T.cumsum(tile, dim=0)
        T.copy(tile, Sums[b, c * chunk : (c + 1) * chunk, bx * block_H : (bx + 1) * block_H])

    return Sums


@tilelang.jit
def wy_representation(
    K, V, Beta, Sums, block: int = 64, threads: int = 128, chunk: int = CHUNK, dtype=T.bfloat16
):
    """(W, U) of each chunk: its updates are those of one gemm with W, and U is what they would write.

    With L the strictly lower part of b_i exp(g_i - g_j) k_i k_j: W = (1 + L)^-1 b exp(g) K,
    U = (1 + L)^-1 b V.
    """
    batch, seq, heads, dim_k, dim_v = T.const("batch, seq, heads, dim_k, dim_v")
    K: T.Tensor((batch, seq, heads, dim_k), dtype)
    V: T.Tensor((batch, seq, heads, dim_v), dtype)
    Beta: T.Tensor((batch, seq, heads), T.float32)  # how much of a key's old value is replaced
    Sums: T.Tensor((batch, seq, heads), T.float32)
    W = T.empty((batch, seq, heads, dim_k), dtype)
    U = T.empty((batch, seq, heads, dim_v), dtype)

    with T.Kernel(T.ceildiv(seq, chunk), heads, batch, threads=threads) as (c, head, b):
        k = T.alloc_shared((chunk, dim_k), dtype)
        scaled = T.alloc_shared((chunk, block), dtype)
        beta = T.alloc_shared((chunk,), T.float32)
        sums = T.alloc_shared((chunk,), T.float32)
        products = T.alloc_fragment((chunk, chunk), T.float32)
        lower = T.alloc_shared((chunk, chunk), T.float32)
        inverse = T.alloc_shared((chunk, chunk), T.float32)
        inverse_cast = T.alloc_shared((chunk, chunk), dtype)
        out = T.alloc_fragment((chunk, block), T.float32)

        rows = c * chunk
        T.copy(K[b, rows : rows + chunk, head, :], k)
        T.copy(Beta[b, rows : rows + chunk, head], beta)
        T.copy(Sums[b, rows : rows + chunk, head], sums)

        T.gemm(k, k, products, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(chunk, chunk):
            # Above the diagonal the exponential may be infinite: it is not multiplied, but left out.
            fade = T.exp2(T.min(sums[i] - sums[j], 0) * LOG2_E)
            lower[i, j] = T.if_then_else(i > j, products[i, j] * beta[i] * fade, 0)

        # (1 + L) X = 1, row after row: x_i = e_i - sum of L_ij x_j over the rows before.
        for i in T.serial(chunk):
            for j in T.Parallel(chunk):
                entry = T.alloc_var(T.float32)
                entry = T.if_then_else(i == j, 1.0, 0.0)
                for before in T.serial(i):
                    entry -= lower[i, before] * inverse[before, j]
                inverse[i, j] = entry
        T.copy(inverse, inverse_cast)

        for n in T.serial(T.ceildiv(dim_k, block)):
            for i, j in T.Parallel(chunk, block):
                inside = n * block + j < dim_k
                weight = beta[i] * T.exp2(sums[i] * LOG2_E)
                scaled[i, j] = T.if_then_else(inside, k[i, n * block + j] * weight, 0)
            T.gemm(inverse_cast, scaled, out, clear_accum=True)
            T.copy(out, W[b, rows : rows + chunk, head, n * block : (n + 1) * block])
        for n in T.serial(T.ceildiv(dim_v, block)):
            for i, j in T.Parallel(chunk, block):
                inside = (rows + i < seq) & (n * block + j < dim_v)
                scaled[i, j] = T.if_then_else(inside, V[b, rows + i, head, n * block + j] * beta[i], 0)
            T.gemm(inverse_cast, scaled, out, clear_accum=True)
            T.copy(out, U[b, rows : rows + chunk, head, n * block : (n + 1) * block])

    return W, U


@tilelang.jit
def chunk_states(
    K,
    W,
    U,
    Sums,
    block_V: int = 32,
    num_stages: int = 2,
    threads: int = 128,
    chunk: int = CHUNK,
    dtype=T.bfloat16,
):
    """(state before each chunk, what each chunk writes): the only part that runs along the sequence."""
    batch, seq, heads, dim_k, dim_v = T.const("batch, seq, heads, dim_k, dim_v")
    K: T.Tensor((batch, seq, heads, dim_k), dtype)
    W: T.Tensor((batch, seq, heads, dim_k), dtype)
    U: T.Tensor((batch, seq, heads, dim_v), dtype)
    Sums: T.Tensor((batch, seq, heads), T.float32)
    States = T.empty((batch, T.ceildiv(seq, chunk), heads, dim_k, dim_v), dtype)
    New = T.empty((batch, seq, heads, dim_v), dtype)

    with T.Kernel(T.ceildiv(dim_v, block_V), heads, batch, threads=threads) as (bx, head, b):
        k = T.alloc_shared((chunk, dim_k), dtype)
        w = T.alloc_shared((chunk, dim_k), dtype)
        u = T.alloc_shared((chunk, block_V), dtype)
        sums = T.alloc_shared((chunk,), T.float32)
        state = T.alloc_fragment((dim_k, block_V), T.float32)
        state_cast = T.alloc_shared((dim_k, block_V), dtype)
        new = T.alloc_fragment((chunk, block_V), T.float32)
        new_cast = T.alloc_shared((chunk, block_V), dtype)

        T.clear(state)
        for c in T.Pipelined(T.ceildiv(seq, chunk), num_stages=num_stages):
            rows = c * chunk
            T.copy(W[b, rows : rows + chunk, head, :], w)
            T.copy(U[b, rows : rows + chunk, head, bx * block_V : (bx + 1) * block_V], u)
            T.copy(K[b, rows : rows + chunk, head, :], k)
            T.copy(Sums[b, rows : rows + chunk, head], sums)

            T.copy(state, state_cast)
            T.copy(state_cast, States[b, c, head, :, bx * block_V : (bx + 1) * block_V])
            T.gemm(w, state_cast, new, clear_accum=True)
            for i, j in T.Parallel(chunk, block_V):
                new[i, j] = u[i, j] - new[i, j]
            T.copy(new, New[b, rows : rows + chunk, head, bx * block_V : (bx + 1) * block_V])

            last = T.min(chunk, seq - rows) - 1
            for i, j in T.Parallel(chunk, block_V):
                new[i, j] *= T.if_then_else(i <= last, T.exp2((sums[last] - sums[i]) * LOG2_E), 0)
            T.copy(new, new_cast)
            for i, j in T.Parallel(dim_k, block_V):
                state[i, j] *= T.exp2(sums[last] * LOG2_E)
            T.gemm(k, new_cast, state, transpose_A=True)

    return States, New


@tilelang.jit
def chunk_outputs(
    Q, K, New, States, Sums, block_V: int = 64, threads: int = 128, chunk: int = CHUNK, dtype=T.bfloat16
):
    """What the state before each chunk gives, and what the chunk's own updates add."""
    batch, seq, heads, dim_k, dim_v = T.const("batch, seq, heads, dim_k, dim_v")
    Q: T.Tensor((batch, seq, heads, dim_k), dtype)
    K: T.Tensor((batch, seq, heads, dim_k), dtype)
    New: T.Tensor((batch, seq, heads, dim_v), dtype)
    States: T.Tensor((batch, T.ceildiv(seq, chunk), heads, dim_k, dim_v), dtype)
    Sums: T.Tensor((batch, seq, heads), T.float32)
    Out = T.empty((batch, seq, heads, dim_v), dtype)

    scale = dim_k**-0.5

    with T.Kernel(T.ceildiv(dim_v, block_V), T.ceildiv(seq, chunk), batch * heads, threads=threads) as (
        bx,
        c,
        bz,
    ):
        q = T.alloc_shared((chunk, dim_k), dtype)
        k = T.alloc_shared((chunk, dim_k), dtype)
        new = T.alloc_shared((chunk, block_V), dtype)
        state = T.alloc_shared((dim_k, block_V), dtype)
        sums = T.alloc_shared((chunk,), T.float32)
        scores = T.alloc_fragment((chunk, chunk), T.float32)
        scores_cast = T.alloc_shared((chunk, chunk), dtype)
        out = T.alloc_fragment((chunk, block_V), T.float32)

        b, head = bz // heads, bz % heads
        rows = c * chunk
        T.copy(Q[b, rows : rows + chunk, head, :], q)
        T.copy(K[b, rows : rows + chunk, head, :], k)
        T.copy(New[b, rows : rows + chunk, head, bx * block_V : (bx + 1) * block_V], new)
        T.copy(States[b, c, head, :, bx * block_V : (bx + 1) * block_V], state)
        T.copy(Sums[b, rows : rows + chunk, head], sums)

        T.gemm(q, state, out, clear_accum=True)
        for i, j in T.Parallel(chunk, block_V):
            out[i, j] *= T.exp2(sums[i] * LOG2_E) * scale
        T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(chunk, chunk):
            fade = T.exp2(T.min(sums[i] - sums[j], 0) * LOG2_E)
            scores_cast[i, j] = T.if_then_else(i >= j, scores[i, j] * fade * scale, 0)
        T.gemm(scores_cast, new, out)
        T.copy(out, Out[b, rows : rows + chunk, head, bx * block_V : (bx + 1) * block_V])

    return Out


def gated_delta_rule(Q, K, V, Beta, Gates):
    """[batch, seq, heads, dim_v]; keys of length one, gates at most 0."""
    sums = gate_sums(Gates)
    w, u = wy_representation(K, V, Beta, sums)
    states, new = chunk_states(K, w, u, sums)
    return chunk_outputs(Q, K, new, states, sums)


def ref_program(Q, K, V, Beta, Gates):
    """Step by step."""
    q, k, v = (x.float() for x in (Q, K, V))
    batch, seq, heads, dim_k = q.shape
    state = torch.zeros(batch, heads, dim_k, v.shape[3], device=q.device)
    out = torch.empty_like(v)
    for t in range(seq):
        state = state * torch.exp(Gates[:, t])[..., None, None]
        old = torch.einsum("bhk,bhkv->bhv", k[:, t], state)
        change = (v[:, t] - old) * Beta[:, t, :, None]
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], change)
        out[:, t] = torch.einsum("bhk,bhkv->bhv", q[:, t], state) * dim_k**-0.5
    return out.to(V.dtype)


def inputs(batch: int, seq: int, heads: int, dim_k: int, dim_v: int, device: str):
    """Random queries, keys of length one, values, and how much is replaced and kept."""
    q, k = (torch.randn(batch, seq, heads, dim_k, device=device) for _ in range(2))
    v = torch.randn(batch, seq, heads, dim_v, device=device).bfloat16()
    beta = torch.rand(batch, seq, heads, device=device)
    gates = torch.nn.functional.logsigmoid(torch.randn(batch, seq, heads, device=device) + 3)
    return q.bfloat16(), torch.nn.functional.normalize(k, dim=-1).bfloat16(), v, beta, gates


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = (2, 4096, 16, 128, 128) if device == "cuda" else (1, 150, 2, 32, 32)
    given = inputs(*sizes, device)

    found = gated_delta_rule(*given)
    torch.testing.assert_close(found, ref_program(*given), rtol=3e-2, atol=3e-2)

    latency = tilelang.profiler.do_bench(lambda: gated_delta_rule(*given))
    print(f"gated_delta_rule {tuple(found.shape)} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
