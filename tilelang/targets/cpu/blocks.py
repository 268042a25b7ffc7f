"""The body of one block, statement by statement: tile operations become loops, accesses become flat and
guarded.

Guards: a load that may leave a global tensor gives zero, a store is skipped. A nest of independent loops
whose guards all hold at its extreme corners runs without any: the nest is emitted twice under one test, so
that whole tiles cost nothing for the ragged ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import ir, sym
from tvm import tirx as X

from tilelang.diagnostics.span import Span
from tilelang.ir import tile_ops
from tilelang.ir.evaluate import is_choice
from tilelang.ir.simplify import simplify
from tilelang.ir.spans import from_tvm
from tilelang.ir.tile_ops import seq
from tilelang.ir.values import as_int
from tilelang.ops.atomic import Atomic, AtomicTile
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
from tilelang.passes.walk import assume, map_operands
from tilelang.targets.cpu.exponential import NameValue
from tilelang.targets.cpu.floor_division import without_floors
from tilelang.targets.cpu.memory import Memory
from tilelang.targets.cpu.narrow_floats import (
    CHOICE,
    ROUNDED,
    has_narrow,
    held_in,
    is_narrow,
    legalise,
    rounded,
)
from tilelang.targets.cpu.nests import REGISTERS, index, parallel
from tilelang.targets.cpu.ops.atomic import lower_atomic, lower_atomic_tile
from tilelang.targets.cpu.ops.copy import lower_copy
from tilelang.targets.cpu.ops.fill import lower_fill
from tilelang.targets.cpu.ops.gemm import lower_gemm
from tilelang.targets.cpu.ops.print import print_statements
from tilelang.targets.cpu.ops.reduce import lower_reduce
from tilelang.targets.cpu.ops.scan import lower_scan

_NOTHING_TO_WAIT_FOR = frozenset(
    {tile_ops.SYNC, tile_ops.ASYNC_COMMIT, tile_ops.ASYNC_WAIT, "tl.pdl_sync", "tl.pdl_trigger"}
)


@dataclass(frozen=True)
class _Guard:
    """`value >= 0` (`limit` None) or `value < limit`."""

    value: Any
    limit: Any | None

    @property
    def condition(self) -> Any:
        return self.value >= 0 if self.limit is None else self.value < self.limit


# Where a guard stands: the access by its number, the dimension, and whether the guard is the upper one. (Not
# the guard's own number: with fewer tests inside of them, indices of the second pass prove more or less.)
_Place = tuple[int, int, bool]


@dataclass
class _Nest:
    """Independent loops being lowered: the loops, what is defined inside them, the guards met so far."""

    loops: list[X.For] = field(default_factory=list)
    inner: list[ir.Var] = field(default_factory=list)
    accesses: int = 0  # met so far, in an order that is the same in both passes
    guards: dict[_Place, _Guard] = field(default_factory=dict)
    holds: frozenset[_Place] | None = None  # second pass: which guards are known to hold


class BlockLowering:
    """Lowers the statements of one kernel. `block` is the linear block number, x fastest."""

    def __init__(
        self,
        memory: Memory,
        grid: tuple[Any, ...],
        vector_bytes: int = 32,
        safe: Mapping[str, float] | None = None,
        unguarded: bool = False,
    ) -> None:
        self.block = X.Var("block", "int32")
        self.instructions: dict[Span, str] = {}
        self._memory = memory
        self._grid = grid
        self._vector_bytes = vector_bytes
        self._analyzer = sym.Analyzer()
        self._nest: _Nest | None = None
        self._safe: Mapping[str, float] = safe or {}  # what reads outside of a tensor give, by its name
        self._block_numbers: list[Any] = []  # along x, y, z
        self._assumed: list[Any] = []
        self._unguarded = unguarded  # the author vouches for all accesses
        self._held: dict[int, ir.Var] = {}  # variable of a narrow dtype -> the one that holds its value

    def lower(self, stmt: Any) -> Any:
        """The lowered form of `stmt`."""
        match stmt:
            case X.SeqStmt():
                return seq([part for s in stmt.seq for part in _parts(self.lower(s))])
            case X.For():
                return self._loop(stmt)
            case X.BufferStore():
                return self._store(stmt)
            case X.IfThenElse():
                return self._if(stmt)
            case X.Evaluate():
                return self._evaluate(stmt)
            case X.AllocBuffer():
                return self._alloc(stmt)
            case X.DeclBuffer() if tile_ops.is_call(stmt.data, tile_ops.MEMORY_AT):
                return self._memory.at(stmt.buffer, self._expr(stmt.data.args[0]))
            case X.DeclBuffer():
                return self._memory.view(stmt.buffer, _base(stmt.data))
            case X.Bind() if tile_ops.is_call(stmt.value, tile_ops.ATOMIC):
                return self.lower(lower_atomic(Atomic.read(stmt.value), stmt.var))
            case X.Bind():
                if self._nest is not None:
                    self._nest.inner.append(stmt.var)
                value, named = self._named(stmt.value, stmt.span)
                value = without_floors(value, self._analyzer)
                return seq([*named, X.Bind(self._variable(stmt.var), value, stmt.span)])
            case X.While():
                return X.While(self._expr(stmt.condition), self.lower(stmt.body), stmt.span)
            case X.AttrStmt() if stmt.attr_key == "thread_extent":
                return self._launch(stmt)
        raise NotImplementedError(f"the CPU target meets a statement it does not know: {type(stmt).__name__}")

    # Launch

    def _launch(self, stmt: X.AttrStmt) -> Any:
        tag, var = str(stmt.node.thread_tag), stmt.node.var
        if tag.startswith("threadIdx"):  # nobody asks for it, else `threads` has made loops of it
            return self.lower(stmt.body)
        axis = "xyz".index(tag[-1])
        place = self.block
        for extent in self._grid[:axis]:
            place = X.floordiv(place, index(extent))
        if axis + 1 < len(self._grid):
            place = X.floormod(place, index(self._grid[axis]))
        self._analyzer.bind(var, ir.Range(index(0), index(stmt.value)))
        self._block_numbers.append(var)
        return seq([X.Bind(var, place, stmt.span), self.lower(stmt.body)])

    # Loops

    def _loop(self, loop: X.For) -> Any:
        if loop.kind == X.ForKind.PARALLEL and self._nest is None:
            return self._parallel_nest(loop)
        return self._plain_loop(loop)

    def _plain_loop(self, loop: X.For) -> Any:
        if self._nest is not None:
            self._nest.inner.append(loop.loop_var)
            if loop.kind == X.ForKind.PARALLEL:
                self._nest.loops.append(loop)
        start, extent = self._expr(loop.min), self._expr(loop.extent)
        self._analyzer.bind(loop.loop_var, ir.Range.from_min_extent(start, extent), allow_override=True)
        if loop.step is None or as_int(loop.step) == 1:
            return X.For(
                loop.loop_var, start, extent, X.ForKind.SERIAL, self.lower(loop.body), span=loop.span
            )
        step = loop.step
        count = X.Var(f"{loop.loop_var.name}_n", "int32")
        trips = X.floordiv(extent + step - (1 if (as_int(step) or 1) > 0 else -1), step)
        body = seq([X.Bind(loop.loop_var, start + count * step, loop.span), self.lower(loop.body)])
        return X.For(count, index(0), trips, X.ForKind.SERIAL, body, span=loop.span)

    def _parallel_nest(self, loop: X.For) -> Any:
        """The nest with its guards; under a test that all of them hold, a second time without."""
        self._nest = first = _Nest()
        guarded = self._plain_loop(loop)
        corners = {place: _at_corner(g, first) for place, g in first.guards.items()}
        self._nest = None
        tests = _distinct([c for c in corners.values() if c is not None])
        if not tests:
            return guarded
        self._nest = _Nest(holds=frozenset(place for place, c in corners.items() if c is not None))
        bare = self._plain_loop(loop)
        self._nest = None
        condition = simplify(self._analyzer, _all(tests))
        if as_int(condition) == 0:  # no block is whole
            return guarded
        return X.IfThenElse(condition, bare, guarded, loop.span)

    # Accesses

    def _store(self, stmt: X.BufferStore) -> Any:
        indices = [self._expr(i) for i in stmt.indices]
        inside, test = self._guard(stmt.buffer, indices)
        value, named = self._under(inside, lambda: self._named(stmt.value, stmt.span))
        store = self._memory.store(stmt.buffer, indices, value, stmt.span, self._namer(named, stmt.span))
        stored = seq([*named, store])
        return stored if test is None else X.IfThenElse(test, stored, None, stmt.span)

    def _if(self, stmt: X.IfThenElse) -> Any:
        condition = self._expr(stmt.condition)
        then = self._under(condition, lambda: self.lower(stmt.then_case))
        orelse = None
        if stmt.else_case is not None:
            orelse = self._under(X.Not(condition), lambda: self.lower(stmt.else_case))
        return X.IfThenElse(condition, then, orelse, stmt.span)

    def _under(self, condition: Any | None, lower: Callable[[], Any]) -> Any:
        """What `lower` returns, with `condition` known to hold."""
        if condition is None:
            return lower()
        before = len(self._assumed)
        with self._analyzer.constraint_scope(condition):
            try:
                return lower()
            finally:  # the analyzer leaves scopes only in the order in which they were entered
                while len(self._assumed) > before:
                    inner = self._assumed.pop()
                    if inner is not None:
                        inner.__exit__(None, None, None)

    def _named(self, value: Any, span: Any) -> tuple[Any, list[Any]]:
        """`value` lowered, and the statements that evaluate the parts of it which it uses several times."""
        named: list[Any] = []
        name_value = self._namer(named, span)
        if has_narrow(value) and _has_choice(value):
            return self._stepwise(value, span, named), named
        # A part under a condition may not be evaluated before it.
        return self._expr(value, None if _has_choice(value) else name_value), named

    def _namer(self, named: list[Any], span: Any) -> NameValue:
        """What gives a value a name of its own, by a statement added to `named`."""

        def name_value(name: str, part: Any) -> Any:
            var = X.Var(name, str(part.ty.dtype))
            named.append(X.Bind(var, without_floors(part, self._analyzer), span))
            if self._nest is not None:
                self._nest.inner.append(var)
            return var

        return name_value

    def _stepwise(self, value: Any, span: Any, named: list[Any]) -> Any:
        """`value` lowered, its choices as `if` statements added to `named`: conversions of narrow numbers use
        values several times, and what is named inside a branch must be evaluated in that branch only.
        """

        name_value = self._namer(named, span)

        def branch(target: ir.Var, part: Any) -> Any:
            inner: list[Any] = []
            result = self._stepwise(part, span, inner)
            stored = self._memory.store(target, [index(0)], result, span)
            return seq([*inner, stored])

        if is_choice(value):
            condition = self._stepwise(value.args[0], span, named)
            chosen = X.decl_buffer((1,), held_in(str(value.ty.dtype)), "chosen", scope=REGISTERS)
            self._memory.in_registers(chosen)
            named.append(
                X.IfThenElse(condition, branch(chosen, value.args[1]), branch(chosen, value.args[2]), span)
            )
            return self._memory.load(chosen, [index(0)])
        if isinstance(value, X.And | X.Or):
            first, right = self._stepwise(value.a, span, named), []
            second = self._stepwise(value.b, span, right)
            if not right:
                return type(value)(first, second)
            decided = X.decl_buffer((1,), "bool", "decided", scope=REGISTERS)
            self._memory.in_registers(decided)
            store = functools.partial(self._memory.store, decided, [index(0)], span=span)
            more, done = seq([*right, store(second)]), store(X.const(isinstance(value, X.Or), "bool"))
            both = isinstance(value, X.And)
            named.append(X.IfThenElse(first, more if both else done, done if both else more, span))
            return self._memory.load(decided, [index(0)])
        if isinstance(value, ir.Var):
            return self._held.get(value.__chandle__(), value)
        node = map_operands(value, lambda part: self._stepwise(part, span, named))
        if isinstance(node, ir.TensorLoad):
            return self._load(node)
        dtype = str(value.ty.dtype)
        if isinstance(value, ROUNDED) and is_narrow(dtype):  # its operands are float32 by now
            return rounded(node, dtype, name_value)
        return legalise(node, name_value)

    def _variable(self, var: ir.Var) -> ir.Var:
        """What holds the value of a variable: another one if its dtype is narrow."""
        dtype = str(var.ty.dtype)
        if held_in(dtype) == dtype:
            return var
        return self._held.setdefault(var.__chandle__(), X.Var(str(var.name), held_in(dtype)))

    def _expr(self, value: Any, name_value: NameValue | None = None) -> Any:
        """`value` with flat, guarded loads."""
        if isinstance(value, X.IntImm):
            return legalise(value, None)
        if isinstance(value, ir.Var):
            return self._held.get(value.__chandle__(), value)

        def lowered(node: Any) -> Any:
            if isinstance(node, ir.Var):
                return self._held.get(node.__chandle__(), node)
            return legalise(node, name_value)

        return tvm_ffi.structural_map(value, [(ir.TensorLoad, self._load), (ir.Expr, lowered)])

    def _load(self, load: ir.TensorLoad) -> Any:
        indices = list(load.indices)  # already rewritten: the map goes from inside out
        value = self._memory.load(load.source, indices)
        _, test = self._guard(load.source, indices)
        if test is None:
            return value
        outside = self._safe.get(str(load.source.name), 0)
        return X.if_then_else(test, value, X.const(outside, value.ty.dtype))

    def _guard(self, buffer: ir.Var, indices: list[Any]) -> tuple[Any | None, Any | None]:
        """(When an access stays inside a global tensor, what of it must be tested); None for nothing."""
        inside: list[Any] = []
        tests: list[Any] = []
        if self._unguarded or str(buffer.scope()) != "global" or any(isinstance(i, X.Ramp) for i in indices):
            return None, None
        if self._nest is not None:
            self._nest.accesses += 1
        for dim, (value, limit) in enumerate(zip(indices, buffer.shape, strict=True)):
            for guard in (_Guard(value, None), _Guard(value, limit)):
                if self._analyzer.can_prove(guard.condition):
                    continue
                inside.append(guard.condition)
                if not self._is_known(guard, dim):
                    tests.append(guard.condition)
        return _all(inside), _all(tests)

    def _is_known(self, guard: _Guard, dim: int) -> bool:
        """Note a guard of the current nest; True if the second pass may leave it out."""
        nest = self._nest
        if nest is None:
            return False
        place = (nest.accesses, dim, guard.limit is not None)
        nest.guards[place] = guard
        return nest.holds is not None and place in nest.holds

    # Storage and tile operations

    def _alloc(self, stmt: X.AllocBuffer) -> Any:
        buffer = stmt.buffer
        if str(buffer.scope()) in ("local.var", REGISTERS):
            self._memory.in_registers(buffer)
            return None
        self._memory.allocate(buffer)
        return self.lower(_poison(buffer, stmt.span)) if self._memory.poison else None

    def _evaluate(self, stmt: X.Evaluate) -> Any:
        call = stmt.value
        name = call.op.name if isinstance(call, ir.Call) and isinstance(call.op, ir.Op) else ""
        if name in _NOTHING_TO_WAIT_FOR:
            return None  # one thread runs the whole block, in order, and launches follow each other
        if name == tile_ops.GEMM:
            return self._gemm(Gemm.read(call))
        if name == tile_ops.COPY:
            return self.lower(lower_copy(Copy.read(call)))
        if name == tile_ops.ASSUME:
            self._assumed.append(assume(self._analyzer, call))
            return None
        if name == tile_ops.CHECK:
            return self._check(call, stmt.span)
        if name in (tile_ops.PRINT, tile_ops.PRINT_ONCE):
            return print_statements(self._expr(call), self._block_numbers, self._memory, stmt.span)
        if name == tile_ops.SCAN:
            return self.lower(lower_scan(Scan.read(call)))
        if name == tile_ops.ATOMIC:
            return self.lower(lower_atomic(Atomic.read(call)))
        if name == tile_ops.ATOMIC_TILE:
            return self.lower(lower_atomic_tile(AtomicTile.read(call)))
        if name == tile_ops.FILL:
            return self.lower(lower_fill(Fill.read(call)))
        if name == tile_ops.REDUCE:
            op = Reduce.read(call)
            self._note(op.span, "loops with partial results in vector lanes")
            return self.lower(lower_reduce(op, self._memory.scratch))
        if name.startswith("tl."):
            raise NotImplementedError(f"the CPU target meets an operation it does not know: {name}")
        return X.Evaluate(self._expr(call), stmt.span)

    def _check(self, call: Any, span: Any) -> Any:
        """What does not hold makes the function return, and the call raise RuntimeError with the text."""
        condition, text = self._expr(call.args[0]), call.args[1]
        return X.AssertStmt(condition, ir.StringImm("RuntimeError"), [text], span)

    def _gemm(self, op: Gemm) -> Any:
        self._note(op.span, f"register-blocked loops, vectors of {self._vector_bytes} B")
        return self.lower(lower_gemm(op, self._memory.scratch, self._vector_bytes))

    def _note(self, span: Any, instruction: str) -> None:
        place = from_tvm(span)
        if place is not None:
            self.instructions[place] = instruction


def _parts(stmt: Any) -> list[Any]:
    """The statements of a sequence: what one of them binds is seen by those after it."""
    return list(stmt.seq) if isinstance(stmt, X.SeqStmt) else [stmt]


def _has_choice(value: Any) -> bool:
    found: list[ir.Call] = []
    if isinstance(value, ir.Expr):
        tvm_ffi.structural_walk(value, (ir.Call, found.append))
    return any(isinstance(call.op, ir.Op) and call.op.name == CHOICE for call in found)


def _all(conditions: list[Any]) -> Any | None:
    """The conjunction; None for an empty one."""
    return functools.reduce(X.And, conditions) if conditions else None


def _at_corner(guard: _Guard, nest: _Nest) -> Any | None:
    """The guard at the corner of the nest where it is hardest to meet; None if it cannot be named."""
    loops = nest.loops
    coefficients = list(sym.detect_linear_equation(guard.value, [loop.loop_var for loop in loops]))
    if not coefficients:
        return None
    *factors, base = coefficients
    numbers = [as_int(f) for f in factors]
    if any(n is None for n in numbers) or _uses(base, nest.inner):
        return None
    if guard.limit is not None and _uses(guard.limit, nest.inner):
        return None
    value = base
    for number, loop in zip(numbers, loops, strict=True):
        if not number:
            continue
        if _uses(loop.min, nest.inner) or _uses(loop.extent, nest.inner):
            return None
        highest = (number > 0) == (guard.limit is not None)
        value = value + number * (loop.min + loop.extent - 1 if highest else loop.min)
    return _Guard(value, guard.limit).condition


def _uses(value: Any, variables: list[ir.Var]) -> bool:
    found: list[ir.Var] = []
    if isinstance(value, int):
        return False
    tvm_ffi.structural_walk(value, (ir.Var, found.append))
    return any(f.same_as(v) for f in found for v in variables)


def _distinct(conditions: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for condition in conditions:
        if not any(tvm_ffi.structural_equal(condition, k) for k in kept):
            kept.append(condition)
    return kept


def _base(data: Any) -> ir.Var:
    """The buffer whose storage `data` names."""
    found: list[ir.Var] = []
    tvm_ffi.structural_walk(data, (ir.Var, found.append))
    return next(v for v in found if X.is_buffer_var(v))  # sizes in its shape are met too


def _poison(buffer: ir.Var, span: Any) -> Any:
    """Fill an allocation with what no kernel may read."""
    dtype = str(buffer.dtype)
    if "float" in dtype:
        value = X.const(float("nan"), dtype)
    else:
        value = X.const({"bool": 1, "int4": 5, "uint4": 11}.get(dtype, 0x5B), dtype)
    return parallel(list(buffer.shape), lambda v: X.BufferStore(buffer, value, v, span), span)
