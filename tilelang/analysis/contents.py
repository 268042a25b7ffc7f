"""Who writes and who reads each tile, in program order: what uninitialised-accumulator and its relatives
look at.

Only what is certain is kept. A tile that goes anywhere the records do not show (an unknown call, a
container, a barrier helper) is `escaped`, and every rule stays silent about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tilelang.analysis.subject import Subject, is_tile
from tilelang.diagnostics.span import Span, lines_of
from tilelang.ir.evaluate import is_choice
from tilelang.ir.prove import free_vars, operands_of
from tilelang.ir.tile_program import (
    Bind,
    Context,
    Do,
    Evaluate,
    For,
    Guard,
    If,
    Launch,
    Loop,
    Node,
    OpRecord,
    Store,
    walk,
)
from tilelang.ir.values import Buffer, Region, Unknown, Value, as_int, same_size
from tilelang.ops.registry import TILE_OPS

from tvm import ir  # isort: skip


@dataclass(frozen=True, eq=False)
class Touch:
    """One read or write of a tile. `order` counts statements of the whole program, from 1.

    `starts` and `extents` per dimension of the tile, None where they are not known or the touch is through a
    view. `argument` is the parameter of `record` that names the tile. `steady`: loops around it of which each
    iteration certainly comes here.
    """

    order: int
    mode: str  # "read", "write", "update"
    span: Span
    context: Context
    record: OpRecord | None = None
    argument: str = ""
    starts: tuple[Value, ...] | None = None
    extents: tuple[Value, ...] = ()
    steady: frozenset[Loop] = frozenset()

    def is_whole(self, tile: Buffer) -> bool:
        """Whether all elements of its tile are touched at once."""
        if self.starts is None or len(self.extents) != len(tile.shape):
            return False
        sizes = zip(self.extents, tile.shape, strict=True)
        return all(as_int(s) == 0 for s in self.starts) and all(same_size(e, d) for e, d in sizes)

    def shares_loop(self, other: Touch) -> bool:
        """Whether one of the two may run again after the other, in a common loop that runs in order."""
        return any(a is b and a.kind != "Parallel" for a in self.context.loops for b in other.context.loops)

    def may_precede(self, other: Touch) -> bool:
        """Whether this one may run before `other` runs for the first time."""
        if self.order < other.order:
            return True
        # What stands behind in a loop comes first only if an iteration may pass `other` by.
        common = [a for a in self.context.loops if a in other.context.loops and a.kind != "Parallel"]
        if any(loop not in other.steady for loop in common):
            return True
        # Under conditions threads may play different parts, and one fills what another reads.
        return bool(self.context.guards and other.context.guards)


@dataclass(eq=False)
class History:
    """All touches of one piece of storage, in program order."""

    buffer: Buffer
    touches: list[Touch] = field(default_factory=list)
    escaped: bool = False

    @property
    def writes(self) -> list[Touch]:
        return [t for t in self.touches if t.mode != "read"]

    @property
    def reads(self) -> list[Touch]:
        return [t for t in self.touches if t.mode == "read"]

    def inside(self, loop: Loop) -> list[Touch]:
        return self._by_loop.get(loop, [])

    @cached_property
    def _by_loop(self) -> dict[Loop, list[Touch]]:
        found: dict[Loop, list[Touch]] = {}
        for touch in self.touches:
            for loop in touch.context.loops:
                found.setdefault(loop, []).append(touch)
        return found

    def may_hold_something(self, at: Touch) -> bool:
        """Whether anything may have been written before `at` runs for the first time."""
        if self.escaped or at.context.maybe:
            return True
        # A statement that reads before it writes, as in `n[0] += 1`, has not run before it runs first.
        own = at.order if at.mode == "read" and at.starts is not None else None
        return any(w.may_precede(at) for w in self.writes if w is not at and w.order != own)


def histories(subject: Subject) -> list[History]:
    """The history of every tile and output that the kernel makes, in order of appearance."""
    made = (b for b in subject.program.buffers if b.view_of is None and (is_tile(b) or b.role == "output"))
    found = {b: History(b) for b in made}
    _Collector(subject, found).visit(subject.program.body, Context())
    _note_escapes(subject, found)
    return list(found.values())


def stores_by_place(subject: Subject) -> dict[Span, list[Store]]:
    """A touch without a record is of the store at its place; asked through `subject.shared`."""
    found: dict[Span, list[Store]] = {}
    for node in walk(subject.program.body):
        if isinstance(node, Store):
            found.setdefault(node.span, []).append(node)
    return found


class _Collector:
    def __init__(self, subject: Subject, found: dict[Buffer, History]) -> None:
        self._subject = subject
        self._found = found
        self._order = 0
        self._by_var = {
            b.var: b for b in subject.program.buffers if b.known
        }  # views have variables of their own
        self._fixed = {s.var for s in subject.program.symbols}
        self._fixed |= {v for launch in subject.program.launches() for v in launch.block_vars}

    def visit(self, nodes: list[Node], context: Context) -> None:
        for node in nodes:
            self._order += 1
            match node:
                case Do():
                    self._op(node.record)
                case Store():
                    self._store(node)
                case Bind() | Evaluate():
                    self._effects(node, context)
                case For():
                    self._values([*node.loop.mins, *node.loop.extents, node.condition], node.span, context)
                    self.visit(node.body, replace(context, loops=(*context.loops, node.loop)))
                case If():
                    self._values([node.condition], node.span, context)
                    for branch, negated in ((node.body, False), (node.orelse, True)):
                        guard = Guard(node.condition, negated, node.span)
                        self.visit(branch, replace(context, guards=(*context.guards, guard)))
                case Launch():
                    self.visit(node.body, context)

    def _op(self, record: OpRecord) -> None:
        if record.op not in TILE_OPS:
            for operand in record.operands.values():
                for var in free_vars(operand.value):
                    self._escape(var)
            return
        for access in self._subject.accesses(record):
            for start in access.region.starts:
                self._values([start], record.span, record.context)
        for operand in record.operands.values():
            given = operand.value if isinstance(operand.value, tuple) else (operand.value,)
            scalars: list[object] = [v for v in given if not isinstance(v, Region)]
            self._values(scalars, record.span, record.context)
        # Operands are read before the result is written.
        for access in sorted(self._subject.accesses(record), key=lambda a: a.mode != "read"):
            region = access.region
            self._touch(
                region.buffer,
                access.mode,
                record.span_of(access.argument),
                record.context,
                record=record,
                argument=access.argument,
                starts=region.starts if region.fits_rank else None,
                extents=tuple(access.extents),
            )

    def _store(self, node: Store) -> None:
        self._values([node.value, *node.indices], node.span, node.context)
        ones = (1,) * len(node.indices)
        self._touch(node.buffer, "write", node.span, node.context, starts=node.indices, extents=ones)

    def _effects(self, node: Bind | Evaluate, context: Context) -> None:
        if isinstance(node, Bind):
            self._values([node.value], node.span, context)
            return
        for var in free_vars(node.value):  # an atomic, a print, a call by pointer: it may do anything
            self._escape(var)

    def _values(self, values: list[object], span: Span, context: Context) -> None:
        for value in values:
            loads = sure_loads(value)
            for var in free_vars(value):
                buffer = self._by_var.get(var)
                if buffer is None:
                    continue
                for indices in loads.get(var, [None]):
                    extents = () if indices is None else (1,) * len(indices)
                    sure = indices is not None
                    self._touch(buffer, "read", span, context, sure, starts=indices, extents=extents)

    def _touch(
        self, buffer: Buffer, mode: str, span: Span, context: Context, sure: bool = True, **where: Any
    ) -> None:
        history = self._found.get(buffer.storage)
        if history is not None:
            if buffer.view_of is not None:
                where["starts"] = None
            where["steady"] = self._steady(context) if sure else frozenset()
            history.touches.append(Touch(self._order, mode, span, context, **where))

    def _steady(self, context: Context) -> frozenset[Loop]:
        """Loops of which every iteration comes to a statement, if it comes there at all."""
        found: set[Loop] = set()
        if context.guards or context.maybe:
            return frozenset()
        for loop in reversed(context.loops):
            if loop in self._subject.loops_with_jumps:
                break
            found.add(loop)
            if not all(self._same_each_time(e) for e in loop.extents):
                break  # in some iterations of the loops around, this one may be empty
        return frozenset(found)

    def _same_each_time(self, extent: Value) -> bool:
        """Whether a loop that is empty once is always empty."""
        number = as_int(extent)
        if number is not None:
            return number > 0
        return not isinstance(extent, Unknown) and free_vars(extent) <= self._fixed

    def _escape(self, var: ir.Var) -> None:
        buffer = self._by_var.get(var)
        history = self._found.get(buffer.storage) if buffer is not None else None
        if history is not None:
            history.escaped = True


_LEAVES = frozenset({"Var", "IntImm", "FloatImm", "int", "float", "bool"})


def sure_loads(value: Any) -> dict[ir.Var, list[tuple[Value, ...]]]:
    """Buffer -> indices of the elements that an expression certainly reads: not those in the branches of a
    choice, nor behind `and` and `or`.
    """
    found: dict[ir.Var, list[tuple[Value, ...]]] = {}

    def visit(part: Any) -> None:
        kind = type(part).__name__  # `isinstance` on nodes costs a microsecond
        if kind in _LEAVES:
            return
        if kind == "TensorLoad":
            found.setdefault(part.source, []).append(tuple(part.indices))
            for index in part.indices:
                visit(index)
        elif is_choice(part):
            visit(part.args[0])
        elif kind == "Select":
            visit(part.condition)
        elif kind in ("And", "Or"):
            visit(part.a)
        elif isinstance(part, ir.Expr):
            for operand in operands_of(part):
                visit(operand)

    visit(value)
    return found


def _note_escapes(subject: Subject, found: dict[Buffer, History]) -> None:
    """A name that stands where no record explains it may have been handed to anything."""
    for buffer in subject.shared(unexplained):
        history = found.get(buffer)
        if history is not None:
            history.escaped = True


def unexplained(subject: Subject) -> set[Buffer]:
    """Storage that is named where no record says what happens to it; returning an output is nothing."""
    explained: dict[tuple[Buffer, int], list[Span]] = {}  # by the lines that a record stands on
    for buffer, span in _explained(subject):
        for line in range(span.line, span.end_line + 1):
            explained.setdefault((buffer.storage, line), []).append(span)

    def returned(span: Span) -> bool:
        lines = lines_of(span, subject.text)
        return 0 < span.line <= len(lines) and lines[span.line - 1].lstrip().startswith("return")

    found: set[Buffer] = set()
    for span, buffer in subject.program.uses:
        storage = buffer.storage
        around = explained.get((storage, span.line), ())
        if storage in found or any(_contains(outer, span) for outer in around):
            continue
        if storage.role != "output" or not returned(span):
            found.add(storage)
    return found


def _explained(subject: Subject) -> Iterator[tuple[Buffer, Span]]:
    for record in subject.records:
        for access in subject.accesses(record):
            yield access.region.buffer, record.span
    for access in subject.program.accesses:
        # A call that is not known touches its buffers at unknown places.
        if access.indices and not any(isinstance(i.start, Unknown) for i in access.indices):
            yield access.buffer, access.span
    for buffer in subject.program.buffers:
        if buffer.view_of is not None:
            yield buffer, buffer.span
    for span, buffer in subject.program.handed_on:  # what is done with it there is on record
        yield buffer, span


def _contains(outer: Span, inner: Span) -> bool:
    return (
        outer.path == inner.path
        and (outer.line, outer.column) <= (inner.line, inner.column)
        and (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
    )
