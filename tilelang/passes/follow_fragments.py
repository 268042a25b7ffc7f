"""Moving T.Parallel loops that read a fragment some way off into the fragment's own coordinates.

In:  a tile function.
Out: `for i in T.Parallel(16): s[i] = f[i + 16 * k]` as a loop over the rows `r` of `f`, where i = r - 16 * k,
     with a guard: an iteration runs on the thread that holds `f[r]`, and no register is indexed at run time.
Not: loops that use a fragment in two places (`f[i] + f[i + 1]`), rotations, offsets that change inside the
     loop, iterations that leave the fragment, loops whose layout the author chose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tvm_ffi
from tvm import ir, sym
from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.ir import tile_ops
from tilelang.ir.simplify import simplify
from tilelang.layout.annotated import LOOP_LAYOUT
from tilelang.passes.parallel_loop import ParallelLoop, parallel_loop
from tilelang.passes.walk import FRAGMENT, assume, constant, index, loads, loop_kind, remake, substitute, uses
from tilelang.passes.widen_parts import widen_parts

Layouts = TypeVar("Layouts")


def laid_out(func: X.PrimFunc, infer: Callable[[X.PrimFunc], Layouts]) -> tuple[X.PrimFunc, Layouts]:
    """The function and what `infer` says of it; where nothing serves it as it is written, with loops moved,
    or widened (`passes.widen_parts`).

    Raises the KernelError of `infer` for the function as written.
    """
    try:
        return func, infer(func)
    except KernelError as error:
        for written_otherwise in (follow_fragments, widen_parts):
            moved = written_otherwise(func)
            if moved.same_as(func):
                continue
            try:
                return moved, infer(moved)
            except KernelError:
                continue
        raise error from None  # the author knows nothing of moved loops


def follow_fragments(func: X.PrimFunc) -> X.PrimFunc:
    """The function with every loop moved that can be."""
    body = _Follow().visit(func.body)
    return func if body.same_as(func.body) else func.with_body(body)


class _Follow:
    def __init__(self) -> None:
        self._analyzer = sym.Analyzer()
        self._assumed: list[Any] = []  # keeps what is assumed true

    def visit(self, stmt: Any) -> Any:
        if isinstance(stmt, X.For):
            self._analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent), True)
            if loop_kind(stmt) == "Parallel":
                return self._moved(parallel_loop(stmt))
        elif isinstance(stmt, X.AttrStmt) and stmt.attr_key == "thread_extent":
            self._analyzer.bind(stmt.node.var, ir.Range.from_min_extent(0, stmt.value), True)
        elif isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.ASSUME):
            self._assumed.append(assume(self._analyzer, stmt.value))
        return remake(stmt, self.visit)

    def _moved(self, loop: ParallelLoop) -> Any:
        """The loop with one variable after the other moved; the statement itself if none is."""
        if LOOP_LAYOUT in loop.notes:
            return loop.stmt
        for var, extent in zip(loop.vars, loop.extents, strict=True):
            self._analyzer.bind(var, ir.Range.from_min_extent(0, extent), True)
        stmt = loop.stmt
        for k, var in enumerate(loop.vars):
            place = _place(loop, var)
            if place is None or not self._stays_inside(loop, var, *place):
                continue
            stmt = _over_rows(loop, k, *place)
            loop = parallel_loop(stmt)
        return stmt

    def _stays_inside(self, loop: ParallelLoop, var: ir.Var, offset: Any, rows: int) -> bool:
        """Whether every iteration that does anything touches an element that there is."""
        body, conditions = loop.body, []
        while isinstance(body, X.IfThenElse) and body.else_case is None:
            conditions.append(body.condition)
            body = body.then_case
        scopes = [self._analyzer.constraint_scope(c) for c in conditions]
        for scope in scopes:
            scope.__enter__()
        try:
            at = var + offset
            return self._analyzer.can_prove(at >= 0) and self._analyzer.can_prove(at < rows)
        finally:
            for scope in reversed(scopes):
                scope.__exit__(None, None, None)


def _place(loop: ParallelLoop, var: ir.Var) -> tuple[Any, int] | None:
    """The one offset at which the loop's fragments are touched along `var`, and how many elements they have
    there; None where that is nowhere, no offset, or not one.
    """
    others = {v.__chandle__() for v in loop.vars if not v.same_as(var)}
    own = {var.__chandle__()}
    analyzer = sym.Analyzer()
    found: tuple[Any, int] | None = None
    for access in loop.accesses:
        if access.buffer.scope() != FRAGMENT:
            continue
        for at, size in zip(access.indices, access.buffer.shape, strict=True):
            if not uses(at, own):
                continue
            rows = constant(size)
            offset = analyzer.simplify(at - var)
            if rows is None or uses(offset, own | others) or _varies(loop, offset):
                return None
            if found is None:
                found = offset, rows
            elif found[1] != rows or constant(analyzer.simplify(found[0] - offset)) != 0:
                return None
    if found is None or constant(found[0]) == 0:
        return None
    return found


def _varies(loop: ParallelLoop, offset: Any) -> bool:
    """Whether an offset is not the same for all of the loop: it reads memory, or a loop inside counts it."""
    inside: set[int] = set()

    def visit(stmt: Any) -> Any:
        if isinstance(stmt, X.For):
            inside.add(stmt.loop_var.__chandle__())
        elif isinstance(stmt, X.Bind):
            inside.add(stmt.var.__chandle__())
        return remake(stmt, visit)

    visit(loop.body)
    return uses(offset, inside) or bool(loads(offset))


def _over_rows(loop: ParallelLoop, k: int, offset: Any, rows: int) -> X.For:
    """The loop with its k-th variable counting the fragment's elements."""
    var, extent = loop.vars[k], loop.extents[k]
    row = X.Var(f"{var.name}_at", "int32")
    before = row - offset
    guard = X.And(before >= 0, before < extent)
    moved = _simplified(substitute(loop.body, {var: before}), row)
    body: Any = X.IfThenElse(guard, moved, None, loop.stmt.span)
    variables = [*loop.vars[:k], row, *loop.vars[k + 1 :]]
    extents = [*loop.extents[:k], rows, *loop.extents[k + 1 :]]
    stmt: Any = loop.stmt
    levels: list[X.For] = []
    for _ in variables:
        levels.append(stmt)
        stmt = stmt.body
        if isinstance(stmt, X.SeqStmt) and len(stmt.seq) == 1:
            stmt = stmt.seq[0]
    for level, v, n in reversed(list(zip(levels, variables, extents, strict=True))):
        notes = dict(level.annotations.items())
        body = X.For(v, index(0), index(n), level.kind, body, annotations=notes, span=level.span)
    return body


def _simplified(body: Any, row: ir.Var) -> Any:
    """The body with `r - 16 * k + 16 * k` written as the `r` that layouts look for."""
    analyzer, own = sym.Analyzer(), {row.__chandle__()}

    def shorter(node: Any) -> Any:
        return simplify(analyzer, node) if uses(node, own) else node

    return tvm_ffi.structural_map(body, (X.Add, shorter))
