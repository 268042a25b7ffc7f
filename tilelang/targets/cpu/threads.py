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
from dataclasses import dataclass, field, replace
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir import thread_ops, tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ir.tile_ops import seq
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
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
from tilelang.targets.cpu.nests import REGISTERS, index

_PRIVATE = ("local", "local.var", REGISTERS)
_FOLDS: dict[str, type[Reduce] | type[Scan]] = {tile_ops.REDUCE: Reduce, tile_ops.SCAN: Scan}


def thread_loops(func: X.PrimFunc, unnamed: bool = False) -> X.PrimFunc:
    """Apply the pass.

    unnamed: the author did not say how many threads a block has; atomics outside of Parallel loops are then
    done once, if nothing else in the kernel tells threads apart.
    """
    axes = [s for s in walk(func.body) if _is_axis(s)]
    varies = {s.node.var.__chandle__() for s in axes}
    own = uses_any(func.body, varies) or any(map(_meets_by_itself, calls(func.body)))
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
    return any(uses(e, handles) for s in walk(body) for e in _expressions(s))


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


def _meets_by_itself(call: ir.Call) -> bool:
    return thread_ops.is_collective(call)


def _expressions(stmt: Any) -> list[Any]:
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


@dataclass
class _Out:
    """Statements being made: finished ones, and those of the loop over threads that is still open."""

    done: list[Any] = field(default_factory=list)
    open: list[Any] = field(default_factory=list)


class _Threads:
    """The threads of one block. `axes`: the `thread_extent` attributes, x first."""

    _kind = X.ForKind.PARALLEL  # of the loops over them: between two meetings they may run in any order

    def __init__(self, axes: list[Any]) -> None:
        self._axes = sorted(axes, key=lambda s: str(s.node.thread_tag))
        self._extents = [_number(s.value) for s in self._axes]
        self.count: Any = math.prod(self._extents)
        self._varies = {s.node.var.__chandle__() for s in self._axes}
        self._arrays: dict[int, ir.Var] = {}  # private buffer or scalar -> its array over the threads
        self._values: dict[
            int, Callable[[Any], Any]
        ] = {}  # variable -> its value in the thread of that number
        self._allocations: list[Any] = []
        self._kept: list[Any] = []  # made variables, so that handles stay theirs
        self._mask: ir.Var | None = None
        self._out = _Out()
        self._span: Any = None
        self._number = X.Var("thread", "int32")  # stands for the number of the thread in an open loop
        self._varies.add(self._number.__chandle__())
        self._inline: dict[
            int, Any
        ] = {}  # statement -> the allocation that its loop over threads begins with

    def launch(self, stmt: Any) -> Any:
        """The body without its axes."""
        if self._is_own(stmt):
            inner = stmt.body
            while self._is_own(inner):
                inner = inner.body
            self._find_varying(inner)
            body = self._collected(lambda: self._sequence(_flat(inner)))
            return seq([*self._allocations, *body])
        return remake(stmt, self.launch)

    # Which values differ between threads

    def _is_own(self, stmt: Any) -> bool:
        return any(stmt is s or stmt.same_as(s) for s in self._axes)

    def _is_private(self, buffer: ir.Var) -> bool:
        """Whether every thread has a buffer of its own behind this one."""
        return str(buffer.scope()) in _PRIVATE

    def _find_varying(self, body: Any) -> None:
        self._varies |= _accumulated_in_parallel(body)
        self._settle(body)

    def _settle(self, body: Any) -> None:
        before = -1
        while before != len(self._varies):
            before = len(self._varies)
            self._spread(body, False)

    def _spread(self, stmt: Any, divergent: bool) -> None:
        if isinstance(stmt, X.DeclBuffer):
            names = {stmt.buffer.__chandle__(), *(v.__chandle__() for v in variables(stmt.data))}
            if names & self._varies:
                self._varies |= names
        if not self._has_meeting(stmt):
            if divergent or self._differs(stmt):
                self._varies |= self._defined(stmt)
            return
        if loop_kind(stmt) == "Parallel":
            return  # done by the block as one, whoever gets there
        if isinstance(stmt, X.For | X.IfThenElse | X.While):
            inner = divergent or any(self._varying(e) for e in _expressions(stmt))
            if isinstance(stmt, X.For) and inner:
                self._varies.add(stmt.loop_var.__chandle__())
            for child in children(stmt):
                self._spread(child, inner)
        elif isinstance(stmt, X.SeqStmt | X.AttrStmt):
            for child in children(stmt):
                self._spread(child, divergent)
        elif any(self._varying(e) for e in _expressions(stmt)) or divergent:
            self._varies |= self._defined(stmt)

    def _defined(self, stmt: Any) -> set[int]:
        """Scalars and private buffers that `stmt` gives values."""
        found: set[int] = set()
        for s in walk(stmt):
            if isinstance(s, X.Bind):
                found.add(s.var.__chandle__())
            elif isinstance(s, X.BufferStore) and self._is_private(s.buffer):
                found.add(s.buffer.__chandle__())
            elif isinstance(s, X.Evaluate) and _is_tile_operation(s.value):
                regions = [a for a in s.value.args if isinstance(a, ir.TensorRegion)]
                found |= {a.source.__chandle__() for a in regions if self._is_private(a.source)}
        return found

    def _varying(self, expr: Any) -> bool:
        """Whether an expression may differ between threads."""
        return uses(expr, self._varies) or any(map(thread_ops.is_collective, calls(expr)))

    def _differs(self, stmt: Any) -> bool:
        """Whether `stmt` is not one thing that the block does once."""
        return uses(stmt, self._varies) or any(_is_effect_of_each(s) for s in walk(stmt))

    def _has_meeting(self, stmt: Any) -> bool:
        return any(self._is_meeting(s) for s in walk(stmt))

    def _is_meeting(self, stmt: Any) -> bool:
        """Whether threads meet in `stmt` itself."""
        if isinstance(stmt, X.Evaluate) and _is_barrier(stmt.value):
            return True
        if isinstance(stmt, X.Evaluate) and _is_tile_operation(stmt.value):
            return not uses(stmt, self._varies)
        if loop_kind(stmt) == "Parallel":
            return not uses(stmt, self._varies)
        return any(thread_ops.is_collective(c) for e in _expressions(stmt) for c in calls(e))

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
        elif self._is_meeting(stmt) and isinstance(stmt, X.Evaluate) and _is_barrier(stmt.value):
            self._close()
            self._out.done += self._kept_meeting(stmt)
        elif not self._has_meeting(stmt):
            self._simple(stmt, rest)
        elif isinstance(stmt, X.For) and loop_kind(stmt) != "Parallel":
            self._for(stmt)
        elif isinstance(stmt, X.While):
            self._while(stmt)
        elif isinstance(stmt, X.IfThenElse):
            self._if(stmt)
        elif isinstance(stmt, X.BufferStore | X.Bind | X.Evaluate) and not (
            isinstance(stmt, X.Evaluate) and _is_tile_operation(stmt.value)
        ):
            self._simple(_with_values(stmt, self._met), rest)
        else:
            self._once(stmt)

    def _allocate(self, stmt: Any, rest: list[Any]) -> None:
        buffer = stmt.buffer
        if buffer.__chandle__() not in self._varies or not self._is_private(buffer):
            self._out.done.append(self._at(stmt, index(0)) if isinstance(stmt, X.DeclBuffer) else stmt)
            return
        if isinstance(stmt, X.DeclBuffer):
            base = next(v for v in variables(stmt.data) if X.is_buffer_var(v))
            whole = self._arrays.get(base.__chandle__())
            if whole is None:
                self._out.done.append(stmt)
                return
            made = X.decl_buffer(
                (self.count, *buffer.shape),
                str(buffer.dtype),
                str(buffer.name),
                data=whole.data,
                scope="shared",
            )
            self._arrays[buffer.__chandle__()] = made
            self._kept += [buffer, made]
            self._out.done.append(X.DeclBuffer(made, data=whole.data, span=stmt.span))
            return
        users = [k for k, s in enumerate(rest) if uses(s, {buffer.__chandle__()})]
        if not users:
            return
        if not any(self._closes(s) for s in rest[users[0] : users[-1] + 1]):
            # One loop over the threads has all its uses: each thread needs it only in its own turn.
            self._inline.setdefault(rest[users[0]].__chandle__(), []).append(stmt)
            self._kept.append(rest[users[0]])
            return
        self._arrays[buffer.__chandle__()] = self._array(str(buffer.name), str(buffer.dtype), buffer.shape)
        self._kept.append(buffer)

    def _closes(self, stmt: Any) -> bool:
        """Whether the open loop over the threads ends at `stmt`."""
        if isinstance(stmt, X.AllocBuffer):
            return False
        return isinstance(stmt, X.DeclBuffer) or self._has_meeting(stmt) or not self._differs(stmt)

    def _array(self, name: str, dtype: str, shape: Iterable[Any] = ()) -> ir.Var:
        """Memory of the block with one entry (of `shape`) per thread."""
        made = X.decl_buffer((self.count, *shape), dtype, name, scope="shared")
        self._allocations.append(X.AllocBuffer(made))
        return made

    def _simple(self, stmt: Any, rest: list[Any]) -> None:
        """A statement without meetings: for each thread if it differs between them, else once."""
        if not self._differs(stmt):
            self._once(stmt)
            return
        if isinstance(stmt, X.Bind):
            handle = stmt.var.__chandle__()
            end = next((k for k, s in enumerate(rest) if self._closes(s)), len(rest))
            if any(uses(s, {handle}) for s in rest[end:]):  # later loops over the threads need it
                array = self._array(str(stmt.var.name), str(stmt.var.ty.dtype))
                self._kept.append(stmt.var)
                self._out.open.append(X.BufferStore(array, stmt.value, [self._number], stmt.span))
                self._values[handle] = lambda t, a=array: X.BufferLoad(a, [t])
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
                same = not divergent and not any(self._varying(e) for e in _expressions(s))
                own = s.buffer.__chandle__() in self._varies or str(s.buffer.scope()).startswith("local")
                if same and not own:
                    return X.IfThenElse(X.EQ(self._number, index(0)), s, None, s.span)
                return s
            inner = divergent or any(self._varying(e) for e in _expressions(s))
            return remake(s, lambda c: visit(c, inner))

        return visit(stmt, self._mask is not None)

    def _once(self, stmt: Any) -> None:
        """What the block does as one; values that differ between threads are those of the first."""
        self._close()
        self._out.done.append(self._at(stmt, index(0)))

    def _close(self) -> None:
        """End the open loop over the threads."""
        if not self._out.open:
            return
        body, self._out.open = seq(self._out.open), []
        if self._mask is not None:
            body = X.IfThenElse(X.BufferLoad(self._mask, [self._number]), body, None, self._span)
        self._out.done.append(self._loop(body))

    def _loop(self, body: Any) -> Any:
        """`body` for each thread; it numbers them by `_number`."""
        own = [X.Var(str(s.node.var.name), "int32") for s in self._axes]
        number: Any = index(0)
        for var, extent in reversed(list(zip(own, self._extents, strict=True))):
            number = var if number is not None and constant(number) == 0 else number * extent + var
        table = {s.node.var.__chandle__(): _like(s, v) for s, v in zip(self._axes, own, strict=True)}
        body = self._at(body, number, table)
        for var, extent in zip(own, self._extents, strict=True):
            body = X.For(var, index(0), index(extent), self._kind, body, span=self._span)
        return body

    # Control flow in which threads meet

    def _for(self, stmt: X.For) -> None:
        low, count = self._value(stmt.min), self._value(stmt.extent)
        if not (self._varying(low) or self._varying(count)):
            self._close()
            body = self._collected(lambda: self._sequence(_flat(stmt.body)))
            bounds = self._at(low, index(0)), self._at(count, index(0))
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
        self._values[stmt.loop_var.__chandle__()] = lambda t: X.BufferLoad(first, [t]) + turn * step
        self._kept.append(stmt.loop_var)
        active = X.LT(turn, X.BufferLoad(turns, at))
        body = self._under(active, lambda: self._sequence(_flat(stmt.body)))
        self._out.done.append(X.For(turn, index(0), longest, X.ForKind.SERIAL, seq(body), span=stmt.span))

    def _if(self, stmt: X.IfThenElse) -> None:
        condition = self._value(stmt.condition)
        if not self._varying(condition):
            self._close()
            then = self._collected(lambda: self._sequence(_flat(stmt.then_case)))
            orelse = None
            if stmt.else_case is not None:
                orelse = seq(self._collected(lambda: self._sequence(_flat(stmt.else_case))))
            test = self._at(condition, index(0))
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
        if not self._varying(stmt.condition):
            self._close()
            body = self._collected(lambda: self._sequence(_flat(stmt.body)))
            self._out.done.append(X.While(self._at(stmt.condition, index(0)), seq(body), stmt.span))
            return
        self._close()
        going, any_going = self._array("going", "bool"), self._register("any_going")
        outer, at = self._mask, [self._number]
        start: Any = X.const(True, "bool") if outer is None else X.BufferLoad(outer, at)
        self._out.done.append(self._loop(X.BufferStore(going, start, at, stmt.span)))

        def turn() -> None:
            condition = self._value(stmt.condition)
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
        set_mask = self._loop(X.BufferStore(mask, active, at, self._span))
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

    def _value(self, expr: Any) -> Any:
        """`expr` after the exchanges in it."""
        return self._met(expr)

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

    # Rewriting for one thread

    def _at(self, node: Any, number: Any, axes: dict[int, Any] | None = None) -> Any:
        """`node` in the thread `number`; `axes` gives its numbers along the axes, else we work them out."""
        if axes is None:
            axes, left = {}, number
            for s, extent in zip(self._axes, self._extents, strict=True):
                axes[s.node.var.__chandle__()] = _like(s, left % extent)
                left = left // extent
        own = self._number

        def variable(v: ir.Var) -> Any:
            handle = v.__chandle__()
            if v.same_as(own):
                return number
            if handle in axes:
                return axes[handle]
            value = self._values.get(handle)
            return v if value is None else self._at(value(number), number, axes)

        def load(e: ir.TensorLoad) -> Any:
            array = self._arrays.get(e.source.__chandle__())
            return e if array is None else X.BufferLoad(array, [number, *e.indices], e.span)

        def region(e: ir.TensorRegion) -> Any:
            array = self._arrays.get(e.source.__chandle__())
            if array is None:
                return e
            return X.BufferRegion(array, [ir.Range.from_min_extent(number, index(1)), *e.region])

        def store(s: X.BufferStore) -> Any:
            array = self._arrays.get(s.buffer.__chandle__())
            return s if array is None else X.BufferStore(array, s.value, [number, *s.indices], s.span)

        arrays = {array.__chandle__() for array in self._arrays.values()}

        def evaluate(s: X.Evaluate) -> Any:
            fold = next((op for name, op in _FOLDS.items() if tile_ops.is_call(s.value, name)), None)
            return s if fold is None else self._aligned(fold.read(s.value), arrays)

        return tvm_ffi.structural_map(
            node,
            [
                (X.Evaluate, evaluate),
                (ir.TensorLoad, load),
                (ir.TensorRegion, region),
                (X.BufferStore, store),
                (ir.Var, variable),
            ],
        )

    def _aligned(self, fold: Reduce | Scan, arrays: set[int]) -> Any:
        """A reduction or scan that numbers its dimension with the one that arrays have in front, if any has:
        operands that have none are taken as arrays of one.
        """
        regions = {"src": fold.src, "dst": fold.dst}
        alone = {k: r for k, r in regions.items() if r.source.__chandle__() not in arrays}
        if len(alone) == len(regions):
            return fold.call()
        before: dict[int, X.DeclBuffer] = {}
        for name, region in alone.items():
            buffer, handle = region.source, region.source.__chandle__()
            if handle not in before:
                shape, dtype, scope = (1, *buffer.shape), str(buffer.dtype), buffer.scope()
                view = X.decl_buffer(shape, dtype, str(buffer.name), data=buffer.data, scope=scope)
                before[handle] = X.DeclBuffer(view, data=buffer.data, span=fold.span)
                self._kept.append(view)
            first = ir.Range.from_min_extent(index(0), index(1))
            regions[name] = X.BufferRegion(before[handle].buffer, [first, *region.region])
        return seq([*before.values(), replace(fold, dim=fold.dim + 1, **regions).call()])


class _Blocks(_Threads):
    """The blocks of a grid that wait for each other: what a block allocates is private to it."""

    _kind = X.ForKind.SERIAL

    def _is_private(self, buffer: ir.Var) -> bool:
        return str(buffer.scope()) != "global"

    def _find_varying(self, body: Any) -> None:
        self._settle(body)

    def _differs(self, stmt: Any) -> bool:
        return True

    def _is_meeting(self, stmt: Any) -> bool:
        return isinstance(stmt, X.Evaluate) and thread_ops.call_name(stmt.value) == thread_ops.SYNC_GRID

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


def _like(axis: Any, number: Any) -> Any:
    """A number along an axis in the dtype of the axis's variable."""
    dtype = str(axis.node.var.ty.dtype)
    return number if dtype == "int32" or isinstance(number, int) else X.Cast(dtype, number)


def _flat(stmt: Any) -> list[Any]:
    return [q for s in stmt.seq for q in _flat(s)] if isinstance(stmt, X.SeqStmt) else [stmt]


def _is_barrier(call: Any) -> bool:
    return thread_ops.call_name(call) in (
        tile_ops.SYNC,
        thread_ops.SYNC_WARP,
        thread_ops.SYNC_GRID,
        tile_ops.ASYNC_COMMIT,
        tile_ops.ASYNC_WAIT,
    )


def _is_tile_operation(call: Any) -> bool:
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
    return not _is_barrier(stmt.value) and not _is_tile_operation(stmt.value)


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
