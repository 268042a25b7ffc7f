"""What the tiles of a softmax over tiles hold: running maxima, exponentials of scores less a maximum, sums.

Read from the statements that write each tile; nothing is known of a tile that anything else writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilelang.analysis.contents import histories
from tilelang.analysis.subject import Subject, is_tile
from tilelang.diagnostics.span import Span
from tilelang.ir.evaluate import is_choice
from tilelang.ir.expressions import loads_of, without_casts
from tilelang.ir.tile_program import Context, Do, Loop, OpRecord, Store, walk
from tilelang.ir.values import Buffer, Region, Value, as_int
from tilelang.ops.registry import PRODUCTS

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_EXPONENTIALS = ("exp", "exp2", "exp10")
_VERY_SMALL = -1e4  # stands for minus infinity, as in float16


@dataclass(frozen=True, eq=False)
class Write:
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
class Running:
    """A running maximum: its loop, and the statement there that takes the maximum; `scores`: of which tile.

    `kept`: the statement at the end of a step that keeps the new maximum for the next one, where the tile
    that begins at minus infinity is another one, `before`.
    """

    tile: Buffer
    loop: Loop
    update: Write
    scores: Buffer | None
    before: Buffer | None = None
    kept: Write | None = None


class Softmax:
    """What the tiles of a kernel hold, as far as the statements that write them say."""

    def __init__(self, subject: Subject) -> None:
        self.by_var = {b.var: b for b in subject.program.buffers if b.known and b.view_of is None}
        escaped = {h.buffer for h in subject.shared(histories) if h.escaped}
        self.tiles = [b for b in self.by_var.values() if is_tile(b) and b not in escaped]
        self.writes: dict[Buffer, list[Write]] = {b: [] for b in self.tiles}
        self.stores: list[Write] = []
        self.products: list[Write] = []
        self.targets: dict[Write, Buffer] = {}
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
        write = Write(order, loops[-1] if loops else None, loops, span, context, value, record)
        self.targets[write] = target
        if target in self.writes:
            self.writes[target].append(write)
        if record is None:
            self.stores.append(write)
        elif record.op in PRODUCTS:
            self.products.append(write)

    def loaded(self, value: Value) -> Buffer | None:
        """The buffer of an expression that is one element, whatever dtype it is turned into."""
        value = without_casts(value)
        return self.by_var.get(value.source) if isinstance(value, ir.TensorLoad) else None

    def read(self, value: Value) -> set[Buffer]:
        return {b for load in loads_of(value) if (b := self.by_var.get(load.source)) is not None}

    def moved(self, write: Write) -> Buffer | None:
        """Where the contents of a write come from as they are."""
        return write.source() if write.record is not None else self.loaded(write.value)

    # -- Maxima

    @cached_property
    def maxima(self) -> set[Buffer]:
        """Tiles that hold nothing but maxima: of scores, of each other, and copies of such."""
        found = self._closed(lambda write, members: self._is_maximum(write, members))
        return self._grounded(found, lambda write: self._makes_maximum(write))

    def _is_maximum(self, write: Write, members: set[Buffer]) -> bool:
        if write.record is not None:
            record = write.record
            if record.op == "fill":
                return number_of(record.value("value", 0)) is not None
            return self._makes_maximum(write) or write.source() in members
        return self._maximum_of(write.value, members)

    def _maximum_of(self, value: Value, members: set[Buffer]) -> bool:
        value = without_casts(value)
        if isinstance(value, X.Max):
            return True
        if is_choice(value):
            return all(self._maximum_of(v, members) for v in value.args[1:])
        return number_of(value) is not None or self.loaded(value) in members

    def _makes_maximum(self, write: Write) -> bool:
        if write.record is not None:
            return write.record.op == "reduce" and write.record.value("kind") == "max"
        return isinstance(without_casts(write.value), X.Max)

    @cached_property
    def running(self) -> list[Running]:
        """Maxima that begin very small in front of a loop and grow in it."""
        return [r for tile in self.tiles if (r := self._running(tile)) is not None]

    def _running(self, tile: Buffer) -> Running | None:
        writes = self.writes[tile]
        start = next((w for w in writes if w.record is not None and w.record.op == "fill"), None)
        if start is None or start.record is None:
            return None
        low = number_of(start.record.value("value", 0))
        if low is None or low > _VERY_SMALL:
            return None
        for write in writes:
            if write.loop is None or write.loop in start.loops:
                continue
            if self._grows(tile, write):
                return Running(tile, write.loop, write, self._scores(write, without=tile))
            new = self.moved(write)
            taken = self._taken(new, tile, write) if new in self.writes else None
            if new is not None and taken is not None:
                return Running(new, write.loop, taken, self._scores(taken, without=tile), tile, write)
        return None

    def _taken(self, new: Buffer | None, old: Buffer, kept: Write) -> Write | None:
        """The statement that makes a new maximum of the old one, before a step keeps it."""
        for write in self.writes[new] if new is not None else ():
            value = without_casts(write.value)
            earlier = write.loop is kept.loop and write.order < kept.order
            if earlier and isinstance(value, X.Max) and old in map(self.loaded, (value.a, value.b)):
                return write
        return None

    def _grows(self, tile: Buffer, write: Write) -> bool:
        if write.record is not None:
            kept = as_int(write.record.value("clear", True)) == 0
            return kept and self._makes_maximum(write)
        value = without_casts(write.value)
        return isinstance(value, X.Max) and tile in (self.loaded(value.a), self.loaded(value.b))

    def _scores(self, write: Write, without: Buffer) -> Buffer | None:
        if write.record is not None:
            return operand_buffer(write.record, "buffer")
        value = without_casts(write.value)
        others = [b for v in (value.a, value.b) if (b := self.loaded(v)) is not None and b is not without]
        for other in others:  # a maximum of this tile's scores, taken on its own
            for source in self.writes.get(other, ()):
                if source.record is not None and source.record.op == "reduce":
                    return operand_buffer(source.record, "buffer")
        return None

    # -- Exponentials

    @cached_property
    def weights(self) -> set[Buffer]:
        """Tiles that hold nothing but exponentials, their sums and products."""
        found = self._closed(lambda write, members: self._is_weight(write, members))
        return self._grounded(found, lambda write: self._makes_weight(write))

    def _is_weight(self, write: Write, members: set[Buffer]) -> bool:
        record = write.record
        if record is None:
            return self._weight_of(write.value, members)
        if record.op == "fill":
            value = number_of(record.value("value", 0))
            return value is not None and value >= 0
        return self._makes_weight(write) or write.source() in members

    def _weight_of(self, value: Value, members: set[Buffer]) -> bool:
        value = without_casts(value)
        if is_exponential(value):
            return True
        if isinstance(value, X.Add | X.Mul | X.Div):
            return self._weight_of(value.a, members) and self._weight_of(value.b, members)
        if is_choice(value):
            return all(self._weight_of(v, members) for v in value.args[1:])
        number = number_of(value)
        return (number is not None and number >= 0) or self.loaded(value) in members

    def _makes_weight(self, write: Write) -> bool:
        if write.record is None:
            return any(is_exponential(part) for part in terms_and_factors_of(write.value))
        if write.record.op != "reduce" or write.record.value("kind") != "sum":
            return False
        source = operand_buffer(write.record, "buffer")
        return source is not None and self.exponentiated(source, before=write.order)

    def exponentiated(self, tile: Buffer, before: int) -> bool:
        """Whether the last statement that writes a tile before another one makes exponentials."""
        for write in [w for w in self.writes.get(tile, ()) if w.order < before][-1:]:
            source = self.moved(write)
            if source is not None and source is not tile and source in self.writes:
                return self.exponentiated(source, write.order)
            return write.record is None and any(is_exponential(v) for v in parts_of(write.value))
        return False

    def exponentials_in(self, tile: Buffer, loop: Loop) -> bool:
        """Whether any statement of a loop writes exponentials to a tile."""
        return any(
            loop in w.loops and any(is_exponential(v) for v in parts_of(w.value)) for w in self.writes[tile]
        )

    # -- What follows from all writes of a tile

    def _closed(self, allowed: Callable[[Write, set[Buffer]], bool]) -> set[Buffer]:
        """The largest set of tiles of which each write is allowed while the others are in it."""
        found = {b for b in self.tiles if self.writes[b]}
        while True:
            bad = {b for b in found if not all(allowed(w, found) for w in self.writes[b])}
            if not bad:
                return found
            found -= bad

    def _grounded(self, found: set[Buffer], makes: Callable[[Write], bool]) -> set[Buffer]:
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


# -- Expressions


def number_of(value: Value) -> float | None:
    value = without_casts(value)
    if isinstance(value, X.FloatImm | X.IntImm):
        value = value.value
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else None


def operand_buffer(record: OpRecord, name: str) -> Buffer | None:
    region = record.region(name)
    return region.buffer if isinstance(region, Region) else None


def is_exponential(value: Value) -> bool:
    """Whether a value is T.exp, T.exp2 or T.exp10 of something."""
    return (
        isinstance(value, ir.Call)
        and isinstance(value.op, ir.Op)
        and value.op.name.rpartition(".")[2] in _EXPONENTIALS
    )


def parts_of(value: Value) -> Iterator[Any]:
    """All expressions in an expression, itself first."""
    value = without_casts(value)
    if not isinstance(value, ir.Expr):
        return
    yield value
    if isinstance(value, ir.Call):
        for argument in value.args:
            yield from parts_of(argument)
    elif hasattr(value, "a") and hasattr(value, "b"):
        yield from parts_of(value.a)
        yield from parts_of(value.b)


def terms_and_factors_of(value: Value) -> Iterator[Any]:
    """What a value is made of by sums and products."""
    value = without_casts(value)
    if isinstance(value, X.Add | X.Mul | X.Div):
        yield from terms_and_factors_of(value.a)
        yield from terms_and_factors_of(value.b)
    else:
        yield value


def exponents_of(value: Value) -> Iterator[Value]:
    for part in parts_of(value):
        if is_exponential(part):
            yield part.args[0]


def terms_of(value: Value, sign: int = 1) -> Iterator[tuple[int, Value]]:
    """The terms of a sum with their signs; a factor that reads no memory is left out."""
    value = without_casts(value)
    if isinstance(value, X.Add | X.Sub):
        yield from terms_of(value.a, sign)
        yield from terms_of(value.b, -sign if isinstance(value, X.Sub) else sign)
    elif isinstance(value, X.Mul):
        left, right = bool(loads_of(value.a)), bool(loads_of(value.b))
        if left != right:
            scaled, factor = (value.a, value.b) if left else (value.b, value.a)
            number = number_of(factor)
            yield from terms_of(scaled, -sign if number is not None and number < 0 else sign)
        else:
            yield sign, value
    else:
        yield sign, value
