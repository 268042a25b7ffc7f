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
    "{op} on {target} cannot {verb} {dtype} elements, which {buffer} has; it can: {legal}",
)
ATOMIC_ORDER = replace(ATOMIC_DTYPE, message="{target} has no atomics of memory order {order}, only {legal}")

CONSTANT_RANGE = Rule(
    "constant-range",
    "dtype",
    Severity.WARNING,
    "A constant that is stored must fit the dtype.",
    "{value} does not fit {dtype} ({low} to {high}), which {buffer} holds{becomes}",
)
CONSTANT_FRACTION = replace(
    CONSTANT_RANGE,
    level=Severity.HINT,
    message="{value} becomes {becomes}: {buffer} holds {dtype}",
)
CONSTANT_FRACTION_FILL = replace(  # a tile of one number that is not the one that stands there
    CONSTANT_FRACTION,
    level=Severity.WARNING,
    message="{value} becomes {becomes} in every element: {buffer} holds {dtype}",
)
CONSTANT_OVERFLOW = replace(
    CONSTANT_RANGE,
    level=Severity.HINT,
    message="{value} is beyond the largest {dtype} ({largest}), which {buffer} holds: it becomes {becomes}",
)

IMPLICIT_TRUNCATION = Rule(
    "implicit-truncation",
    "dtype",
    Severity.HINT,
    "A float that is stored as an integer loses its fraction.",
    "{value_dtype} values are cut off towards zero: {buffer} holds {dtype}; T.cast says so, T.round rounds",
)
IMPLICIT_SATURATION = replace(
    IMPLICIT_TRUNCATION,
    message="{value_dtype} values beyond {largest}, infinity among them, become {largest}: {buffer} holds "
    "{dtype}",
)

INTEGER_DETOUR = Rule(
    "integer-detour",
    "dtype",
    Severity.WARNING,
    "Floats should not pass through a tile of integers, which cuts their fractions off.",
    "{value_dtype} values lose their fractions in {buffer}, which holds {dtype}, and are used as floats "
    "again at line {line}: let {buffer} hold {value_dtype}, or round or cast in so many words",
)

REDUCE_DTYPE = Rule(
    "reduce-dtype",
    "dtype",
    Severity.ERROR,
    "Bits are combined in integers only, and truth values are not added.",
    "{buffer} is {dtype}; {kind} {works}",
)

NARROW_ACCUMULATOR = Rule(
    "narrow-accumulator",
    "dtype",
    Severity.HINT,
    "Long sums in float16 lose small terms.",
    "{c} adds up {terms} products per element in float16, which keeps 11 bits: from 2048 on, adding 1 "
    "changes nothing; accumulate in float32",
)

MISSING_DTYPE = Rule(
    "missing-dtype",
    "dtype",
    Severity.ERROR,
    "The target must have the dtypes that a kernel computes with.",
    "{buffer} is {dtype}, which {target} does not have: use another dtype, or compile for another target",
)
MISSING_DTYPE_PACKED = replace(
    MISSING_DTYPE,
    message="{buffer} is {dtype}, which this compiler does not store on {target} yet: declare uint8 with two "
    "elements in a byte, and take them apart with shifts and masks",
)
# Two elements share a byte, which has one address and is what threads exchange.
PACKED_USE = replace(
    MISSING_DTYPE, message="{dtype} values cannot {what} on {target}: convert them to another dtype before"
)
MISSING_DTYPE_VALUE = replace(MISSING_DTYPE, message="this converts to {dtype}, which {target} does not have")
