"""Rotary position embedding of queries or keys: each pair (x, y) of a head turned by its position's angle.

Teaches: two results of the same loads in one T.Parallel region over three dimensions, and broadcasting over
the heads by leaving their index out.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def rotary(X, Cos, Sin, block_S: int = 4, threads: int = 256, dtype=T.bfloat16):
    batch, seq, heads, dim, half = T.const("batch, seq, heads, dim, half")
    X: T.Tensor((batch, seq, heads, dim), dtype)
    Cos: T.Tensor((seq, half), T.float32)
    Sin: T.Tensor((seq, half), T.float32)
    Y = T.empty((batch, seq, heads, dim), dtype)

    with T.Kernel(T.ceildiv(seq, block_S), batch, threads=threads) as (bx, b):
        for i, head, j in T.Parallel(block_S, heads, half):
            s = bx * block_S + i
            x = T.cast(X[b, s, head, j], T.float32)
            y = T.cast(X[b, s, head, half + j], T.float32)
            Y[b, s, head, j] = x * Cos[s, j] - y * Sin[s, j]
            Y[b, s, head, half + j] = y * Cos[s, j] + x * Sin[s, j]

    return Y


def ref_program(X, Cos, Sin):
    x, y = X.float().chunk(2, dim=3)
    cos, sin = Cos[None, :, None, :], Sin[None, :, None, :]
    return torch.cat([x * cos - y * sin, y * cos + x * sin], dim=3).to(X.dtype)


def inputs(batch: int, seq: int, heads: int, dim: int, device: str = "cpu"):
    turns = 10000.0 ** -(torch.arange(dim // 2, device=device) * 2 / dim)
    angles = torch.arange(seq, device=device)[:, None] * turns
    x = torch.randn(batch, seq, heads, dim, device=device).to(torch.bfloat16)
    return x, angles.cos(), angles.sin()


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape = (4, 8192, 32, 128) if device == "cuda" else (2, 30, 3, 64)
    given = inputs(*shape, device)

    torch.testing.assert_close(rotary(*given), ref_program(*given), rtol=1.6e-2, atol=1e-5)

    latency = rotary.compile(*given).get_profiler().do_bench()
    print(f"rotary {shape} on {device}: correct, {4 * given[0].numel() / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
