"""Which part of its tensors a kernel uses, dimension by dimension, for sizes as they are or of many tiles.

What is said to be left out is certainly never touched: conditions that are no numbers are taken to hold, and
what cannot be computed counts as everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import lcm

import numpy as np

from tilelang.analysis.affine import Affine, affine
from tilelang.analysis.contents import unexplained
from tilelang.analysis.coverage import reached, span_of, symbols_behind
from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.subject import Subject
from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Evaluate, walk
from tilelang.ir.values import Buffer, Value, as_int

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_ABOUT = 2048  # elements of a dimension whose size is a symbol: several tiles, and quickly looked through


@dataclass(frozen=True, eq=False)
class TensorUse:
    """All touches of one tensor. `writes`: it is only written; else it is only read."""

    buffer: Buffer
    places: tuple[GlobalPlace, ...]
    writes: bool


@dataclass(eq=False)
class TensorUses:
    """The tensors of a kernel that are either read or written. `sizes`: the numbers taken for its symbols."""

    subject: Subject
    uses: tuple[TensorUse, ...]
    sizes: Mapping[ir.Var, int]
    _forms: dict[GlobalPlace, tuple[Affine | None, ...]] = field(default_factory=dict)
    _numbers: dict[ir.Var, tuple[int | None, int | None]] = field(default_factory=dict)

    @cached_property
    def unknown(self) -> set[Buffer]:
        """Tensors of which some touch is at no known place."""
        return _not_known(self.subject)

    def number(self, value: Value) -> int | None:
        """A size or an extent as a number, None where it depends on more than symbols."""
        known = as_int(value)
        if known is not None or not isinstance(value, ir.Expr):
            return known
        try:
            return int(evaluate(value, {v.__chandle__(): n for v, n in self.sizes.items()}))
        except (NotEvaluable, TypeError):
            return None

    def given(self, size: Value) -> str:
        """` with N = 2048`: the numbers that were taken for a size's symbols; nothing where it has none."""
        taken = ", ".join(f"{v.name} = {self.sizes[v]}" for v in free_vars(size))
        return f" with {taken}" if taken else ""

    def whole(self, use: TensorUse, dim: int, least: int = 1) -> bool:
        """Whether one statement goes through a whole dimension, `least` elements at a time: found without
        enumeration.
        """
        size = self.number(use.buffer.shape[dim])
        return size is not None and any(
            (self.number(place.extents[dim]) or 0) >= least and self._spans(place, dim, size)
            for place in use.places
        )

    def through(self, use: TensorUse, dim: int, least: int = 1) -> bool:
        """Whether one statement goes through a whole dimension; by enumeration where its index is no sum:
        `by // groups`.
        """
        if self.whole(use, dim, least):
            return True
        size = as_int(use.buffer.shape[dim])
        if size is None or least > 1:
            return False
        for place in use.places:
            if self._form(place)[dim] is not None or place.context.guards or place.context.maybe:
                continue
            part = span_of(self.subject, place.context, place.starts[dim], place.extents[dim], self.sizes)
            if part is not None and part.whole and part.sure:
                inside = {k for first, count in part.pieces for k in range(first, first + count)}
                if inside >= set(range(size)):
                    return True
        return False

    def exactly(self, place: GlobalPlace, dim: int) -> bool:
        """Whether a statement goes through a whole dimension, and no step of it begins outside."""
        size = self.number(place.buffer.shape[dim])
        form = self._form(place)[dim]
        if size is None or form is None or not self._spans(place, dim, size):
            return False
        first = form.constant
        for var, step in form.terms.items():
            low, count = self._range(var)
            if low is None or count is None:
                return False
            first += step * low + max(0, step * (count - 1))
        return first < size

    def whole_without(self, place: GlobalPlace, dim: int, var: ir.Var) -> bool:
        """Whether a place would go through a whole dimension although `var` stayed at its first value."""
        form, size = self._form(place)[dim], self.number(place.buffer.shape[dim])
        first = self._range(var)[0]
        if form is None or size is None or first is None or len(form.terms) < 2:
            return False
        others = {v: c for v, c in form.terms.items() if not v.same_as(var)}
        rest = Affine(others, form.constant + first * form.coefficient(var))
        return self._covers(rest, self.number(place.extents[dim]), size)

    def shifted(self, use: TensorUse, dim: int) -> bool:
        """Whether a statement would go through a whole dimension but for a constant in its index."""
        size = self.number(use.buffer.shape[dim])
        return size is not None and any(
            form is not None and form.terms and self._spans(place, dim, size, form.constant)
            for place in use.places
            for form in (self._form(place)[dim],)
        )

    def standing(self, use: TensorUse, dim: int) -> int:
        """The largest tile at a place that is the same in all iterations of everything; 0 if all move."""
        tiles = (
            self.number(place.extents[dim]) or 0
            for place in use.places
            for form in (self._form(place)[dim],)
            if form is not None and not form.terms
        )
        return max(tiles, default=0)

    def plainly_whole(self, use: TensorUse) -> bool:
        """Whether one statement goes through all of a tensor, each dimension with variables of its own."""
        sizes = [self.number(n) for n in use.buffer.shape]
        return any(self._goes_through(place, sizes) for place in use.places)

    def _goes_through(self, place: GlobalPlace, sizes: Sequence[int | None]) -> bool:
        seen: set[ir.Var] = set()
        for dim, (form, size) in enumerate(zip(self._form(place), sizes, strict=True)):
            if form is None or size is None or not seen.isdisjoint(form.terms):
                return False
            seen.update(form.terms)
            if not self._spans(place, dim, size):
                return False
        return True

    def steps_outside(self, place: GlobalPlace, dim: int) -> Iterator[tuple[ir.Var, int, int]]:
        """Each variable that goes up a dimension, how many of its values begin behind the end, of how many.

        All others are at their first values. Nothing where that depends on sizes that may be related.
        """
        extent = place.buffer.shape[dim]
        form, size = self._form(place)[dim], self.number(extent)
        if form is None or not form.terms or size is None:
            return
        ranges = {v: self._range(v) for v in form.terms}
        if any(low is None or count is None for low, count in ranges.values()):
            return
        start = form.constant + sum(c * (ranges[v][0] or 0) for v, c in form.terms.items())
        for var, step in form.terms.items():
            count = ranges[var][1] or 0
            last = start + step * (count - 1)
            if step <= 0 or count < 2:
                continue
            if last < size:
                yield var, 0, count
            elif symbols_behind(self.subject, place.context, [place.starts[dim]]) <= free_vars(extent):
                inside = max(0, -(-(size - start) // step))
                yield var, count - inside, count

    def _form(self, place: GlobalPlace) -> tuple[Affine | None, ...]:
        known = self._forms.get(place)
        if known is None:
            known = self._forms[place] = tuple(affine(start) for start in place.starts)
        return known

    def _range(self, var: ir.Var) -> tuple[int | None, int | None]:
        known = self._numbers.get(var)
        if known is None:
            first, count = self.subject.ranges.get(var, (None, None))
            known = self._numbers[var] = self.number(first), self.number(count)
        return known

    def left_out(self, use: TensorUse, dim: int) -> np.ndarray | None:
        """True for each coordinate that nothing touches; None where there is none, or that is not known."""
        extent = use.buffer.shape[dim]
        size = self.number(extent)
        if size is None or size <= 1:
            return None
        own = free_vars(extent)
        for place in use.places:  # other symbols may be related to this one
            values = (place.starts[dim], place.extents[dim])
            if not symbols_behind(self.subject, place.context, values) <= own:
                return None
        sizes = {v: self.sizes[v] for v in own if v in self.sizes}
        touches = [(p.context, p.starts, p.extents) for p in use.places]
        found = reached(self.subject, dim, size, touches, sizes)
        return None if found is None else ~found

    def _spans(self, place: GlobalPlace, dim: int, size: int, shift: int = 0) -> bool:
        """Whether the tiles of a place lie side by side over [0, size), moved back by `shift`."""
        form, span = self._form(place)[dim], self.number(place.extents[dim])
        return form is not None and self._covers(form, span, size, shift)

    def _covers(self, form: Affine, span: int | None, size: int, shift: int = 0) -> bool:
        if span is None:
            return False
        low = form.constant - shift
        if not form.terms:
            return low <= 0 and low + span >= size
        for var, step in sorted(form.terms.items(), key=lambda term: abs(term[1])):
            first, count = self._range(var)
            if first is None or count is None or count < 1:
                return False
            low += step * first + min(0, step * (count - 1))
            if count > 1 and abs(step) > span:
                return False
            span += abs(step) * (count - 1)
        return low <= 0 and low + span >= size


def tensor_uses(subject: Subject) -> TensorUses:
    """Of all parameters and outputs."""
    return TensorUses(subject, tuple(_uses(subject)), subject.shared(usual_sizes))


def _uses(subject: Subject) -> Iterator[TensorUse]:
    by_buffer: dict[Buffer, list[GlobalPlace]] = {}
    for place in subject.shared(global_places):
        by_buffer.setdefault(place.buffer, []).append(place)
    for buffer, places in by_buffer.items():
        writes = {p.writes for p in places}
        if buffer.role in ("parameter", "output") and len(writes) == 1:
            yield TensorUse(buffer, tuple(places), writes.pop())


def _not_known(subject: Subject) -> set[Buffer]:
    """Of these some touch is at no known place: whole, through a view, by a call, at an index from memory, in
    another launch.
    """
    program = subject.program
    found = set(subject.shared(unexplained)) | subject.elsewhere
    found |= {b.storage for b in program.buffers if b.view_of is not None}
    places: dict[Buffer, int] = {}
    for place in subject.shared(global_places):
        places[place.buffer] = places.get(place.buffer, 0) + 1
    for record in subject.records:
        for access in subject.accesses(record):
            if access.region.buffer.scope == "global":
                places[access.region.buffer] = places.get(access.region.buffer, 0) - 1
    for access in program.accesses:
        if access.buffer.scope == "global":
            places[access.buffer] = places.get(access.buffer, 0) - 1
    found |= {b for b, left in places.items() if left}
    called = {v for n in walk(program.body) if isinstance(n, Evaluate) for v in free_vars(n.value)}
    return found | {b for b in program.buffers if b.scope == "global" and b.known and b.var in called}


def usual_sizes(subject: Subject) -> Mapping[ir.Var, int]:
    """A number for each symbol that all divisions in bounds divide: few kernels mean a tail to be missed."""
    symbols = [s.var for s in subject.program.symbols]
    if not symbols:
        return {}
    bounds = [b for r in subject.ranges.values() for b in r]
    bounds += [n for p in subject.program.params if p.buffer is not None for n in p.buffer.shape]
    step = lcm(*(d for b in bounds for d in _divisors(b)))
    return dict.fromkeys(symbols, step * -(-_ABOUT // step)) if step <= _ABOUT else {}


def _divisors(value: Value) -> Iterator[int]:
    """Numbers by which a sum or product of sizes divides; by hand, since it is asked on every keystroke."""
    if isinstance(value, X.FloorDiv | X.FloorMod):
        number = as_int(value.b)
        if number is not None and number > 0:
            yield number
        yield from _divisors(value.a)
    elif isinstance(value, X.Add | X.Sub | X.Mul | X.Min | X.Max):
        yield from _divisors(value.a)
        yield from _divisors(value.b)
