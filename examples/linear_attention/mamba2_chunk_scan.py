"""Mamba-2, the output of each chunk: what the state before it gives, plus attention with decay inside of it.

Teaches: two gemms of different origin in one accumulator, a causal mask with decay that is made in registers,
and a loop whose length depends on the block.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def chunk_scan(
    batch: int = 8,
    seq: int = 4096,
    chunk: int = 256,
    groups: int = 1,
    heads: int = 80,
    dim: int = 64,
    state: int = 128,
    block_M: int = 64,
    block_N: int = 64,
    block_K: int = 64,
    num_stages: int = 2,
    threads: int = 128,
    dtype=T.float16,
):
    chunks = seq // chunk
    tiles_n = -(-dim // block_N)
    heads_per_group = heads // groups

    @T.prim_func
    def chunk_scan_kernel(
        CB: T.Tensor((batch, chunks, groups, chunk, chunk), dtype),  # C B^T inside of a chunk
        X: T.Tensor((batch, seq, heads, dim), dtype),
        Dt: T.Tensor((batch, heads, chunks, chunk), dtype),
        Decay: T.Tensor((batch, heads, chunks, chunk), T.float32),
        C: T.Tensor((batch, seq, groups, state), dtype),
        Before: T.Tensor((batch, chunks, heads, dim, state), dtype),  # the state before each chunk
        D: T.Tensor((heads,), dtype),  # of the skip connection
        Out: T.Tensor((batch, seq, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(chunk, block_M) * tiles_n, batch * chunks, heads, threads=threads) as (
            bx,
            by,
            head,
        ):
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            cb = T.alloc_shared((block_M, block_K), dtype)
            cb_faded = T.alloc_fragment((block_M, block_K), dtype)
            x = T.alloc_shared((block_K, block_N), dtype)
            dt = T.alloc_shared((block_K,), dtype)
            decay_k = T.alloc_shared((block_K,), T.float32)
            decay_m = T.alloc_fragment((block_M,), T.float32)
            c_tile = T.alloc_shared((block_M, state), dtype)
            before = T.alloc_shared((block_N, state), dtype)
            skip = T.alloc_shared((block_M, block_N), dtype)

            b, c = by // chunks, by % chunks
            m, n = bx // tiles_n * block_M, bx % tiles_n * block_N
            group = head // heads_per_group
            row = c * chunk + m

            T.copy(Decay[b, head, c, m : m + block_M], decay_m)
            T.copy(C[b, row : row + block_M, group, :], c_tile)
            T.copy(Before[b, c, head, n : n + block_N, :], before)
            T.gemm(c_tile, before, acc, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] *= T.exp2(decay_m[i] * LOG2_E)

            for k in T.Pipelined(T.ceildiv(m + block_M, block_K), num_stages=num_stages):
                first = k * block_K
                T.copy(CB[b, c, group, m : m + block_M, first : first + block_K], cb)
                T.copy(X[b, c * chunk + first : c * chunk + first + block_K, head, n : n + block_N], x)
                T.copy(Decay[b, head, c, first : first + block_K], decay_k)
                T.copy(Dt[b, head, c, first : first + block_K], dt)
                T.copy(cb, cb_faded)
                for i, j in T.Parallel(block_M, block_K):
                    faded = cb_faded[i, j] * T.exp2((decay_m[i] - decay_k[j]) * LOG2_E) * dt[j]
                    cb_faded[i, j] = T.if_then_else(m + i >= first + j, faded, 0)
                T.gemm(cb_faded, x, acc)

            T.copy(X[b, row : row + block_M, head, n : n + block_N], skip)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] += skip[i, j] * D[head]
            for i, j in T.Parallel(block_M, block_N):
                if (m + i < chunk) & (n + j < dim):
                    Out[b, row + i, head, n + j] = acc[i, j]

    return chunk_scan_kernel


def ref_program(CB, X, Dt, Decay, C, Before, D):
    batch, chunks, groups, chunk, _ = CB.shape
    heads, dim = X.shape[2:]
    share = heads // groups
    x = X.float().reshape(batch, chunks, chunk, heads, dim)
    c = C.float().reshape(batch, chunks, chunk, groups, -1).repeat_interleave(share, dim=3)
    decay = Decay.permute(0, 2, 3, 1)  # [batch, chunk, place, head]
    dt = Dt.float().permute(0, 2, 3, 1)
    past = torch.einsum("bclhn,bchpn->bclhp", c, Before.float()) * torch.exp(decay)[..., None]
    fade = torch.exp(decay[:, :, :, None] - decay[:, :, None]) * dt[:, :, None]  # [b, c, l, s, h]
    fade = fade.masked_fill(~torch.ones(chunk, chunk, dtype=torch.bool, device=X.device).tril()[..., None], 0)
    cb = CB.float().repeat_interleave(share, dim=2)
    inside = torch.einsum("bchls,bclsh,bcshp->bclhp", cb, fade, x)
    return (past + inside + x * D.float()[:, None]).reshape(X.shape).to(X.dtype)


def inputs(batch: int, seq: int, chunk: int, groups: int, heads: int, dim: int, state: int, device: str):
    """The parameters of `chunk_scan`, of a random layer."""
    chunks = seq // chunk
    c, b = (torch.randn(batch, seq, groups, state, device=device).half() * state**-0.5 for _ in range(2))
    cb = torch.einsum(
        "bclgn,bcsgn->bcgls",
        *(t.reshape(batch, chunks, chunk, groups, state).float() for t in (c, b)),
    )
    x = torch.randn(batch, seq, heads, dim, device=device).half()
    dt = torch.nn.functional.softplus(torch.randn(batch, heads, chunks, chunk, device=device) - 4)
    decay = (dt * -torch.rand(heads, 1, 1, device=device) * 8).cumsum(-1)
    before = torch.randn(batch, chunks, heads, dim, state, device=device).half()
    d = torch.randn(heads, device=device).half()
    return cb.half(), x, dt.half(), decay, c, before, d


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = (2, 4096, 256, 1, 80, 64, 128) if device == "cuda" else (1, 128, 64, 1, 2, 32, 32)
    kernel = chunk_scan(*sizes)
    given = inputs(*sizes, device)
    for b in range(sizes[0]):  # one sequence at a time: the reference keeps the decay of all pairs
        one = [*(t[b : b + 1] for t in given[:-1]), given[-1]]
        found = chunk_scan(1, *sizes[1:])(*one)
        torch.testing.assert_close(found, ref_program(*one), rtol=1e-2, atol=2e-2)

    latency = kernel.get_profiler().do_bench(input_tensors=list(given))
    batch, seq, chunk, _, heads, dim, state = sizes
    flops = 2 * batch * seq * heads * dim * (chunk * 0.5 + state)
    print(f"chunk_scan {tuple(given[1].shape)} on {device}: correct, {flops / latency / 1e9:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
