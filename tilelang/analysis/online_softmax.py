"""online-softmax: a running maximum, and what is measured against it, no longer belong together.

Softmax over tiles keeps the largest score so far (a tile that begins at minus infinity and takes maxima),
adds up exponentials of score less maximum, and multiplies what it has by exp(old less new maximum) whenever
the maximum grows. All these tiles have one shape, so that nothing but their meaning tells them apart: what is
a maximum, what is a sum of exponentials, what holds the maximum before this step. Nothing is said where what
a tile holds is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilelang.analysis.collisions import loads_of
from tilelang.analysis.contents import histories
from tilelang.analysis.masked_rows import masked_row
from tilelang.analysis.subject import Subject, is_tile, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import (
    MASKED_ROW,
    MAXIMUM_AS_FACTOR,
    MAXIMUM_BEHIND,
    MAXIMUM_BEHIND_LOOP,
    MAXIMUM_OVERWRITTEN,
    NOT_EXPONENTIATED,
    NOT_RESCALED,
    SUM_IN_EXPONENT,
    SUM_TIMES_ITSELF,
)
from tilelang.diagnostics.span import Span
from tilelang.ir.evaluate import is_choice
from tilelang.ir.tile_program import Context, Do, Loop, OpRecord, Store, walk
from tilelang.ir.values import Buffer, Region, Unknown, Value, as_int
from tilelang.ops.reduce import reduced_dim

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_EXPONENTIALS = ("exp", "exp2", "exp10")
_VERY_SMALL = -1e4  # stands for minus infinity, as in float16


@dataclass(frozen=True, eq=False)
class _Write:
    """One write to a tile: an element's value, or what an operation puts there."""

    order: int
    loop: Loop | None  # the innermost loop that runs in order
    loops: tuple[Loop, ...]
    span: Span
    context: Context
    value: Value = None
    record: OpRecord | None = None

    def source(self) -> Buffer | None:
        """Of a copy, or of an element that is only moved: where it comes from."""
        if self.record is not None:
            region = self.record.region("src") if self.record.op == "copy" else None
            return None if region is None else region.buffer
        return None


@dataclass(frozen=True, eq=False)
class _Running:
    """A running maximum: its loop, and the statement there that takes the maximum; `scores`: of which tile.

    `kept`: the statement at the end of a step that keeps the new maximum for the next one, where the tile
    that begins at minus infinity is another one, `before`.
    """

    tile: Buffer
    loop: Loop
    update: _Write
    scores: Buffer | None
    before: Buffer | None = None
    kept: _Write | None = None


class _Softmax:
    """What the tiles of a kernel hold, as far as the statements that write them say."""

    def __init__(self, subject: Subject) -> None:
        self.by_var = {b.var: b for b in subject.program.buffers if b.known and b.view_of is None}
        escaped = {h.buffer for h in subject.shared(histories) if h.escaped}
        self.tiles = [b for b in self.by_var.values() if is_tile(b) and b not in escaped]
        self.writes: dict[Buffer, list[_Write]] = {b: [] for b in self.tiles}
        self.stores: list[_Write] = []
        self.products: list[_Write] = []
        self.targets: dict[_Write, Buffer] = {}
        for order, node in enumerate(walk(subject.program.body)):
            if isinstance(node, Store):
                self._note(order, node.buffer, node.span, node.context, value=node.value)
            elif isinstance(node, Do):
                for access in subject.accesses(node.record):
                    if access.mode != "read":
                        target = access.region.buffer
                        self._note(order, target, node.span, node.record.context, record=node.record)

    def _note(
        self, order: int, target: Buffer, span: Span, context: Context, value: Value = None,
        record: OpRecord | None = None,
    ) -> None:  # fmt: skip
        loops = tuple(x for x in context.loops if x.kind not in ("Parallel", "vectorized"))
        write = _Write(order, loops[-1] if loops else None, loops, span, context, value, record)
        self.targets[write] = target
        if target in self.writes:
            self.writes[target].append(write)
        if record is None:
            self.stores.append(write)
        elif record.op == "gemm":
            self.products.append(write)

    def loaded(self, value: Value) -> Buffer | None:
        """The buffer of an expression that is one element, whatever dtype it is turned into."""
        value = _plain(value)
        return self.by_var.get(value.source) if isinstance(value, ir.TensorLoad) else None

    def read(self, value: Value) -> set[Buffer]:
        return {b for load in loads_of(value) if (b := self.by_var.get(load.source)) is not None}

    def moved(self, write: _Write) -> Buffer | None:
        """Where the contents of a write come from as they are."""
        return write.source() if write.record is not None else self.loaded(write.value)

    # -- Maxima

    @cached_property
    def maxima(self) -> set[Buffer]:
        """Tiles that hold nothing but maxima: of scores, of each other, and copies of such."""
        found = self._closed(lambda write, members: self._is_maximum(write, members))
        return self._grounded(found, lambda write: self._makes_maximum(write))

    def _is_maximum(self, write: _Write, members: set[Buffer]) -> bool:
        if write.record is not None:
            record = write.record
            if record.op == "fill":
                return _constant(record.value("value", 0)) is not None
            return self._makes_maximum(write) or write.source() in members
        return self._maximum_of(write.value, members)

    def _maximum_of(self, value: Value, members: set[Buffer]) -> bool:
        value = _plain(value)
        if isinstance(value, X.Max):
            return True
        if is_choice(value):
            return all(self._maximum_of(v, members) for v in value.args[1:])
        return _constant(value) is not None or self.loaded(value) in members

    def _makes_maximum(self, write: _Write) -> bool:
        if write.record is not None:
            return write.record.op == "reduce" and write.record.value("kind") == "max"
        return isinstance(_plain(write.value), X.Max)

    @cached_property
    def running(self) -> list[_Running]:
        """Maxima that begin very small in front of a loop and grow in it."""
        return [r for tile in self.tiles if (r := self._running(tile)) is not None]

    def _running(self, tile: Buffer) -> _Running | None:
        writes = self.writes[tile]
        start = next((w for w in writes if w.record is not None and w.record.op == "fill"), None)
        if start is None or start.record is None:
            return None
        low = _constant(start.record.value("value", 0))
        if low is None or low > _VERY_SMALL:
            return None
        for write in writes:
            if write.loop is None or write.loop in start.loops:
                continue
            if self._grows(tile, write):
                return _Running(tile, write.loop, write, self._scores(write, without=tile))
            new = self.moved(write)
            taken = self._taken(new, tile, write) if new in self.writes else None
            if new is not None and taken is not None:
                return _Running(new, write.loop, taken, self._scores(taken, without=tile), tile, write)
        return None

    def _taken(self, new: Buffer | None, old: Buffer, kept: _Write) -> _Write | None:
        """The statement that makes a new maximum of the old one, before a step keeps it."""
        for write in self.writes[new] if new is not None else ():
            value = _plain(write.value)
            earlier = write.loop is kept.loop and write.order < kept.order
            if earlier and isinstance(value, X.Max) and old in map(self.loaded, (value.a, value.b)):
                return write
        return None

    def _grows(self, tile: Buffer, write: _Write) -> bool:
        if write.record is not None:
            kept = as_int(write.record.value("clear", True)) == 0
            return kept and self._makes_maximum(write)
        value = _plain(write.value)
        return isinstance(value, X.Max) and tile in (self.loaded(value.a), self.loaded(value.b))

    def _scores(self, write: _Write, without: Buffer) -> Buffer | None:
        if write.record is not None:
            return _buffer(write.record, "buffer")
        value = _plain(write.value)
        others = [b for v in (value.a, value.b) if (b := self.loaded(v)) is not None and b is not without]
        for other in others:  # a maximum of this tile's scores, taken on its own
            for source in self.writes.get(other, ()):
                if source.record is not None and source.record.op == "reduce":
                    return _buffer(source.record, "buffer")
        return None

    # -- Exponentials

    @cached_property
    def weights(self) -> set[Buffer]:
        """Tiles that hold nothing but exponentials, their sums and products."""
        found = self._closed(lambda write, members: self._is_weight(write, members))
        return self._grounded(found, lambda write: self._makes_weight(write))

    def _is_weight(self, write: _Write, members: set[Buffer]) -> bool:
        record = write.record
        if record is None:
            return self._weight_of(write.value, members)
        if record.op == "fill":
            value = _constant(record.value("value", 0))
            return value is not None and value >= 0
        return self._makes_weight(write) or write.source() in members

    def _weight_of(self, value: Value, members: set[Buffer]) -> bool:
        value = _plain(value)
        if is_exponential(value):
            return True
        if isinstance(value, X.Add | X.Mul | X.Div):
            return self._weight_of(value.a, members) and self._weight_of(value.b, members)
        if is_choice(value):
            return all(self._weight_of(v, members) for v in value.args[1:])
        number = _constant(value)
        return (number is not None and number >= 0) or self.loaded(value) in members

    def _makes_weight(self, write: _Write) -> bool:
        if write.record is None:
            return any(is_exponential(part) for part in _terms_and_factors(write.value))
        if write.record.op != "reduce" or write.record.value("kind") != "sum":
            return False
        source = _buffer(write.record, "buffer")
        return source is not None and self.exponentiated(source, before=write.order)

    def exponentiated(self, tile: Buffer, before: int) -> bool:
        """Whether the last statement that writes a tile before another one makes exponentials."""
        for write in [w for w in self.writes.get(tile, ()) if w.order < before][-1:]:
            source = self.moved(write)
            if source is not None and source is not tile and source in self.writes:
                return self.exponentiated(source, write.order)
            return write.record is None and any(is_exponential(v) for v in _parts(write.value))
        return False

    def exponentials_in(self, tile: Buffer, loop: Loop) -> bool:
        """Whether any statement of a loop writes exponentials to a tile."""
        return any(
            loop in w.loops and any(is_exponential(v) for v in _parts(w.value)) for w in self.writes[tile]
        )

    # -- What follows from all writes of a tile

    def _closed(self, allowed: Callable[[_Write, set[Buffer]], bool]) -> set[Buffer]:
        """The largest set of tiles of which each write is allowed while the others are in it."""
        found = {b for b in self.tiles if self.writes[b]}
        while True:
            bad = {b for b in found if not all(allowed(w, found) for w in self.writes[b])}
            if not bad:
                return found
            found -= bad

    def _grounded(self, found: set[Buffer], makes: Callable[[_Write], bool]) -> set[Buffer]:
        """Those of a set into which something of its kind is put, not only constants."""
        sure = {b for b in found if any(makes(w) for w in self.writes[b])}
        while True:
            more = {
                b
                for b in found - sure
                for w in self.writes[b]
                if self.moved(w) in sure or (w.record is None and self.read(w.value) & sure)
            }
            if not more:
                return sure
            sure |= more


def check(subject: Subject) -> Iterator[Problem]:
    """One problem for each statement. Silent in kernels without a running maximum."""
    if not subject.program.complete:
        return
    softmax = _Softmax(subject)
    if not softmax.running:
        return
    told: set[Span] = set()
    for write, problem in _masked(subject, softmax):
        told.add(problem.span)
        yield soften(problem, write.context)
    for rule in (_in_exponents, _behind, _overwritten, _factors, _not_exponentiated, _not_rescaled):
        for write, problem in rule(softmax):
            if problem.span not in told:
                told.add(problem.span)
                yield soften(problem, write.context)


_Found = Iterator[tuple[_Write, Problem]]


def _masked(subject: Subject, softmax: _Softmax) -> _Found:
    """A mask that leaves nothing of a row, in kernels that have no answer to a maximum of minus infinity."""
    for running in softmax.running:
        record = running.update.record
        dim = None if record is None else reduced_dim(record)
        if running.scores is None or dim is None or _asked_about(softmax, running):
            continue
        found = masked_row(subject, running.scores, dim)
        if found is not None:
            yield (
                running.update,
                MASKED_ROW.at(
                    found.store.span,
                    related=(Related(running.update.span, f"{running.tile.name} is taken here"),),
                    row=found.row,
                    rows=found.of,
                    maximum=running.tile.name,
                ),
            )


def _asked_about(softmax: _Softmax, running: _Running) -> bool:
    """Whether a statement chooses by a maximum or by what it is replaced with: `m if m > -inf else 0`."""
    return any(
        softmax.read(part) & softmax.maxima and (is_choice(part) or isinstance(part, X.Max | X.Min))
        for write in softmax.stores
        for part in _parts(write.value)
    ) or any(w.context.guards for w in softmax.writes[running.tile])


def _in_exponents(softmax: _Softmax) -> _Found:
    """A sum of exponentials where scores and maxima belong: `exp(m_old - total)`."""
    for write in softmax.stores:
        for exponent in _exponents(write.value):
            terms = [b for _, t in _terms(exponent) if (b := softmax.loaded(t)) is not None]
            wrong = next((b for b in terms if b in softmax.weights), None)
            if wrong is None or len(terms) < 2:
                continue
            last = softmax.writes[wrong][-1]
            yield (
                write,
                SUM_IN_EXPONENT.at(
                    write.span,
                    related=(Related(last.span, f"{wrong.name} is computed here"),),
                    buffer=wrong.name,
                    line=last.span.line,
                ),
            )


def _behind(softmax: _Softmax) -> _Found:
    """The maximum before this step, subtracted where the one of this step belongs."""
    for running in softmax.running:
        for old in softmax.tiles:
            saved = _saved(softmax, running, old)
            if saved is None:
                continue
            for write in softmax.stores:
                read = softmax.read(write.value)
                if old not in read or running.tile in read or (running.kept and write.order > saved.order):
                    continue
                related = (
                    Related(saved.span, f"{old.name} is set here"),
                    Related(running.update.span, f"{running.tile.name} grows here"),
                )
                names = {"old": old.name, "maximum": running.tile.name, "line": running.update.span.line}
                if running.loop in write.loops:
                    if write.order > running.update.order and _scores_less(softmax, write, running, old):
                        yield write, MAXIMUM_BEHIND.at(write.span, related=related, **names)
                elif write.order > running.update.order and not _written_between(
                    softmax, old, running.update.order, write.order, running.loop
                ):
                    yield write, MAXIMUM_BEHIND_LOOP.at(write.span, related=related, **names)


def _saved(softmax: _Softmax, running: _Running, old: Buffer) -> _Write | None:
    """The statement that keeps the maximum in `old` before it grows, where nothing else is written there."""
    if old is running.tile:
        return None
    if running.kept is not None:
        return running.kept if old is running.before else None
    writes = [w for w in softmax.writes[old] if not (w.record is not None and w.record.op == "fill")]
    if len(writes) != 1 or softmax.moved(writes[0]) is not running.tile:
        return None
    (saved,) = writes
    return saved if saved.loop is running.loop and saved.order < running.update.order else None


def _scores_less(softmax: _Softmax, write: _Write, running: _Running, old: Buffer) -> bool:
    """Whether a statement takes exponentials of the scores less the old maximum."""
    if running.scores is None or write.context.guards:
        return False
    for exponent in _exponents(write.value):
        terms = [(sign, softmax.loaded(t)) for sign, t in _terms(exponent)]
        if (1, running.scores) in terms and (-1, old) in terms:
            return True
    return False


def _written_between(softmax: _Softmax, tile: Buffer, first: int, last: int, loop: Loop) -> bool:
    return any(first < w.order < last and loop not in w.loops for w in softmax.writes[tile])


def _overwritten(softmax: _Softmax) -> _Found:
    """A sum of exponentials that is written into the running maximum."""
    for running in softmax.running:
        for write in softmax.writes[running.tile]:
            if write.record is not None or running.loop not in write.loops:
                continue
            value = _plain(write.value)
            sums = softmax.read(value) & softmax.weights if isinstance(value, X.Add | X.Mul) else set()
            if sums and not any(isinstance(part, X.Max) for part in _parts(value)):
                yield (
                    write,
                    MAXIMUM_OVERWRITTEN.at(
                        write.span,
                        related=(Related(running.update.span, f"{running.tile.name} takes maxima here"),),
                        maximum=running.tile.name,
                        line=running.update.span.line,
                    ),
                )


def _factors(softmax: _Softmax) -> _Found:
    """A running maximum, or the one before this step, as a factor of what is added up; what is added up as a
    factor of itself.
    """
    members = {r.tile for r in softmax.running}
    olds = {b for b in softmax.tiles for r in softmax.running if _saved(softmax, r, b) is not None}
    loops = {r.loop for r in softmax.running}
    if not members & _subtracted(softmax):
        return
    for write in softmax.stores:
        target = softmax.targets[write]
        if target in members | olds or not loops & set(write.loops):
            continue
        for product in (p for p in _parts(write.value) if isinstance(p, X.Mul)):
            sides = [softmax.loaded(v) for v in (product.a, product.b)]
            maximum = next((b for b in sides if b in members | olds), None)
            if maximum is not None and target in sides:
                yield (
                    write,
                    MAXIMUM_AS_FACTOR.at(
                        write.span,
                        related=(Related(softmax.writes[maximum][-1].span, f"{maximum.name} is set here"),),
                        target=target.name,
                        maximum=maximum.name,
                    ),
                )
            elif sides == [target, target] and _adds_a_sum(softmax, write):
                yield write, SUM_TIMES_ITSELF.at(write.span, target=target.name)


def _adds_a_sum(softmax: _Softmax, write: _Write) -> bool:
    """Whether a statement adds what T.reduce_sum made of a tile."""
    value = _plain(write.value)
    sides = [softmax.loaded(v) for v in (value.a, value.b)] if isinstance(value, X.Add) else []
    records = [w.record for b in sides if b in softmax.writes for w in softmax.writes[b] if w.record]
    return any(r.op == "reduce" and r.value("kind") == "sum" for r in records)


def _subtracted(softmax: _Softmax) -> set[Buffer]:
    """All that is subtracted in exponents."""
    return {
        b
        for write in softmax.stores
        for exponent in _exponents(write.value)
        for sign, term in _terms(exponent)
        if sign < 0 and (b := softmax.loaded(term)) is not None
    }


def _not_exponentiated(softmax: _Softmax) -> _Found:
    """Scores that are added up as they are, beside sums that are rescaled by exponentials."""
    for running in softmax.running:
        scores = running.scores
        if scores not in softmax.writes or softmax.exponentials_in(scores, running.loop):
            continue
        assert scores is not None
        for part, write in _sums_of(softmax, scores, running):
            for total in softmax.stores:
                value = _plain(total.value)
                rescaled = running.loop in total.loops and isinstance(value, X.Add)
                if not rescaled or part not in softmax.read(value):
                    continue
                if softmax.targets[total] in softmax.read(value) and any(
                    running.tile in softmax.read(exponent) for exponent in _exponents(value)
                ):
                    yield (
                        write,
                        NOT_EXPONENTIATED.at(
                            write.span,
                            related=(
                                Related(total.span, f"{part.name} is added to a sum of exponentials here"),
                            ),
                            scores=scores.name,
                            maximum=running.tile.name,
                        ),
                    )


def _sums_of(softmax: _Softmax, scores: Buffer, running: _Running) -> Iterator[tuple[Buffer, _Write]]:
    for tile in softmax.tiles:
        for write in softmax.writes[tile]:
            record = write.record
            if record is None or record.op != "reduce" or record.value("kind") != "sum":
                continue
            if running.loop in write.loops and _buffer(record, "buffer") is scores:
                yield tile, write


def _not_rescaled(softmax: _Softmax) -> _Found:
    """Products and sums of exponentials over all steps that no statement brings to the new maximum."""
    for running in softmax.running:
        weights = _weights_of(softmax, running)
        for total, write, name in (*_products_of(softmax, weights), *_totals_of(softmax, weights)):
            writes = softmax.writes.get(total)
            if writes is None or running.loop not in write.loops:
                continue
            inside = [w for w in writes if running.loop in w.loops and w is not write]
            if inside or write.loop is not running.loop or not _begun_before(writes, running.loop):
                continue
            yield (
                write,
                NOT_RESCALED.at(
                    write.span,
                    related=(Related(running.update.span, f"{running.tile.name} grows here"),),
                    total=total.name,
                    what=name,
                    maximum=running.tile.name,
                ),
            )


def _begun_before(writes: list[_Write], loop: Loop) -> bool:
    """Whether a tile is filled in front of a loop, and so adds up over all of it."""
    return any(w.record is not None and w.record.op == "fill" and loop not in w.loops for w in writes)


def _weights_of(softmax: _Softmax, running: _Running) -> dict[Buffer, Buffer]:
    """Tiles with exponentials of scores less this maximum, made after it grew; copies of them too."""
    found: dict[Buffer, Buffer] = {}
    for write in softmax.stores:
        if write.loop is not running.loop or write.order < running.update.order:
            continue
        target = softmax.targets[write]
        for exponent in _exponents(write.value):
            terms = [(sign, softmax.loaded(t)) for sign, t in _terms(exponent)]
            if (-1, running.tile) in terms and (1, running.scores) in terms and target in softmax.writes:
                found[target] = target
    for tile in softmax.tiles:
        for write in softmax.writes[tile]:
            source = softmax.moved(write)
            if source in found and write.loop is running.loop:
                found[tile] = found[source]
    return found


def _products_of(softmax: _Softmax, weights: dict[Buffer, Buffer]) -> Iterator[tuple[Buffer, _Write, str]]:
    for write in softmax.products:
        record = write.record
        assert record is not None
        factors = [_buffer(record, name) for name in ("A", "B")]
        used = next((b for b in factors if b in weights), None)
        cleared = record.value("clear_accum", False)
        if used is not None and not isinstance(cleared, Unknown) and as_int(cleared) == 0:
            yield softmax.targets[write], write, f"products with {used.name}"


def _totals_of(softmax: _Softmax, weights: dict[Buffer, Buffer]) -> Iterator[tuple[Buffer, _Write, str]]:
    sums: dict[Buffer, Buffer] = {}
    for tile in softmax.tiles:
        for write in softmax.writes[tile]:
            record = write.record
            if record is None or record.op != "reduce" or record.value("kind") != "sum":
                continue
            source = _buffer(record, "buffer")
            if source not in weights:
                continue
            if as_int(record.value("clear", True)) == 0:
                yield tile, write, f"sums of {source.name}"
            else:
                sums[tile] = source
    for write in softmax.stores:
        value, target = _plain(write.value), softmax.targets[write]
        if isinstance(value, X.Add):
            sides = [softmax.loaded(v) for v in (value.a, value.b)]
            part = next((b for b in sides if b in sums), None)
            if part is not None and target in sides and not write.context.guards:
                yield target, write, f"sums of {sums[part].name}"


# -- Expressions


def _plain(value: Value) -> Value:
    while isinstance(value, X.Cast):
        value = value.value
    return value


def _constant(value: Value) -> float | None:
    value = _plain(value)
    if isinstance(value, X.FloatImm | X.IntImm):
        value = value.value
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else None


def _buffer(record: OpRecord, name: str) -> Buffer | None:
    region = record.region(name)
    return region.buffer if isinstance(region, Region) else None


def is_exponential(value: Value) -> bool:
    """Whether a value is T.exp, T.exp2 or T.exp10 of something."""
    return (
        isinstance(value, ir.Call)
        and isinstance(value.op, ir.Op)
        and value.op.name.rpartition(".")[2] in _EXPONENTIALS
    )


def _parts(value: Value) -> Iterator[Any]:
    """All expressions in an expression, itself first."""
    value = _plain(value)
    if not isinstance(value, ir.Expr):
        return
    yield value
    if isinstance(value, ir.Call):
        for argument in value.args:
            yield from _parts(argument)
    elif hasattr(value, "a") and hasattr(value, "b"):
        yield from _parts(value.a)
        yield from _parts(value.b)


def _terms_and_factors(value: Value) -> Iterator[Any]:
    """What a value is made of by sums and products."""
    value = _plain(value)
    if isinstance(value, X.Add | X.Mul | X.Div):
        yield from _terms_and_factors(value.a)
        yield from _terms_and_factors(value.b)
    else:
        yield value


def _exponents(value: Value) -> Iterator[Value]:
    for part in _parts(value):
        if is_exponential(part):
            yield part.args[0]


def _terms(value: Value, sign: int = 1) -> Iterator[tuple[int, Value]]:
    """The terms of a sum with their signs; a factor that reads no memory is left out."""
    value = _plain(value)
    if isinstance(value, X.Add | X.Sub):
        yield from _terms(value.a, sign)
        yield from _terms(value.b, -sign if isinstance(value, X.Sub) else sign)
    elif isinstance(value, X.Mul):
        left, right = bool(loads_of(value.a)), bool(loads_of(value.b))
        if left != right:
            scaled, factor = (value.a, value.b) if left else (value.b, value.a)
            number = _constant(factor)
            yield from _terms(scaled, -sign if number is not None and number < 0 else sign)
        else:
            yield sign, value
    else:
        yield sign, value
