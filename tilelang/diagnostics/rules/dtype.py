"""Rules about element types."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

GEMM_DTYPE = Rule(
    "gemm-dtype",
    "dtype",
    Severity.ERROR,
    "A and B of T.gemm have one dtype, and the accumulator one that the target can add into.",
    "{a} is {a_dtype}, {b} is {b_dtype}; T.gemm needs one dtype for both: convert one of them with T.copy",
)
GEMM_ACCUMULATOR = replace(
    GEMM_DTYPE,
    message="{c} is {c_dtype}; {operand} tiles accumulate in {legal} on {target}",
)
GEMM_OPERAND_DTYPE = replace(
    GEMM_DTYPE,
    message="{target} has no matrix instruction for {operand}; it has {known}",
)

ATOMIC_DTYPE = Rule(
    "atomic-dtype",
    "dtype",
    Severity.ERROR,
    "The target must be able to update elements of that dtype indivisibly.",
    "{op} on {target} cannot update {dtype} elements, which {buffer} has; it can: {legal}",
)
ATOMIC_ORDER = replace(ATOMIC_DTYPE, message="{target} has no atomics of memory order {order}, only {legal}")
