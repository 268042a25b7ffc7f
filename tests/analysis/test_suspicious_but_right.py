"""Correct kernels that look suspicious: on none of them may a rule give a warning or an error."""

from __future__ import annotations

import pytest

from tests.analysis.kernels import problems
from tilelang.diagnostics.problem import Severity

# Bodies of `with T.Kernel(...)` over A, B, O float32 (256, 256), V, R float32 (256,), I int32 (256,).
ONE_BLOCK = """
@tilelang.jit
def k(A, B, O, V, R, I, n, m):
    A: T.Tensor((256, 256), T.float32)
    B: T.Tensor((256, 256), T.float32)
    O: T.Tensor((256, 256), T.float32)
    V: T.Tensor((256,), T.float32)
    R: T.Tensor((256,), T.float32)
    I: T.Tensor((256,), T.int32)
    n: T.int32
    m: T.int32
    with T.Kernel({grid}) as {blocks}:
"""
IN_ONE_BLOCK = {
    "extent is no multiple of the threads": """
        for i in T.Parallel(100):
            R[i] = V[i]
        """,
    "parallel loops in each other": """
        for i in T.Parallel(256):
            for j in T.Parallel(256):
                O[i, j] = A[i, j]
        """,
    "scratch of one iteration": """
        t = T.alloc_local((4,), T.float32)
        for i in T.Parallel(64):
            for j in T.serial(4):
                t[j] = A[i, j]
            for j in T.serial(4):
                O[i, j] = t[3 - j]
        """,
    "a scalar in a parallel loop": """
        x = T.alloc_var(T.float32)
        for i in T.Parallel(256):
            x = V[i]
            R[i] = x * x
        """,
    "all store one value": """
        for i in T.Parallel(256):
            I[0] = 1
        """,
    "whoever finds it says so": """
        for i in T.Parallel(256):
            if V[i] > 0:
                I[0] = i
        """,
    "a maximum that runs on": """
        f = T.alloc_fragment((64, 64), T.float32)
        r = T.alloc_fragment((64,), T.float32)
        T.fill(r, -T.infinity(T.float32))
        for k in T.serial(4):
            T.copy(A[0:64, k * 64], f)
            T.reduce_max(f, r, dim=1, clear=False)
        T.copy(r, R[0:64])
        """,
    "a sum per row in the owner's register": """
        f = T.alloc_fragment((64,), T.float32)
        T.clear(f)
        for i, j in T.Parallel(64, 256):
            f[i] += A[i, j]
        T.copy(f, R[0:64])
        """,
    "a serial loop that sums": """
        s = T.alloc_shared((64,), T.float32)
        T.clear(s)
        for i in T.Parallel(64):
            for j in T.serial(256):
                s[i] += A[i, j]
        T.copy(s, R[0:64])
        """,
    "rounds of a tree": """
        s = T.alloc_shared((256,), T.float32)
        T.copy(V, s)
        for r in T.unroll(8):
            for i in T.Parallel(128):
                if i < T.shift_right(128, r):
                    s[i] = s[i] + s[i + T.shift_right(128, r)]
        R[0] = s[0]
        """,
    "halves folded": """
        s = T.alloc_shared((256,), T.float32)
        T.copy(V, s)
        for i in T.Parallel(128):
            s[i] = s[i] + s[i + 128]
        T.copy(s[0:128], R[0:128])
        """,
    "reversed through shared memory": """
        s = T.alloc_shared((256,), T.float32)
        T.copy(V, s)
        for i in T.Parallel(256):
            R[i] = s[255 - i]
        """,
    "padding by a choice": """
        s = T.alloc_shared((256,), T.float32)
        T.copy(V, s)
        for i in T.Parallel(256):
            R[i] = T.if_then_else(i > 0, s[i - 1], 0.0)
        """,
    "padding by a ternary on both sides": """
        s = T.alloc_shared((256,), T.float32)
        T.copy(V, s)
        for i in T.Parallel(256):
            R[i] = s[i + 1] if i < 255 else s[i - 255]
        """,
    "triangular loops": """
        s = T.alloc_shared((32, 32), T.float32)
        T.copy(A[0:32, 0:32], s)
        for i in T.serial(32):
            for j in T.serial(i, 32):
                O[i, j] = s[j, j - i]
        """,
    "down to zero": """
        s = T.alloc_shared((256,), T.float32)
        T.copy(V, s)
        for i in T.serial(255, -1, -1):
            R[255 - i] = s[i]
        """,
    "wrapping index": """
        s = T.alloc_shared((64,), T.float32)
        T.copy(V[0:64], s)
        for i in T.Parallel(256):
            R[i] = s[i % 64] + s[(i + 1) % 64] + s[T.min(i, 63)]
        """,
    "negative index": """
        s = T.alloc_shared((64,), T.float32)
        T.copy(V[0:64], s)
        R[0] = s[-1] + s[-64]
        """,
    "gather through a table": """
        s = T.alloc_shared((256,), T.float32)
        for i in T.Pipelined(8, num_stages=2):
            T.copy(A[I[i], 0:256], s)
            T.copy(s, O[i, 0:256])
        """,
    "scatter through a table": """
        for i in T.Parallel(256):
            R[I[i]] = V[i]
        """,
    "ring of two tiles": """
        s = T.alloc_shared((2, 256), T.float32)
        T.copy(A[0, :], s[0, :])
        for k in T.serial(255):
            T.copy(A[k + 1, :], s[(k + 1) % 2, :])
            for j in T.Parallel(256):
                O[k, j] = s[k % 2, j]
        """,
    "filled in a later iteration's turn": """
        s = T.alloc_shared((256,), T.float32)
        for k in T.serial(4):
            if k > 0:
                T.copy(s, O[k, :])
            T.copy(A[k, :], s)
        """,
    "filled piece by piece": """
        s = T.alloc_shared((256,), T.float32)
        for k in T.serial(4):
            T.copy(V[k * 64 : k * 64 + 64], s[k * 64 : k * 64 + 64])
        T.copy(s, R)
        """,
    "filled as far as a size says": """
        s = T.alloc_shared((256,), T.float32)
        for i in T.Parallel(256):
            if i < n:
                s[i] = V[i]
        for i in T.Parallel(256):
            if i < n:
                R[i] = s[i]
        """,
    "rows that nobody stores": """
        q = T.alloc_shared((64, 64), T.float16)
        w = T.alloc_shared((64, 64), T.float16)
        acc = T.alloc_fragment((64, 64), T.float32)
        for i, j in T.Parallel(8, 64):
            q[i, j] = A[i, j]
        T.copy(B[0:64, 0:64], w)
        T.clear(acc)
        T.gemm(q, w, acc)
        T.copy(acc[0:8, :], O[0:8, 0:64])
        """,
    "cleared by the product itself": """
        q = T.alloc_shared((64, 64), T.float16)
        w = T.alloc_shared((64, 64), T.float16)
        acc = T.alloc_fragment((64, 64), T.float32)
        for k in T.serial(4):
            T.copy(A[0:64, k * 64], q)
            T.copy(B[k * 64, 0:64], w)
            T.gemm(q, w, acc, clear_accum=k == 0)
        T.copy(acc, O[0:64, 0:64])
        """,
    "copy that converts and one that starts at a point": """
        s = T.alloc_shared((64, 64), T.float16)
        f = T.alloc_fragment((64, 64), T.int32)
        T.copy(A[64, 64], s)
        T.copy(s, f)
        T.copy(f, O[0, 0])
        """,
    "tail of a tensor": """
        s = T.alloc_shared((100,), T.float32)
        for k in T.serial(3):
            T.copy(V[k * 100], s)
            T.copy(s, R[k * 100])
        """,
    "nested pipelines": """
        s = T.alloc_shared((64,), T.float32)
        f = T.alloc_fragment((64,), T.float32)
        for i in T.Pipelined(16, num_stages=2):
            for j in T.Pipelined(4, num_stages=2):
                T.copy(A[i, j * 64 : j * 64 + 64], s)
                T.copy(s, f)
                T.copy(f, O[i, j * 64 : j * 64 + 64])
        """,
    "barrier in a branch that all take": """
        tx = T.get_thread_binding()
        if tx < 128:
            T.sync_threads()
        if n > 3:
            T.sync_threads()
        R[tx] = V[tx]
        """,
    "threads that part after the barrier": """
        s = T.alloc_shared((128,), T.float32)
        tx = T.get_thread_binding()
        s[tx] = V[tx]
        T.sync_threads()
        if tx < 64:
            R[tx] = s[tx] + s[tx + 64]
        """,
    "rows beside elements": """
        f = T.alloc_fragment((64, 64), T.float32)
        r = T.alloc_fragment((64,), T.float32)
        T.copy(A[0:64, 0:64], f)
        T.reduce_max(f, r, dim=1)
        for i, j in T.Parallel(64, 64):
            f[i, j] = T.exp2(f[i, j] - r[i])
        T.copy(f, O[0:64, 0:64])
        """,
    "grouped columns of a fragment": """
        f = T.alloc_fragment((64, 2), T.float32)
        g = T.alloc_fragment((64, 64), T.float32)
        T.copy(A[0:64, 0:64], g)
        T.copy(B[0:64, 0:2], f)
        for i, j in T.Parallel(64, 64):
            g[i, j] = g[i, j] * f[i, j // 32]
        T.copy(g, O[0:64, 0:64])
        """,
    "transposed while it is stored": """
        f = T.alloc_fragment((64, 64), T.float32)
        T.copy(A[0:64, 0:64], f)
        for i, j in T.Parallel(64, 64):
            O[j, i] = f[i, j]
        """,
    "run-time bounds everywhere": """
        s = T.alloc_shared((256,), T.float32)
        T.copy(V, s)
        for i in T.serial(n):
            for j in T.Parallel(m):
                R[j] = s[j] + A[i, j]
        """,
    "a loop that may end early": """
        s = T.alloc_shared((16,), T.float32)
        T.clear(s)
        for i in T.serial(256):
            if I[i] < 0:
                break
            s[i] = V[i]
        T.copy(s, R[0:16])
        """,
    "no tensor used": """
        s = T.alloc_shared((16,), T.float32)
        T.clear(s)
        T.copy(s, R[0:16])
        """,
}
GRIDS = {
    "one sum per block": """
        s = T.alloc_shared((64, 64), T.float32)
        f = T.alloc_fragment((64,), T.float32)
        T.copy(A[by * 64, bx * 64], s)
        T.reduce_sum(s, f, dim=1)
        T.copy(f, O[bx, by * 64 : by * 64 + 64])
        """,
    "the first block alone": """
        s = T.alloc_shared((64,), T.float32)
        T.copy(A[by, bx * 64 : bx * 64 + 64], s)
        if bx == 0 and by == 0:
            T.copy(s, R[0:64])
        """,
    "all blocks write the same": """
        s = T.alloc_shared((64,), T.float32)
        T.copy(A[0, 0:64], s)
        T.copy(s, R[0:64])
        """,
    "persistent blocks": """
        s = T.alloc_shared((64,), T.float32)
        for w in T.serial(16):
            tile = w * 16 + by * 4 + bx
            if tile < 200:
                T.copy(A[tile, 0:64], s)
                T.copy(s, O[tile, 0:64])
        """,
    "neighbours' tiles with a zero margin": """
        s = T.alloc_shared((64,), T.float32)
        t = T.alloc_shared((64,), T.float32)
        T.copy(A[by, bx * 64], s)
        T.copy(A[by, bx * 64 + 64], t)
        for i in T.Parallel(64):
            O[by, bx * 64 + i] = s[i] + t[i]
        """,
    "output transposed": """
        f = T.alloc_fragment((64, 64), T.float32)
        T.copy(A[by * 64, bx * 64], f)
        for i, j in T.Parallel(64, 64):
            O[bx * 64 + j, by * 64 + i] = f[i, j]
        """,
}
MODULES = {
    "sizes that are not related": """
@tilelang.jit
def k(X, M, BLOCK: int = 64):
    S, NB = T.const("S, NB")
    X: T.Tensor((S,), T.float16)
    M: T.Tensor((NB,), T.int32)
    O = T.empty((S,), T.float16)
    with T.Kernel(T.ceildiv(S, BLOCK), threads=128) as bx:
        for i in T.Parallel(BLOCK):
            O[bx * BLOCK + i] = X[bx * BLOCK + i] * M[bx]
    return O
""",
    "output with a ragged tail": """
@tilelang.jit
def k(X):
    M, N = T.dynamic("M, N")
    X: T.Tensor((M, N), T.float16)
    O = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 96), T.ceildiv(M, 48), threads=128) as (bx, by):
        s = T.alloc_shared((48, 96), T.float16)
        T.copy(X[by * 48, bx * 96], s)
        T.copy(s, O[by * 48, bx * 96])
    return O
""",
    "output written by several statements": """
@tilelang.jit
def k(X):
    M = T.const("M")
    X: T.Tensor((M, 128), T.float16)
    O = T.empty((M, 128), T.float16)
    with T.Kernel(M, threads=64) as bx:
        for j in T.Parallel(64):
            O[bx, j] = X[bx, j + 64]
        for j in T.Parallel(64):
            O[bx, j + 64] = 0 - X[bx, j]
    return O
""",
    "shared memory before the launch, a shape of one number": """
@tilelang.jit
def k(X, Y):
    X: T.Tensor((128), T.float32)
    Y: T.Tensor((128), T.float32)
    s = T.alloc_shared((128,), T.float32)
    with T.Kernel(1, threads=100) as bx:
        T.copy(X, s)
        T.copy(s, Y)
""",
    "macro that clears, names through aliases": """
import tilelang.language as tl
from tilelang.language import copy as move


@tl.macro
def reset(tile):
    tl.clear(tile)


@tilelang.jit
def k(X, W, Y):
    X: tl.Tensor((64, 64), tl.float16)
    W: tl.Tensor((64, 64), tl.float16)
    Y: tl.Tensor((64, 64), tl.float32)
    with tl.Kernel(1, threads=128) as bx:
        a = tl.alloc_shared((64, 64), tl.float16)
        b = tl.alloc_shared((64, 64), tl.float16)
        c = tl.alloc_fragment((64, 64), tl.float32)
        reset(c)
        move(X, a)
        move(W, b)
        tl.gemm(a, b, c)
        move(c, Y)
""",
}


def all_kernels() -> dict[str, str]:
    """Title -> module text."""
    one = ONE_BLOCK.format(grid="1, threads=128", blocks="bx")
    grid = ONE_BLOCK.format(grid="4, 4, threads=128", blocks="(bx, by)")
    found = {name: one + body.strip("\n") for name, body in IN_ONE_BLOCK.items()}
    found |= {name: grid + body.strip("\n") for name, body in GRIDS.items()}
    return found | MODULES


def test_there_are_at_least_forty():
    assert len(all_kernels()) >= 40


@pytest.mark.parametrize("name", all_kernels())
def test_no_rule_warns(name: str):
    found = [p for p in problems(all_kernels()[name]) if p.severity in (Severity.ERROR, Severity.WARNING)]
    assert not found, "\n".join(f"{p.span.line}: [{p.rule}] {p.message}" for p in found)
