"""output-not-written: an output of which no block writes anything, or of which a part is never written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import lcm
from typing import Any

from tilelang.analysis.contents import History, histories
from tilelang.analysis.coverage import Place, ranges_text, reached, symbols_behind
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import OUTPUT_NOT_WRITTEN, OUTPUT_PARTLY_WRITTEN
from tilelang.ir.prove import free_vars, substitute
from tilelang.ir.values import Value, as_int, show

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip
from tvm_ffi import structural_walk  # isort: skip

_ABOUT = 2048  # elements of a dimension whose size is a symbol: several tiles, and quickly looked through


def check(subject: Subject) -> Iterator[Problem]:
    """Silent about incomplete programs: what was not understood may write the rest."""
    if not subject.program.complete or subject.launch is None:
        return
    for history in subject.shared(histories):
        if history.buffer.role != "output" or history.escaped:
            continue
        if history.writes:
            problem = _partly(subject, history)
            if problem is not None:
                yield problem
        elif not history.reads:  # a read of it is read-before-write
            yield OUTPUT_NOT_WRITTEN.at(history.buffer.name_span, buffer=history.buffer.name)


def _partly(subject: Subject, history: History) -> Problem | None:
    """The first dimension of which coordinates are left out."""
    places: list[Place] = [(w.context, w.starts, w.extents) for w in history.writes]
    for dim, extent in enumerate(history.buffer.shape):
        sizes = _sizes(subject, places, dim, extent)
        size = None if sizes is None else as_int(subject.prover.simplify(substitute(extent, sizes)))
        if sizes is None or size is None:
            continue
        written = reached(subject, dim, size, places, sizes)
        if written is None:
            continue
        given = ", ".join(f"{v.name} = {n}" for v, n in sizes.items())
        last = history.writes[-1]
        return OUTPUT_PARTLY_WRITTEN.at(
            last.span,
            related=(Related(history.buffer.name_span, f"{history.buffer.name} is made here"),),
            missing=ranges_text(~written),
            dim=dim,
            buffer=history.buffer.name,
            size=show(extent),
            when=f" with {given}" if given else "",
        )
    return None


def _sizes(subject: Subject, places: Iterable[Place], dim: int, extent: Value) -> Mapping[ir.Var, int] | None:
    """Numbers for the symbols of a dimension; none are needed where it is a number. None where its writes
    depend on other symbols: those may be related to it.
    """
    symbols = free_vars(extent)
    known = {s.var for s in subject.program.symbols}
    steps = []
    for context, starts, extents in places:
        if starts is None:
            return None
        values = (starts[dim], extents[dim])
        behind = symbols_behind(subject, context, values)
        if behind != symbols or not symbols <= known:
            return None
        steps += [d for v in _bounds_behind(subject, values) for d in _divisors(v)]
    step = lcm(*steps) if steps else 1
    return dict.fromkeys(symbols, step * -(-_ABOUT // step)) if step <= _ABOUT else None


def _bounds_behind(subject: Subject, values: Iterable[Value]) -> Iterator[Value]:
    for value in values:
        yield value
        for var in free_vars(value):
            yield from subject.ranges.get(var, ())


def _divisors(value: Any) -> list[int]:
    """Numbers by which an expression divides."""
    found: list[Any] = []
    if isinstance(value, ir.Expr):
        structural_walk(value, (X.FloorDiv, found.append))
    return [n for d in found if (n := as_int(d.b)) is not None and n > 0]
