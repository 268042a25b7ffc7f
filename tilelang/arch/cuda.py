"""NVIDIA GPUs: limits of a block and of a multiprocessor, and the warp-level matrix instructions.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (opt-in shared memory
per block, residency, registers, grids); PTX ISA 9.7.9.25 (cp.async from sm_80 on); PTX ISA 9.7.15, "Matrix
multiply-accumulate operation using mma instruction" (shapes and dtypes of mma.sync).
"""

from __future__ import annotations

from tilelang.arch.features import Features, Processor
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

_FIRST_WITH_CP_ASYNC = 80


def _sm(threads: int, blocks: int, shared_kib: int, reserved_kib: int = 1) -> Processor:
    return Processor(threads, blocks, shared_kib * 1024, reserved_kib * 1024)


# Compute capability -> what one multiprocessor holds; those that the guide does not list are left out.
PROCESSORS = {
    70: _sm(2048, 32, 96, 0),
    75: _sm(1024, 16, 64, 0),
    80: _sm(2048, 32, 164),
    86: _sm(1536, 16, 100),
    87: _sm(1536, 16, 164),
    89: _sm(1536, 24, 100),
    90: _sm(2048, 32, 228),
    100: _sm(2048, 32, 228),
    103: _sm(2048, 32, 228),
    120: _sm(1536, 24, 100),
    121: _sm(1536, 24, 100),
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
    *((80, _mma(16, 8, k, dtype, "int32")) for dtype in ("int4", "uint4") for k in (64, 32)),
    *((89, _mma(16, 8, 32, dtype, "float32", "float16")) for dtype in _F8),
    (80, _mma(8, 8, 4, "float64", "float64")),
)


# The same for a product whose A is stored without the zeros of its 2:4 pattern (PTX ISA 9.7.15.6, mma.sp).
MMA_SP: tuple[tuple[int, MatrixInstruction], ...] = tuple(
    (first, MatrixInstruction("mma.sp", 16, 8, k, operand, accumulators))
    for first, k, operand, accumulators in (
        (80, 32, "float16", ("float32", "float16")),
        (80, 32, "bfloat16", ("float32",)),
        (80, 16, "float32", ("float32",)),
        (80, 64, "int8", ("int32",)),
        (80, 64, "uint8", ("int32",)),
        *((89, 64, dtype, ("float32",)) for dtype in _F8),
    )
)


# T.gemm becomes wgmma on sm_90a where it can, unless this attribute of the function (a pass configuration) is
# true.
DISABLE_WGMMA = "tl.disable_wgmma"
WGMMA_SM = 90
# Whether pipelined loops are shared between a warp group that fetches by TMA and others that compute, on
# sm_90a where it fits and pays. A kernel decides for itself by this attribute (a pass configuration): True
# refuses it, False asks for it even where it does not seem to pay.
DISABLE_WARP_SPECIALISED = "tl.disable_warp_specialized"
WARP_SPECIALISED_BY_DEFAULT = True
DISABLE_TMA = "tl.disable_tma_lower"  # refuses it too: without TMA there is nothing to share out
# (operand dtype, accumulator dtype) that are emitted as wgmma.mma_async (PTX ISA 9.7.16.5). 8-bit operands of
# one kind mix (`mixed_operands`). float32 is TF32, whose low 13 bits the instruction ignores.
WGMMA: frozenset[tuple[str, str]] = frozenset(
    {
        *((dtype, "float32") for dtype in ("float16", "bfloat16", "float32", *_F8)),
        *((dtype, "float16") for dtype in ("float16", *_F8)),
        *((dtype, "int32") for dtype in ("int8", "uint8")),
    }
)
WGMMA_OPERAND_BITS = {
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    **dict.fromkeys((*_F8, "int8", "uint8"), 8),
}
WGMMA_M, WGMMA_MOST_N, WGMMA_WARPS = 64, 256, 4
WGMMA_K_BYTES = 32  # of K in one instruction, whatever the dtype
MIXED_OPERANDS = frozenset({frozenset(_F8), frozenset({"int8", "uint8"})})


# Operand dtype -> first compute capability whose tensor cores take it (PTX ISA 9.7.15, "mma", Target ISA
# Notes), whether or not this compiler emits the instruction.
FIRST_WITH: dict[str, int] = {
    "float16": 70,
    "int8": 75,
    "uint8": 75,
    "int4": 75,
    "uint4": 75,
    "bfloat16": 80,
    "float32": 80,  # as TF32
    "float64": 80,
    **dict.fromkeys(_F8, 89),
}


def limits(sm: int) -> Limits:
    """Limits of compute capability `sm`; an unknown one is taken as the newest known that is not newer.

    Where there is none such, the largest shared memory of all: nothing is proven about an unknown GPU.
    """
    known = [cap for cap in SHARED_BYTES if cap <= sm]
    shared = SHARED_BYTES[max(known)] if known else max(SHARED_BYTES.values())
    return Limits(shared_bytes=shared)


def features(sm: int) -> Features:
    """What compute capability `sm` can do; a grid's y and z end at 65535, a block's z at 64."""
    return Features(
        async_copies=sm >= _FIRST_WITH_CP_ASYNC,
        unit="mma",
        registers_per_thread=255,
        processor=PROCESSORS.get(sm),
        grid=(2**31 - 1, 65535, 65535),
        block=(1024, 1024, 64),
        mixed_operands=MIXED_OPERANDS,
    )


def matrix_instructions(sm: int) -> tuple[MatrixInstruction, ...]:
    """The mma.sync instructions of compute capability `sm`, preferred ones first."""
    return tuple(instruction for first, instruction in MMA_SYNC if first <= sm)


def sparse_instructions(sm: int) -> tuple[MatrixInstruction, ...]:
    """The mma.sp instructions of compute capability `sm`."""
    return tuple(instruction for first, instruction in MMA_SP if first <= sm)


# Eviction policies of the L2 cache as createpolicy makes them, for instructions with a cache hint.
L2_POLICIES = {"evict_first": 0x12F0000000000000, "evict_last": 0x14F0000000000000}
