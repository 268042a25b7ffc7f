"""Tile function -> thread-level function: every tile operation and Parallel loop becomes what one thread
does.

In:  a function whose elementwise work is Parallel loops with guarded accesses, and its LayoutMap.
Out: statements for one thread. Fragments are register arrays; shared and global buffers keep their shapes
     (see `flatten`). A store to memory outside Parallel loops that is the same for all threads is done by the
     first.
Not: barriers (see `insert_sync`); what an operation becomes is said by its file in `ops/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tvm import ir, sym
from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.order import DIVERGENT_TILE_OP
from tilelang.diagnostics.span import Span
from tilelang.ir import tile_ops
from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.ir.spans import place_of
from tilelang.ir.teams import WARP, Branches, Team, branches, thread_numbers
from tilelang.ir.tile_ops import seq
from tilelang.ops.build import written_as
from tilelang.ops.tma import TmaCopy
from tilelang.passes.accesses import all_accesses
from tilelang.passes.fragment_owners import thread_axes
from tilelang.passes.infer_layouts import LayoutMap
from tilelang.passes.parallel_loop import ASYNC, ParallelLoop, in_memory, parallel_loop
from tilelang.passes.taken_alike import taken_alike
from tilelang.passes.walk import (
    FRAGMENT,
    assume,
    calls,
    constant,
    index,
    loop_kind,
    map_operands,
    remake,
    uses,
    variables,
    walk,
)
from tilelang.runtime.plan import TensorMap
from tilelang.targets.simt.block import Block
from tilelang.targets.simt.ops.parallel import by_turns, lower_parallel
from tilelang.targets.simt.ops.vectorized import ELSE_UNROLLED, lower_vectorized

# The Evaluate statement of a `tl.*` call -> statement, None to leave it out.
LowerOp = Callable[[Any, Block], Any]


@dataclass(frozen=True)
class TargetOps:
    """How a target lowers tile operations: `tl.*` name -> function. `async_copy` may decline a loop by
    None. `frugal`: with as little shared memory as possible.
    """

    calls: Mapping[str, LowerOp]
    async_copy: Callable[[ParallelLoop, Block], Any | None] | None = None
    frugal: bool = False
    # Operations that one thread issues for all: called with whether only one comes there anyway.
    issued: Mapping[str, Callable[[Any, Block, bool], Any]] = field(default_factory=dict)
    # Calls within expressions that something else stands for.
    values: Mapping[str, Callable[[ir.Call, Block], Any]] = field(default_factory=dict)
    teams: bool = False  # whether teams share tile operations: needs barriers of a part of the block


@dataclass(frozen=True)
class ThreadFunction:
    """The thread-level function, what the operations chose, by Python line, and the handles of the loops and
    conditions that all threads of a block (or of the team whose code they stand in) take together; the teams
    that take the branches of conditions."""

    func: X.PrimFunc
    instructions: Mapping[Span, str]
    block_level: frozenset[int]
    teams: Mapping[int, Branches] = field(default_factory=dict)
    maps: Mapping[TensorMap, ir.Var] = field(default_factory=dict)  # descriptors and their parameters
    by_some: Mapping[int, str] = field(default_factory=dict)  # what threads that are no team share out


def lower_tile_ops(
    func: X.PrimFunc, layouts: LayoutMap, threads: int, target: Target, ops: TargetOps
) -> ThreadFunction:
    """Apply the pass for blocks of `threads`."""
    lowering = _Lowering(func, layouts, threads, target, ops)
    body = lowering.statement(func.body)
    return ThreadFunction(
        func.with_body(body),
        lowering.block.instructions,
        frozenset(lowering.block_level),
        lowering.teams,
        lowering.block.maps,
        lowering.by_some,
    )


class _Lowering:
    def __init__(
        self, func: X.PrimFunc, layouts: LayoutMap, threads: int, target: Target, ops: TargetOps
    ) -> None:
        analyzer = sym.Analyzer()
        thread = _linear_thread(func.body)
        self.block = Block(target, threads, thread, layouts, analyzer, frugal=ops.frugal)
        self._ops = ops
        self._private = _thread_dependent(func.body)
        self._func_body = func.body
        self._taken_alike: dict[Team, frozenset[int]] = {}
        self.block_level: set[int] = set()
        self.by_some: dict[int, str] = {}
        self._kept: list[Any] = []  # the statements themselves, so that their handles stay theirs
        self._assumed: list[Any] = []  # what T.assume says, the innermost body's last
        self._divergent: tuple[Any, ...] = ()  # branches and loops around that threads take differently
        self._axes = thread_numbers(thread_axes(func.body))
        self.teams: dict[int, Branches] = {}
        self._total = threads
        # Which threads get here; None where that is not known.
        self._active: np.ndarray | None = np.ones(threads, bool)

    def statement(self, stmt: Any) -> Any:
        lent = self.block.layouts.lent.get(stmt.__chandle__())
        return self._lower(stmt) if lent is None else self._by_team(stmt, lent)

    def _lower(self, stmt: Any) -> Any:
        if isinstance(stmt, X.AttrStmt):
            return self._attribute(stmt)
        if isinstance(stmt, X.AllocBuffer):
            return self._allocation(stmt)
        if isinstance(stmt, X.DeclBuffer) and stmt.buffer.scope() == FRAGMENT:
            return self._view(stmt)
        if isinstance(stmt, X.For):
            return self._loop(stmt)
        if isinstance(stmt, X.Evaluate):
            return self._evaluate(stmt)
        if isinstance(stmt, X.BufferStore):
            return self._store(stmt)
        if isinstance(stmt, X.Bind):
            return X.Bind(stmt.var, self._expression(stmt.value), stmt.span)
        if isinstance(stmt, X.IfThenElse | X.While):
            return self._condition(stmt)
        return remake(stmt, self.statement)

    def _attribute(self, stmt: X.AttrStmt) -> Any:
        if stmt.attr_key == "thread_extent":
            self.block.analyzer.bind(stmt.node.var, ir.Range.from_min_extent(index(0), stmt.value), True)
        body = self.statement(stmt.body)
        innermost = not any(isinstance(s, X.AttrStmt) for s in walk(stmt.body))
        if innermost and self.block.workspaces:
            body = seq([*(X.AllocBuffer(w, span=stmt.span) for w in self.block.workspaces), *_parts(body)])
        return X.AttrStmt(stmt.node, stmt.attr_key, stmt.value, body, stmt.span)

    def _allocation(self, stmt: X.AllocBuffer) -> Any:
        if stmt.buffer.scope() != FRAGMENT:
            return stmt
        if stmt.buffer.__chandle__() not in self.block.layouts.fragments:
            return None  # never touched
        return X.AllocBuffer(self.block.registers(stmt.buffer), span=stmt.span)

    def _view(self, stmt: X.DeclBuffer) -> Any:
        """Another name of a fragment: of the same array, or of its bits as another dtype."""
        base = next(v for v in variables(stmt.data) if X.is_buffer_var(v))
        if stmt.buffer.__chandle__() not in self.block.layouts.fragments:
            return None  # never touched
        whole = self.block.registers(base)
        if str(base.dtype) == str(stmt.buffer.dtype):
            self.block.name_alike(stmt.buffer, whole)
            return None
        return X.DeclBuffer(self.block.registers(stmt.buffer, whole), data=whole.data, span=stmt.span)

    def _loop(self, stmt: X.For) -> Any:
        if loop_kind(stmt) == "Parallel":
            loop = parallel_loop(stmt)
            if self._divergent:
                return self._by_some(loop)
            if self._ops.async_copy is not None and loop.note(ASYNC, False):
                lowered = self._ops.async_copy(loop, self.block)
                if lowered is not None:
                    return lowered
            return lower_parallel(loop, self.block)
        self.block.analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent), True)
        low, count = constant(stmt.min), constant(stmt.extent)
        outer = self.block.outer
        if low is not None and count is not None:
            self.block.outer = {**outer, stmt.loop_var.__chandle__(): low + count}
        if int(stmt.kind) == X.ForKind.VECTORIZED and (wide := self._vectorized(stmt)) is not None:
            return wide
        divergent = not self._alike(stmt)
        body = self._under(stmt if divergent else None, None, stmt.body)
        self.block.outer = outer
        notes = dict(stmt.annotations.items())
        unrolled = int(stmt.kind) == X.ForKind.UNROLLED or notes.pop(ELSE_UNROLLED, False)
        kind = X.ForKind.UNROLLED if unrolled else X.ForKind.SERIAL
        bounds = [self._expression(stmt.min), self._expression(stmt.extent)]
        made = X.For(
            stmt.loop_var, *bounds, kind, seq([body]), annotations=notes, step=stmt.step, span=stmt.span
        )
        return self._together(made, divergent)

    def _vectorized(self, stmt: X.For) -> Any | None:
        """A loop over neighbours as wide accesses: of each thread, or of the first where all do the same."""
        wide = lower_vectorized(stmt, self.block)
        if wide is None:
            return None
        shared_out = any(a.mode == "write" and in_memory(a.buffer) for a in all_accesses(stmt.body))
        alike = all(self._alike(s) for s in walk(stmt) if isinstance(s, X.For | X.BufferStore))
        if not shared_out or self._divergent or uses(stmt.body, self._private) or not alike:
            return wide
        return X.IfThenElse(X.EQ(self.block.thread, index(0)), wide, None, stmt.span)

    def _by_team(self, stmt: Any, team: Team) -> Any:
        """A statement of the whole block that works on a team's fragments, done by the team."""
        thread, first = self.block.thread, index(team.first)
        condition: Any = X.And(X.GE(thread, first), X.LT(thread, index(team.first + team.threads)))
        made = X.IfThenElse(condition, seq([self._inside(team, stmt, self._lower)]), None, stmt.span)
        self.teams[made.__chandle__()] = (team, None)
        return self._together(made, False)

    def _inside(self, team: Team, body: Any, lower: Callable[[Any], Any]) -> Any:
        """`body` as the code of a team."""
        before = self.block, self._active, self._divergent
        whole = self.block.thread if not self.block.first else self.block.thread + self.block.first
        thread = whole - team.first if team.first else whole
        products = list(self.block.products)  # those that the team begins are its own
        self.block = replace(
            self.block, threads=team.threads, thread=thread, first=team.first, products=products
        )
        self._active, self._divergent = team.has(np.arange(self._total)), ()
        below = X.And(X.GE(thread, index(0)), X.LT(thread, index(team.threads)))
        with self.block.analyzer.constraint_scope(below):
            made = self._body(body, lower)
        self.block, self._active, self._divergent = before
        return made

    def _branch(self, team: Team | None, mask: np.ndarray | None, stmt: X.IfThenElse, body: Any) -> Any:
        if team is not None:
            return self._inside(team, body, self.statement)
        return self._under(stmt, mask, body)

    def _under(self, parting: Any | None, mask: np.ndarray | None, body: Any) -> Any:
        """`body`, to which, if a statement is `parting` the threads, only those of `mask` come (None: nobody
        knows which).
        """
        if parting is None:
            return self._body(body, self.statement)
        before = self._active
        if mask is not None or not self._is_one():  # of one thread, at most that one comes
            self._active = None if mask is None or before is None else before & mask
        outer = self._divergent
        self._divergent = (*outer, parting)
        made = self._body(body, self.statement)
        self._divergent = outer
        self._active = before
        return made

    def _body(self, body: Any, lower: Callable[[Any], Any]) -> Any:
        """What `lower` makes of a branch or a loop's body; what is assumed there holds there alone."""
        before = len(self._assumed)
        try:
            return lower(body)
        finally:  # the analyzer leaves scopes only in the order in which they were entered
            while len(self._assumed) > before:
                inner = self._assumed.pop()
                if inner is not None:
                    inner.__exit__(None, None, None)

    def _threads_that(self, condition: Any) -> np.ndarray | None:
        """The threads for which a condition holds, if it depends on nothing else."""
        try:
            found = np.asarray(evaluate(condition, self._axes), bool)
        except NotEvaluable:
            return None
        return np.broadcast_to(found, (self._total,))

    def _by_some(self, loop: ParallelLoop) -> Any:
        """A loop that only some threads reach: shared out among them if they are a known range."""
        if self._all_are_here():
            return lower_parallel(loop, self.block)
        in_registers = any(a.buffer.scope() == FRAGMENT for a in loop.accesses)
        if self._active is None and in_registers and self._in_registers_alone(loop):
            return lower_parallel(loop, self.block)
        op = f"T.{loop.note('tl.op', 'Parallel')}"
        some = None if in_registers else self._some()
        if some is None:
            raise KernelError([DIVERGENT_TILE_OP.at(place_of(loop.span), op=op, target=self.block.target)])
        return self._shared_out(by_turns(loop, some), op)

    def _some(self) -> Block | None:
        """The threads that get here, as a block of their own, where they are a known range."""
        numbers = np.flatnonzero(self._active) if self._active is not None else np.empty(0, int)
        if not len(numbers) or numbers[-1] - numbers[0] + 1 != len(numbers):
            return None
        first = int(numbers[0]) - self.block.first
        thread = self.block.thread - first if first else self.block.thread
        return replace(self.block, threads=len(numbers), thread=thread, first=int(numbers[0]), scattered=True)

    def _shared_out(self, made: Any, op: str) -> Any:
        """Note that threads which are no team share out `made`, or each part of it."""
        for part in made.seq if isinstance(made, X.SeqStmt) else [made]:
            self.by_some[part.__chandle__()] = op
            self._kept.append(part)
        return made

    def _in_registers_alone(self, loop: ParallelLoop) -> bool:
        """Whether each thread that comes can do what it holds, and nobody meets or writes for others."""
        written = [a.buffer for a in loop.accesses if a.mode == "write"]
        exchanged = loop.stmt.__chandle__() in self.block.layouts.exchanges
        whole = loop.note("tl.op", None) is not None  # a T.fill is one act
        return loop.shape is not None and not (exchanged or whole or any(map(in_memory, written)))

    def _is_one(self) -> bool:
        """Whether a single thread gets here, or none."""
        return self._active is not None and int(self._active.sum()) == 1

    def _all_are_here(self) -> bool:
        """Whether all threads of the team surely get here."""
        return self._active is not None and int(self._active.sum()) == self.block.threads

    def _refuse_for_some(self, call: ir.Call) -> None:
        """A tile operation that only some threads reach would be done in part."""
        on_tiles = any(isinstance(a, ir.TensorRegion) for a in call.args)
        if self._divergent and on_tiles and not self._all_are_here():
            op = written_as(call)
            raise KernelError([DIVERGENT_TILE_OP.at(place_of(call.span), op=op, target=self.block.target)])

    def _together(self, stmt: Any, divergent: bool) -> Any:
        """Note that all threads of the block reach and take `stmt` alike."""
        if not (divergent or self._divergent):
            self.block_level.add(stmt.__chandle__())
            self._kept.append(stmt)
        return stmt

    def _evaluate(self, stmt: X.Evaluate) -> Any:
        call = stmt.value
        if tile_ops.is_call(call, tile_ops.ASSUME):
            self._assumed.append(assume(self.block.analyzer, call))
            return None
        if tile_ops.is_call(call, tile_ops.PRINT_ONCE):
            said = X.Evaluate(self._expression(call), stmt.span)
            return X.IfThenElse(X.EQ(self.block.thread, index(0)), said, None, stmt.span)
        if isinstance(call, ir.Call) and isinstance(call.op, ir.Op) and call.op.name in self._ops.calls:
            scanned = self._divergent and not self._all_are_here() and tile_ops.is_call(call, tile_ops.SCAN)
            if scanned and (some := self._some()) is not None:
                return self._shared_out(self._ops.calls[tile_ops.SCAN](stmt, some), written_as(call))
            self._refuse_for_some(call)
            return self._ops.calls[call.op.name](stmt, self.block)
        if isinstance(call, ir.Call) and isinstance(call.op, ir.Op) and call.op.name in self._ops.issued:
            one = self._is_one()
            if not one and not (_one_of_each_warp(call) and self._in_whole_warps()):
                self._refuse_for_some(call)
            return self._ops.issued[call.op.name](stmt, self.block, one)
        return X.Evaluate(self._expression(call), stmt.span)

    def _condition(self, stmt: Any) -> Any:
        condition = self._expression(stmt.condition)
        divergent = not self._alike(stmt)
        parting = stmt if divergent else None
        if isinstance(stmt, X.While):
            result: Any = X.While(condition, seq([self._under(parting, None, stmt.body)]), stmt.span)
        else:
            parted = self._parted(stmt.condition) if divergent else None
            if parted is not None:
                return self._by_branches(stmt, condition, parted)
            mask = self._threads_that(stmt.condition) if divergent else None
            then = self._under(parting, mask, stmt.then_case)
            orelse = None
            if stmt.else_case is not None:
                orelse = self._under(parting, None if mask is None else ~mask, stmt.else_case)
            result = X.IfThenElse(condition, seq([then]), orelse, stmt.span)
        return self._together(result, divergent)

    def _in_whole_warps(self) -> bool:
        """Whether each warp of the team comes here as a whole, or stays away."""
        team = self.block.team
        if team.first % WARP or team.threads % WARP:
            return False
        warps = [Team(first, WARP) for first in range(team.first, team.first + team.threads, WARP)]
        return all(self._alike(stmt, warp) for stmt in self._divergent for warp in warps)

    def _alike(self, stmt: Any, team: Team | None = None) -> bool:
        """Whether the threads of the team all come to the same in a branch, a loop or a store."""
        team = team or self.block.team
        if team not in self._taken_alike:
            self._taken_alike[team] = taken_alike(self._func_body, thread_axes(self._func_body), team)
        return stmt.__chandle__() in self._taken_alike[team]

    def _parted(self, condition: Any) -> Branches | None:
        """The teams that take the branches of a condition, where teams are known and all of the outer one are
        here.
        """
        if not self._ops.teams or self._divergent:
            return None
        return branches(condition, self._axes, self.block.team)

    def _by_branches(self, stmt: X.IfThenElse, condition: Any, parted: Branches) -> Any:
        mask = self._threads_that(stmt.condition)
        then = self._branch(parted[0], mask, stmt, stmt.then_case)
        orelse = None
        if stmt.else_case is not None:
            orelse = self._branch(parted[1], None if mask is None else ~mask, stmt, stmt.else_case)
        made = X.IfThenElse(condition, seq([then]), orelse, stmt.span)
        if parted[0] is None or (stmt.else_case is not None and parted[1] is None):
            return made  # no barrier can stand inside
        self.teams[made.__chandle__()] = parted
        return self._together(made, False)

    def _store(self, stmt: X.BufferStore) -> Any:
        value = self._expression(stmt.value)
        if stmt.buffer.scope() == FRAGMENT:
            register = self.block.fragment(stmt.buffer).register([self._expression(i) for i in stmt.indices])
            return X.BufferStore(self.block.registers(stmt.buffer), value, [index(register)], stmt.span)
        store = X.BufferStore(stmt.buffer, value, [self._expression(i) for i in stmt.indices], stmt.span)
        # Whoever names a private value stores it itself: what it signals afterwards says that it did.
        named = any(uses(e, self._private) for e in (stmt.value, *stmt.indices))
        if not in_memory(stmt.buffer) or self._divergent or named or not self._alike(stmt):
            return store
        return X.IfThenElse(X.EQ(self.block.thread, index(0)), store, None, stmt.span)

    def _expression(self, expr: Any) -> Any:
        """Fragments outside Parallel loops are held whole by every thread."""
        if isinstance(expr, ir.TensorLoad) and expr.source.scope() == FRAGMENT:
            register = self.block.fragment(expr.source).register([self._expression(i) for i in expr.indices])
            return X.BufferLoad(self.block.registers(expr.source), [index(register)], expr.span)
        if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) and expr.op.name in self._ops.values:
            return self._ops.values[expr.op.name](expr, self.block)
        if tile_ops.is_call(expr, "tirx.address_of") and expr.args[0].source.scope() == FRAGMENT:
            return X.address_of(self._expression(expr.args[0]))  # foreign code gets each thread's registers
        return map_operands(expr, self._expression)


def _one_of_each_warp(call: ir.Call) -> bool:
    """Whether a statement is begun by one thread of each warp that comes to it."""
    return tile_ops.is_call(call, tile_ops.TMA_COPY) and TmaCopy.read(call).leader == WARP


def _linear_thread(body: Any) -> Any:
    """The thread's number in its block: x first."""
    found: dict[str, tuple[Any, int]] = {}
    for stmt in walk(body):
        if isinstance(stmt, X.AttrStmt) and str(stmt.node.thread_tag).startswith("threadIdx"):
            found[str(stmt.node.thread_tag)] = (stmt.node.var, int(stmt.value))
    thread: Any = index(0)
    scale = 1
    for axis in "xyz":
        if f"threadIdx.{axis}" in found:
            var, extent = found[f"threadIdx.{axis}"]
            thread = var if scale == 1 else thread + var * scale
            scale *= extent
    return thread


def _thread_dependent(body: Any) -> set[int]:
    """Handles of thread variables, and of private arrays and scalars whose contents may differ between
    threads.
    """
    found = {
        s.node.var.__chandle__()
        for s in walk(body)
        if isinstance(s, X.AttrStmt) and str(s.node.thread_tag).startswith("threadIdx")
    }
    grown = True
    while grown:
        grown = False
        for stmt in walk(body):
            if isinstance(stmt, X.BufferStore) and stmt.buffer.scope() in ("local", "local.var"):
                target, sources = stmt.buffer, [stmt.value, *stmt.indices]
            elif isinstance(stmt, X.Bind):
                target, sources = stmt.var, [stmt.value]
            else:
                continue
            if target.__chandle__() in found:
                continue
            # The old value that an atomic returns is another one for each thread.
            atomic = any(tile_ops.is_call(c, tile_ops.ATOMIC) for c in calls(sources[0]))
            if atomic or any(uses(s, found) for s in sources):
                found.add(target.__chandle__())
                grown = True
    return found


def _parts(stmt: Any) -> list[Any]:
    return list(stmt.seq) if isinstance(stmt, X.SeqStmt) else [stmt]
