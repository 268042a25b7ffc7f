"""Conditions on the kernel's data, for rules about races: can two iterations both come to a statement?

They can if the condition is one and the same function for both, of other elements for the one than for the
other, and those are given to the kernel: whatever lets the first come lets the second come too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilelang.analysis.arbitrary_data import arbitrary_data
from tilelang.analysis.collisions import Point, number_at
from tilelang.analysis.subject import PRIVATE_SCOPES, Subject
from tilelang.ir.expressions import conjuncts, loads_of, spelled_out
from tilelang.ir.prove import operands_of
from tilelang.ir.tile_program import Bind, Context, Guard, walk
from tilelang.ir.values import Unknown

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_Element = tuple[ir.Var, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class DataConditions:
    """The conditions on data that a statement stands under, its place without them, and what to call them."""

    context: Context
    conditions: tuple[ir.Expr, ...]
    text: str


def data_conditions(subject: Subject, context: Context) -> DataConditions | None:
    """None where no condition reads memory, or one is unknown."""
    kept: list[Guard] = []
    found: list[ir.Expr] = []
    written: list[Guard] = []
    named = subject.shared(reading_names)
    for guard in context.guards:
        if not isinstance(guard.condition, ir.Expr) or isinstance(guard.condition, Unknown):
            return None
        for condition, negated in conjuncts(guard.condition, guard.negated):
            part = X.Not(condition) if negated else condition
            value = spelled_out(part, named)
            if isinstance(value, ir.Expr) and loads_of(value):
                found.append(value)
                written.append(guard)
            else:
                kept.append(replace(guard, condition=condition, negated=negated))
    if not found:
        return None
    spans = dict.fromkeys(g.span for g in written)
    return DataConditions(replace(context, guards=tuple(kept)), tuple(found), _lines(list(spans)))


def both_may_come(subject: Subject, met: tuple[Point, Point], conditions: Sequence[ir.Expr]) -> bool:
    """Whether for some data all `conditions` hold at both points, given that they can hold at one."""
    a, b = met
    data = subject.shared(arbitrary_data) - subject.shared(_changed)
    here: list[_Element | None] = []
    there: list[_Element | None] = []
    for condition in conditions:
        if not _same_function(condition, a, b):
            return False
        for load in loads_of(condition):
            here.append(_element(load, a))
            there.append(_element(load, b))
    if None in here or None in there:
        return False
    own = {e for e, f in zip(here, there, strict=True) if e != f}
    others = {f for e, f in zip(here, there, strict=True) if e != f}
    fixed = {e for e, f in zip(here, there, strict=True) if e == f}
    if own & set(there) or others & set(here):
        return False
    given = all(e is not None and e[0] in data for e in own | others)
    return given and not any(e is not None and _may_differ(subject, e[0]) for e in fixed)


def reading_names(subject: Subject) -> Mapping[ir.Var, ir.Expr]:
    """Names of values that were read from memory: `v = A[i]`."""
    return {
        node.var: node.value
        for node in walk(subject.program.body)
        if isinstance(node, Bind) and isinstance(node.value, ir.Expr)
    }


def _changed(subject: Subject) -> frozenset[ir.Var]:
    """Buffers with elements that the kernel writes one by one: what is in them may not be arbitrary."""
    return frozenset(a.buffer.var for a in subject.program.accesses if a.mode == "write" and a.buffer.known)


def _may_differ(subject: Subject, source: ir.Var) -> bool:
    """Whether an element of a buffer may be another one, or changed, when the second iteration comes."""
    private = {b.var for b in subject.program.buffers if b.known and b.scope in PRIVATE_SCOPES}
    return source in private or source in subject.shared(_changed)


def _same_function(value: Any, a: Point, b: Point) -> bool:
    """Whether an expression has one value at both points once what it reads has."""
    if not isinstance(value, ir.Expr) or isinstance(value, ir.TensorLoad):
        return True
    if isinstance(value, ir.Var):
        return a.get(value) == b.get(value)
    x, y = number_at(value, a), number_at(value, b)
    if x is not None and y is not None:
        return x == y
    return all(_same_function(part, a, b) for part in operands_of(value))


def _element(load: ir.TensorLoad, point: Point) -> _Element | None:
    numbers = tuple(number_at(i, point) for i in load.indices)
    return None if None in numbers else (load.source, tuple(n for n in numbers if n is not None))


def _lines(spans: list[Any]) -> str:
    lines = sorted({s.line for s in spans})
    return f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
