"""Explicit thread code on the CPU: one processor thread runs all threads of a block, from barrier to barrier.

In:  a tile function without jumps (`jumps`), whose body may number its threads.
Out: the same without thread axes. Statements that differ between threads stand in loops over them; these
     loops end wherever threads meet: at barriers, shuffles and votes, and at tile operations, which the block
     does as one. What lives longer than such a loop becomes an array with one entry per thread. Loops and
     conditions that hold a meeting are taken in step, with a flag per thread where they differ.
Not: anything for kernels without thread code, which come back as they are.

Statements that are the same for all threads run once. A tile operation under a condition of the thread runs
once if any thread gets there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import thread_ops, tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ir.tile_ops import seq
from tilelang.passes.walk import (
    calls,
    children,
    constant,
    loop_kind,
    map_operands,
    remake,
    uses,
    variables,
    walk,
)
from tilelang.targets.cpu.collectives import exchange
from tilelang.targets.cpu.differences import (
    BlockDifferences,
    Differences,
    expressions,
    is_barrier,
    is_tile_operation,
)
from tilelang.targets.cpu.nests import REGISTERS, index
from tilelang.targets.cpu.one_thread import OneThread


def thread_loops(func: X.PrimFunc, unnamed: bool = False) -> X.PrimFunc:
    """Apply the pass.

    unnamed: the author did not say how many threads a block has; atomics outside of Parallel loops are then
    done once, if nothing else in the kernel tells threads apart.
    """
    axes = [s for s in walk(func.body) if _is_axis(s)]
    varies = {s.node.var.__chandle__() for s in axes}
    own = uses_any(func.body, varies) or any(map(thread_ops.is_collective, calls(func.body)))
    if not axes or not (own or (not unnamed and _updates_by_each(func.body))):
        return func
    return func.with_body(_Threads(axes).launch(func.body))


def block_loops(func: X.PrimFunc) -> X.PrimFunc:
    """The same for the blocks of a grid, where they meet at `tl.sync_grid`: one block then stands for all."""
    names = {thread_ops.call_name(c) for c in calls(func.body)}
    if thread_ops.SYNC_GRID not in names:
        return func
    body = _without_threads(func.body)
    axes = [s for s in walk(body) if isinstance(s, X.AttrStmt) and s.attr_key == "thread_extent"]
    return func.with_body(_Blocks(axes).launch(body))


def _without_threads(stmt: Any) -> Any:
    """`stmt` without axes of threads: what is left of them stands for nothing."""
    return _without_threads(stmt.body) if _is_axis(stmt) else remake(stmt, _without_threads)


def uses_any(body: Any, handles: set[int]) -> bool:
    """Whether a variable with one of these handles is used (the axes that define them do not count)."""
    return any(uses(e, handles) for s in walk(body) for e in expressions(s))


def _updates_by_each(stmt: Any) -> bool:
    """Whether an atomic stands outside of Parallel loops, where every thread does it."""
    if loop_kind(stmt) == "Parallel":
        return False
    if isinstance(stmt, X.Evaluate | X.Bind) and tile_ops.is_call(stmt.value, tile_ops.ATOMIC):
        return True
    return any(map(_updates_by_each, children(stmt)))


def _is_axis(stmt: Any) -> bool:
    return (
        isinstance(stmt, X.AttrStmt)
        and stmt.attr_key == "thread_extent"
        and str(stmt.node.thread_tag).startswith("threadIdx")
    )


@dataclass
class _Out:
    """Statements being made: finished ones, and those of the loop over threads that is still open."""

    done: list[Any] = field(default_factory=list)
    open: list[Any] = field(default_factory=list)


class _Threads:
    """The threads of one block. `axes`: the `thread_extent` attributes, x first."""

    _kind = X.ForKind.PARALLEL  # of the loops over them: between two meetings they may run in any order
    _Differences = Differences

    def __init__(self, axes: list[Any]) -> None:
        self._axes = sorted(axes, key=lambda s: str(s.node.thread_tag))
        extents = [_number(s.value) for s in self._axes]
        self.count: Any = math.prod(extents)
        self._one = OneThread(self._axes, extents)
        self._number = self._one.number  # stands for the number of the thread in an open loop
        numbers = {self._number.__chandle__(), *(s.node.var.__chandle__() for s in self._axes)}
        self._differences = self._Differences(numbers)
        self._allocations: list[Any] = []
        self._kept: list[Any] = []  # made variables, so that handles stay theirs
        self._mask: ir.Var | None = None
        self._out = _Out()
        self._span: Any = None
        # Statement -> the allocations that its loop over threads begins with.
        self._inline: dict[int, list[Any]] = {}

    def launch(self, stmt: Any) -> Any:
        """The body without its axes."""
        if self._is_own(stmt):
            inner = stmt.body
            while self._is_own(inner):
                inner = inner.body
            self._differences.find(inner)
            body = self._collected(lambda: self._sequence(_flat(inner)))
            return seq([*self._allocations, *body])
        return remake(stmt, self.launch)

    def _is_own(self, stmt: Any) -> bool:
        return any(stmt is s or stmt.same_as(s) for s in self._axes)

    # Statements in order

    def _collected(self, make: Callable[[], None]) -> list[Any]:
        """The statements that `make` puts out, its loops over threads closed."""
        saved, self._out = self._out, _Out()
        make()
        self._close()
        made, self._out = self._out.done, saved
        return made

    def _sequence(self, stmts: list[Any]) -> None:
        for k, stmt in enumerate(stmts):
            self._place(stmt, stmts[k + 1 :])

    def _place(self, stmt: Any, rest: list[Any]) -> None:
        """Put out one statement; `rest` are those after it in its block."""
        self._span = stmt.span if stmt.span is not None else self._span
        own = self._inline.pop(stmt.__chandle__(), None)
        if own is not None:
            self._out.open += own
        if isinstance(stmt, X.SeqStmt):
            self._sequence([*_flat(stmt)])
        elif isinstance(stmt, X.AllocBuffer | X.DeclBuffer):
            self._allocate(stmt, rest)
        elif self._differences.is_meeting(stmt) and isinstance(stmt, X.Evaluate) and is_barrier(stmt.value):
            self._close()
            self._out.done += self._kept_meeting(stmt)
        elif not self._differences.has_meeting(stmt):
            self._simple(self._without_views(stmt), rest)
        elif isinstance(stmt, X.For) and loop_kind(stmt) != "Parallel":
            self._for(stmt)
        elif isinstance(stmt, X.While):
            self._while(stmt)
        elif isinstance(stmt, X.IfThenElse):
            self._if(stmt)
        elif isinstance(stmt, X.BufferStore | X.Bind | X.Evaluate) and not (
            isinstance(stmt, X.Evaluate) and is_tile_operation(stmt.value)
        ):
            self._simple(_with_values(stmt, self._met), rest)
        else:
            self._once(stmt)

    def _allocate(self, stmt: Any, rest: list[Any]) -> None:
        buffer = stmt.buffer
        if isinstance(stmt, X.DeclBuffer) and (whole := self._whole(stmt)) is not None:
            shape, dtype = (self.count, *buffer.shape), str(buffer.dtype)
            made = X.decl_buffer(shape, dtype, str(buffer.name), data=whole.data, scope="shared")
            self._one.arrays[buffer.__chandle__()] = made
            self._kept += [buffer, made]
            self._out.done.append(X.DeclBuffer(made, data=whole.data, span=stmt.span))
            return
        if buffer.__chandle__() not in self._differences.handles or not self._differences.is_private(buffer):
            self._out.done.append(self._one.at(stmt, index(0)) if isinstance(stmt, X.DeclBuffer) else stmt)
            return
        if isinstance(stmt, X.DeclBuffer):
            self._out.done.append(stmt)
            return
        users = [k for k, s in enumerate(rest) if uses(s, {buffer.__chandle__()})]
        if not users:
            return
        if not any(self._closes(s) for s in rest[users[0] : users[-1] + 1]):
            # One loop over the threads has all its uses: each thread needs it only in its own turn.
            self._inline.setdefault(rest[users[0]].__chandle__(), []).append(stmt)
            self._kept.append(rest[users[0]])
            return
        array = self._array(str(buffer.name), str(buffer.dtype), buffer.shape)
        self._one.arrays[buffer.__chandle__()] = array
        self._kept.append(buffer)

    def _whole(self, view: X.DeclBuffer) -> ir.Var | None:
        """The array over all threads of what a view is of, if it has one."""
        base = next((v for v in variables(view.data) if X.is_buffer_var(v)), None)
        return None if base is None else self._one.arrays.get(base.__chandle__())

    def _without_views(self, stmt: Any) -> Any:
        """A loop or branch whose views of private tiles are declared before it."""

        def moved(s: Any) -> Any:
            if isinstance(s, X.DeclBuffer) and self._whole(s) is not None:
                self._allocate(s, [])
                return None
            return remake(s, moved)

        return moved(stmt) if isinstance(stmt, X.For | X.While | X.IfThenElse) else stmt

    def _closes(self, stmt: Any) -> bool:
        """Whether the open loop over the threads ends at `stmt`."""
        if isinstance(stmt, X.AllocBuffer):
            return False
        if isinstance(stmt, X.DeclBuffer) or self._differences.has_meeting(stmt):
            return True
        return not self._differences.differs(stmt)

    def _array(self, name: str, dtype: str, shape: Iterable[Any] = ()) -> ir.Var:
        """Memory of the block with one entry (of `shape`) per thread."""
        made = X.decl_buffer((self.count, *shape), dtype, name, scope="shared")
        self._allocations.append(X.AllocBuffer(made))
        return made

    def _simple(self, stmt: Any, rest: list[Any]) -> None:
        """A statement without meetings: for each thread if it differs between them, else once."""
        if not self._differences.differs(stmt):
            self._once(stmt)
            return
        if isinstance(stmt, X.Bind):
            handle = stmt.var.__chandle__()
            end = next((k for k, s in enumerate(rest) if self._closes(s)), len(rest))
            if any(uses(s, {handle}) for s in rest[end:]):  # later loops over the threads need it
                array = self._array(str(stmt.var.name), str(stmt.var.ty.dtype))
                self._kept.append(stmt.var)
                self._out.open.append(X.BufferStore(array, stmt.value, [self._number], stmt.span))
                self._one.values[handle] = lambda t, a=array: X.BufferLoad(a, [t])
                return
        self._out.open.append(self._by_first(self._dealt_out(stmt)))

    def _kept_meeting(self, stmt: Any) -> list[Any]:
        """Of a barrier: what is not settled by ending the loop over the threads."""
        return [stmt] if thread_ops.call_name(stmt.value) == thread_ops.SYNC_GRID else []

    def _dealt_out(self, stmt: Any) -> Any:
        return _distributed(stmt, self.count, self._number)

    def _by_first(self, stmt: Any) -> Any:
        """`stmt` with the stores to memory that are the same for all threads done by the first one."""

        def visit(s: Any, divergent: bool) -> Any:
            if isinstance(s, X.BufferStore):
                same = not divergent and not any(self._differences.varying(e) for e in expressions(s))
                handles, scope = self._differences.handles, str(s.buffer.scope())
                own = s.buffer.__chandle__() in handles or scope.startswith("local")
                if same and not own:
                    return X.IfThenElse(X.EQ(self._number, index(0)), s, None, s.span)
                return s
            inner = divergent or any(self._differences.varying(e) for e in expressions(s))
            return remake(s, lambda c: visit(c, inner))

        return visit(stmt, self._mask is not None)

    def _once(self, stmt: Any) -> None:
        """What the block does as one; values that differ between threads are those of the first."""
        self._close()
        self._out.done.append(self._one.at(stmt, index(0)))

    def _close(self) -> None:
        """End the open loop over the threads."""
        if not self._out.open:
            return
        body, self._out.open = seq(self._out.open), []
        if self._mask is not None:
            body = X.IfThenElse(X.BufferLoad(self._mask, [self._number]), body, None, self._span)
        self._out.done.append(self._for_each(body))

    def _for_each(self, body: Any) -> Any:
        """`body` for each thread; it numbers them by `_number`."""
        return self._one.loop(body, self._kind, self._span)

    # Control flow in which threads meet

    def _for(self, stmt: X.For) -> None:
        low, count = self._met(stmt.min), self._met(stmt.extent)
        if not (self._differences.varying(low) or self._differences.varying(count)):
            self._close()
            body = self._collected(lambda: self._sequence(_flat(stmt.body)))
            bounds = self._one.at(low, index(0)), self._one.at(count, index(0))
            kind = X.ForKind.SERIAL
            self._out.done.append(
                X.For(stmt.loop_var, *bounds, kind, seq(body), step=stmt.step, span=stmt.span)
            )
            return
        # Every thread has bounds of its own: the longest loop is run, each takes part in its own turns.
        name, step = str(stmt.loop_var.name), (constant(stmt.step) or 1) if stmt.step is not None else 1
        first, turns = self._array(f"{name}_first", "int32"), self._array(f"{name}_turns", "int32")
        trips = count if step == 1 else (count + (step - 1)) // step
        at = [self._number]
        self._out.open += [X.BufferStore(first, low, at), X.BufferStore(turns, trips, at)]
        self._close()
        longest = self._reduced("most", turns, X.max, 0)
        turn = X.Var(f"{name}_turn", "int32")
        self._one.values[stmt.loop_var.__chandle__()] = lambda t: X.BufferLoad(first, [t]) + turn * step
        self._kept.append(stmt.loop_var)
        active = X.LT(turn, X.BufferLoad(turns, at))
        body = self._under(active, lambda: self._sequence(_flat(stmt.body)))
        self._out.done.append(X.For(turn, index(0), longest, X.ForKind.SERIAL, seq(body), span=stmt.span))

    def _if(self, stmt: X.IfThenElse) -> None:
        condition = self._met(stmt.condition)
        if not self._differences.varying(condition):
            self._close()
            then = self._collected(lambda: self._sequence(_flat(stmt.then_case)))
            orelse = None
            if stmt.else_case is not None:
                orelse = seq(self._collected(lambda: self._sequence(_flat(stmt.else_case))))
            test = self._one.at(condition, index(0))
            self._out.done.append(X.IfThenElse(test, seq(then), orelse, stmt.span))
            return
        taken = self._array("taken", "bool")
        self._out.open.append(X.BufferStore(taken, condition, [self._number], stmt.span))
        self._close()
        load = X.BufferLoad(taken, [self._number])
        self._out.done += self._under(load, lambda: self._sequence(_flat(stmt.then_case)))
        if stmt.else_case is not None:
            self._out.done += self._under(X.Not(load), lambda: self._sequence(_flat(stmt.else_case)))

    def _while(self, stmt: X.While) -> None:
        if not self._differences.varying(stmt.condition):
            self._close()
            body = self._collected(lambda: self._sequence(_flat(stmt.body)))
            self._out.done.append(X.While(self._one.at(stmt.condition, index(0)), seq(body), stmt.span))
            return
        self._close()
        going, any_going = self._array("going", "bool"), self._register("any_going")
        outer, at = self._mask, [self._number]
        start: Any = X.const(True, "bool") if outer is None else X.BufferLoad(outer, at)
        self._out.done.append(self._for_each(X.BufferStore(going, start, at, stmt.span)))

        def turn() -> None:
            condition = self._met(stmt.condition)
            self._out.open.append(X.BufferStore(going, condition, at, stmt.span))
            self._close()
            self._set(any_going, self._any(going))
            inside = self._collected(lambda: self._sequence(_flat(stmt.body)))
            test = X.NE(X.BufferLoad(any_going, [index(0)]), index(0))
            self._out.done.append(X.IfThenElse(test, seq(inside), None, stmt.span))

        self._mask = going
        self._set(any_going, index(1))
        body = self._collected(turn)
        self._mask = outer
        condition = X.NE(X.BufferLoad(any_going, [index(0)]), index(0))
        self._out.done.append(X.While(condition, seq(body), stmt.span))

    def _under(self, active: Any, make: Callable[[], None]) -> list[Any]:
        """What `make` puts out, for the threads for which `active` holds; nothing if there are none."""
        outer, at = self._mask, [self._number]
        mask = self._array("active", "bool")
        if outer is not None:
            active = X.And(X.BufferLoad(outer, at), active)
        set_mask = self._for_each(X.BufferStore(mask, active, at, self._span))
        self._mask = mask

        def guarded() -> None:
            self._out.done.append(set_mask)
            some = self._any(mask)
            inside = self._collected(make)
            self._out.done.append(X.IfThenElse(X.NE(some, index(0)), seq(inside), None, self._span))

        body = self._collected(guarded)
        self._mask = outer
        return body

    # Values of all threads together

    def _met(self, expr: Any) -> Any:
        """`expr` with every collective call, innermost first, done and replaced by its result."""
        if not any(map(thread_ops.is_collective, calls(expr))):
            return expr
        expr = map_operands(expr, self._met)
        return exchange(expr, self) if thread_ops.is_collective(expr) else expr

    def store_all(self, name: str, value: Any) -> ir.Var:
        """An array with `value` of every thread that takes part; complete for the statements after it."""
        array = self._array(name, str(value.ty.dtype))
        self._out.open.append(X.BufferStore(array, value, [self._number], self._span))
        self._close()
        return array

    def result_array(self, name: str, dtype: str, count: int) -> ir.Var:
        """Memory of the block for `count` results."""
        made = X.decl_buffer((count,), dtype, name, scope="shared")
        self._allocations.append(X.AllocBuffer(made))
        return made

    def put(self, stmt: Any) -> None:
        """A statement of the block as a whole."""
        self._close()
        self._out.done.append(stmt)

    @property
    def thread(self) -> Any:
        """The number of the thread, in expressions and statements of each thread."""
        return self._number

    def takes_part(self, thread: Any) -> Any:
        """Whether a thread is active here."""
        return X.const(True, "bool") if self._mask is None else X.BufferLoad(self._mask, [thread])

    def _any(self, flags: ir.Var) -> Any:
        return self._reduced("some", flags, lambda a, b: X.max(a, X.Cast("int32", b)), 0)

    def _reduced(self, name: str, array: ir.Var, combine: Callable[[Any, Any], Any], start: int) -> Any:
        """A scalar made from the entries of all active threads."""
        result, t = self._register(name), X.Var("t", "int32")
        self._set(result, index(start))
        step = X.BufferStore(
            result,
            combine(X.BufferLoad(result, [index(0)]), X.BufferLoad(array, [t])),
            [index(0)],
            self._span,
        )
        body = X.IfThenElse(self.takes_part(t), step, None, self._span) if self._mask is not None else step
        self.put(X.For(t, index(0), index(self.count), X.ForKind.SERIAL, body, span=self._span))
        return X.BufferLoad(result, [index(0)])

    def _register(self, name: str) -> ir.Var:
        made = X.decl_buffer((1,), "int32", name, scope=REGISTERS)
        self._allocations.append(X.AllocBuffer(made))
        return made

    def _set(self, register: ir.Var, value: Any) -> None:
        self.put(X.BufferStore(register, value, [index(0)], self._span))


class _Blocks(_Threads):
    """The blocks of a grid that wait for each other."""

    _kind = X.ForKind.SERIAL
    _Differences = BlockDifferences

    def _kept_meeting(self, stmt: Any) -> list[Any]:
        return []

    def _dealt_out(self, stmt: Any) -> Any:
        return stmt


def _number(extent: Any) -> Any:
    """How many there are along an axis: a number, or an int32; sizes bound at launch may be wider."""
    known = constant(extent)
    if known is not None:
        return known
    return extent if str(extent.ty.dtype) == "int32" else X.Cast("int32", extent)


def _flat(stmt: Any) -> list[Any]:
    return [q for s in stmt.seq for q in _flat(s)] if isinstance(stmt, X.SeqStmt) else [stmt]


def _distributed(stmt: Any, threads: int, thread: Any) -> Any:
    """`stmt` with the iterations of its outermost Parallel loops dealt out to the threads in turn."""
    if loop_kind(stmt) != "Parallel":
        return remake(stmt, lambda s: _distributed(s, threads, thread))
    loops, body = [], stmt
    while loop_kind(body) == "Parallel":
        loops.append(body)
        body = _flat(body.body)[0] if len(_flat(body.body)) == 1 else body.body
    number: Any = index(0)
    for loop in loops:
        number = number * loop.extent + (loop.loop_var - loop.min)
    body = X.IfThenElse(X.EQ(X.floormod(number, index(threads)), thread), body, None, stmt.span)
    for loop in reversed(loops):
        notes = {k: v for k, v in loop.annotations.items() if str(k) != LOOP_KIND}
        body = X.For(
            loop.loop_var, loop.min, loop.extent, X.ForKind.SERIAL, body, annotations=notes, span=loop.span
        )
    return body


def _with_values(stmt: Any, rewrite: Callable[[Any], Any]) -> Any:
    """A simple statement with its expressions rewritten."""
    match stmt:
        case X.BufferStore():
            indices = [rewrite(i) for i in stmt.indices]
            return X.BufferStore(stmt.buffer, rewrite(stmt.value), indices, stmt.span)
        case X.Bind():
            return X.Bind(stmt.var, rewrite(stmt.value), stmt.span)
    return X.Evaluate(rewrite(stmt.value), stmt.span)
