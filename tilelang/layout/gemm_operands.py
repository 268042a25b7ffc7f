"""What a target's matrix instruction imposes on the operands of a T.gemm: for hovers and lowerings alike.

`kind` is the target's: cuda (mma.sync), hip (MFMA) or metal (simdgroup matrices); wgmma for that of sm_90a.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.arch.warp_partition import WarpPartition
from tilelang.layout.fragment import Fragment
from tilelang.layout.instruction import (
    MFMA_C,
    MMA_C,
    MMA_C_64,
    SIMDGROUP_C,
    InstructionTile,
    accumulator,
    mfma_a,
    mfma_b,
    mma_a,
    mma_b,
    operand_a,
    operand_b,
)
from tilelang.layout.shared import SharedLayout, matrix_operand, padded_rows


@dataclass(frozen=True)
class GemmFragments:
    """The register layouts of whole operands, as they are stored."""

    a: Fragment
    b: Fragment
    c: Fragment


def gemm_fragments(
    kind: str,
    shape: tuple[int, int, int],
    transposes: tuple[bool, bool],
    warps: WarpPartition,
    bits: int,
    step_k: int,
) -> GemmFragments:
    """The layouts for a tile of `shape` (M, N, K) with operands of `bits`, on an instruction of `step_k`
    products.

    `transposes`: whether A is stored [K, M], B [N, K]. Raises KeyError for a kind without matrix
    instructions.
    """
    m, n, k = shape
    tile_a, tile_b, tile_c, lanes = _tiles(kind, bits, step_k)
    turns = kind == "wgmma"
    return GemmFragments(
        operand_a(m, k, warps.m, warps.n, tile_a, transposes[0], lanes, turns),
        operand_b(k, n, warps.m, warps.n, tile_b, transposes[1], lanes),
        accumulator(m, n, warps.m, warps.n, tile_c, lanes, turns),
    )


def _tiles(
    kind: str, bits: int, step_k: int
) -> tuple[InstructionTile, InstructionTile, InstructionTile, int]:
    """The instruction's views of A, B and C, and the lanes that carry it out."""
    match kind:
        case "cuda" | "wgmma":
            return mma_a(bits, step_k), mma_b(bits, step_k), MMA_C_64 if bits == 64 else MMA_C, 32
        case "hip":
            return mfma_a(step_k), mfma_b(step_k), MFMA_C, 64
        case "metal":
            return SIMDGROUP_C, SIMDGROUP_C, SIMDGROUP_C, 32
    raise KeyError(kind)


def shared_operand(kind: str, shape: tuple[int, ...], bits: int) -> SharedLayout:
    """The layout of an operand in shared memory; no swizzle for `simdgroup_load`, which takes rows at one
    distance.
    """
    return padded_rows(shape, bits) if kind == "metal" else matrix_operand(shape, bits)
