"""What a loop reads of memory that it also writes, where several threads run the same iteration.

Only one of these threads stores; the others must have read before it does. Such reads are done first, into
registers, and the barrier between the two steps is placed as everywhere (`passes.insert_sync`). What an
iteration reads after it has stored it makes two loops of one, with the barrier between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir.evaluate import NotEvaluable, is_choice
from tilelang.ir.tile_ops import seq
from tilelang.passes.guard_bounds import conjunction
from tilelang.passes.parallel_loop import ParallelLoop, in_memory, nested_parallel, parallel_loop
from tilelang.passes.walk import children, constant, map_operands, uses, walk

Key = tuple[int, str]  # of an element: its buffer, and its indices as text


@dataclass(frozen=True)
class HeldRead:
    """An element that is read before anything is stored, where `condition` holds (None: always)."""

    load: Any
    condition: Any


def key_of(load: Any) -> Key:
    """Equal for elements that are the same in every iteration."""
    return load.source.__chandle__(), str(list(load.indices))


def held_reads(body: Any) -> dict[Key, HeldRead]:
    """The elements that threads keep values of, although the same loop stores to their buffer.

    A store to memory reads for itself: it is done by one thread. Raises NotEvaluable with the buffer's name
    for a read that cannot be done first, because a value of the same iteration decides about it.
    """
    stored = {
        s.buffer.__chandle__() for s in walk(body) if isinstance(s, X.BufferStore) and in_memory(s.buffer)
    }
    if not stored:
        return {}
    found: dict[Key, HeldRead] = {}
    walker = _Reads()
    for load, conditions, movable in walker.reads(body, (), True):
        buffer = load.source.__chandle__()
        if buffer not in stored or not in_memory(load.source):
            continue
        decided = any(uses(e, walker.bound) for e in (*load.indices, *conditions))
        if not movable or decided or buffer in walker.written:
            raise NotEvaluable(str(load.source.name))
        known = found.get(key_of(load))
        condition = conjunction(list(conditions)) if conditions else None
        if known is not None and known.condition is not None and condition is not None:
            condition = X.Or(known.condition, condition)
        elif known is not None:
            condition = None
        found[key_of(load)] = HeldRead(load, condition)
    return found


def in_two(loop: ParallelLoop) -> tuple[ParallelLoop, ParallelLoop] | None:
    """The loop as two, the second from the statement on that reads what the loop has stored.

    None where an iteration shares elements with others, which would then see another order, or where it keeps
    scalars past that statement.
    """
    stmts = list(loop.body.seq) if isinstance(loop.body, X.SeqStmt) else []
    for k in range(1, len(stmts)):
        head, step, tail = (_part(loop, part) for part in (stmts[:k], stmts[k : k + 1], stmts[k:]))
        stored = {a.buffer.__chandle__() for a in head.accesses if a.mode == "write" and in_memory(a.buffer)}
        if any(a.mode == "read" and a.buffer.__chandle__() in stored for a in step.accesses):
            return (head, tail) if _one_to_one(loop, head, tail) else None
    return None


def _part(loop: ParallelLoop, stmts: list[Any]) -> ParallelLoop:
    """The loop over some of its statements."""
    return parallel_loop(nested_parallel(loop.vars, loop.extents, seq(stmts), loop.notes, loop.span))


def _one_to_one(loop: ParallelLoop, head: ParallelLoop, tail: ParallelLoop) -> bool:
    """Whether all that `head` makes for `tail` are elements, each of one iteration alone."""
    made = {
        (s.var if isinstance(s, X.Bind) else s.buffer).__chandle__()
        for s in walk(head.body)
        if isinstance(s, X.Bind | X.AllocBuffer)
    }
    if uses(tail.body, made):
        return False
    written = {a.buffer.__chandle__() for a in head.accesses if a.mode == "write"}
    places: dict[int, set[str]] = {}
    for access in (*head.accesses, *tail.accesses):
        handle = access.buffer.__chandle__()
        if handle in written:
            places.setdefault(handle, set()).add(str(list(access.indices)))
            whole = all(
                constant(n) == 1 or any(v.same_as(i) for i in access.indices)
                for v, n in zip(loop.vars, loop.extents, strict=True)
            )
            if not whole:
                return False
    return all(len(at) == 1 for at in places.values())


Read = tuple[Any, tuple[Any, ...], bool]  # the element, the conditions around it, whether no loop is


class _Reads:
    """Walks one iteration in order. `bound`: its scalars so far; `written`: memory that it has stored to."""

    def __init__(self) -> None:
        self.bound: set[int] = set()
        self.written: set[int] = set()

    def reads(self, stmt: Any, conditions: tuple[Any, ...], movable: bool) -> Iterator[Read]:
        if isinstance(stmt, X.BufferStore):
            if in_memory(stmt.buffer):
                self.written.add(stmt.buffer.__chandle__())
            else:
                yield from _loads(stmt.value, conditions, movable)
        elif isinstance(stmt, X.Bind):
            yield from _loads(stmt.value, conditions, movable)
            self.bound.add(stmt.var.__chandle__())
        elif isinstance(stmt, X.IfThenElse):
            yield from _loads(stmt.condition, conditions, movable)
            yield from self.reads(stmt.then_case, (*conditions, stmt.condition), movable)
            if stmt.else_case is not None:
                yield from self.reads(stmt.else_case, (*conditions, X.Not(stmt.condition)), movable)
        elif isinstance(stmt, X.For | X.While):
            yield from self.reads(stmt.body, conditions, False)
        elif not isinstance(stmt, X.Evaluate):
            for child in children(stmt):
                yield from self.reads(child, conditions, movable)


def _loads(expr: Any, conditions: tuple[Any, ...], movable: bool) -> Iterator[Read]:
    if is_choice(expr):
        condition, yes, no = expr.args
        yield from _loads(condition, conditions, movable)
        yield from _loads(yes, (*conditions, condition), movable)
        yield from _loads(no, (*conditions, X.Not(condition)), movable)
        return
    if isinstance(expr, ir.TensorLoad):
        yield expr, conditions, movable
        inner = list(expr.indices)
    else:
        inner = _operands(expr)
    for part in inner:
        yield from _loads(part, conditions, movable)


def _operands(expr: Any) -> list[Any]:
    found: list[Any] = []

    def note(e: Any) -> Any:
        found.append(e)
        return e

    if isinstance(expr, ir.Expr):
        map_operands(expr, note)
    return found
