"""Rules about where operands live."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

GEMM_SCOPE = Rule(
    "gemm-scope",
    "scope",
    Severity.ERROR,
    "T.gemm accumulates in a fragment and reads shared memory or fragments.",
    "{operand} is in {scope} memory; T.gemm on {target} accumulates in registers: "
    "allocate it with T.alloc_fragment",
)
GEMM_OPERAND_SCOPE = replace(
    GEMM_SCOPE,
    message="{operand} is in {scope} memory; T.gemm on {target} reads A and B from shared memory or "
    "fragments: copy it to a tile first",
)
GEMM_PART_OF_FRAGMENT = replace(
    GEMM_SCOPE,
    message="{operand} is a part of the fragment {buffer} {shape}; T.gemm takes fragments only whole",
)

REDUCE_SCOPE = Rule(
    "reduce-scope",
    "scope",
    Severity.ERROR,
    "A reduction works on fragments, on shared memory, or on private arrays.",
    "{buffer} is in {scope} memory and {out} in {out_scope} memory; a reduction works between fragments and "
    "shared memory, or from a local array to a local one: copy to a fragment first",
)

SCAN_SCOPE = Rule(
    "scan-scope",
    "scope",
    Severity.ERROR,
    "Running sums and maxima go over shared tiles and fragments.",
    "{buffer} is in {scope} memory; {op} works on shared tiles and fragments: copy it to one first",
)

ATOMIC_SCOPE = Rule(
    "atomic-scope",
    "scope",
    Severity.ERROR,
    "Atomics update memory that threads share: global tensors and shared tiles.",
    "{buffer} is {where}; atomics update global or shared memory: write {instead}",
)

ATOMIC_REPLICATED = replace(
    ATOMIC_SCOPE,
    message="{value} is the old value of an element, but the fragments of this loop make several threads run "
    "each iteration, and only one of them may update: use {value} in a loop of its own without fragments",
)

LOCAL_PARALLEL_INDEX = Rule(
    "local-parallel-index",
    "scope",
    Severity.ERROR,
    "T.alloc_local is private to one thread and cannot be spread over a parallel loop.",
    "{buffer} is private to each thread, but on {target} {var} of T.Parallel is spread over the threads: "
    "use T.alloc_fragment for a tile that the block shares out",
)
PARALLEL_EXTENT = Rule(
    "parallel-extent",
    "scope",
    Severity.WARNING,
    "T.Parallel over a fragment covers the extents that the fragment has.",
    "the loop updates {part} of dimension {dim} of {buffer} (line {line}), which has {size} elements; the "
    "others keep their old values, while the rest of the kernel uses all of them",
)
