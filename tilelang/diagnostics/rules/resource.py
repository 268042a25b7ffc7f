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
GEMM_INSTRUCTION = replace(
    GEMM_TILE,
    message="no matrix instruction that this compiler emits on {target} multiplies {operand} into "
    "{accumulator} with K={k}: use another dtype, or another target",
)

SHARED_MEMORY_BUDGET = Rule(
    "shared-memory-budget",
    "resource",
    Severity.ERROR,
    "The shared tiles of a block, with all pipeline stages, must fit into the target's shared memory.",
    "shared memory needs at least {total}, {target} has {limit} per block: {parts}",
)

THREAD_COUNT = Rule(
    "thread-count",
    "resource",
    Severity.ERROR,
    "A block has a limited number of threads, in whole warps where it uses matrix instructions.",
    "threads={threads} exceeds the limit of {limit} threads per block on {target}",
)
THREAD_WARPS = replace(
    THREAD_COUNT,
    message="threads={threads} is no multiple of {warp}; T.gemm on {target} works with whole warps: "
    "{nearest}",
)
