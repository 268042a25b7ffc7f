"""The delta rule with a gate per channel of the keys (KDA): S = (1 - b k k^T) diag(a) S + b k v^T, o = S^T q.

Teaches: exponents of differences that never overflow (products relative to the first row of a block of 16,
the blocks on the diagonal pair by pair), a triangular solve, and a state that fades by channel.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634
CHUNK = 64
SUB = 16  # rows whose decays are taken relative to the first of them


@tilelang.jit
def gate_sums(Gates, block_D: int = 32, threads: int = 128, chunk: int = CHUNK):
    """Sums of the gates from the beginning of each chunk, in powers of two: what a channel has kept."""
    batch, seq, heads, dim = T.const("batch, seq, heads, dim")
    Gates: T.Tensor((batch, seq, heads, dim), T.float32)  # natural logarithms, at most 0
    Sums = T.empty((batch, seq, heads, dim), T.float32)

    with T.Kernel(T.ceildiv(dim, block_D), T.ceildiv(seq, chunk), batch * heads, threads=threads) as (
        bx,
        c,
        z,
    ):
        tile = T.alloc_shared((chunk, block_D), T.float32)
        b, head, rows, left = z // heads, z % heads, c * chunk, bx * block_D
        T.copy(Gates[b, rows : rows + chunk, head, left : left + block_D], tile)
        for i, j in T.Parallel(chunk, block_D):
            tile[i, j] *= LOG2_E
        T.cumsum(tile, dim=0)
        T.copy(tile, Sums[b, rows : rows + chunk, head, left : left + block_D])

    return Sums


@tilelang.jit
def pair_products(Q, K, Sums, Beta, threads: int = 128, chunk: int = CHUNK, sub: int = SUB, dtype=T.bfloat16):
    """(b_i k_i k_j where i > j, q_i k_j where i >= j) of a chunk, each channel faded by exp(g_i - g_j)."""
    batch, seq, heads, dim = T.const("batch, seq, heads, dim")
    Q: T.Tensor((batch, seq, heads, dim), dtype)
    K: T.Tensor((batch, seq, heads, dim), dtype)
    Sums: T.Tensor((batch, seq, heads, dim), T.float32)
    Beta: T.Tensor((batch, seq, heads), T.float32)
    Keys = T.empty((batch, heads, T.ceildiv(seq, chunk), chunk, chunk), T.float32)
    Scores = T.empty((batch, heads, T.ceildiv(seq, chunk), chunk, chunk), dtype)

    with T.Kernel(T.ceildiv(seq, chunk), chunk // sub, batch * heads, threads=threads) as (c, part, z):
        q = T.alloc_shared((sub, dim), dtype)
        k = T.alloc_shared((chunk, dim), dtype)
        sums = T.alloc_shared((chunk, dim), T.float32)
        left_q = T.alloc_shared((sub, dim), dtype)
        left_k = T.alloc_shared((sub, dim), dtype)
        right = T.alloc_shared((chunk, dim), dtype)
        by_keys = T.alloc_fragment((sub, chunk), T.float32)
        by_query = T.alloc_fragment((sub, chunk), T.float32)
        keys = T.alloc_shared((sub, chunk), T.float32)
        scores = T.alloc_shared((sub, chunk), T.float32)

        b, head, rows, first = z // heads, z % heads, c * chunk, part * sub
        T.copy(Q[b, rows + first : rows + first + sub, head, :], q)
        T.copy(K[b, rows : rows + chunk, head, :], k)
        T.copy(Sums[b, rows : rows + chunk, head, :], sums)

        # Earlier blocks: exp(g_i - g_j) = exp(g_i - g_first) exp(g_first - g_j), both at most 1.
        for i, d in T.Parallel(sub, dim):
            fade = T.exp2(sums[first + i, d] - sums[first, d])
            left_q[i, d] = q[i, d] * fade
            left_k[i, d] = k[first + i, d] * fade
        for j, d in T.Parallel(chunk, dim):
            right[j, d] = T.if_then_else(
                j < first, k[j, d] * T.exp2(T.min(sums[first, d] - sums[j, d], 0)), 0
            )
        T.gemm(left_k, right, by_keys, transpose_B=True, clear_accum=True)
        T.gemm(left_q, right, by_query, transpose_B=True, clear_accum=True)
        T.copy(by_keys, keys)
        T.copy(by_query, scores)

        # The block on the diagonal, pair by pair.
        for i, j in T.Parallel(sub, sub):
            of_keys = T.alloc_var(T.float32, init=0)
            of_query = T.alloc_var(T.float32, init=0)
            for d in T.serial(dim):
                fade = T.exp2(T.min(sums[first + i, d] - sums[first + j, d], 0)) * k[first + j, d]
                of_keys += k[first + i, d] * fade
                of_query += q[i, d] * fade
            keys[i, first + j] = T.if_then_else(i > j, of_keys, 0)
            scores[i, first + j] = T.if_then_else(i >= j, of_query, 0)

        for i, j in T.Parallel(sub, chunk):
            row = rows + first + i
            beta = T.if_then_else(row < seq, Beta[b, row, head], 0)
            Keys[b, head, c, first + i, j] = keys[i, j] * beta
        for i, j in T.Parallel(sub, chunk):
            Scores[b, head, c, first + i, j] = scores[i, j] * dim**-0.5

    return Keys, Scores


@tilelang.jit
def wy_representation(
    K, V, Beta, Sums, Keys, block: int = 64, threads: int = 128, chunk: int = CHUNK, dtype=T.bfloat16
):
    """(W, U) of each chunk: with L the products of its keys, (1 + L)^-1 b exp(g) K and (1 + L)^-1 b V."""
    batch, seq, heads, dim_k, dim_v = T.const("batch, seq, heads, dim_k, dim_v")
    K: T.Tensor((batch, seq, heads, dim_k), dtype)
    V: T.Tensor((batch, seq, heads, dim_v), dtype)
    Beta: T.Tensor((batch, seq, heads), T.float32)
    Sums: T.Tensor((batch, seq, heads, dim_k), T.float32)
    Keys: T.Tensor((batch, heads, T.ceildiv(seq, chunk), chunk, chunk), T.float32)
    W = T.empty((batch, seq, heads, dim_k), dtype)
    U = T.empty((batch, seq, heads, dim_v), dtype)

    with T.Kernel(T.ceildiv(seq, chunk), heads, batch, threads=threads) as (c, head, b):
        scaled = T.alloc_shared((chunk, block), dtype)
        beta = T.alloc_shared((chunk,), T.float32)
        lower = T.alloc_shared((chunk, chunk), T.float32)
        inverse = T.alloc_shared((chunk, chunk), T.float32)
        inverse_cast = T.alloc_shared((chunk, chunk), dtype)
        out = T.alloc_fragment((chunk, block), T.float32)

        rows = c * chunk
        T.copy(Beta[b, rows : rows + chunk, head], beta)
        T.copy(Keys[b, head, c, :, :], lower)
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
                row, d = rows + i, n * block + j
                weight = beta[i] * T.exp2(Sums[b, row, head, d])
                scaled[i, j] = T.if_then_else((row < seq) & (d < dim_k), K[b, row, head, d] * weight, 0)
            T.gemm(inverse_cast, scaled, out, clear_accum=True)
            T.copy(out, W[b, rows : rows + chunk, head, n * block : (n + 1) * block])
        for n in T.serial(T.ceildiv(dim_v, block)):
            for i, j in T.Parallel(chunk, block):
                row, d = rows + i, n * block + j
                scaled[i, j] = T.if_then_else((row < seq) & (d < dim_v), V[b, row, head, d] * beta[i], 0)
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
    Sums: T.Tensor((batch, seq, heads, dim_k), T.float32)
    States = T.empty((batch, T.ceildiv(seq, chunk), heads, dim_k, dim_v), dtype)
    New = T.empty((batch, seq, heads, dim_v), dtype)

    with T.Kernel(T.ceildiv(dim_v, block_V), heads, batch, threads=threads) as (bx, head, b):
        k = T.alloc_shared((chunk, dim_k), dtype)
        w = T.alloc_shared((chunk, dim_k), dtype)
        u = T.alloc_shared((chunk, block_V), dtype)
        sums = T.alloc_shared((chunk, dim_k), T.float32)
        faded = T.alloc_shared((chunk, dim_k), dtype)
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
            T.copy(Sums[b, rows : rows + chunk, head, :], sums)

            T.copy(state, state_cast)
            T.copy(state_cast, States[b, c, head, :, bx * block_V : (bx + 1) * block_V])
            T.gemm(w, state_cast, new, clear_accum=True)
            for i, j in T.Parallel(chunk, block_V):
                new[i, j] = u[i, j] - new[i, j]
            T.copy(new, new_cast)
            T.copy(new_cast, New[b, rows : rows + chunk, head, bx * block_V : (bx + 1) * block_V])

            last = T.min(chunk, seq - rows) - 1
            for i, d in T.Parallel(chunk, dim_k):
                fade = T.exp2(T.min(sums[last, d] - sums[i, d], 0))
                faded[i, d] = T.if_then_else(i <= last, k[i, d] * fade, 0)
            for d, j in T.Parallel(dim_k, block_V):
                state[d, j] *= T.exp2(sums[last, d])
            T.gemm(faded, new_cast, state, transpose_A=True)

    return States, New


@tilelang.jit
def chunk_outputs(
    Q, Sums, Scores, New, States, block_V: int = 64, threads: int = 128, chunk: int = CHUNK, dtype=T.bfloat16
):
    """What the state before each chunk gives, and what the chunk's own updates add."""
    batch, seq, heads, dim_k, dim_v = T.const("batch, seq, heads, dim_k, dim_v")
    Q: T.Tensor((batch, seq, heads, dim_k), dtype)
    Sums: T.Tensor((batch, seq, heads, dim_k), T.float32)
    Scores: T.Tensor((batch, heads, T.ceildiv(seq, chunk), chunk, chunk), dtype)
    New: T.Tensor((batch, seq, heads, dim_v), dtype)
    States: T.Tensor((batch, T.ceildiv(seq, chunk), heads, dim_k, dim_v), dtype)
    Out = T.empty((batch, seq, heads, dim_v), dtype)

    with T.Kernel(T.ceildiv(dim_v, block_V), T.ceildiv(seq, chunk), batch * heads, threads=threads) as (
        bx,
        c,
        z,
    ):
        q = T.alloc_shared((chunk, dim_k), dtype)
        scores = T.alloc_shared((chunk, chunk), dtype)
        new = T.alloc_shared((chunk, block_V), dtype)
        state = T.alloc_shared((dim_k, block_V), dtype)
        out = T.alloc_fragment((chunk, block_V), T.float32)

        b, head, rows = z // heads, z % heads, c * chunk
        for i, d in T.Parallel(chunk, dim_k):
            row = rows + i
            kept = T.exp2(Sums[b, row, head, d]) * dim_k**-0.5
            q[i, d] = T.if_then_else(row < seq, Q[b, row, head, d] * kept, 0)
        T.copy(Scores[b, head, c, :, :], scores)
        T.copy(New[b, rows : rows + chunk, head, bx * block_V : (bx + 1) * block_V], new)
        T.copy(States[b, c, head, :, bx * block_V : (bx + 1) * block_V], state)
        T.gemm(q, state, out, clear_accum=True)
        T.gemm(scores, new, out)
        T.copy(out, Out[b, rows : rows + chunk, head, bx * block_V : (bx + 1) * block_V])

    return Out


def kimi_delta_attention(Q, K, V, Beta, Gates):
    """[batch, seq, heads, dim_v]; keys of length one, gates (one per channel of the keys) at most 0."""
    sums = gate_sums(Gates)
    keys, scores = pair_products(Q, K, sums, Beta)
    w, u = wy_representation(K, V, Beta, sums, keys)
    states, new = chunk_states(K, w, u, sums)
    return chunk_outputs(Q, sums, scores, new, states)


def ref_program(Q, K, V, Beta, Gates):
    """Step by step."""
    q, k, v = (x.float() for x in (Q, K, V))
    batch, seq, heads, dim_k = q.shape
    state = torch.zeros(batch, heads, dim_k, v.shape[3], device=q.device)
    out = torch.empty_like(v)
    for t in range(seq):
        state = state * torch.exp(Gates[:, t])[..., None]
        old = torch.einsum("bhk,bhkv->bhv", k[:, t], state)
        change = (v[:, t] - old) * Beta[:, t, :, None]
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], change)
        out[:, t] = torch.einsum("bhk,bhkv->bhv", q[:, t], state) * dim_k**-0.5
    return out.to(V.dtype)


def inputs(batch: int, seq: int, heads: int, dim_k: int, dim_v: int, device: str):
    """Random queries, keys of length one, values, how much is replaced, and gates from mild to strong."""
    q, k = (torch.randn(batch, seq, heads, dim_k, device=device) for _ in range(2))
    v = torch.randn(batch, seq, heads, dim_v, device=device).bfloat16()
    beta = torch.rand(batch, seq, heads, device=device)
    strength = torch.linspace(-6, 3, dim_k, device=device)
    gates = -torch.nn.functional.softplus(torch.randn(batch, seq, heads, dim_k, device=device) + strength)
    return q.bfloat16(), torch.nn.functional.normalize(k, dim=-1).bfloat16(), v, beta, gates


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = (2, 4096, 16, 128, 128) if device == "cuda" else (1, 150, 2, 32, 32)
    given = inputs(*sizes, device)

    found = kimi_delta_attention(*given)
    torch.testing.assert_close(found, ref_program(*given), rtol=3e-2, atol=3e-2)

    latency = tilelang.profiler.do_bench(lambda: kimi_delta_attention(*given))
    print(f"kimi_delta_attention {tuple(found.shape)} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
