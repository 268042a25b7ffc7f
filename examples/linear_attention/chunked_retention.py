"""Linear attention with decay (retention), chunk by chunk: a matrix-valued state instead of a score matrix.

Teaches: a tile that is carried through a serial loop, a causal decay mask computed on the fly, and gemms with
a transposed first operand.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def retention(Q, K, V, LogDecay, chunk: int = 32, block_V: int = 32, dtype=T.float16):
    batch, seq, heads, dim_k, dim_v = T.const("batch, seq, heads, dim_k, dim_v")
    Q: T.Tensor((batch, seq, heads, dim_k), dtype)
    K: T.Tensor((batch, seq, heads, dim_k), dtype)
    V: T.Tensor((batch, seq, heads, dim_v), dtype)
    LogDecay: T.Tensor((heads,), T.float32)  # log2 of how much of the state a step keeps
    Out = T.empty((batch, seq, heads, dim_v), dtype)

    with T.Kernel(T.ceildiv(dim_v, block_V), heads, batch, threads=128) as (bx, head, b):
        q = T.alloc_shared((chunk, dim_k), dtype)
        k = T.alloc_shared((chunk, dim_k), dtype)
        v = T.alloc_shared((chunk, block_V), dtype)
        k_decayed = T.alloc_shared((chunk, dim_k), dtype)
        state_cast = T.alloc_shared((dim_k, block_V), dtype)
        scores_cast = T.alloc_shared((chunk, chunk), dtype)
        scores = T.alloc_fragment((chunk, chunk), T.float32)
        out = T.alloc_fragment((chunk, block_V), T.float32)
        state = T.alloc_fragment((dim_k, block_V), T.float32)

        decay = LogDecay[head]
        T.clear(state)
        for c in T.serial(T.ceildiv(seq, chunk)):
            rows = c * chunk
            T.copy(Q[b, rows : rows + chunk, head, :], q)
            T.copy(K[b, rows : rows + chunk, head, :], k)
            T.copy(V[b, rows : rows + chunk, head, bx * block_V : (bx + 1) * block_V], v)

            # Within the chunk: scores that fade with distance, nothing from the future.
            T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(chunk, chunk):
                faded = scores[i, j] * T.exp2(T.cast(i - j, T.float32) * decay)
                scores_cast[i, j] = T.if_then_else(i >= j, faded, 0)

            # Before the chunk: everything is in the state, seen through the decay since.
            T.copy(state, state_cast)
            T.gemm(q, state_cast, out, clear_accum=True)
            for i, j in T.Parallel(chunk, block_V):
                out[i, j] *= T.exp2(T.cast(i + 1, T.float32) * decay)
            T.gemm(scores_cast, v, out)
            T.copy(out, Out[b, rows : rows + chunk, head, bx * block_V : (bx + 1) * block_V])

            # The state after the chunk.
            for i, j in T.Parallel(chunk, dim_k):
                k_decayed[i, j] = k[i, j] * T.exp2(T.cast(chunk - 1 - i, T.float32) * decay)
            for i, j in T.Parallel(dim_k, block_V):
                state[i, j] *= T.exp2(T.cast(chunk, T.float32) * decay)
            T.gemm(k_decayed, v, state, transpose_A=True)

    return Out


def ref_program(Q, K, V, LogDecay):
    q, k, v = (x.float() for x in (Q, K, V))
    steps = torch.arange(Q.shape[1], device=Q.device)
    distance = (steps[:, None] - steps[None]).float()
    fade = torch.exp2(distance[None] * LogDecay[:, None, None]).masked_fill(distance[None] < 0, 0)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * fade
    return torch.einsum("bhij,bjhv->bihv", scores, v).to(Q.dtype)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, seq, heads, dim_k, dim_v = (2, 2048, 8, 128, 128) if device == "cuda" else (2, 128, 2, 64, 64)
    q, k = (torch.randn(batch, seq, heads, dim_k, device=device).half() * dim_k**-0.5 for _ in range(2))
    v = torch.randn(batch, seq, heads, dim_v, device=device).half()
    decay = torch.log2(1 - 2.0 ** -(5 + torch.arange(heads, device=device).float()))

    found = retention(q, k, v, decay)
    torch.testing.assert_close(found, ref_program(q, k, v, decay), rtol=1e-2, atol=1e-2)

    latency = retention.compile(q, k, v, decay).get_profiler().do_bench()
    print(f"retention {tuple(q.shape)} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
