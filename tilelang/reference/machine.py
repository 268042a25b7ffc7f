"""Runs the statements of a tile function, one block after the other.

Lanes: statements outside T.Parallel run once per block; a T.Parallel loop runs all its iterations side by
side, one lane each, statement by statement; explicit thread code runs one lane per thread. Conditions, loops
with other bounds per lane, `break` and `continue` narrow the set of active lanes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.arch.features import PACKED_DTYPES
from tilelang.ir import thread_ops, tile_ops
from tilelang.ir.folds import fold_of
from tilelang.ir.thread_ops import SYNC_GRID
from tilelang.ops.atomic import Atomic
from tilelang.reference import barriers
from tilelang.reference.barriers import Barrier
from tilelang.reference.collectives import WARP, collective
from tilelang.reference.errors import NoMeaning, ReferenceFailure
from tilelang.reference.expressions import Expressions, dtype_of
from tilelang.reference.lanes import Held, agreed, gather, one_of_threads, spread
from tilelang.reference.memory import Storage, Tensor, is_float, numpy_dtype, row_major
from tilelang.reference.operations import FOLDS, MEANINGS, UPDATES
from tilelang.reference.statements import call_names, updates_by_each, uses, waits
from tilelang.reference.turns import Stuck, Turns
from tilelang.reference.whole_block import WholeBlock

ONE = np.ones(1, bool)
# Lanes run in step and copies are done at once: there is nothing to wait for. What is assumed is not checked.
_NO_EFFECT = frozenset(
    {
        tile_ops.SYNC,
        tile_ops.ASYNC_COMMIT,
        tile_ops.ASYNC_WAIT,
        tile_ops.ASSUME,
        "tirx.tvm_storage_sync",
        "tl.sync_warp",
        "tl.fence_barrier_init",
        "tl.fence_proxy_async",
        "tl.tma_store_arrive",
        "tl.tma_store_wait",
        "tl.tma_store_wait_all",
        "tl.setmaxnreg_inc",
        "tl.setmaxnreg_dec",
        tile_ops.PRINT,
        tile_ops.PRINT_ONCE,
        "tl.pdl_sync",
        "tl.pdl_trigger",
    }
)
_STEPS = 50_000_000  # statements, so that a loop that never ends is an error and not a hang


@dataclass
class _Frame:
    """The loop being run: which lanes left it, and which skip the rest of this iteration."""

    broken: np.ndarray
    continued: np.ndarray


@dataclass
class Machine:
    """Memory and variables while a function runs. `tensors` maps buffer variables (by handle) to memory.

    unnamed: the author did not say how many threads a block has; what no code tells apart is then done once.
    """

    tensors: dict[int, Tensor] = field(default_factory=dict)
    unnamed: bool = False
    turns: Turns = field(default_factory=Turns)
    barriers: dict[tuple[int, int], Barrier] = field(default_factory=dict)  # by storage and element
    came: list[int] = field(default_factory=lambda: [0, 1])  # arrivals at the grid's barrier, blocks

    def __post_init__(self) -> None:
        self.expressions = Expressions(self._load, self._value_call)
        self._frames: list[_Frame] = []
        self._by_threads = False
        self._apart: frozenset[int] = frozenset()  # storages in which threads differ, inside T.Parallel
        self._steps = 0
        self._span: Any = None  # of the statement that runs, where an expression has none

    def _beside(self) -> Machine:
        """A machine on the same memory, for a part of the program that runs beside others."""
        made = Machine(dict(self.tensors), self.unnamed, self.turns, self.barriers, self.came)
        made.expressions.values = dict(self.expressions.values)
        made._frames, made._by_threads, made._span = [*self._frames], self._by_threads, self._span
        return made

    def _together(self, works: list[Callable[[], None]]) -> None:
        try:
            self.turns.together(works)
        except Stuck as stuck:
            raise _never_come(stuck.place) from None

    def _wait(self, ready: Callable[[], bool], span: Any) -> None:
        place = span if span is not None else self._span
        try:
            self.turns.wait(ready, place)
        except Stuck as stuck:
            raise _never_come(stuck.place) from None

    # Statements. Each takes the active lanes and returns those that go on behind it.

    def run(self, stmt: Any, active: np.ndarray) -> np.ndarray:
        """Execute `stmt` for the lanes in `active`; returns the lanes that did not jump away."""
        self._steps += 1
        if self._steps > _STEPS:
            raise ReferenceFailure(f"gave up after {_STEPS} statements", stmt.span)
        if not active.any():
            return active
        self._span = stmt.span if stmt.span is not None else self._span
        match stmt:
            case X.SeqStmt():
                return self._sequence(list(stmt.seq), active)
            case X.For():
                return self._loop(stmt, active)
            case X.While():
                return self._while(stmt, active)
            case X.IfThenElse():
                return self._if(stmt, active)
            case X.BufferStore():
                self._store(stmt, active)
            case X.Bind():
                self._set(stmt.var, self.expressions.value(stmt.value, active), active)
            case X.Evaluate():
                self._evaluate(stmt, active)
            case X.AllocBuffer():
                self._alloc(stmt.buffer, active)
            case X.DeclBuffer():
                self._view(stmt)
            case X.AttrStmt():
                return self._attribute(stmt, active)
            case X.Break() | X.Continue():
                return self._jump(isinstance(stmt, X.Break), active)
            case _:
                raise NoMeaning(f"the reference does not know the statement {type(stmt).__name__}")
        return active

    def _sequence(self, stmts: list[Any], active: np.ndarray) -> np.ndarray:
        while stmts:
            branches, count = self._side_by_side(stmts, active)
            if count > 1 or len(branches) > 1:
                active = self._run_beside(branches, active)
            else:
                count, active = 1, self.run(stmts[0], active)
            stmts = stmts[count:]
        return active

    def _side_by_side(self, stmts: list[Any], active: np.ndarray) -> tuple[list[Any], int]:
        """The branches, each with its lanes, of the conditions that `stmts` begin with and whose threads may
        wait for each other; how many conditions these are. No lane is in two of them.
        """
        branches: list[Any] = []
        taken, count = np.zeros_like(active), 0
        for stmt in stmts:
            if not (self._by_threads and isinstance(stmt, X.IfThenElse) and waits(stmt)):
                break
            holds = np.asarray(self.expressions.value(stmt.condition, active), bool) & active
            found = [(stmt.then_case, holds)]
            if stmt.else_case is not None:
                found.append((stmt.else_case, active & ~holds))
            if any((taken & lanes).any() for _, lanes in found):
                break
            branches += [(body, lanes) for body, lanes in found if lanes.any()]
            taken, count = taken | np.logical_or.reduce([lanes for _, lanes in found]), count + 1
        return branches, count

    def _run_beside(self, branches: list[Any], active: np.ndarray) -> np.ndarray:
        behind = active & ~np.logical_or.reduce([np.zeros_like(active), *(lanes for _, lanes in branches)])
        ends: list[np.ndarray] = []

        def work(body: Any, lanes: np.ndarray) -> Any:
            return lambda: ends.append(self._beside().run(body, lanes))

        self._together([work(body, lanes) for body, lanes in branches])
        return np.logical_or.reduce([behind, *ends])

    def _attribute(self, stmt: Any, active: np.ndarray) -> np.ndarray:
        if stmt.attr_key != "thread_extent":
            return self.run(stmt.body, active)
        tag = str(stmt.node.thread_tag)
        if tag.startswith("blockIdx"):
            return self._blocks(stmt, active)
        return self._threads(stmt, active)

    def _blocks(self, stmt: Any, active: np.ndarray) -> np.ndarray:
        axes, body = [], stmt
        while isinstance(body, X.AttrStmt) and str(body.node.thread_tag).startswith("blockIdx"):
            axes.append((body.node.var, self.expressions.integer(body.value, active)))
            body = body.body
        if SYNC_GRID in call_names(body):
            return self._grid(axes, body, active)
        outside = dict(self.tensors), dict(self.expressions.values)
        for place in itertools.product(*(range(n) for _, n in reversed(axes))):
            for (var, _), at in zip(axes, reversed(place), strict=True):
                self.expressions.values[var.__chandle__()] = np.asarray(at, np.int32)
            self.run(body, active)
            self.tensors, self.expressions.values = dict(outside[0]), dict(outside[1])
        return active

    def _grid(self, axes: list[Any], body: Any, active: np.ndarray) -> np.ndarray:
        """Blocks that wait for each other, side by side."""
        works = []
        for place in itertools.product(*(range(n) for _, n in reversed(axes))):
            block = self._beside()
            for (var, _), at in zip(axes, reversed(place), strict=True):
                block.expressions.values[var.__chandle__()] = np.asarray(at, np.int32)
            works.append(lambda block=block: block.run(body, active))
        self.came[:] = [0, len(works)]
        self._together(works)
        return active

    def _meet_grid(self, span: Any) -> None:
        blocks = self.came[1]
        needed = (self.came[0] // blocks + 1) * blocks
        self.came[0] += 1
        self._wait(lambda: self.came[0] >= needed, span)

    def _threads(self, stmt: Any, active: np.ndarray) -> np.ndarray:
        axes, body = [], stmt
        while isinstance(body, X.AttrStmt) and body.attr_key == "thread_extent":
            axes.append((body.node.var, self.expressions.integer(body.value, active)))
            body = body.body
        own = thread_ops.COLLECTIVES & call_names(body)
        if not self.unnamed and updates_by_each(body):
            own = {tile_ops.ATOMIC}
        if not (own or uses(body, [v for v, _ in axes])):
            return self.run(body, active)
        numbers = np.indices([n for _, n in reversed(axes)]).reshape(len(axes), -1)
        for (var, _), at in zip(axes, reversed(list(numbers)), strict=True):
            self.expressions.values[var.__chandle__()] = at.astype(np.int32)
        self._by_threads = True
        try:
            return self.run(body, np.ones(numbers.shape[1], bool))
        finally:
            self._by_threads = False

    # Loops

    def _loop(self, loop: Any, active: np.ndarray) -> np.ndarray:
        if loop.kind == X.ForKind.PARALLEL:
            return self._parallel(loop, active)
        first = np.asarray(self.expressions.value(loop.min, active), np.int64)
        count = np.asarray(self.expressions.value(loop.extent, active), np.int64)
        step = 1 if loop.step is None else int(self.expressions.integer(loop.step, active))
        frame = _Frame(np.zeros_like(active), np.zeros_like(active))
        self._frames.append(frame)
        # `extent` is how far the variable goes; a step visits every step-th value of that range.
        rounds = -(-count // step)
        for k in range(int(np.max(np.broadcast_to(rounds, active.shape)[active], initial=0))):
            frame.continued[:] = False
            inside = active & ~frame.broken & (k < rounds)
            if not inside.any():
                break
            self._set(loop.loop_var, (first + k * step).astype(np.int32), inside)
            self.run(loop.body, inside)
        self._frames.pop()
        return active

    def _while(self, loop: Any, active: np.ndarray) -> np.ndarray:
        frame = _Frame(np.zeros_like(active), np.zeros_like(active))
        self._frames.append(frame)
        inside = active
        while inside.any():
            frame.continued[:] = False
            holds = np.asarray(self.expressions.value(loop.condition, inside), bool)
            inside = inside & holds
            if not inside.any():
                break
            self.run(loop.body, inside)
            inside = inside & ~frame.broken
        self._frames.pop()
        return active

    def _jump(self, is_break: bool, active: np.ndarray) -> np.ndarray:
        if not self._frames:
            raise ReferenceFailure("break or continue outside a loop")
        frame = self._frames[-1]
        gone = frame.broken if is_break else frame.continued
        gone |= active
        return np.zeros_like(active)

    def _parallel(self, loop: Any, active: np.ndarray) -> np.ndarray:
        """All iterations at once. In thread code the loop is the whole block's, not each thread's."""
        outer = self.expressions.values
        frames, self._frames = self._frames, []
        by_threads, self._by_threads = self._by_threads, False
        going_on = active  # behind the loop thread code has all its lanes again
        apart = self._apart
        of_threads: Held = {}
        if by_threads:
            of_threads, self._apart = one_of_threads(self.tensors, active)
            self.expressions.values = agreed(self.expressions.values, active)
            active = ONE
        extent = (
            self.expressions.integer(loop.extent, active)
            if active.size == 1
            else int(np.max(np.asarray(self.expressions.value(loop.extent, active))))
        )
        count = active.size
        first = np.asarray(self.expressions.value(loop.min, active))
        limit = np.asarray(self.expressions.value(loop.extent, active))
        self.expressions.values = {
            k: v if v.ndim == 0 else np.repeat(np.broadcast_to(v, (count,)), extent)
            for k, v in self.expressions.values.items()
        }
        private = spread(self.tensors, count, extent)
        number = np.tile(np.arange(extent), count)
        first, limit = (np.repeat(np.broadcast_to(x, (count,)), extent) for x in (first, limit))
        inside = np.repeat(active, extent) & (number < limit)
        self.expressions.values[loop.loop_var.__chandle__()] = (first + number).astype(np.int32)
        if extent:
            self.run(loop.body, inside)
        gather(self.tensors, private, count, extent, inside)
        for handle, old in of_threads.items():
            storage = self.tensors[handle].storage
            storage.data = np.where(going_on[:, None], storage.data, old)
        self._apart = apart
        self.expressions.values = outer
        self._frames, self._by_threads = frames, by_threads
        return going_on

    # Effects

    def _if(self, stmt: Any, active: np.ndarray) -> np.ndarray:
        holds = np.broadcast_to(
            np.asarray(self.expressions.value(stmt.condition, active), bool), active.shape
        )
        behind = self.run(stmt.then_case, active & holds)
        other = active & ~holds
        if stmt.else_case is not None:
            other = self.run(stmt.else_case, other)
        return behind | other

    def _store(self, stmt: Any, active: np.ndarray) -> None:
        tensor = self._tensor(stmt.buffer)
        self._refuse_of_threads(tensor, stmt.span)
        # Threads that update one element outside of T.Parallel do the same, each to the copy that it holds.
        several = active.size > 1 and not (tensor.private or self._by_threads)
        fold = fold_of(stmt) if several else None
        if fold is not None:
            self._fold(tensor, stmt, *fold, active)
            return
        indices = [self.expressions.value(i, active) for i in stmt.indices]
        # What would be stored outside of a tensor is not even read.
        active = active & tensor.address(indices, active, stmt.span)[1]
        tensor.store(indices, self.expressions.value(stmt.value, active), active, stmt.span)

    def _fold(self, tensor: Tensor, stmt: Any, kind: str, operand: Any, active: np.ndarray) -> None:
        """Iterations that update one element are all counted: of a reducer, or of a fragment in whose layout
        one thread does them all.
        """
        values = np.broadcast_to(self.expressions.value(operand, active), active.shape)
        indices = [
            np.broadcast_to(self.expressions.value(i, active), active.shape)[active] for i in stmt.indices
        ]
        places, which = _distinct(np.stack(indices))
        inside = np.ones(places.shape[1], bool)
        found = np.array(tensor.load(list(places), inside, stmt.span))
        with np.errstate(all="ignore"):
            FOLDS[kind].at(found, which, values[active].astype(found.dtype))
        tensor.store(list(places), found, inside, stmt.span)

    def _set(self, var: Any, value: Any, active: np.ndarray) -> None:
        """Give a variable a value where `active`; other lanes keep theirs."""
        handle, new = var.__chandle__(), np.asarray(value)
        old = self.expressions.values.get(handle)
        if old is None or active.all():
            self.expressions.values[handle] = new
        else:
            self.expressions.values[handle] = np.where(active, new, old)

    def _evaluate(self, stmt: Any, active: np.ndarray) -> None:
        call = stmt.value
        if not isinstance(call, ir.Call):
            return  # an expression for its own sake: the empty statement
        name = str(call.op.name) if isinstance(call.op, ir.Op) else str(call.op)
        if name in _NO_EFFECT:
            return
        if name == SYNC_GRID:
            self._meet_grid(call.span)
            return
        if name in barriers.OPERATIONS:
            self._barrier(name, call, active)
            return
        if name in (thread_ops.NAMED_SYNC, thread_ops.NAMED_ARRIVE):
            self._named(name, call, active)
            return
        meaning = MEANINGS.get(name)
        if meaning is None:
            self.expressions.value(call, active)
            return
        try:
            for block in self._who_does(call, active):
                meaning(block, call)
        except ReferenceFailure as failure:
            raise (failure if failure.line else ReferenceFailure(str(failure), call.span)) from None

    def _who_does(self, call: Any, active: np.ndarray) -> Iterator[WholeBlock]:
        """The block, or one thread after the other, if there are arrays of theirs among the operands."""
        private = {
            r.source.__chandle__(): self._tensor(r.source)
            for r in call.args
            if isinstance(r, ir.TensorRegion) and self._tensor(r.source).private
        }
        if not any(t.storage.data.shape[0] > 1 for t in private.values()):
            yield WholeBlock(self.tensors, self.expressions, active, call.span)
            return
        for lane in map(int, np.flatnonzero(active)):
            own = {handle: tensor.of(lane) for handle, tensor in private.items()}
            alone = np.arange(active.size) == lane
            yield WholeBlock({**self.tensors, **own}, self.expressions, alone, call.span)

    def _barrier(self, name: str, call: Any, active: np.ndarray) -> None:
        place = call.args[0].args[0]
        tensor = self._tensor(place.source)
        indices = [np.broadcast_to(self.expressions.value(i, active), active.shape) for i in place.indices]
        offset, _ = tensor.address(indices, active, call.span)
        numbers = [np.broadcast_to(self.expressions.value(a, active), active.shape) for a in call.args[1:]]
        at, given = offset[active], [n[active].astype(np.int64) for n in numbers]
        awaited = []
        for lane, element in enumerate(np.broadcast_to(at, (int(active.sum()),))):
            key = id(tensor.storage), int(element)
            if name == "tl.mbarrier_init":
                self.barriers[key] = Barrier(int(given[0][lane]), int(given[0][lane]))
                continue
            barrier = self.barriers.get(key)
            if barrier is None:
                raise ReferenceFailure(f"{tensor.name}[{element}] is not a barrier yet", call.span)
            if name == "tl.mbarrier_wait":
                awaited.append((barrier, int(given[0][lane])))
                continue
            if name.endswith("expect_tx"):
                barrier.bytes += int(given[0][lane])
            if "arrive" in name:
                barrier.arrive()
        if awaited:
            self._wait(lambda: all(b.passed(parity) for b, parity in awaited), call.span)

    def _named(self, name: str, call: Any, active: np.ndarray) -> None:
        """Threads that run in step are all there, if they are as many as the barrier is for."""
        wanted = self.expressions.integer(call.args[1], active)
        if name != thread_ops.NAMED_SYNC or int(active.sum()) != wanted:
            raise NoMeaning(
                f"{int(active.sum())} threads come together to a named barrier of {wanted}: the reference "
                "does not let threads of several branches meet there"
            )

    def _value_call(self, call: Any, active: np.ndarray) -> Any:
        name = str(call.op.name)
        if name == tile_ops.ATOMIC:
            return self._atomic(Atomic.read(call), active)
        if name == tile_ops.CHECK:
            return self._check(call, active)
        if name == thread_ops.WARP_SIZE:
            return np.asarray(WARP, np.int32)
        if name in thread_ops.COLLECTIVES:
            return self._collective(name, call, active)
        raise NoMeaning(f"the reference does not know {name}")

    def _collective(self, name: str, call: Any, active: np.ndarray) -> np.ndarray:
        if not self._by_threads:
            raise NoMeaning(f"T.{name.removeprefix('tl.')} is for code of single threads, not T.Parallel")
        args = [np.broadcast_to(self.expressions.value(a, active), active.shape) for a in call.args]
        dtype = dtype_of(call)
        try:
            return collective(
                name, args, active, np.dtype(np.float64) if is_float(dtype) else numpy_dtype(dtype)
            )
        except ReferenceFailure as failure:
            raise ReferenceFailure(str(failure), call.span or self._span) from None

    def _check(self, call: Any, active: np.ndarray) -> Any:
        """T.device_assert: the kernel stops where the condition does not hold."""
        holds = np.broadcast_to(np.asarray(self.expressions.value(call.args[0], active), bool), active.shape)
        if not holds[active].all():
            text = getattr(call.args[1], "value", "") if len(call.args) > 1 else ""
            raise ReferenceFailure(f"T.device_assert does not hold{f': {text}' if text else ''}", call.span)
        return np.asarray(0, np.int32)

    def _atomic(self, op: Atomic, active: np.ndarray) -> Any:
        """Lane after lane, as if in some order; returns what each found."""
        tensor = self._tensor(op.dst.source)
        indices = [np.broadcast_to(self.expressions.value(i, active), active.shape) for i in op.dst.indices]
        exists = active & tensor.address(indices, active, op.span)[1]
        values = [np.broadcast_to(self.expressions.value(v, exists), active.shape) for v in op.values] or [
            np.zeros(active.shape)
        ]
        found = np.zeros(active.shape, np.float64 if tensor.dtype.startswith(("f", "b")) else np.int64)
        for lane in np.flatnonzero(active):
            for k, value in enumerate(values):
                at = [int(i[lane]) for i in indices]
                at[-1] += k
                old = tensor.load(at, np.asarray(True), op.span)
                if k == 0:
                    found[lane] = old
                if op.kind != "load":
                    tensor.store(at, UPDATES[op.kind](old, value[lane]), np.asarray(True), op.span)
        return found

    # Memory

    def _alloc(self, buffer: Any, active: np.ndarray) -> None:
        shape = self._shape(buffer.shape, active)
        name, scope, dtype = str(buffer.name), str(buffer.scope()), str(buffer.dtype)
        storage = Storage.fresh(name, dtype, int(np.prod(shape, dtype=np.int64)))
        private = scope in ("local", "local.var")
        if private and active.size > 1:
            storage.data = np.repeat(storage.data, active.size, axis=0)
        self.tensors[buffer.__chandle__()] = Tensor(name, scope, dtype, shape, row_major(shape), storage)

    def _view(self, stmt: Any) -> None:
        buffer = stmt.buffer
        base = self._base(stmt.data)
        if str(buffer.dtype) != base.dtype and {str(buffer.dtype), base.dtype} & PACKED_DTYPES:
            raise NoMeaning(f"the reference cannot view {base.dtype} elements as {buffer.dtype}")
        shape = self._shape(buffer.shape, ONE)
        strides = self._shape(buffer.strides, ONE) if len(buffer.strides) else row_major(shape)
        self.tensors[buffer.__chandle__()] = Tensor(
            str(buffer.name), base.scope, str(buffer.dtype), shape, strides, base.storage, base.safe_value
        )

    def _base(self, data: Any) -> Tensor:
        found: list[Any] = []
        tvm_ffi.structural_walk(data, (ir.Var, found.append))
        for var in found:
            tensor = self.tensors.get(var.__chandle__())
            if tensor is not None:
                return tensor
        raise NoMeaning(f"the reference cannot tell what memory {data} is")

    def _shape(self, extents: Any, active: np.ndarray) -> tuple[int, ...]:
        return tuple(self.expressions.integer(e, active) for e in extents)

    def _tensor(self, buffer: Any) -> Tensor:
        return self.tensors[buffer.__chandle__()]

    def _refuse_of_threads(self, tensor: Tensor, span: Any) -> None:
        """Iterations of T.Parallel belong to no thread that an author could name."""
        if tensor.private and id(tensor.storage) in self._apart:
            raise ReferenceFailure(f"{tensor.name} differs between threads inside T.Parallel", span)

    def _load(self, expr: Any, active: np.ndarray) -> np.ndarray:
        self._refuse_of_threads(self._tensor(expr.source), expr.span or self._span)
        indices = [self.expressions.value(i, active) for i in expr.indices]
        return self._tensor(expr.source).load(indices, active, expr.span or self._span)


def _distinct(indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different columns, and which of them each column is; by one number a column, which sorts fast."""
    low = indices.min(axis=1, initial=0)
    key = np.zeros(indices.shape[1], np.int64)
    for one, least in zip(indices, low, strict=True):
        key = key * (int(one.max(initial=0)) - int(least) + 1) + (one - least)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    return indices[:, first], which.reshape(-1)


def _never_come(span: Any) -> ReferenceFailure:
    return ReferenceFailure(
        "threads wait here for others that never come: a deadlock, or threads that the reference does not "
        "run side by side (it does so in the branches of neighbouring conditions on the thread)",
        span,
    )
