"""Small files that the tests of the command line check, compile and run."""

from __future__ import annotations

import json
from typing import Any

GEMM = '''\
"""A matrix product."""

import tilelang
import tilelang.language as T


@tilelang.jit
def matmul(A, B, block_M: int = 64, block_N: int = 64, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def ref_matmul(A, B):
    return A @ B
'''

# The B tile has block_M rows; it needs block_K.
WRONG_GEMM = GEMM.replace(
    "B_shared = T.alloc_shared((block_K, block_N)", "B_shared = T.alloc_shared((block_M, block_N)"
)
assert WRONG_GEMM != GEMM
# GEMM takes any sizes, so each of its three copies draws a hint. Most tests are about the rest.
TAIL = "guarded-tail"
GEMM_LINE = WRONG_GEMM.split("\n").index("            T.gemm(A_shared, B_shared, C_local)") + 1


def problems(out: str) -> list[dict[str, Any]]:
    """The problems in JSON."""
    return json.loads(out)
