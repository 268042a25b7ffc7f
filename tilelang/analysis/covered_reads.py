"""What a statement reads beside what it does not write.

Compilers leave out a store outside of a tensor, and with it what it would store: `B[i, j] = B[i, j] + s[j]`
is lowered as `if j < 128: B[i, j] = ...`, so no iteration beyond reads `s`. The same holds of what an atomic
adds to an element of a tensor, of the elements that T.copy moves there, and of the iterations of a loop that
would do nothing else (`passes.trim_loops`). It does not hold of a read whose statement merely reads a tensor
elsewhere, nor of what finds out where to store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilelang.analysis.affine import always_inside
from tilelang.analysis.iterations import variables_behind
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.span import Span
from tilelang.ir.idle_iterations import writing_iterations
from tilelang.ir.prove import free_vars, same_dtype
from tilelang.ir.tile_program import (
    UNGUARDED,
    Access,
    Bind,
    Context,
    Do,
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
from tilelang.ir.values import Buffer, Region, Unknown, Value, add, as_int
from tilelang.ops.extents import real_dimensions

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip
from tvm_ffi import structural_walk  # isort: skip

_LARGEST = 1 << 62


Conditions = tuple[Value, ...]  # all of them; without any, always


@dataclass(frozen=True, eq=False)
class Place:
    """Elements of a tensor. They exist where `lows` are at least 0 and `highs` are below the sizes."""

    buffer: Buffer
    lows: tuple[Value, ...]
    highs: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Use:
    """One use of a value that is read: the index it is read at, where it stands, and when it is needed."""

    start: Value
    context: Context  # with the guards
    guards: tuple[Guard, ...]  # that a compiler adds


def uses_of_element(subject: Subject, access: Access, dim: int) -> list[Use] | None:
    """Where the value of an element is used; None if it is needed wherever the read stands."""
    if access.load is None or access.mode != "read":
        return None
    needing = subject.shared(_conditions_by_load).get(access.load.__chandle__())
    if needing is None or not all(needing):
        return None
    start = access.indices[dim].start
    return [_use(subject, start, access.context, conditions, access.span) for conditions in needing]


def uses_of_region(subject: Subject, record: OpRecord, region: Region, dim: int) -> list[Use] | None:
    """Where the elements of what T.copy moves or an atomic adds are used, one after the other along `dim`."""
    dst = record.region("dst")
    moves = record.op == "copy" or (record.op == "atomic" and record.value("kind") != "load")
    if not moves or dst is None or dst is region or not _is_guarded(subject, dst.buffer) or not dst.fits_rank:
        return None
    extents = {id(a.region): a.extents for a in subject.accesses(record)}
    own, others = extents.get(id(region)), extents.get(id(dst))
    if own is None or others is None or any(as_int(e) is None for e in (*own, *others)):
        return None
    step = X.Var("element", "int32")
    loop = Loop("serial", (step,), (0,), (own[dim],), record.span)
    context = replace(record.context, loops=(*record.context.loops, loop))
    matched = dict(zip(real_dimensions(own), real_dimensions(others), strict=False)).get(dim)
    lows, highs = [], []
    for d, (first, extent) in enumerate(zip(dst.starts, others, strict=True)):
        last = add(first, (as_int(extent) or 1) - 1)
        if record.value("lanes", 1) > 1:  # all neighbours or none
            lows.append(first)
            highs.append(last)
        elif d == matched:
            lows.append(add(first, step))
            highs.append(add(first, step))
        else:  # some element along this dimension
            lows.append(last)
            highs.append(first)
    place = Place(dst.buffer, tuple(lows), tuple(highs))
    conditions = _existing(subject, place)
    return (
        [_use(subject, add(region.starts[dim], step), context, conditions, record.span)]
        if conditions
        else None
    )


def sizes_in(uses: Sequence[Use], subject: Subject) -> list[ir.Var]:
    """Sizes of tensors, not known before a call, that decide whether values are needed."""
    asked = {v for use in uses for guard in use.guards for v in free_vars(guard.condition)}
    return [s.var for s in subject.program.symbols if s.var in asked]


def depends_on_sizes(use: Use, sizes: Sequence[ir.Var]) -> bool:
    """Whether larger tensors may need less: not where the sizes are nothing but ends of what is needed."""
    read = free_vars(use.start)
    for guard in use.guards:
        if not isinstance(guard.condition, X.LT | X.GE) or not isinstance(
            guard.condition.b, ir.Var | X.IntImm
        ):
            return True
        read |= free_vars(guard.condition.a)
    return bool(read & set(sizes))


def _conditions_by_load(subject: Subject) -> Mapping[int, list[Conditions]]:
    """For each read, when the statements that use its value need it."""
    found: dict[int, list[Conditions]] = {}
    _note_uses(subject, subject.program.body, (), found)
    return found


def _note_uses(
    subject: Subject, nodes: Sequence[Node], trimmed: Conditions, found: dict[int, list[Conditions]]
) -> None:
    """`trimmed`: for names bound in loops that only write tensors, where these loops end."""

    def note(value: Any, conditions: Conditions = ()) -> None:
        for load in _loads(value):
            found.setdefault(load.__chandle__(), []).append(conditions)

    for node in nodes:
        match node:
            case Store():
                note(node.value, _existing(subject, Place(node.buffer, node.indices, node.indices)))
                note(node.indices, trimmed)
            case Do():
                for name, operand in node.record.operands.items():
                    note(operand.value, _needing(subject, node.record, name))
            case If():
                note(node.condition, trimmed)
                _note_uses(subject, node.body, trimmed, found)
                _note_uses(subject, node.orelse, trimmed, found)
            case For():
                note((node.condition, node.loop.mins, node.loop.extents))
                _note_uses(subject, node.body, (*trimmed, *_ends(subject, node)), found)
            case Launch():
                _note_uses(subject, node.body, (), found)
            case Bind():
                note(node.value, trimmed)
            case _:
                note(getattr(node, "value", None))


def _ends(subject: Subject, node: For) -> Iterator[Value]:
    """Where the loops end that would write nothing beyond (see `passes.trim_loops`)."""
    loop, places = node.loop, _only_written(subject, node.body)
    if loop.kind in ("while", "Pipelined") or as_int(loop.step) != 1 or places is None:
        return
    if any(v is not None for v in loop.annotations.values()):
        return
    for var, first, extent in zip(loop.vars, loop.mins, loop.extents, strict=True):
        count = as_int(extent)
        if count is None or as_int(first) != 0:
            continue
        needed = writing_iterations(var, places, count)
        if 0 < needed < count:
            yield X.LT(var, X.const(needed, str(var.ty)))


def _only_written(subject: Subject, nodes: Sequence[Node]) -> list[tuple[Any, Any]] | None:
    """The elements of tensors that statements write, if that is all they do."""
    found: list[tuple[Any, Any]] = []
    for node in walk(list(nodes)):
        if isinstance(node, Store) and _is_guarded(subject, node.buffer):
            found.append((node.buffer.shape, node.indices))
        elif isinstance(node, Do) and node.record.op == "atomic" and node.record.value("result") is None:
            dst = node.record.region("dst")
            if dst is None or not dst.is_point or not dst.fits_rank or not _is_guarded(subject, dst.buffer):
                return None
            found.append((dst.buffer.shape, dst.starts))
        elif isinstance(node, If | Bind):
            if not _is_plain(node.condition if isinstance(node, If) else node.value):
                return None
        elif not isinstance(node, For):
            return None
    return found


def _is_plain(value: Value) -> bool:
    """Whether a value is found without calling anything."""
    called: list[Any] = []
    if isinstance(value, ir.Expr):
        structural_walk(value, (ir.Call, called.append))
    return not called


def _needing(subject: Subject, record: OpRecord, operand: str) -> Conditions:
    """When an operand is needed: what an atomic writes into an element where that exists; others always."""
    dst = record.region("dst")
    if record.op != "atomic" or operand != "values" or dst is None or not dst.fits_rank:
        return ()
    *outer, last = dst.starts
    highs = (*outer, add(last, len(record.value("values")) - 1))
    return _existing(subject, Place(dst.buffer, dst.starts, highs))


def _loads(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for part in value:
            yield from _loads(part)
    elif isinstance(value, ir.Expr):
        found: list[Any] = []
        structural_walk(value, (ir.TensorLoad, found.append))
        yield from found


def _is_guarded(subject: Subject, buffer: Buffer) -> bool:
    return buffer.scope == "global" and not subject.program.attrs.get(UNGUARDED, False)


def _use(subject: Subject, start: Value, context: Context, conditions: Conditions, span: Span) -> Use:
    """A use with the conditions as guards. Those on memory that the loops around do not change hold for all
    iterations of the loops that they do not depend on, or for none.
    """
    loops, depth = context.loops, len(context.loops)
    undecided = [c for c in conditions if _buffers(c)]
    fixed = not any(g.depth not in (None, depth) for g in context.guards)  # by their depths
    if (
        undecided
        and fixed
        and not any(_written_around(subject, b, context) for c in undecided for b in _buffers(c))
    ):
        behind = variables_behind(subject, context, undecided)
        loops = _one_by_one(loops)
        loops = tuple(sorted(loops, key=lambda loop: not behind & set(loop.vars)))
        depth = sum(1 for loop in loops if behind & set(loop.vars))
    guards = tuple(Guard(c, False, span, depth) for c in conditions)
    return Use(start, replace(context, loops=loops, guards=(*context.guards, *guards)), guards)


def _one_by_one(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """One loop per variable."""
    return tuple(
        replace(loop, vars=(v,), mins=(m,), extents=(e,))
        for loop in loops
        for v, m, e in zip(loop.vars, loop.mins, loop.extents, strict=True)
    )


def _buffers(condition: Value) -> set[ir.Var]:
    return {v for v in free_vars(condition) if X.is_buffer_var(v)}


def _written_around(subject: Subject, buffer: ir.Var, context: Context) -> bool:
    """Whether a loop around a statement writes a buffer that its condition reads."""
    around = set(context.loops)
    writes = [(a.buffer, a.context) for a in subject.program.accesses if a.mode == "write"]
    for record in subject.records:
        writes += [(a.region.buffer, record.context) for a in subject.accesses(record) if a.mode != "read"]
    return any(b.known and b.storage.var.same_as(buffer) and around & set(c.loops) for b, c in writes)


def _existing(subject: Subject, place: Place) -> Conditions:
    """When the elements exist, without what always holds; nothing for elements that no compiler guards."""
    found: list[Value] = []
    if not _is_guarded(subject, place.buffer) or len(place.lows) != len(place.buffer.shape):
        return ()
    for low, high, size in zip(place.lows, place.highs, place.buffer.shape, strict=True):
        if any(isinstance(v, Unknown) for v in (low, high, size)):
            found.append(Unknown("the place of a store is not known"))
            continue
        if not always_inside(subject.ranges, low, 1, _LARGEST) and not subject.prover.surely_at_most(0, low):
            found.append(X.GE(*same_dtype(low, 0)))
        if not subject.prover.surely_at_most(add(high, 1), size):
            found.append(X.LT(*same_dtype(high, size)))
    return tuple(found)
