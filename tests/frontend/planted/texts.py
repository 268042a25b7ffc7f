"""A kernel with a planted mistake, in this style: texts."""

import json
import re
import tilelang
import tilelang.language as T

CONFIG = json.loads('{"bm": 64, "bn": 32}')
NAME = "tile_64x32"
BM, BN = map(int, re.match(r"tile_(\d+)x(\d+)", NAME).groups())
PARTS = [int(x) for x in "64,32".split(",")]


@tilelang.jit
def k(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, CONFIG["bm"]), threads=128) as b:
        s = T.alloc_shared((CONFIG["bm"], CONFIG["bn"]), T.float32)
        f = T.alloc_fragment((PARTS[0], PARTS[1] * 2), T.float32)
        T.copy(A[b * BM, 0], s)
        T.copy(s, f)  # wrong
        T.copy(f, A[b * BM, 0])
