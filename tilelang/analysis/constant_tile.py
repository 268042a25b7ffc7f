"""constant-tile: a tile is computed with, but only ever holds the value that it starts with.

The statement that computes into it is missing, or writes to another tile: a running maximum that stays at
minus infinity, zeros that something is divided by, a sum that only adds products with itself. Other zeros,
ones and factors are used on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilelang.analysis.contents import History, Touch, histories, stores_by_place
from tilelang.analysis.dataflow import mentioned_elsewhere
from tilelang.analysis.read_before_write import place_of
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import CONSTANT_EXTREME, CONSTANT_TILE
from tilelang.ir.evaluate import is_choice
from tilelang.ir.expressions import without_casts
from tilelang.ir.prove import operands_of
from tilelang.ir.tile_program import Store, walk
from tilelang.ir.values import Buffer, Value

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_STARTS = (math.inf, -math.inf)  # of minima and maxima
_LOGARITHMS = ("tirx.log", "tirx.log2", "tirx.log10")
_WORK = ("gemm", "reduce", "scan")


def check(subject: Subject) -> Iterator[Problem]:
    """Silent about tiles that are copied elsewhere."""
    if not subject.program.complete:
        return
    for history in subject.shared(histories):
        tile = history.buffer
        if history.escaped or tile.role is not None or not history.touches:
            continue
        if any(t.record is not None and t.record.op != "fill" for t in history.writes):
            continue
        value = _only_value(subject, history)
        if value is None or (value not in _STARTS and value != 0):
            continue
        uses = _divides if value == 0 and not _multiplied(subject, tile) else _computes
        used = next((t for t in history.reads if uses(subject, tile, t)), None)
        first = history.writes[0]
        if used is None or used.order < first.order or mentioned_elsewhere(subject, tile):
            continue
        yield soften(_problem(subject, tile, value, used, first), used.context)


def check_extremes(subject: Subject) -> Iterator[Problem]:
    """Running maxima that begin at infinity, minima at minus infinity: nothing moves them any more."""
    if not subject.program.complete:
        return
    for history in subject.shared(histories):
        tile, first = history.buffer, next((t for t in history.touches if t.mode != "read"), None)
        if history.escaped or tile.role is not None or first is None or first.record is None:
            continue
        value = _constant(first.record.value("value", 0)) if first.record.op == "fill" else None
        kind = {math.inf: "max", -math.inf: "min"}.get(value if value is not None else math.nan)
        later = [
            w for w in history.writes if w.record is None or w.record.op != "fill" or not _fills(w, value)
        ]
        if kind is None or not later or not all(_absorbed(subject, tile, kind, w) for w in later):
            continue
        problem = CONSTANT_EXTREME.at(
            place_of(subject, tile, later[0]),
            related=(Related(first.span, f"{tile.name} is set here"),),
            buffer=tile.name,
            value=f"{value:g}",
            line=first.span.line,
            what="maximum" if kind == "max" else "minimum",
            start="-T.infinity" if kind == "max" else "T.infinity",
        )
        yield soften(problem, later[0].context)


def _fills(touch: Touch, value: float | None) -> bool:
    return touch.record is not None and _constant(touch.record.value("value", 0)) == value


def _absorbed(subject: Subject, tile: Buffer, kind: str, touch: Touch) -> bool:
    """Whether a write folds into what a tile holds by its maximum, or its minimum."""
    if touch.record is not None:
        return touch.record.op == "reduce" and touch.record.value("kind") == kind and touch.mode == "update"
    stores = [s for s in subject.shared(_stores) if s.span == touch.span and s.buffer is tile]
    folds = X.Max if kind == "max" else X.Min
    return bool(stores) and all(_folds_itself(s, folds) for s in stores)


def _folds_itself(store: Store, folds: type[X.Max] | type[X.Min]) -> bool:
    value = store.value
    if not isinstance(value, folds):
        return False
    cell = [str(i) for i in store.indices]
    return any(_loads(v, store.buffer) and [str(i) for i in v.indices] == cell for v in (value.a, value.b))


def _problem(subject: Subject, tile: Buffer, value: float, used: Touch, first: Touch) -> Problem:
    return CONSTANT_TILE.at(
        place_of(subject, tile, used),
        related=(Related(first.span, f"{tile.name} is set here"),),
        buffer=tile.name,
        value=f"{value:g}",
        line=first.span.line,
    )


def _only_value(subject: Subject, history: History) -> float | None:
    """The one constant that all writes store, None if there is another or none."""
    values = [_constant(t.record.value("value", 0)) for t in history.writes if t.record is not None]
    stores = [s for s in subject.shared(_stores) if s.buffer.storage is history.buffer]
    if values and all(v == 0 for v in values):
        values += [0.0 if _stays_zero(s.value, history.buffer) else _constant(s.value) for s in stores]
    else:
        values += [_constant(s.value) for s in stores]
    return values[0] if values and all(v == values[0] for v in values) else None


def _stays_zero(value: Value, tile: Buffer) -> bool:
    """Whether a value is certainly 0 as long as all elements of a tile are: each term has one as a factor."""
    value = without_casts(value)
    if isinstance(value, X.Add | X.Sub):
        return _stays_zero(value.a, tile) and _stays_zero(value.b, tile)
    if isinstance(value, X.Mul):
        return _stays_zero(value.a, tile) or _stays_zero(value.b, tile)
    return _constant(value) == 0 or _loads(value, tile)


def _loads(value: Value, tile: Buffer) -> bool:
    return isinstance(value, ir.TensorLoad) and tile.known and value.source.same_as(tile.var)


def _multiplied(subject: Subject, tile: Buffer) -> bool:
    """Whether a statement means to compute into a tile, but makes 0 of 0."""
    return any(
        s.buffer is tile and _constant(s.value) is None and isinstance(s.value, X.Add)
        for s in subject.shared(_stores)
    )


def _divides(subject: Subject, tile: Buffer, touch: Touch) -> bool:
    """Whether a read divides by an element of a tile, or takes its logarithm."""
    stores = subject.shared(stores_by_place).get(touch.span, ())
    return any(_divided_by(s.value, tile) for s in stores)


def _divided_by(value: Value, tile: Buffer) -> bool:
    if not isinstance(value, ir.Expr) or isinstance(value, ir.TensorLoad) or is_choice(value):
        return False
    if isinstance(value, X.Div) and _loads(value.b, tile):
        return True
    if isinstance(value, ir.Call) and isinstance(value.op, ir.Op) and value.op.name in _LOGARITHMS:
        return any(_loads(a, tile) for a in value.args)
    return any(_divided_by(part, tile) for part in operands_of(value))


def _stores(subject: Subject) -> list[Store]:
    return [n for n in walk(subject.program.body) if isinstance(n, Store)]


def _constant(value: Value) -> float | None:
    value = without_casts(value)
    if isinstance(value, X.FloatImm | X.IntImm):
        value = value.value
    return float(value) if isinstance(value, int | float) else None


def _computes(subject: Subject, tile: Buffer, touch: Touch) -> bool:
    """Whether a read makes another value of the tile's."""
    if touch.record is not None:
        return touch.record.op in _WORK
    stores = subject.shared(stores_by_place).get(touch.span, ())
    return bool(stores) and not any(_is_load(s.value) for s in stores)


def _is_load(value: Value) -> bool:
    value = without_casts(value)
    return isinstance(value, ir.TensorLoad)
