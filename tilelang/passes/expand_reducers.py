"""Reducers -> fragments: what a Parallel loop folds into them is kept by iteration, reduced, and folded in.

In:  a tile function with buffers of scope `local.reducer`, updated in Parallel loops as `acc[i] = acc[i] op
     x`.
Out: the same with fragments. A loop over (i, j) that updates `acc[j]` writes x into a fragment [i, j], which
     is reduced over i after the loop and folded into acc once; a loop over j alone stays as it is. Where an
     index is more than a variable of the loop (`acc[j // 4]`), every thread holds acc whole and folds the
     reduced values in one by one.
Not: reducers on the CPU, where the iterations of a loop run one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.layout import REDUCER_UPDATE
from tilelang.ir import tile_ops
from tilelang.ir.folds import FoldKind, fold_of, identity
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.ops.reduce import Reduce
from tilelang.passes.parallel_loop import ParallelLoop, nested_parallel, parallel_loop
from tilelang.passes.walk import FRAGMENT, constant, index, loads, loop_kind, remake, uses, walk

REDUCER = "local.reducer"

Combine = Callable[[Any, Any], Any]
_FOLDED = 1024  # values that each thread may hold and fold in one by one

_COMBINE: dict[FoldKind, Combine] = {
    "sum": X.Add,
    "max": X.Max,
    "min": X.Min,
    "bitand": X.bitwise_and,
    "bitor": X.bitwise_or,
    "bitxor": X.bitwise_xor,
}


def expand_reducers(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass. Raises KernelError for an update that is no fold of the element it writes."""
    found = [
        s.buffer for s in walk(func.body) if isinstance(s, X.AllocBuffer) and s.buffer.scope() == REDUCER
    ]
    if not found:
        return func
    fragments = {
        old: X.decl_buffer(list(old.shape), str(old.dtype), str(old.name), scope=FRAGMENT) for old in found
    }
    body = _with_buffers(func.body, fragments)
    handles = {new.__chandle__() for new in fragments.values()}
    return func.with_body(_expand(body, handles))


def _with_buffers(body: Any, new: dict[Any, Any]) -> Any:
    table = {old.__chandle__(): made for old, made in new.items()}

    def alloc(stmt: Any) -> Any:
        if isinstance(stmt, X.AllocBuffer):
            made = table.get(stmt.buffer.__chandle__())
            return stmt if made is None else X.AllocBuffer(made, span=stmt.span)
        if isinstance(stmt, X.BufferStore) and stmt.buffer.__chandle__() in table:
            made = table[stmt.buffer.__chandle__()]
            return X.BufferStore(
                made, expression(stmt.value), [expression(i) for i in stmt.indices], stmt.span
            )
        if isinstance(stmt, X.BufferStore):
            indices = [expression(i) for i in stmt.indices]
            return X.BufferStore(stmt.buffer, expression(stmt.value), indices, stmt.span)
        if isinstance(stmt, X.Evaluate):
            return X.Evaluate(expression(stmt.value), stmt.span)
        if isinstance(stmt, X.Bind):
            return X.Bind(stmt.var, expression(stmt.value), stmt.span)
        if isinstance(stmt, X.IfThenElse):
            orelse = alloc(stmt.else_case) if stmt.else_case is not None else None
            return X.IfThenElse(expression(stmt.condition), alloc(stmt.then_case), orelse, stmt.span)
        return remake(stmt, alloc)

    def load(e: Any) -> Any:
        made = table.get(e.source.__chandle__())
        return e if made is None else X.BufferLoad(made, list(e.indices), e.span)

    def region(e: Any) -> Any:
        made = table.get(e.source.__chandle__())
        return e if made is None else X.BufferRegion(made, list(e.region))

    def expression(value: Any) -> Any:
        return tvm_ffi.structural_map(value, [(ir.TensorLoad, load), (ir.TensorRegion, region)])

    return alloc(body)


def _expand(stmt: Any, reducers: set[int]) -> Any:
    if loop_kind(stmt) != "Parallel":
        return remake(stmt, lambda s: _expand(s, reducers))
    loop = parallel_loop(stmt)
    updates = [
        s
        for s in walk(loop.body)
        if isinstance(s, X.BufferStore) and s.buffer.__chandle__() in reducers and not _own_elements(loop, s)
    ]
    if not updates:
        return stmt
    made = [_Update(loop, s) for s in updates]
    body = _replaced(loop.body, {u.store.__chandle__(): u.kept() for u in made})
    around = [nested_parallel(list(loop.vars), list(loop.extents), body, dict(loop.notes), loop.span)]
    before = [s for u in made for s in u.before()]
    return seq([*before, *around, *(s for u in made for s in u.after())])


def _own_elements(loop: ParallelLoop, store: X.BufferStore) -> bool:
    """Whether each iteration writes an element of its own, and reads no other one of the reducer: nothing is
    shared out, as in a fragment.
    """
    own = all(any(isinstance(i, ir.Var) and i.same_as(v) for i in store.indices) for v in loop.vars)
    return own and all(
        tvm_ffi.structural_equal(a, b)
        for load in loads(store.value)
        if load.source.same_as(store.buffer)
        for a, b in zip(load.indices, store.indices, strict=True)
    )


def _replaced(stmt: Any, new: dict[int, Any]) -> Any:
    found = new.get(stmt.__chandle__())
    return found if found is not None else remake(stmt, lambda s: _replaced(s, new))


@dataclass(eq=False)
class _Update:
    """One `acc[indices] = acc[indices] op value` of a loop, and the fragment that keeps its values."""

    loop: ParallelLoop
    store: X.BufferStore

    def __post_init__(self) -> None:
        if self.loop.shape is None:
            self._refuse("the extents of the loop are known only when the kernel runs")
        self.mixed = False  # whether an index is more than one variable of the loop
        self.kind, self.combine, self.value = self._fold()
        self.dims = self._used()
        name, dtype = f"{self.store.buffer.name}_kept", str(self.store.buffer.dtype)
        self.space = X.decl_buffer(self.loop.shape, dtype, name, scope=FRAGMENT)

    def _refuse(self, why: str) -> None:
        name = str(self.store.buffer.name)
        raise KernelError([REDUCER_UPDATE.at(place_of(self.store.span), buffer=name, why=why)])

    def _fold(self) -> tuple[FoldKind, Combine, Any]:
        found = fold_of(self.store)
        if found is None:
            self._refuse(
                "the new value is no fold of the old one, as in acc[i] += x or acc[i] = T.max(acc[i], x)"
            )
            raise AssertionError
        kind, operand = found
        return kind, _COMBINE[kind], operand

    def _used(self) -> list[int | None]:
        """For every index the loop variable that it is; None for one in which no loop variable stands."""
        handles = [v.__chandle__() for v in self.loop.vars]
        found: list[int | None] = []
        for i, n in zip(self.store.indices, self.store.buffer.shape, strict=True):
            if loads(i):  # what stands there may be another index after the loop
                self._refuse(f"the index `{i}` is no variable of the loop")
            if isinstance(i, ir.Var) and i.__chandle__() in handles:
                found.append(handles.index(i.__chandle__()))
            elif constant(n) == 1 or not uses(i, set(handles)):
                found.append(None)
            else:
                self.mixed = True
                found.append(None)
        used = [d for d in found if d is not None]
        self.mixed = self.mixed or len(set(used)) != len(used)
        return found

    def kept(self) -> Any:
        """The statement that takes the update's place."""
        at = list(self.loop.vars)
        new = self.combine(X.BufferLoad(self.space, at), self.value)
        return X.BufferStore(self.space, new, at, self.store.span)

    def before(self) -> list[Any]:
        """The fragment, filled with what changes no fold."""
        loop_vars = [X.Var(str(v.name), "int32") for v in self.loop.vars]
        start = identity(self.kind, str(self.store.buffer.dtype))
        fill = X.BufferStore(self.space, start, loop_vars, self.store.span)
        extents = list(self.loop.extents)
        return [
            X.AllocBuffer(self.space, span=self.store.span),
            nested_parallel(loop_vars, extents, fill, {}, self.store.span),
        ]

    def after(self) -> list[Any]:
        """The reductions over the variables that the update does not name, and the fold into the reducer."""
        span, shape = self.store.span, list(self.loop.shape or ())
        handles = {v.__chandle__(): d for d, v in enumerate(self.loop.vars)}
        used = {d for i in self.store.indices for h, d in handles.items() if uses(i, {h})}
        current, left = self.space, list(range(len(shape)))
        parts: list[Any] = []
        for dim in reversed(range(len(shape))):
            if dim in used:
                continue
            at = left.index(dim)
            left.remove(dim)
            rest = [shape[d] for d in left] or [1]
            dtype, name = str(current.dtype), f"{self.store.buffer.name}_part"
            target = X.decl_buffer(rest, dtype, name, scope=FRAGMENT)
            parts.append(X.AllocBuffer(target, span=span))
            reduce = Reduce(_whole(current), _whole(target), self.kind, at, True, span)
            parts.append(reduce.call())
            current = target
        loop_vars = {d: X.Var(str(self.loop.vars[d].name), "int32") for d in left}
        renamed = {h: loop_vars[d] for h, d in handles.items() if d in loop_vars}
        to = [_renamed(i, renamed) for i in self.store.indices]
        fold = self._into(to, X.BufferLoad(current, [loop_vars[d] for d in left] or [index(0)]))
        extents = [shape[d] for d in left]
        if self.mixed and math.prod(extents) > _FOLDED:
            self._refuse(
                f"an index is no variable of the loop, and each thread would fold {math.prod(extents)} values"
            )
        if self.mixed:  # elements that several iterations share: every thread folds them in one by one
            for d, n in zip(reversed(left), reversed(extents), strict=True):
                fold = X.For(loop_vars[d], index(0), index(n), X.ForKind.SERIAL, fold, span=span)
        elif left:
            fold = nested_parallel([loop_vars[d] for d in left], extents, fold, {}, span)
        return [*parts, fold]

    def _into(self, to: list[Any], value: Any) -> Any:
        new = self.combine(X.BufferLoad(self.store.buffer, to), value)
        return X.BufferStore(self.store.buffer, new, to, self.store.span)


def _renamed(expr: Any, variables: dict[int, Any]) -> Any:
    return tvm_ffi.structural_map(expr, [(ir.Var, lambda v: variables.get(v.__chandle__(), v))])


def _whole(buffer: Any) -> Any:
    return tile_ops.region(
        buffer, [index(0) for _ in buffer.shape], [index(n) for n in map(constant, buffer.shape)]
    )
