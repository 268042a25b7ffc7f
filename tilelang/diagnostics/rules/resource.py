"""Rules about what a target offers: memory, threads, instructions."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

GEMM_TILE = Rule(
    "gemm-tile",
    "resource",
    Severity.ERROR,
    "M, N and K of a T.gemm tile must be multiples of the target's matrix instruction.",
    "{dim} of the tile ({operand}) is {size}; {dtype} on {target} needs a multiple of {step}: {nearest}",
)
GEMM_WARPS = replace(
    GEMM_TILE,
    message="{warps} warps ({threads} threads) cannot share out a tile of M={m}, N={n} in pieces of "
    "{step_m}×{step_n} on {target}; legal for this tile: threads={legal}",
)

UNSUPPORTED_GEMM = Rule(
    "unsupported-gemm",
    "resource",
    Severity.ERROR,
    "This compiler has no way to multiply tiles of these dtypes on the target.",
    "this compiler multiplies no {operand} tiles on {target}; it does {known} there",
)
UNSUPPORTED_GEMM_BEFORE = replace(
    UNSUPPORTED_GEMM,
    message="{target} has no matrix instruction for {operand} ({first} and newer have), and this compiler "
    "knows no other way: convert to {known}, or compile for another target",
)
UNSUPPORTED_GEMM_NONE = replace(
    UNSUPPORTED_GEMM,
    message="this compiler emits no matrix instruction of {target}, and knows no other way",
)
UNSUPPORTED_GEMM_MIX = replace(
    UNSUPPORTED_GEMM,
    message="{a} is {a_dtype}, {b} is {b_dtype}; this compiler multiplies no tiles of two dtypes on {target} "
    "yet: convert one of them with T.copy",
)
GEMM_INSTRUCTION = replace(
    UNSUPPORTED_GEMM,
    message="no matrix instruction that this compiler emits on {target} multiplies {operand} into "
    "{accumulator} with K={k}: use another dtype, or another target",
)

SHARED_MEMORY_BUDGET = Rule(
    "shared-memory-budget",
    "resource",
    Severity.ERROR,
    "The shared tiles of a block, with all pipeline stages, must fit into the target's shared memory.",
    "shared memory needs {least}{total}, {target} has {limit} per block: {parts}",
)

THREAD_COUNT = Rule(
    "thread-count",
    "resource",
    Severity.ERROR,
    "A block has a limited number of threads, in whole warps where it uses matrix instructions.",
    "threads={threads} exceeds the limit of {limit} threads per block on {target}",
)
THREAD_AXIS = replace(
    THREAD_COUNT,
    message="{threads} threads along {axis} exceed the limit of {limit} on {target}",
)
THREAD_IDLE = replace(
    THREAD_COUNT,
    level=Severity.HINT,
    message="threads={threads} is less than a warp: {idle} of its {warp} lanes on {target} stay idle",
)
THREAD_WARPS = replace(
    THREAD_COUNT,
    message="threads={threads} is no multiple of {warp}; T.gemm on {target} works with whole warps: "
    "{nearest}",
)

GRID_SIZE = Rule(
    "grid-size",
    "resource",
    Severity.ERROR,
    "A grid has a limited number of blocks along each axis.",
    "the grid has {blocks} blocks along {axis} (extent {number}); {target} launches at most {limit} there: "
    "put the largest extent first, or loop inside the block",
)
GRID_EMPTY = replace(
    GRID_SIZE,
    level=Severity.WARNING,
    message="the grid has {blocks} blocks along {axis} (extent {number}): no block runs",
)
