"""Two iterations that run at the same time and touch one element: what the rules about races look for.

"At the same time" are the iterations of one T.Parallel region, or the threads of a block in explicit thread
code. Loops around are held at their last value, loops inside belong to their iteration. Every pair that is
found is real: guards are computed, and a condition that reads memory makes the search find nothing, unless
it stands around all that runs together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilelang.analysis.affine import affine
from tilelang.analysis.iterations import Iterations, iterations
from tilelang.analysis.subject import Subject
from tilelang.ir.evaluate import NotEvaluable, evaluate, is_choice
from tilelang.ir.expressions import loads_of
from tilelang.ir.prove import free_vars, operands_of, substitute
from tilelang.ir.tile_program import Context
from tilelang.ir.values import Buffer, Value, as_int, show

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_MOST_POINTS = 1 << 17
_MOST_PAIRS = 16

Point = Mapping[ir.Var, int]


@dataclass(frozen=True, eq=False)
class Touching:
    """A statement's touch of an element. The values of `together` run at the same time.

    `beside`: what else the caller evaluates at the points that are found.
    """

    context: Context
    indices: tuple[Value, ...]
    together: tuple[ir.Var, ...]
    beside: tuple[Value, ...] = ()


@dataclass(frozen=True, eq=False)
class Collision:
    """Two points with different values of `together` that touch the same element."""

    together: tuple[ir.Var, ...]
    first: Point
    second: Point

    def name(self, point: Point) -> str:
        """`(0, 1)`, or `3` where there is one variable."""
        values = [str(point[v]) for v in self.together]
        return values[0] if len(values) == 1 else f"({', '.join(values)})"


def collisions(
    subject: Subject, one: Touching, other: Touching | None, sizes: Mapping[ir.Var, int] | None = None
) -> Iterator[Collision]:
    """Some pairs of iterations of which the first touches in `one` what the second touches in `other`, None
    for itself; with `sizes` for symbols.
    """
    other = other or one
    if one is other and _one_element_each(subject, one):
        return
    a = touched(subject, one, sizes)
    b = a if one is other else touched(subject, other, sizes)
    if a is None or b is None:
        return
    # What is not known about a statement lets all its iterations run or none; of two it may let one run.
    if (one is other and set(one.together) <= a.iterations.inner) or (
        a.iterations.sure and b.iterations.sure
    ):
        yield from meetings(a, b)


@dataclass(frozen=True, eq=False)
class Touched:
    """All elements that a statement touches: of each point that runs the element and the iteration, as
    numbers, in the order of elements.
    """

    touching: Touching
    iterations: Iterations
    points: np.ndarray
    cells: np.ndarray
    who: np.ndarray


def touched(
    subject: Subject, touching: Touching, sizes: Mapping[ir.Var, int] | None = None
) -> Touched | None:
    """None where it is not known what the statement touches."""
    found = _points(subject, touching, sizes)
    if found is None:
        return None
    try:
        cells, who = _flat(found, touching.indices), _flat(found, touching.together)
    except NotEvaluable:
        return None
    points = np.flatnonzero(found.active.ravel())
    points = points[np.argsort(cells[points], kind="stable")]
    return Touched(touching, found, points, cells[points], who[points])


def meetings(a: Touched, b: Touched) -> Iterator[Collision]:
    """Some pairs of different iterations that come to one element."""
    for first, second in _pairs(a, b):
        here, there = a.iterations.at(first), b.iterations.at(second)
        met = zip(a.touching.indices, b.touching.indices, strict=True)
        if all(number_at(x, here) == number_at(y, there) for x, y in met):
            yield Collision(a.touching.together, here, there)


class Crowd:
    """What many statements touch together, of each element the lowest and the highest iteration: whether
    another statement may meet one of them, asked for without going through all.
    """

    def __init__(self) -> None:
        self._cells, self._low, self._high = (np.zeros(0, np.int64) for _ in range(3))

    def add(self, more: Touched) -> None:
        cells = np.concatenate([self._cells, more.cells])
        low, high = (np.concatenate([kept, more.who]) for kept in (self._low, self._high))
        if not cells.size:
            return
        order = np.argsort(cells, kind="stable")
        cells = cells[order]
        begins = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
        self._cells = cells[begins]
        self._low = np.minimum.reduceat(low[order], begins)
        self._high = np.maximum.reduceat(high[order], begins)

    def meets(self, one: Touched) -> bool:
        """Whether another iteration touches an element of these."""
        if not self._cells.size:
            return False
        at = np.minimum(np.searchsorted(self._cells, one.cells), self._cells.size - 1)
        other = (self._low[at] != one.who) | (self._high[at] != one.who)
        return bool(((self._cells[at] == one.cells) & other).any())


def met_beside(subject: Subject, touching: Touching, value: Any) -> list[Collision]:
    """Collisions of a statement with itself, where the elements that its value reads are known if they can
    be: those that other elements choose cannot.
    """
    met = list(collisions(subject, touching, None))
    read = [i for load in loads_of(value) for i in load.indices if not loads_of(i)] if met else []
    known = list(collisions(subject, replace(touching, beside=tuple(read)), None)) if read else []
    return known or met


def _points(subject: Subject, touching: Touching, sizes: Mapping[ir.Var, int] | None) -> Iterations | None:
    last_of = frozenset(_around(subject, touching))
    asked = (*touching.indices, *touching.together, *touching.beside)
    return iterations(subject, touching.context, asked, last_of=last_of, most=_MOST_POINTS, sizes=sizes)


def _around(subject: Subject, touching: Touching) -> Iterator[ir.Var]:
    """Variables that are the same for all who run together: of blocks, and of loops outside."""
    mine = set(touching.together)
    if subject.launch is not None:
        yield from subject.launch.block_vars
        yield from (v for v in subject.launch.thread_vars if v not in mine)
    for loop in touching.context.loops:
        if mine & set(loop.vars):
            return
        yield from loop.vars


def _one_element_each(subject: Subject, touching: Touching) -> bool:
    """The common case: each variable alone moves an index of its own."""
    inside = set(touching.together) | {v for loop in touching.context.loops for v in loop.vars}
    inside -= set(_around(subject, touching))
    left = {v for v in touching.together if as_int(subject.ranges.get(v, (0, None))[1]) != 1}
    for index in touching.indices:
        form = affine(index)
        used = inside & (set(form.variables) if form is not None else free_vars(index))
        if form is not None and len(used) == 1:
            left -= used
    return not left


def _flat(points: Iterations, values: Sequence[Value]) -> np.ndarray:
    """One number for each tuple of `values`, at every point."""
    flat = np.zeros(points.shape, np.int64)
    for value in values:
        here = points.values(value).astype(np.int64)
        flat = flat * _STRIDE + (here + _OFFSET)
    return flat.ravel()


_OFFSET = 1 << 20  # indices may be negative, or leave their buffer
_STRIDE = (1 << 21) + 7


def _pairs(a: Touched, b: Touched) -> Iterator[tuple[int, int]]:
    """A few pairs (point of a, point of b) on one element by different iterations, in the order of a."""
    if not len(a.cells) or not len(b.cells):
        return
    first = np.searchsorted(b.cells, a.cells, "left")
    last = np.searchsorted(b.cells, a.cells, "right") - 1
    met = last >= first
    given = 0
    for candidate in (first, last):  # one of the two is another iteration, if any of this element is
        at = np.clip(candidate, 0, len(b.points) - 1)
        for k in np.flatnonzero(met & (b.who[at] != a.who)):
            yield int(a.points[k]), int(b.points[at[k]])
            given += 1
            if given % _MOST_PAIRS == 0:
                break


# What they do there


def cell_text(subject: Subject, buffer: Buffer, indices: Sequence[Value], point: Point) -> str:
    """`s[0]`, `O[bx, 3]`: the element with what varies in numbers."""
    around = set(subject.launch.block_vars) if subject.launch is not None else set()
    inside = {v: n for v, n in point.items() if v not in around}

    def text(index: Value) -> str:
        number = number_at(index, inside)
        return show(subject.prover.simplify(substitute(index, inside)) if number is None else number)

    return f"{buffer.name}[{', '.join(map(text, indices))}]"


def same_value(value: Any, a: Point, b: Point) -> bool:
    """Whether an expression surely has one value at both points, given the same memory."""
    if not isinstance(value, ir.Expr):
        return True
    if isinstance(value, ir.Var):
        return a.get(value) == b.get(value)
    x, y = number_at(value, a), number_at(value, b)
    if x is not None and y is not None:
        return x == y
    if isinstance(value, ir.TensorLoad):
        return all(same_value(i, a, b) for i in value.indices)
    chosen = _chosen(value, a, b)
    if chosen is not None:
        return chosen[0] is chosen[1] and same_value(chosen[0], a, b)
    return all(same_value(part, a, b) for part in operands_of(value))


def differs(value: Any, a: Point, b: Point, data: Collection[Any]) -> bool:
    """Whether an expression has different values at two points for sizes as they are and `data`, buffers
    whose elements are arbitrary.
    """
    x, y = number_at(value, a), number_at(value, b)
    if x is not None and y is not None:
        return x != y
    if not isinstance(value, ir.Expr) or isinstance(value, ir.Var):
        return False
    if isinstance(value, ir.TensorLoad):
        moved = ((number_at(i, a), number_at(i, b)) for i in value.indices)
        known = [(m, n) for m, n in moved if m is not None and n is not None]
        return value.source in data and any(m != n for m, n in known)
    chosen = _chosen(value, a, b)
    if chosen is not None:
        return chosen[0] is chosen[1] and differs(chosen[0], a, b, data)
    return any(differs(part, a, b, data) for part in operands_of(value))


def _chosen(value: Any, a: Point, b: Point) -> tuple[Any, Any] | None:
    """The branches of a choice that are taken at both points, where that can be computed."""
    if isinstance(value, X.Select):
        condition, yes, no = value.condition, value.true_value, value.false_value
    elif is_choice(value):
        condition, yes, no = value.args
    else:
        return None
    x, y = number_at(condition, a), number_at(condition, b)
    return None if x is None or y is None else (yes if x else no, yes if y else no)


def number_at(value: Value, point: Point) -> int | None:
    """The integer that a value is at a point, None where it is none."""
    number = as_int(value)
    if number is not None:
        return number
    try:
        return int(evaluate(value, {v.__chandle__(): n for v, n in point.items()}))
    except (NotEvaluable, TypeError):
        return None
