"""Rules about what must come before what, and what may stand inside what."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

UNINITIALISED_ACCUMULATOR = Rule(
    "uninitialised-accumulator",
    "order",
    Severity.WARNING,
    "T.gemm adds to the accumulator, which must hold something first.",
    "{buffer} is uninitialised here and T.gemm adds to it: call T.clear({buffer}) before, "
    "or pass clear_accum=True",
)
READ_BEFORE_WRITE = Rule(
    "read-before-write",
    "order",
    Severity.WARNING,
    "A tile must be written before it is read.",
    "{buffer} is read here, but nothing was written to it",
)

NESTED_TILE_OP = Rule(
    "nested-tile-op",
    "order",
    Severity.ERROR,
    "A tile operation is carried out by the whole block and cannot stand in T.Parallel.",
    "T.{op} is carried out by all threads of the block, but stands in a T.Parallel loop, whose iterations "
    "are spread over them: move it out of the loop",
)
UNSUPPORTED_NESTING = Rule(
    "unsupported-nesting",
    "order",
    Severity.ERROR,
    "T.Pipelined cannot stand in T.Parallel.",
    "T.{inner} stands in T.{outer}, whose iterations are spread over the threads: swap the loops",
)
PIPELINED_WRITE_AFTER_READ = Rule(
    "pipelined-write-after-read",
    "order",
    Severity.WARNING,
    "A pipelined tile is refilled only after it was used, so its copy cannot run ahead.",
    "{buffer} is read at line {line} before this copy refills it in the same iteration, so the copy cannot "
    "be prefetched: copy first, or use num_stages=0",
)
PARALLEL_REDUCTION_RACE = Rule(
    "parallel-reduction-race",
    "order",
    Severity.ERROR,
    "Iterations of T.Parallel that update one cell race.",
    "iterations that differ only in {vars} update the same element {access} at the same time: "
    "use T.reduce_sum, or a serial loop over {vars}",
)
PARALLEL_WRITE_RACE = replace(
    PARALLEL_REDUCTION_RACE,
    level=Severity.HINT,
    message="iterations that differ only in {vars} all write {access}, and any of them may be the last",
)
DIVERGENT_BARRIER = Rule(
    "divergent-barrier",
    "order",
    Severity.ERROR,
    "A barrier must be reached by all threads of the block or by none.",
    "T.sync_threads waits for all threads of the block, but `{condition}` lets only some of them come here: "
    "move it out of the branch",
)
