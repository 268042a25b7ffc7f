"""Gemm kernels beyond the examples, for the targets that run on models of the manuals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.emit.host_run import random_array
from tilelang.arch.target import parse_target
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.targets import driver
from tilelang.targets.lowered import LoweredKernel

SOURCE = '''
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def product(dtype, accum, transpose_A=False, transpose_B=False, threads=128, M=96, N=80, K=64):
    @T.prim_func
    def product(
        A: T.Tensor((K, M) if transpose_A else (M, K), dtype),
        B: T.Tensor((N, K) if transpose_B else (K, N), dtype),
        C: T.Tensor((M, N), accum),
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=threads) as (bx, by):
            a = T.alloc_shared((32, 64) if transpose_A else (64, 32), dtype)
            b = T.alloc_shared((64, 32) if transpose_B else (32, 64), dtype)
            c = T.alloc_fragment((64, 64), accum)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                if transpose_A:
                    T.copy(A[k * 32, by * 64], a)
                else:
                    T.copy(A[by * 64, k * 32], a)
                if transpose_B:
                    T.copy(B[bx * 64, k * 32], b)
                else:
                    T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, c, transpose_A=transpose_A, transpose_B=transpose_B, clear_accum=k == 0)
            T.copy(c, C[by * 64, bx * 64])
    return product


@tilelang.jit(out_idx=[-1])
def attention(S=128, D=64, threads=128):
    """O = (Q K^T / 8, squared) V: the second gemm takes A from a fragment, the sum is rescaled."""
    @T.prim_func
    def attention(
        Q: T.Tensor((S, D), "float16"),
        K: T.Tensor((S, D), "float16"),
        V: T.Tensor((S, D), "float16"),
        O: T.Tensor((S, D), "float32"),
    ):
        with T.Kernel(T.ceildiv(S, 64), threads=threads) as bx:
            q = T.alloc_shared((64, D), "float16")
            k = T.alloc_shared((32, D), "float16")
            v = T.alloc_shared((32, D), "float16")
            score = T.alloc_fragment((64, 32), "float32")
            weight = T.alloc_fragment((64, 32), "float16")
            total = T.alloc_fragment((64, D), "float32")
            T.copy(Q[bx * 64, 0], q)
            T.clear(total)
            for n in T.serial(S // 32):
                T.copy(K[n * 32, 0], k)
                T.clear(score)
                T.gemm(q, k, score, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(64, 32):
                    score[i, j] = score[i, j] * score[i, j] / 64
                T.copy(score, weight)
                for i, j in T.Parallel(64, D):
                    total[i, j] = total[i, j] * 0.5
                T.copy(V[n * 32, 0], v)
                T.gemm(weight, v, total, policy=T.GemmWarpPolicy.FullRow)
            T.copy(total, O[bx * 64, 0])
    return attention
'''


@dataclass(frozen=True)
class Product:
    """One gemm by dtype and storage order."""

    dtype: str
    accum: str
    transpose_a: bool
    transpose_b: bool

    @property
    def name(self) -> str:
        return f"{self.dtype}-{'t' if self.transpose_a else 'n'}{'t' if self.transpose_b else 'n'}"


PRODUCTS = [
    Product(dtype, accum, a, b)
    for dtype, accum in (
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float32", "float32"),
        ("int8", "int32"),
    )
    for a in (False, True)
    for b in (False, True)
]


def lower(kernel: str, target: str, **choice: Any) -> LoweredKernel:
    module = StaticModule("kernels.py", SOURCE)
    program = trace_static(module, module.kernel(kernel), {k: repr(v) for k, v in choice.items()})
    chosen = parse_target(target)
    return driver.lower(prim_func_of(program, chosen, SOURCE), chosen)


def check_product(case: Product, target: str, threads: int, run: Any, folder: Path) -> LoweredKernel:
    """Run one gemm whose tiles stick out of its tensors and compare with numpy."""
    lowered = lower(
        "product",
        target,
        dtype=case.dtype,
        accum=case.accum,
        transpose_A=case.transpose_a,
        transpose_B=case.transpose_b,
        threads=threads,
    )
    m, n, k = 96, 80, 64
    a = random_array((k, m) if case.transpose_a else (m, k), case.dtype, 1)
    b = random_array((n, k) if case.transpose_b else (k, n), case.dtype, 2)
    c = np.full((m, n), 77, case.accum)
    run(lowered.source.text, lowered.plan.entry, (2, 2), threads, [a, b, c], folder)
    x, y = a.astype(np.float64), b.astype(np.float64)
    expected = (x.T if case.transpose_a else x) @ (y.T if case.transpose_b else y)
    np.testing.assert_allclose(c, expected, atol=0 if case.dtype == "int8" else 1e-4, rtol=0)
    return lowered


def check_attention(target: str, run: Any, folder: Path) -> LoweredKernel:
    """Two gemms in a loop, the second over a fragment, with work on both accumulators in between."""
    lowered = lower("attention", target)
    q, k, v = (random_array((128, 64), "float16", seed) for seed in range(3))
    o = np.full((128, 64), 77, np.float32)
    run(lowered.source.text, lowered.plan.entry, (2,), 128, [q, k, v, o], folder)
    score = q.astype(np.float64) @ k.astype(np.float64).T
    weight = (score**2 / 64).astype(np.float16).astype(np.float64)
    expected = np.zeros((128, 64))
    for n in range(4):
        block = slice(n * 32, n * 32 + 32)
        expected = expected * 0.5 + weight[:, block] @ v[block].astype(np.float64)
    np.testing.assert_allclose(o, expected, atol=2e-3, rtol=0)
    return lowered
