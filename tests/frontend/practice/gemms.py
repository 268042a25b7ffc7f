"""Matrix products as people write them: eager and lazy, quantised, batched, split, grouped."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Callable, Literal, Optional

import tilelang
from tilelang import language as T

if TYPE_CHECKING:
    import torch

Activation = Literal["none", "relu", "gelu", "silu"]


def activation(kind: Activation) -> Callable:
    if kind == "relu":
        return lambda x: T.max(x, 0)
    if kind == "gelu":

        def gelu(x):
            inner = 0.7978845608 * (x + 0.044715 * x * x * x)
            return 0.5 * x * (1.0 + T.tanh(inner))

        return gelu
    if kind == "silu":
        return lambda x: x * T.sigmoid(x)
    return lambda x: x


@tilelang.jit
def linear(A, W, bias, act: Activation = "gelu", block_M: int = 128, block_N: int = 128, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    W: T.Tensor((N, K), T.float16)
    bias: T.Tensor((N,), T.float16)
    C = T.empty((M, N), T.float16)
    apply = activation(act)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        a = T.alloc_shared((block_M, block_K), T.float16)
        w = T.alloc_shared((block_N, block_K), T.float16)
        b = T.alloc_shared((block_N,), T.float16)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.use_swizzle(panel_size=10, enable=True)
        T.clear(c)
        T.copy(bias[bx * block_N], b)
        for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, ko * block_K], a)
            T.copy(W[bx * block_N, ko * block_K], w)
            T.gemm(a, w, c, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            c[i, j] = apply(c[i, j] + b[j])
        T.copy(c, C[by * block_M, bx * block_N])
    return C


def matmul(M, N, K, block_M, block_N, block_K, in_dtype="float16", accum_dtype="float32", trans_A=False):
    A_shape = (K, M) if trans_A else (M, K)
    A_tile = (block_K, block_M) if trans_A else (block_M, block_K)

    @T.prim_func
    def main(
        A: T.Tensor(A_shape, in_dtype),
        B: T.Tensor((K, N), in_dtype),
        C: T.Tensor((M, N), in_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared(A_tile, in_dtype)
            B_shared = T.alloc_shared((block_K, block_N), in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=trans_A)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def dequant_gemm(M, N, K, group_size: int = 128, num_bits: int = 4, block_M=64, block_N=64, block_K=64):
    """Weights of 4 bits in bytes, with scales per group of columns."""
    elems = 8 // num_bits
    mask = (1 << num_bits) - 1
    dtype, storage = "float16", "uint8"

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K // elems), storage),
        Scale: T.Tensor((N, K // group_size), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            packed = T.alloc_shared((block_N, block_K // elems), storage)
            packed_local = T.alloc_fragment((block_N, block_K // elems), storage)
            B_local = T.alloc_fragment((block_N, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for ko in T.Pipelined(K // block_K, num_stages=2):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                T.copy(B[bx * block_N, ko * block_K // elems], packed)
                for i, j in T.Parallel(block_N, block_K):
                    nibble = (packed[i, j // elems] >> ((j % elems) * num_bits)) & mask
                    column = (ko * block_K + j) // group_size
                    B_shared[i, j] = (T.cast(nibble, dtype) - 8) * Scale[bx * block_N + i, column]
                T.gemm(A_shared, B_shared, acc, transpose_B=True)
            T.copy(acc, C[by * block_M, bx * block_N])

    return main


@tilelang.jit
def batched(A, B, block: int = 64):
    """One product per batch; the batch is the third grid axis."""
    L, M, N, K = T.const("L, M, N, K")
    A: T.Tensor((L, M, K), T.bfloat16)
    B: T.Tensor((L, K, N), T.bfloat16)
    C = T.empty((L, M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), L, threads=128) as (bx, by, bz):
        a = T.alloc_shared((block, block), A.dtype)
        b = T.alloc_shared((block, block), B.dtype)
        acc = T.alloc_fragment((block, block), T.float32)
        for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
            T.copy(A[bz, by * block, k * block], a)
            T.copy(B[bz, k * block, bx * block], b)
            T.gemm(a, b, acc, clear_accum=k == 0)
        T.copy(acc, C[bz, by * block, bx * block])
    return C


@tilelang.jit
def split_k(M, N, K, splits: int = 4, block_M=128, block_N=128, block_K=32):
    length = K // splits

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=128) as (bx, by, bz):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_K, block_N), "float16")
            c_shared = T.alloc_shared((block_M, block_N), "float32")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(length, block_K), num_stages=2):
                T.copy(A[by * block_M, bz * length + ko * block_K], a)
                T.copy(B[bz * length + ko * block_K, bx * block_N], b)
                T.gemm(a, b, c)
            T.copy(c, c_shared)
            for i, j in T.Parallel(block_M, block_N):
                T.atomic_add(C[by * block_M + i, bx * block_N + j], c_shared[i, j])

    return main


def grouped_gemm(batch_sizes: list[int], K: int, N: int, block_M=64, block_N=64, block_K=32):
    """Rows of several problems behind each other; a table says where each one starts."""
    total = sum(batch_sizes)
    count = len(batch_sizes)
    blocks = sum((size + block_M - 1) // block_M for size in batch_sizes)

    @T.prim_func
    def main(
        A: T.Tensor([total, K], "float16"),
        B: T.Tensor([count, K, N], "float16"),
        sizes: T.Tensor([count], "int32"),
        offsets: T.Tensor([count], "int32"),
        padded: T.Tensor([count], "int32"),
        C: T.Tensor([total, N], "float16"),
    ):
        with T.Kernel(blocks, T.ceildiv(N, block_N), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            which = T.alloc_local((1,), "int32")
            left = T.alloc_local((1,), "int32")
            start = bx * block_M
            which[0] = 0
            for i in range(count):
                which[0] = T.if_then_else(start >= padded[i], i, which[0])
            size = sizes[which[0]]
            row = start - padded[which[0]] + offsets[which[0]]
            left[0] = T.max(0, T.min(block_M, size + offsets[which[0]] - row))
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[row : row + block_M, k * block_K : (k + 1) * block_K], a)
                T.copy(B[which[0], k * block_K : (k + 1) * block_K, by * block_N : (by + 1) * block_N], b)
                T.gemm(a, b, acc)
            for i, j in T.Parallel(block_M, block_N):
                with_row = i < left[0]
                if with_row:
                    C[row + i, by * block_N + j] = acc[i, j]

    return main


@tilelang.jit
def int8_gemm(A, B, Sa, Sb, block: int = 128):
    """Row and column scales on an int32 accumulator."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.int8)
    B: T.Tensor((N, K), T.int8)
    Sa: T.Tensor((M,), T.float32)
    Sb: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        a = T.alloc_shared((block, 64), T.int8)
        b = T.alloc_shared((block, 64), T.int8)
        acc = T.alloc_fragment((block, block), T.int32)
        out = T.alloc_fragment((block, block), T.float16)
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * block, k * 64], a)
            T.copy(B[bx * block, k * 64], b)
            T.gemm(a, b, acc, transpose_B=True)
        for i, j in T.Parallel(block, block):
            out[i, j] = T.cast(acc[i, j], T.float32) * Sa[by * block + i] * Sb[bx * block + j]
        T.copy(out, C[by * block, bx * block])
    return C


@tilelang.jit
def gemv(A, x, reduce_threads: int = 32, rows: int = 4):
    """One row per warp of threads, 8 elements at a time."""
    N, K = T.const("N, K")
    A: T.Tensor((N, K), T.float16)
    x: T.Tensor((K,), T.float16)
    y = T.empty((N,), T.float16)
    TILE = 128 // 16
    BK = reduce_threads * TILE
    with T.Kernel(T.ceildiv(N, rows), threads=(reduce_threads, rows)) as bn:
        tk = T.get_thread_binding(0)
        tn = T.get_thread_binding(1)
        a = T.alloc_local((TILE,), T.float16)
        b = T.alloc_local((TILE,), T.float16)
        partial = T.alloc_shared((rows, reduce_threads), T.float32)
        acc = T.alloc_local((1,), T.float32)
        T.clear(acc)
        for bk in T.serial(T.ceildiv(K, BK)):
            for k in T.vectorized(TILE):
                a[k] = A[bn * rows + tn, bk * BK + tk * TILE + k]
                b[k] = x[bk * BK + tk * TILE + k]
            for k in T.serial(TILE):
                acc[0] += a[k].astype(T.float32) * b[k].astype(T.float32)
        partial[tn, tk] = acc[0]
        T.sync_threads()
        if tk == 0:
            total = T.alloc_var(T.float32, init=0.0)
            for k in T.serial(reduce_threads):
                total += partial[tn, k]
            y[bn * rows + tn] = total
    return y


def run(args: Optional[argparse.Namespace] = None):
    linear.compile(M=1024, N=1024, K=1024)
    for trans in (False, True):
        tilelang.compile(matmul(1024, 1024, 512, 128, 128, 32, trans_A=trans), out_idx=-1)
    kernel = dequant_gemm(256, 256, 512)
    profiler = kernel.get_profiler(tensor_supply_type=tilelang.TensorSupplyType.Normal)
    print(profiler.do_bench(warmup=500))
    split_k(512, 512, 4096)
    tilelang.compile(grouped_gemm([64, 128, 77], 256, 256), out_idx=[-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--m", type=int, default=256)
    run(parser.parse_args())
