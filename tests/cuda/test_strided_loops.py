"""Loops over lanes that write, each, elements of a matrix operand that lie apart run where the operand is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random
from tests.emulator.block import run
from tests.emulator.memory import poison

# A lane of four unpacks what its share of a row holds: elements 2 * c and 2 * c + 1 of every eight.
UNPACK = """
@tilelang.jit
def unpack(W, B, C):
    N, M, K, words = T.const("N, M, K, words")
    W: T.Tensor((N, words), "uint32")
    B: T.Tensor((M, K), "float16")
    C: T.Tensor((N, M), "float32")
    with T.Kernel(1, threads=128):
        packed = T.alloc_shared((N, K // 8), "uint32")
        b = T.alloc_shared((M, K), "float16")
        a = T.alloc_fragment((N, K), "float16")
        acc = T.alloc_fragment((N, M), "float32")
        run = T.alloc_local((K // 32,), "uint32")
        T.copy(W, packed)
        T.copy(B, b)
        for i, c in T.Parallel(N, 4):
            for v in T.vectorized(K // 32):
                run[v] = packed[i, c * (K // 32) + v]
            for word in T.serial(K // 32):
                for j in T.serial(4):
                    for v in T.vectorized(2):
                        nibble = (run[word] >> (8 * j + 4 * v)) & 15
                        a[i, 32 * word + 8 * j + 2 * c + v] = T.cast(nibble, "float16")
        T.clear(acc)
        T.gemm(a, b, acc, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
        T.copy(acc, C)
"""


def unpacked(words: np.ndarray, k: int) -> np.ndarray:
    """Each lane's words are neighbours; its nibbles go to pairs, eight elements apart."""
    n, lanes = words.shape[0], 4
    mine = words.reshape(n, lanes, k // 32)
    out = np.zeros((n, k // 32, 4, lanes, 2), np.float32)
    for j in range(4):
        for v in range(2):
            out[:, :, j, :, v] = ((mine >> (8 * j + 4 * v)) & 15).transpose(0, 2, 1)
    return out.reshape(n, k)


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
@pytest.mark.parametrize(("n", "m", "k"), [(64, 64, 64), (128, 16, 32)])
def test_lanes_write_their_own_share_of_an_operand(
    rng: np.random.Generator, target: str, n: int, m: int, k: int
) -> None:
    words = rng.integers(0, 2**32, (n, k // 8), dtype=np.uint32)
    b, c = random(rng, (m, k), "float16"), poison((n, m), "float32")
    run(lower_text(UNPACK, target, N=n, M=m, K=k, words=k // 8), {"W": words, "B": b, "C": c})
    want = unpacked(words, k) @ b.astype(np.float32).T
    np.testing.assert_allclose(c, want, rtol=1e-3, atol=2e-2)
