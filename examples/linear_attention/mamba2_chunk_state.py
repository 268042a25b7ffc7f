"""Mamba-2, the state that each chunk of the sequence adds: sum of x B^T, faded to the end of the chunk.

Teaches: a gemm over the sequence (transposed first operand), an operand that is scaled between memory and
tensor core, and grouped heads.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def chunk_state(
    X,
    B,
    Dt,
    Decay,
    block_M: int = 64,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    dtype=T.float16,
):
    batch, seq, heads, dim = T.const("batch, seq, heads, dim")
    groups, state, chunks, chunk = T.const("groups, state, chunks, chunk")
    X: T.Tensor((batch, seq, heads, dim), dtype)
    B: T.Tensor((batch, seq, groups, state), dtype)
    Dt: T.Tensor((batch, heads, chunks, chunk), dtype)  # step sizes
    Decay: T.Tensor((batch, heads, chunks, chunk), T.float32)  # sums of dt * A from the chunk's beginning
    States = T.empty((batch, chunks, heads, dim, state), dtype)

    tiles_n = T.ceildiv(state, block_N)

    with T.Kernel(T.ceildiv(dim, block_M) * tiles_n, batch * chunks, heads, threads=threads) as (
        bx,
        by,
        head,
    ):
        x = T.alloc_shared((block_K, block_M), dtype)
        x_faded = T.alloc_shared((block_K, block_M), dtype)
        b_tile = T.alloc_shared((block_K, block_N), dtype)
        decay = T.alloc_shared((block_K,), T.float32)
        dt = T.alloc_shared((block_K,), dtype)
        factor = T.alloc_fragment((block_K,), T.float32)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        b, c = by // chunks, by % chunks
        m, n = bx // tiles_n * block_M, bx % tiles_n * block_N
        group = head // (heads // groups)
        end = Decay[b, head, c, chunk - 1]
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(chunk, block_K), num_stages=num_stages):
            row = c * chunk + k * block_K
            T.copy(X[b, row : row + block_K, head, m : m + block_M], x)
            T.copy(B[b, row : row + block_K, group, n : n + block_N], b_tile)
            T.copy(Decay[b, head, c, k * block_K : (k + 1) * block_K], decay)
            T.copy(Dt[b, head, c, k * block_K : (k + 1) * block_K], dt)
            for i in T.Parallel(block_K):
                inside = k * block_K + i < chunk
                factor[i] = T.if_then_else(inside, T.exp2((end - decay[i]) * LOG2_E) * dt[i], 0)
            for i, j in T.Parallel(block_K, block_M):
                x_faded[i, j] = x[i, j] * factor[i]
            T.gemm(x_faded, b_tile, acc, transpose_A=True)
        T.copy(acc, States[b, c, head, m : m + block_M, n : n + block_N])

    return States


def ref_program(X, B, Dt, Decay):
    batch, _, heads, dim = X.shape
    _, _, chunks, chunk = Dt.shape
    x = X.float().reshape(batch, chunks, chunk, heads, dim)
    b = B.float().repeat_interleave(heads // B.shape[2], dim=2).reshape(batch, chunks, chunk, heads, -1)
    factor = torch.exp(Decay[..., -1:] - Decay) * Dt.float()
    return torch.einsum("bclhp,bclhn,bhcl->bchpn", x, b, factor).to(X.dtype)


def inputs(batch: int, seq: int, heads: int, dim: int, groups: int, state: int, chunk: int, device: str):
    """X, B, Dt and Decay of a random layer."""
    chunks = seq // chunk
    x = torch.randn(batch, seq, heads, dim, device=device).half()
    b = torch.randn(batch, seq, groups, state, device=device).half()
    dt = torch.nn.functional.softplus(torch.randn(batch, heads, chunks, chunk, device=device) - 4)
    decay = (dt * -torch.rand(heads, 1, 1, device=device) * 8).cumsum(-1)
    return x, b, dt.half(), decay


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = (8, 4096, 80, 64, 1, 128, 256) if device == "cuda" else (1, 128, 2, 32, 1, 32, 64)
    given = inputs(*sizes, device)

    found = chunk_state(*given)
    torch.testing.assert_close(found, ref_program(*given), rtol=1e-2, atol=1e-2)

    latency = chunk_state.compile(*given).get_profiler().do_bench(input_tensors=list(given))
    batch, seq, heads, dim, _, state, _ = sizes
    speed = f"{2 * batch * seq * heads * dim * state / latency / 1e9:.3f} TFLOP/s"
    print(f"chunk_state {tuple(found.shape)} on {device}: correct, {speed}")


if __name__ == "__main__":
    main()
