"""T.Broadcast, T.extract_lane, T.Shuffle and relatives: vectors as values, made and taken apart."""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.operations.packed_pairs import vector_lanes
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, dtype_of_expr, named_type, scalar
from tilelang.ir.values import as_int

_MOST_LANES = 64
_OPERATIONS = frozenset(
    ("extract_lane", "Shuffle", "Broadcast", "broadcast", "vectorlow", "vectorhigh", "vectorcombine")
)


def is_vector_call(op: str) -> bool:
    """Whether `op` is one of the operations here."""
    return op in _OPERATIONS


def vector_call(run: Run, op: str, call: Bound) -> Any:
    """The value of such a call."""
    if op in ("Broadcast", "broadcast"):
        return _broadcast(run, call)
    names = {"Shuffle": ("vectors",), "extract_lane": ("vector",), "vectorcombine": ("vec1", "vec2")}
    vectors: list[Any] = []
    for name in names.get(op, ("vec",)):
        given = call.value(name)
        vectors += list(given) if op == "Shuffle" and isinstance(given, list | tuple) else [given]
    vectors = [scalar(run, v, call.span) for v in vectors]
    lost = any_unknown(vectors)
    if lost is not None:
        run.complete = False
        return lost
    for value in vectors:
        if not isinstance(value, ir.Expr):
            what = f"a vector of the kernel is expected, such as a float32x4, not {named_type(value)}"
            return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    if len({dtype_of_expr(v) for v in vectors}) != 1:
        what = f"the vectors must have one dtype, not {', '.join(dtype_of_expr(v) for v in vectors)}"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    return _picked(run, op, call, vectors)


def _broadcast(run: Run, call: Bound) -> Any:
    value = scalar(run, call.value("value"), call.span_of("value"))
    lanes = as_int(call.value("lanes"))
    lost = any_unknown([value, call.value("lanes")])
    if lost is not None:
        run.complete = False
        return lost
    if lanes is None or not 1 <= lanes <= _MOST_LANES:
        what = f"`lanes` is 1 to {_MOST_LANES}, known at compile time"
        return run.report(BAD_ARGUMENTS, call.span_of("lanes"), callee=call.callee, what=what)
    if isinstance(value, bool | int | float):
        kinds = {bool: "bool", int: "int32", float: "float32"}
        value = X.const(value, kinds[type(value)])
    if not isinstance(value, ir.Expr) or vector_lanes(value) > 1:
        found = dtype_of_expr(value) if isinstance(value, ir.Expr) else named_type(value)
        what = f"`value` must be a number, not {found}"
        return run.report(BAD_ARGUMENTS, call.span_of("value"), callee=call.callee, what=what)
    return value if lanes == 1 else X.Broadcast(value, lanes)


def _picked(run: Run, op: str, call: Bound, vectors: list[Any]) -> Any:
    """The elements that the call asks for, of all the vectors side by side."""
    count = sum(map(vector_lanes, vectors))
    match op:
        case "extract_lane":
            given = [call.value("lane")]
        case "Shuffle":
            indices = call.value("indices")
            given = list(indices) if isinstance(indices, list | tuple) else [indices]
        case "vectorlow":
            given = list(range(count // 2))
        case "vectorhigh":
            given = list(range(count // 2, count))
        case _:
            given = list(range(count))
    lost = any_unknown(given)
    if lost is not None:
        return lost
    lanes = [as_int(g) for g in given]
    wrong = next((g for g, n in zip(given, lanes, strict=True) if n is None or not 0 <= n < count), None)
    if wrong is not None or not lanes:
        what = f"elements are 0 to {count - 1}, known at compile time, not {wrong}"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    if count == 1:
        return vectors[0]
    return X.Shuffle(vectors, [X.const(n, "int32") for n in lanes if n is not None])
