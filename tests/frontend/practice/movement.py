"""Small kernels that move and map data: transposes, casts, pooling, histograms, padding, scans, masks."""

import tilelang
import tilelang.language as TL
from tilelang.language import alloc_fragment, alloc_shared, ceildiv, copy


def jit(**options):
    """The decorator of this project: one place for the options of all kernels."""
    return tilelang.jit(**options)


VEC = 8
BLOCKS = {"small": (32, 32), "large": (64, 128)}
block_M, block_N = BLOCKS["large"]


@tilelang.jit
def transpose(A, tile: int = 32):
    M, N = TL.const("M, N")
    A: TL.Tensor((M, N), TL.float32)
    B = TL.empty((N, M), TL.float32)
    with TL.Kernel(ceildiv(N, tile), ceildiv(M, tile), threads=128) as (bx, by):
        src = alloc_shared((tile, tile), TL.float32)
        dst = alloc_shared((tile, tile), TL.float32)
        copy(A[by * tile, bx * tile], src)
        for i, j in TL.Parallel(tile, tile):
            dst[j, i] = src[i, j]
        copy(dst, B[bx * tile, by * tile])
    return B


@tilelang.jit
def add_bias_cast(A, b, out_dtype=TL.bfloat16):
    M, N = TL.const("M N")
    A: TL.Tensor((M, N), TL.float32)
    b: TL.Tensor((N,), TL.float32)
    C = TL.empty((M, N), out_dtype)
    with TL.Kernel(ceildiv(N, block_N), ceildiv(M, block_M), threads=256) as (bx, by):
        tile = alloc_fragment((block_M, block_N), TL.float32)
        copy(A[by * block_M, bx * block_N], tile)
        for i, j in TL.Parallel(block_M, block_N):
            tile[i, j] += b[bx * block_N + j]
        copy(tile, C[by * block_M, bx * block_N])
    return C


@tilelang.jit(out_idx=[-1])
def max_pool(N, C, H, W, k: int = 2):
    OH, OW = H // k, W // k
    window = [(di, dj) for di in range(k) for dj in range(k)]

    @TL.prim_func
    def main(X: TL.Tensor((N, C, H, W), "float32"), Y: TL.Tensor((N, C, OH, OW), "float32")):
        with TL.Kernel(N * C, threads=256) as nc:
            n, c = nc // C, nc % C
            for i, j in TL.Parallel(OH, OW):
                best = TL.alloc_var("float32", init=-3.4e38)
                for di, dj in window:
                    best = TL.max(best, X[n, c, i * k + di, j * k + dj])
                Y[n, c, i, j] = best

    return main


@tilelang.jit
def histogram(X, counts, bins: int = 64):
    N = TL.dynamic("N")
    X: TL.Tensor((N,), TL.int32)
    counts: TL.Tensor((bins,), TL.int32)
    with TL.Kernel(1, threads=128) as _:
        local = alloc_shared((bins,), TL.int32)
        TL.clear(local)
        for i in TL.serial(TL.ceildiv(N, 128)):
            at = i * 128 + TL.get_thread_binding()
            if at < N:
                TL.atomic_add(local[X[at] % bins], 1)
        copy(local, counts)


@tilelang.jit
def pad_rows(X, offsets, Y, longest: int = 512):
    """Sequences behind each other into a padded batch."""
    total = TL.dynamic("total")
    B, D = TL.const("B, D")
    X: TL.Tensor((total, D), TL.float16)
    offsets: TL.Tensor((B + 1,), TL.int32)
    Y: TL.Tensor((B, longest, D), TL.float16)
    with TL.Kernel(longest, B, threads=64) as (row, b):
        begin, end = offsets[b], offsets[b + 1]
        length = end - begin
        for j in TL.Parallel(D):
            Y[b, row, j] = X[begin + row, j] if row < length else 0.0


@jit()
def scale_in_place(A, factor: float = 2.0):
    N = TL.dynamic("N", "int64")
    A: TL.Tensor((N,), TL.float16)
    with TL.Kernel(TL.ceildiv(N, 1024), threads=128) as bx:
        for i in TL.Parallel(1024):
            A[bx * 1024 + i] *= factor


@tilelang.jit
def prefix_sum(X, block: int = 128):
    """A scan by doubling in shared memory, twice the space so that no step overwrites what it reads."""
    N = TL.const("N")
    X: TL.Tensor((N,), TL.float32)
    Y = TL.empty((N,), TL.float32)
    steps = block.bit_length() - 1
    with TL.Kernel(TL.ceildiv(N, block), threads=block) as bx:
        buffers = [alloc_shared((block,), TL.float32) for _ in range(2)]
        copy(X[bx * block], buffers[0])
        for step, shift in enumerate([1 << s for s in range(steps)]):
            old, new = buffers[step % 2], buffers[(step + 1) % 2]
            for i in TL.Parallel(block):
                new[i] = old[i] + TL.if_then_else(i >= shift, old[TL.max(i - shift, 0)], 0.0)
        copy(buffers[steps % 2], Y[bx * block])
    return Y


@tilelang.jit
def causal_mask(S, fill: float = float("-inf")):
    L = TL.const("L")
    S: TL.Tensor((L, L), TL.float32)
    with TL.Kernel(ceildiv(L, 64), ceildiv(L, 64), threads=256) as (bx, by):
        if bx > by:
            for i, j in TL.Parallel(64, 64):
                S[by * 64 + i, bx * 64 + j] = fill
        elif bx == by:
            for i, j in TL.Parallel(64, 64):
                if j > i:
                    S[by * 64 + i, bx * 64 + j] = fill


@tilelang.jit
def interleave(A, B, groups=((0, 2), (1, 3))):
    N = TL.const("N")
    A: TL.Tensor((N, 4), TL.int32)
    B: TL.Tensor((N, 4), TL.int32)
    out = TL.empty((N, 8), TL.int32)
    with TL.Kernel(TL.ceildiv(N, 64), threads=64) as bx:
        for i in TL.Parallel(64):
            row = bx * 64 + i
            for g, (first, second) in enumerate(groups):
                for s, source in zip("ab", (A, B)):
                    base = g * 4 + (0 if s == "a" else 2)
                    out[row, base] = source[row, first]
                    out[row, base + 1] = source[row, second]
    return out


@tilelang.jit
def stencil(X, weights=(0.25, 0.5, 0.25)):
    N = TL.const("N")
    X: TL.Tensor((N,), TL.float32)
    Y = TL.empty((N,), TL.float32)
    with TL.Kernel(ceildiv(N, 256), threads=256) as bx:
        for i in TL.Parallel(256):
            at = bx * 256 + i
            total = 0.0
            for offset, weight in zip((-1, 0, 1), weights):
                neighbour = TL.min(TL.max(at + offset, 0), N - 1)
                total = total + weight * X[neighbour]
            Y[at] = total
    return Y


@tilelang.jit(out_idx=[-1])
def dequantise_table(N: int, bits: int = 4, groups: int = 32):
    """A code book unrolled into selections, since a kernel cannot index a Python list."""
    codes = [-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0, 0.0796, 0.1609, 0.2461, 0.3379]
    codes += [0.4407, 0.5626, 0.723, 1.0]
    assert len(codes) == 2**bits

    def decode(code):
        value = codes[0]
        for k, entry in list(enumerate(codes))[1:]:
            value = TL.if_then_else(code == k, entry, value)
        return value

    @TL.prim_func
    def main(
        Q: TL.Tensor((N // 2,), "uint8"),
        S: TL.Tensor((N // groups,), "float16"),
        X: TL.Tensor((N,), "float16"),
    ):
        with TL.Kernel(TL.ceildiv(N, 1024), threads=128) as bx:
            for i in TL.Parallel(1024):
                at = bx * 1024 + i
                if at < N:
                    byte = Q[at // 2]
                    nibble = TL.cast((byte >> ((at % 2) * 4)) & 0xF, "int32")
                    X[at] = decode(nibble) * S[at // groups]

    return main


if __name__ == "__main__":
    max_pool(1, 3, 32, 32)
    dequantise_table(4096)
