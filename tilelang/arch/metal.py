"""Apple GPUs: threadgroup memory, and the simdgroup matrices.

Source: "Metal Feature Set Tables" (threadgroup memory 32 KiB, 1024 threads) and Metal Shading Language
Specification 6.7, "SIMD-group matrix functions" (8×8 tiles of half, bfloat and float).
"""

from __future__ import annotations

from tilelang.arch.features import PACKED_DTYPES, Features
from tilelang.arch.instruction import Limits, MatrixInstruction

SHARED_BYTES = 32 * 1024
_SCRATCH_BYTES = 32 * 8 * 8 * 4  # an 8×8 float32 tile for each simdgroup of a block, at most


def _simdgroup(operand: str, *accumulators: str) -> MatrixInstruction:
    return MatrixInstruction("simdgroup_multiply_accumulate", 8, 8, 8, operand, accumulators)


INSTRUCTIONS = (
    _simdgroup("float16", "float32", "float16"),
    _simdgroup("bfloat16", "float32", "bfloat16"),
    _simdgroup("float32", "float32"),
)


def limits() -> Limits:
    """Limits of every Apple GPU from the M1 on."""
    return Limits(SHARED_BYTES)


def features() -> Features:
    """What Apple GPUs can do; the language has no double (Metal Shading Language Specification 2.1)."""
    return Features(
        unit="simdgroup",
        operand_layout="padded",
        gemm_scratch_bytes=_SCRATCH_BYTES,
        lacks=PACKED_DTYPES | {"float64"},
    )


def matrix_instructions() -> tuple[MatrixInstruction, ...]:
    """The simdgroup multiply, one per operand dtype."""
    return INSTRUCTIONS
