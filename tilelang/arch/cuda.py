"""NVIDIA GPUs: shared memory per block, and the warp-level matrix instructions.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (opt-in shared memory
per block); PTX ISA 9.7.15, "Matrix multiply-accumulate operation using mma instruction" (shapes and dtypes
of mma.sync).
"""

from __future__ import annotations

from tilelang.arch.instruction import Limits, MatrixInstruction

# Compute capability -> bytes of shared memory that one block may opt in to.
SHARED_BYTES = {
    70: 96 * 1024,
    72: 96 * 1024,
    75: 64 * 1024,
    80: 163 * 1024,
    86: 99 * 1024,
    87: 163 * 1024,
    89: 99 * 1024,
    90: 227 * 1024,
    100: 227 * 1024,
    101: 227 * 1024,
    103: 227 * 1024,
    110: 227 * 1024,
    120: 99 * 1024,
    121: 99 * 1024,
}

_F8 = ("float8_e4m3fn", "float8_e5m2")


def _mma(m: int, n: int, k: int, operand: str, *accumulators: str, note: str = "") -> MatrixInstruction:
    return MatrixInstruction("mma.sync", m, n, k, operand, accumulators, note)


# First compute capability that has the instruction, the instruction; preferred ones first. Only what
# `targets.cuda` emits: a hover must not promise another one.
MMA_SYNC: tuple[tuple[int, MatrixInstruction], ...] = (
    (80, _mma(16, 8, 16, "float16", "float32", "float16")),
    (75, _mma(16, 8, 8, "float16", "float32", "float16")),
    (80, _mma(16, 8, 16, "bfloat16", "float32")),
    (80, _mma(16, 8, 8, "bfloat16", "float32")),
    (80, _mma(16, 8, 8, "float32", "float32", note="TF32: 10 bits of mantissa, accumulated in float32")),
    (80, _mma(16, 8, 4, "float32", "float32", note="TF32: 10 bits of mantissa, accumulated in float32")),
    (80, _mma(16, 8, 32, "int8", "int32")),
    (80, _mma(16, 8, 32, "uint8", "int32")),
    *((89, _mma(16, 8, 32, dtype, "float32", "float16")) for dtype in _F8),
)


def limits(sm: int) -> Limits:
    """Limits of compute capability `sm`; an unknown one is taken as the newest known that is not newer.

    Where there is none such, the largest shared memory of all: nothing is proven about an unknown GPU.
    """
    known = [cap for cap in SHARED_BYTES if cap <= sm]
    shared = SHARED_BYTES[max(known)] if known else max(SHARED_BYTES.values())
    return Limits(shared_bytes=shared)


def matrix_instructions(sm: int) -> tuple[MatrixInstruction, ...]:
    """The mma.sync instructions of compute capability `sm`, preferred ones first."""
    return tuple(instruction for first, instruction in MMA_SYNC if first <= sm)
