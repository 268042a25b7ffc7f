"""What a target can do and cannot: facts that rules and lowerings ask for instead of comparing its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Two elements share a byte: GPUs have no code for them yet; kernels unpack uint8 tiles themselves.
PACKED_DTYPES = frozenset({"int4", "uint4", "float4_e2m1fn"})
REGISTER_TILES = frozenset({"shared", "local.fragment"})
ANY_TILE = frozenset({"shared", "local.fragment", "local"})


@dataclass(frozen=True)
class Processor:
    """What one multiprocessor holds at a time, shared out among the blocks that run on it.

    `reserved_bytes` of shared memory the system takes for each block. Registers are 32-bit and are handed
    out to warps in units of `register_unit`.
    """

    threads: int
    blocks: int
    shared_bytes: int
    reserved_bytes: int
    registers: int = 64 * 1024
    register_unit: int = 256


@dataclass(frozen=True)
class Features:
    """One target.

    spreads_blocks: the threads of a block share its work; False where one thread runs it all (CPU).
    async_copies: copies from global to shared memory may run while the block computes.
    operand_scopes, accumulator_scopes: where T.gemm takes A and B from, and where it adds into.
    unit: what hovers call the matrix unit, empty where a gemm is a loop nest.
    operand_layout: how a matrix operand lies in shared memory.
    gemm_scratch_bytes: shared memory that accumulators may need besides the author's tiles, at most.
    registers_per_thread: 32-bit registers; None where it is not known.
    grid, block: most blocks and threads along x, y, z; empty where nothing is known.
    lacks: dtypes that no code for the target can compute with.
    mixed_operands: pairs of dtypes that A and B of a gemm may have, other than the same one.
    """

    spreads_blocks: bool = True
    async_copies: bool = False
    operand_scopes: frozenset[str] = REGISTER_TILES
    accumulator_scopes: frozenset[str] = frozenset({"local.fragment"})
    unit: str = ""
    operand_layout: Literal["swizzle", "padded"] = "swizzle"
    gemm_scratch_bytes: int = 0
    registers_per_thread: int | None = None
    processor: Processor | None = None
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    lacks: frozenset[str] = frozenset()
    mixed_operands: frozenset[frozenset[str]] = frozenset()
