"""What differs between the threads of a block (or the blocks of a grid), and where they meet."""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import thread_ops, tile_ops
from tilelang.passes.walk import calls, children, loop_kind, uses, variables, walk
from tilelang.targets.cpu.nests import REGISTERS

_PRIVATE = ("local", "local.var", REGISTERS)


class Differences:
    """Of the threads of one block; `handles` begins with the variables that number them."""

    def __init__(self, handles: set[int]) -> None:
        self.handles = handles  # variables and buffers whose values may differ

    def find(self, body: Any) -> None:
        """Note all that differs because of what differs already."""
        self._begin(body)
        before = -1
        while before != len(self.handles):
            before = len(self.handles)
            self._spread(body, False)

    def _begin(self, body: Any) -> None:
        """Note what differs by itself."""
        self.handles |= _accumulated_in_parallel(body)

    def is_private(self, buffer: ir.Var) -> bool:
        """Whether every thread has a buffer of its own behind this one."""
        return str(buffer.scope()) in _PRIVATE

    def _spread(self, stmt: Any, divergent: bool) -> None:
        """Note what differs after `stmt`; `divergent`: whether only some come to it."""
        if isinstance(stmt, X.DeclBuffer):
            names = {stmt.buffer.__chandle__(), *(v.__chandle__() for v in variables(stmt.data))}
            if names & self.handles:
                self.handles |= names
        if not self.has_meeting(stmt):
            if divergent or self.differs(stmt):
                self.handles |= self._defined(stmt)
            return
        if loop_kind(stmt) == "Parallel":
            return  # done by the block as one, whoever gets there
        if isinstance(stmt, X.For | X.IfThenElse | X.While):
            inner = divergent or any(self.varying(e) for e in expressions(stmt))
            if isinstance(stmt, X.For) and inner:
                self.handles.add(stmt.loop_var.__chandle__())
            for child in children(stmt):
                self._spread(child, inner)
        elif isinstance(stmt, X.SeqStmt | X.AttrStmt):
            for child in children(stmt):
                self._spread(child, divergent)
        elif any(self.varying(e) for e in expressions(stmt)) or divergent:
            self.handles |= self._defined(stmt)

    def _defined(self, stmt: Any) -> set[int]:
        """Scalars and private buffers that `stmt` gives values."""
        found: set[int] = set()
        for s in walk(stmt):
            if isinstance(s, X.Bind):
                found.add(s.var.__chandle__())
            elif isinstance(s, X.BufferStore) and self.is_private(s.buffer):
                found.add(s.buffer.__chandle__())
            elif isinstance(s, X.Evaluate) and is_tile_operation(s.value):
                regions = [a for a in s.value.args if isinstance(a, ir.TensorRegion)]
                found |= {a.source.__chandle__() for a in regions if self.is_private(a.source)}
        return found

    def varying(self, expr: Any) -> bool:
        """Whether an expression may differ between threads."""
        return uses(expr, self.handles) or any(map(thread_ops.is_collective, calls(expr)))

    def differs(self, stmt: Any) -> bool:
        """Whether `stmt` is not one thing that the block does once."""
        return uses(stmt, self.handles) or any(_is_effect_of_each(s) for s in walk(stmt))

    def has_meeting(self, stmt: Any) -> bool:
        return any(self.is_meeting(s) for s in walk(stmt))

    def is_meeting(self, stmt: Any) -> bool:
        """Whether threads meet in `stmt` itself."""
        if isinstance(stmt, X.Evaluate) and is_barrier(stmt.value):
            return True
        if isinstance(stmt, X.Evaluate) and is_tile_operation(stmt.value):
            return not uses(stmt, self.handles)
        if loop_kind(stmt) == "Parallel":
            return not uses(stmt, self.handles)
        return any(thread_ops.is_collective(c) for e in expressions(stmt) for c in calls(e))


class BlockDifferences(Differences):
    """Of the blocks of a grid that wait for each other: what a block allocates is private to it."""

    def is_private(self, buffer: ir.Var) -> bool:
        return str(buffer.scope()) != "global"

    def _begin(self, body: Any) -> None:
        """Nothing but the blocks' numbers differs to begin with."""

    def differs(self, stmt: Any) -> bool:
        return True

    def is_meeting(self, stmt: Any) -> bool:
        return isinstance(stmt, X.Evaluate) and thread_ops.call_name(stmt.value) == thread_ops.SYNC_GRID


def expressions(stmt: Any) -> list[Any]:
    """The expressions of a statement, without those of its children."""
    match stmt:
        case X.BufferStore():
            return [stmt.value, *stmt.indices]
        case X.Bind() | X.Evaluate():
            return [stmt.value]
        case X.IfThenElse() | X.While():
            return [stmt.condition]
        case X.For():
            return [stmt.min, stmt.extent]
    return []


def is_barrier(call: Any) -> bool:
    return thread_ops.call_name(call) in (
        tile_ops.SYNC,
        thread_ops.SYNC_WARP,
        thread_ops.SYNC_GRID,
        tile_ops.ASYNC_COMMIT,
        tile_ops.ASYNC_WAIT,
    )


def is_tile_operation(call: Any) -> bool:
    """Whether a call works on regions: what the threads of a block do together."""
    return thread_ops.call_name(call).startswith("tl.") and any(
        isinstance(a, ir.TensorRegion) for a in call.args
    )


def _is_effect_of_each(stmt: Any) -> bool:
    """Whether every thread has to do `stmt`, even if it is the same for all: an atomic, an external call."""
    if isinstance(stmt, X.Bind):
        return tile_ops.is_call(stmt.value, tile_ops.ATOMIC)
    if not isinstance(stmt, X.Evaluate) or not isinstance(stmt.value, ir.Call):
        return False
    return not is_barrier(stmt.value) and not is_tile_operation(stmt.value)


def _accumulated_in_parallel(body: Any) -> set[int]:
    """Private buffers that outlive a Parallel loop which writes them: each thread has its part in them."""
    found: set[int] = set()
    for stmt in walk(body):
        if loop_kind(stmt) == "Parallel":
            inner = {s.buffer.__chandle__() for s in walk(stmt) if isinstance(s, X.AllocBuffer)}
            written = {
                s.buffer.__chandle__()
                for s in walk(stmt)
                if isinstance(s, X.BufferStore) and str(s.buffer.scope()) in _PRIVATE
            }
            found |= written - inner
    return found
