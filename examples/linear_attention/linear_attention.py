"""Linear attention without a mask: O = Q (K^T V) / (Q K^T 1), in time linear in the sequence.

Teaches: a sum over the sequence that many blocks share through tile atomics, a macro that returns a value,
and two launches in one kernel.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def linear_attention(
    Q,
    K,
    V,
    State,
    Norm,
    block: int = 64,
    tiles_per_block: int = 8,
    num_stages: int = 2,
    threads: int = 128,
    dtype=T.bfloat16,
):
    batch, seq, heads, dim_k, dim_v = T.const("batch, seq, heads, dim_k, dim_v")
    Q: T.Tensor((batch, seq, heads, dim_k), dtype)
    K: T.Tensor((batch, seq, heads, dim_k), dtype)
    V: T.Tensor((batch, seq, heads, dim_v), dtype)
    State: T.Tensor((batch, heads, dim_k, dim_v), T.float32)  # zero at first: blocks add to it
    Norm: T.Tensor((batch, heads, dim_k), T.float32)  # zero at first
    Out = T.empty((batch, seq, heads, dim_v), dtype)

    @T.macro
    def feature(x):
        """elu(x) + 1, positive."""
        return T.if_then_else(x > 0, x + 1, T.exp(x))

    with T.Kernel(T.ceildiv(seq, block * tiles_per_block), heads, batch, threads=threads) as (bx, head, b):
        k = T.alloc_shared((block, dim_k), dtype)
        v = T.alloc_shared((block, dim_v), dtype)
        features = T.alloc_shared((block, dim_k), dtype)
        state = T.alloc_fragment((dim_k, dim_v), T.float32)
        columns = T.alloc_fragment((block, dim_k), T.float32)
        norm = T.alloc_fragment((dim_k,), T.float32)

        T.clear(state)
        T.clear(norm)
        first = bx * tiles_per_block
        tiles = T.min(tiles_per_block, T.ceildiv(seq, block) - first)
        for t in T.Pipelined(tiles, num_stages=num_stages):
            row = (first + t) * block
            T.copy(K[b, row : row + block, head, :], k)
            T.copy(V[b, row : row + block, head, :], v)
            for i, j in T.Parallel(block, dim_k):
                seen = row + i < seq  # the feature of what lies behind is 1, not 0
                columns[i, j] = T.if_then_else(seen, feature(T.cast(k[i, j], T.float32)), 0)
            T.copy(columns, features)
            T.reduce_sum(columns, norm, dim=0, clear=False)
            T.gemm(features, v, state, transpose_A=True)
        T.atomic_add(State[b, head, :, :], state)
        T.atomic_add(Norm[b, head, :], norm)

    with T.Kernel(T.ceildiv(seq, block), heads, batch, threads=threads) as (bx, head, b):
        q = T.alloc_shared((block, dim_k), dtype)
        features = T.alloc_shared((block, dim_k), dtype)
        state = T.alloc_shared((dim_k, dim_v), dtype)
        weighted = T.alloc_fragment((block, dim_k), T.float32)
        out = T.alloc_fragment((block, dim_v), T.float32)
        total = T.alloc_fragment((block,), T.float32)

        T.copy(Q[b, bx * block : (bx + 1) * block, head, :], q)
        T.copy(State[b, head, :, :], state)
        for i, j in T.Parallel(block, dim_k):
            weighted[i, j] = feature(T.cast(q[i, j], T.float32))
        T.copy(weighted, features)
        for i, j in T.Parallel(block, dim_k):
            weighted[i, j] *= Norm[b, head, j]
        T.reduce_sum(weighted, total, dim=1)
        T.gemm(features, state, out, clear_accum=True)
        for i, j in T.Parallel(block, dim_v):
            out[i, j] /= total[i]
        T.copy(out, Out[b, bx * block : (bx + 1) * block, head, :])

    return Out


def ref_program(Q, K, V):
    q, k = (torch.nn.functional.elu(x.float()) + 1 for x in (Q, K))
    state = torch.einsum("bshk,bshv->bhkv", k, V.float())
    total = torch.einsum("bshk,bhk->bsh", q, k.sum(1))
    return (torch.einsum("bshk,bhkv->bshv", q, state) / total[..., None]).to(Q.dtype)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, seq, heads, dim = (4, 8192, 16, 128) if device == "cuda" else (1, 300, 2, 32)
    q, k, v = (torch.randn(batch, seq, heads, dim, dtype=torch.bfloat16, device=device) for _ in range(3))
    state, norm = (
        torch.zeros(batch, heads, dim, dim, device=device),
        torch.zeros(batch, heads, dim, device=device),
    )

    found = linear_attention(q, k, v, state, norm)
    torch.testing.assert_close(found, ref_program(q, k, v), rtol=2e-2, atol=1e-2)

    kernel = linear_attention.compile(q, k, v, state, norm)
    latency = kernel.get_profiler().do_bench(input_tensors=[q, k, v, state, norm])
    print(f"linear_attention {tuple(q.shape)} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
