"""A kernel with a planted mistake, in this style: enumerations."""

import enum
import tilelang
import tilelang.language as T
from typing import Optional, Literal, Final


class Mode(enum.Enum):
    ROW = "row"
    COL = "col"


class Size(enum.IntEnum):
    SMALL = 32
    BIG = 64


MODE: Final = Mode.ROW
B: Final[int] = int(Size.BIG)


@tilelang.jit
def k(A, mode: Mode = MODE):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    O = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, B), threads=128) as b:
        f = T.alloc_fragment((B, Size.SMALL), T.float32)
        r = T.alloc_fragment((B,), T.float32)
        T.copy(A[b * B, 0], f)
        if mode is Mode.ROW:
            T.reduce_sum(f, r, dim=0)  # wrong
        elif mode == Mode.COL:
            T.reduce_sum(f, r, dim=1)
        T.copy(r, O[b * B])
    return O
