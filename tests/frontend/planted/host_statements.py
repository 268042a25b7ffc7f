"""A kernel with a planted mistake, in this style: host statements."""

import logging
import warnings
import contextlib
from pathlib import Path
import tilelang
import tilelang.language as T

logger = logging.getLogger(__name__)
warnings.filterwarnings("ignore")
tilelang.set_log_level("WARNING")
tilelang.disable_cache()
HERE = Path(__file__).parent


def assert_pow2(x):
    if x & (x - 1):
        raise ValueError(f"{x} is no power of two")
    logger.info("checked %d", x)
    return x


def build(n, bm=64):
    assert n % bm == 0, f"{n=} {bm=}"
    assert_pow2(bm)
    with contextlib.suppress(KeyError):
        bm = {64: 32}[bm]
    try:
        tile = (bm, n // 16)
    finally:
        logger.debug("made")

    @tilelang.jit
    def k(A):
        M = T.const("M")
        A: T.Tensor((M, n), T.float32)
        with T.Kernel(T.ceildiv(M, bm), threads=128) as b:
            s = T.alloc_shared(tile, T.float32)
            f = T.alloc_fragment((tile[0], tile[1] + 1), T.float32)
            T.copy(A[b * bm, 0], s)
            T.copy(s, f)  # wrong
            T.copy(f[:, : tile[1]], A[b * bm, 0])

    return k


build(1024)
