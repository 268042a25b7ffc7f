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
_ARITHMETIC = frozenset({"Add", "Sub", "Mul"})


@dataclass(frozen=True, eq=False)
class _Place:
    """A value that is computed somewhere: an index, a condition, what is stored."""

    value: Value
    span: Span
    context: Context


def check(subject: Subject) -> Iterator[Problem]:
    """Only what some iteration, which surely runs, really computes. The position in a tensor of 2^31 elements
    and more is computed in 64 bits, with all that its indices are made of: it wraps nowhere.
    """
    told: set[Span] = set()
    for place in _places(subject):
        if place.span in told or type(place.value).__name__ in ("int", "Var", "IntImm"):
            continue
        finder = _Overflows(subject)
        finder.interval(place.value)
        for node in finder.found:
            problem = _proven(subject, place, node)
            if problem is not None:
                told.add(place.span)
                yield soften(problem, place.context)
                break


def _places(subject: Subject) -> Iterator[_Place]:
    guards: set[Span] = set()
    for access in subject.program.accesses:
        if not _is_large(access.buffer):
            for index in access.indices:
                yield _Place(index.start, index.span, access.context)
        for at, guard in enumerate(access.context.guards):
            if guard.span not in guards:
                guards.add(guard.span)
                around = replace(access.context, guards=access.context.guards[:at])
                yield _Place(guard.condition, guard.span, around)
    for record in subject.records:
        for access in subject.accesses(record):
            if not _is_large(access.region.buffer):
                for index in access.region.indices or ():
                    yield _Place(index.start, index.span, record.context)
    for node in walk(subject.program.body):
        if isinstance(node, Store) and dtype_of(node.value) == "int32":
            yield _Place(node.value, node.span, node.context)


def _is_large(buffer: Buffer) -> bool:
    """Whether the tensor has, or may have, 2^31 elements."""
    sizes = [as_int(d) for d in buffer.shape]
    known = [s for s in sizes if s is not None]
    return buffer.scope == "global" and (len(known) < len(sizes) or prod(known) > _MOST)


class _Overflows:
    """Interval arithmetic over an expression that collects the operations whose result may not fit."""

    def __init__(self, subject: Subject) -> None:
        self._ranges = subject.ranges
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
                if dtype_of(value) == "int32" and max(map(abs, bounds)) < _BEYOND_NUMPY:
                    self.found.append(value)
                return None if dtype_of(value) == "int32" else bounds
            return bounds
        for part in ("a", "b", "condition", "true_value", "false_value"):
            if hasattr(value, part):
                self.interval(getattr(value, part))
        return None


def _combined(kind: str, a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    if a is None or b is None:
        return None
    if kind == "Add":
        return a[0] + b[0], a[1] + b[1]
    if kind == "Sub":
        return a[0] - b[1], a[1] - b[0]
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
