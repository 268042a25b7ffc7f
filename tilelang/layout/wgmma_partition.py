"""Which T.gemm fits wgmma (sm_90a), and how warps share it: one decision for hovers, rules and lowering.

PTX ISA 9.7.16.5: a warp group of four warps multiplies 64 rows; B lies in shared memory, A there or, K
innermost, in registers; operands in shared memory are whole swizzle atoms. Only 16-bit operands may have
another dimension than K innermost.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.arch.cuda import (
    WGMMA_M,
    WGMMA_MOST_N,
    WGMMA_OPERAND_BITS,
    WGMMA_WARPS,
)
from tilelang.arch.warp_partition import WarpPartition, warp_partitions
from tilelang.arch.wgmma import depth, multiplies
from tilelang.layout.shared import matrix_operand

GROUP_THREADS = 32 * WGMMA_WARPS  # of a warp group, which begins at a multiple of them
_MOST_ACCUMULATORS = 192  # registers of one thread, of 255


@dataclass(frozen=True)
class WgmmaOperand:
    """A or B: its buffer and where the tile begins in the last two dimensions (None: not a constant).

    swizzled: whether the buffer may be laid out for the instruction: not another name of a tile, nor laid out
    by its author in another way.
    """

    dtype: str
    scope: str
    shape: tuple[int, ...]
    start: tuple[int | None, int | None] = (0, 0)
    swizzled: bool = True

    @property
    def in_registers(self) -> bool:
        return self.scope == "local.fragment"

    @property
    def atom(self) -> int:
        """Elements in a row of its swizzle atoms, 0 where it has none."""
        bits = WGMMA_OPERAND_BITS.get(self.dtype, 0)
        if not bits or not self.swizzled:
            return 0
        return matrix_operand(self.shape, bits).swizzle_bytes * 8 // bits

    @property
    def is_tiled(self) -> bool:
        """Whether it begins at whole swizzle atoms of 8 rows."""
        row, column = self.start
        if not self.atom or row is None or column is None:
            return False
        return row % 8 == 0 and column % self.atom == 0


def wgmma_partition(
    shape: tuple[int, int, int],
    a: WgmmaOperand,
    b: WgmmaOperand,
    accumulator: str,
    transposes: tuple[bool, bool],
    policy: str,
    threads: int,
    sparse: bool = False,
) -> WarpPartition | None:
    """The grid of warps for a product of `shape` (M, N, K); None where wgmma cannot do it.

    sparse: A is the stored half of a 2:4 pattern, and an instruction goes twice as deep (PTX ISA 9.7.16.6).

    `accumulator`: the dtype of C, which is a fragment. `transposes`: whether A is stored [K, M], B [N, K].
    Square takes the most warps along M: each group of warps along N reads A from shared memory once more,
    while B is read once for every 64 rows however they are shared.
    """
    m, n, k = shape
    if not multiplies(a.dtype, b.dtype, accumulator) or hindering_transpose(a.dtype, transposes) is not None:
        return None
    step = wgmma_k(a.dtype) * (2 if sparse else 1)
    if m % WGMMA_M or k % step or threads % GROUP_THREADS:
        return None
    # With K innermost an instruction's part of B must not go beyond a row of its swizzle atom.
    if sparse and transposes[1] and b.atom % step:
        return None
    if b.in_registers or not b.is_tiled:
        return None
    if transposes[0] if a.in_registers else not a.is_tiled:
        return None
    # A part of N that begins inside a swizzle atom has no descriptor where N is contiguous.
    step_n = 8 if transposes[1] else b.atom
    grids = [
        p
        for p in warp_partitions(m, n, threads // 32, 16, 8)
        if p.m % WGMMA_WARPS == 0
        and _is_width(n // p.n, accumulator)
        and (p.n == 1 or n // p.n % step_n == 0)
        and (m // (16 * p.m)) * (n // p.n) // 2 <= _MOST_ACCUMULATORS
    ]
    if not grids:
        return None
    return grids[0] if policy == "FullCol" else grids[-1]


def wgmma_k(dtype: str) -> int:
    """Products along K of one instruction."""
    return depth(dtype)


def hindering_transpose(dtype: str, transposes: tuple[bool, bool]) -> str | None:
    """`A` or `B` where it is stored in an order that the instruction takes of 16-bit operands only."""
    if WGMMA_OPERAND_BITS.get(dtype) == 16:
        return None
    return "A" if transposes[0] else None if transposes[1] else "B"


def _is_width(n: int, accumulator: str) -> bool:
    """Whether an instruction has so many columns: multiples of 8; above 32 those of 16 for integers."""
    if n > WGMMA_MOST_N or n % 8:
        return False
    return accumulator != "int32" or n < 32 or n % 16 == 0


def wgmma_text(n: int, operand: str, accumulator: str, warps: WarpPartition, sparse: bool = False) -> str:
    """What a hover says: `wgmma m64n128k16 float32.float16, warps 4×1`."""
    name, k = ("wgmma.sp", 2 * wgmma_k(operand)) if sparse else ("wgmma", wgmma_k(operand))
    return f"{name} m64n{n // warps.n}k{k} {accumulator}.{operand}, warps {warps}"
