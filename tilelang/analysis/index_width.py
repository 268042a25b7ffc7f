"""index-width: 32-bit arithmetic on block, thread and loop numbers that passes 2^31 and wraps around."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tilelang.analysis.iterations import iterations
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Fix, Problem
from tilelang.diagnostics.rules.bounds import INDEX_WIDTH
from tilelang.diagnostics.span import Span
from tilelang.ir.evaluate import NotEvaluable
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Context, Store, walk
from tilelang.ir.values import Buffer, Value, as_int, dtype_of, show
from tilelang.ops.source_edits import factor_edit, span_text

from tvm import ir  # isort: skip

_LEAST, _MOST = -(2**31), 2**31 - 1
_BEYOND_NUMPY = 2**62
_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "LShift"})
_BITWISE = frozenset({"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "RShift"})


@dataclass(frozen=True, eq=False)
class _Place:
    """A value that is computed somewhere: an index, a condition, what is stored."""

    value: Value
    span: Span
    context: Context
    wide: bool = False  # sums and products are computed in 64 bits
    shifts: bool = False  # a shift is a product: elsewhere it may make bits, which may wrap


def check(subject: Subject) -> Iterator[Problem]:
    """Only what some iteration, which surely runs, really computes. The position in a tensor of 2^31 elements
    and more is computed in 64 bits, with all sums and products of its indices: they wrap nowhere.
    """
    told: set[Span] = set()
    for place in _places(subject):
        if place.span in told or type(place.value).__name__ in ("int", "Var", "IntImm"):
            continue
        finder = _Overflows(subject)
        finder.interval(place.value)
        for node in finder.found:
            if not place.shifts if type(node).__name__ == "LShift" else place.wide:
                continue
            problem = _proven(subject, place, node)
            if problem is not None:
                told.add(place.span)
                yield soften(problem, place.context)
                break


def _places(subject: Subject) -> Iterator[_Place]:
    guards: set[Span] = set()
    for access in subject.program.accesses:
        for index in access.indices:
            yield _Place(index.start, index.span, access.context, _is_large(access.buffer), True)
        for at, guard in enumerate(access.context.guards):
            if guard.span not in guards:
                guards.add(guard.span)
                around = replace(access.context, guards=access.context.guards[:at])
                yield _Place(guard.condition, guard.span, around)
    for record in subject.records:
        for access in subject.accesses(record):
            for index in access.region.indices or ():
                wide = _is_large(access.region.buffer)
                yield _Place(index.start, index.span, record.context, wide, True)
    for node in walk(subject.program.body):
        if isinstance(node, Store) and dtype_of(node.value) == "int32":
            yield _Place(node.value, node.span, node.context)


def _is_large(buffer: Buffer) -> bool:
    """Whether the tensor has, or may have, 2^31 elements; a row of a 32-bit number of them has fewer."""
    sizes = [as_int(d) for d in buffer.shape]
    known = prod(s for s in sizes if s is not None)
    row = sizes.count(None) == 1 and known == 1 and all(_is_narrow(d) for d in buffer.shape)
    return buffer.scope == "global" and (known > _MOST or (None in sizes and not row))


def _is_narrow(size: Value) -> bool:
    return as_int(size) is not None or (isinstance(size, ir.Var) and dtype_of(size) == "int32")


class _Overflows:
    """Interval arithmetic over an expression that collects the operations whose result may not fit."""

    def __init__(self, subject: Subject) -> None:
        self._ranges = subject.ranges
        self._bits = False  # below an operation on bits
        self.found: list[ir.Expr] = []

    def interval(self, value: Any) -> tuple[int, int] | None:
        """The bounds of a value; None where they are not known. Kinds are told by name: `isinstance` on
        nodes costs a microsecond each.
        """
        number = as_int(value)
        if number is not None:
            return number, number
        kind = type(value).__name__
        if kind == "Var":
            low, extent = (as_int(v) for v in self._ranges.get(value, (None, None)))
            return None if low is None or extent is None else (low, low + max(extent, 1) - 1)
        if kind == "Cast":
            return self.interval(value.value)
        if kind in _ARITHMETIC:
            bounds = _combined(kind, self.interval(value.a), self.interval(value.b))
            if bounds is not None and not _LEAST <= bounds[0] <= bounds[1] <= _MOST:
                numeric = kind != "LShift" or not self._bits
                if numeric and dtype_of(value) == "int32" and max(map(abs, bounds)) < _BEYOND_NUMPY:
                    self.found.append(value)
                return None if dtype_of(value) == "int32" else bounds
            return bounds
        before, self._bits = self._bits, self._bits or kind in _BITWISE
        for part in ("a", "b", "condition", "true_value", "false_value"):
            if hasattr(value, part):
                self.interval(getattr(value, part))
        self._bits = before
        return None


def _combined(kind: str, a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    if a is None or b is None:
        return None
    if kind == "Add":
        return a[0] + b[0], a[1] + b[1]
    if kind == "Sub":
        return a[0] - b[1], a[1] - b[0]
    if kind == "LShift":
        if not 0 <= b[0] <= b[1] < 32:
            return None
        b = (1 << b[0], 1 << b[1])
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def _proven(subject: Subject, place: _Place, node: ir.Expr) -> Problem | None:
    points = iterations(subject, place.context, (node,))
    if points is None or not points.sure:
        return None
    try:
        values = points.values(node)
    except NotEvaluable:
        return None
    size = np.where(points.active & ((values < _LEAST) | (values > _MOST)), np.abs(values), 0)
    worst = int(size.argmax())
    if not size.ravel()[worst]:
        return None
    at = {v.name: n for v, n in points.at(worst).items() if v in free_vars(node)}
    edit = factor_edit(place.span, subject.text, [*at], f"{_prefix(subject)}int64")
    return INDEX_WIDTH.at(
        place.span,
        fixes=() if edit is None else (Fix(f"Multiply in 64 bits: `{edit.new_text}`", (edit,)),),
        value=show(node),
        reached=int(values.ravel()[worst]),
        where=", ".join(f"{name} = {number}" for name, number in at.items()),
        var=max(at, key=lambda name: at[name]),
        prefix=_prefix(subject) or "T.",
    )


def _prefix(subject: Subject) -> str:
    """How the author calls the language at the launch: `T.`."""
    written = "" if subject.launch is None else span_text(subject.launch.span, subject.text)
    match = re.match(r"((?:\w+\.)+)\w+\s*\(", written)
    return match.group(1) if match else ""
