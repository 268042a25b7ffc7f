"""Where an accumulator changes between registers and simdgroup matrices.

In:  thread-level statements with `enter` and `leave` calls around every gemm (see `ops.gemm`).
Out: `keep_matrices`: the same with few of them. A loop in which only gemms touch an accumulator keeps it in
     matrices throughout; a constant fill right before `enter` fills the matrices instead. `expand`: the calls
     as loops over tiles.
Not: barriers of the block. `insert_sync` runs between the two and sees each call write the scratch tiles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.ir.tile_ops import seq
from tilelang.layout.instruction import SIMDGROUP_C
from tilelang.passes.walk import constant, remake, uses, walk, with_body
from tilelang.targets.metal.ops.gemm import ENTER, LEAVE, do, fill_matrices
from tilelang.targets.simt.block import unrolled
from tilelang.targets.simt.lower_tile_ops import ThreadFunction


def keep_matrices(thread: ThreadFunction) -> ThreadFunction:
    """Drop the changes of form that cancel, and allocate the matrices beside their registers."""
    body = thread.func.body
    pairs = {_registers(s).__chandle__(): _matrices(s) for s in walk(body) if _is(s, ENTER)}
    settle = _Settle(pairs, thread.block_level)
    body = _settle_memory(settle.statement(body))
    return replace(thread, func=thread.func.with_body(body), block_level=frozenset(settle.block_level))


def expand(func: Any) -> Any:
    """Write the remaining `enter` and `leave` calls out."""

    def rewrite(stmt: Any) -> Any:
        if _is(stmt, ENTER):
            return _tiles(stmt, "tl.metal.matrix_from_registers")
        if _is(stmt, LEAVE):
            return _tiles(stmt, "tl.metal.registers_from_matrix")
        return remake(stmt, rewrite)

    return func.with_body(rewrite(func.body))


def _tiles(stmt: Any, name: str) -> Any:
    scratch, _, _, lane, count = stmt.value.args
    t = X.Var("t", "int32")
    matrix = X.address_of(X.BufferLoad(_matrices(stmt), [t]))
    registers = X.address_of(X.BufferLoad(_registers(stmt), [t * SIMDGROUP_C.registers]))
    return unrolled(t, int(count.value), do(name, [scratch, matrix, registers, lane], stmt.span), stmt.span)


# Dropping changes of form


class _Settle:
    """Drops changes of form, or moves them to the edges of loops and conditions, from the inside out."""

    def __init__(self, pairs: dict[int, Any], block_level: Iterable[int]) -> None:
        self._pairs = pairs  # registers -> matrices
        self.block_level = set(block_level)
        self._made: list[Any] = []  # statements in `block_level`, so that their handles stay theirs

    def statement(self, stmt: Any) -> Any:
        if isinstance(stmt, X.SeqStmt):
            return seq(_cancel([p for s in stmt.seq for p in _parts(self.statement(s))]))
        if isinstance(stmt, X.For):
            inside, before, after = _lift(_parts(self.statement(stmt.body)))
            return seq([*before, self._instead(stmt, with_body(stmt, seq(inside))), *after])
        kind = type(stmt)
        if kind is X.IfThenElse and stmt.else_case is None:
            inside, before, after = _lift(_parts(self.statement(stmt.then_case)))
            new = X.IfThenElse(stmt.condition, seq(inside), None, stmt.span)
            return seq([*before, self._instead(stmt, new), *after])
        if isinstance(stmt, X.AllocBuffer) and stmt.buffer.__chandle__() in self._pairs:
            return seq([stmt, X.AllocBuffer(self._pairs[stmt.buffer.__chandle__()], span=stmt.span)])
        return self._instead(stmt, remake(stmt, self.statement))

    def _instead(self, old: Any, new: Any) -> Any:
        if old.__chandle__() in self.block_level and not new.same_as(old):
            self.block_level.add(new.__chandle__())
            self._made.append(new)
        return new


def _settle_memory(stmt: Any) -> Any:
    """A barrier before each `leave` outside loops: the scratch tile may then lie where the operands lay."""
    if isinstance(stmt, X.SeqStmt):
        parts = []
        for part in _parts(stmt):
            if _is(part, LEAVE):
                parts.append(do(tile_ops.SYNC, [], part.span))
            parts.append(part)
        return seq(parts)
    return remake(stmt, _settle_memory) if isinstance(stmt, X.AttrStmt) else stmt


def _lift(parts: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """(the rest, enters, leaves): accumulators that nothing but gemms touches in `parts` change form outside.

    In the matrices nothing is lost by not leaving: an iteration that does not run changes neither form.
    """
    before, after = [], []
    for enter in [p for p in parts if _is(p, ENTER)]:
        registers = {_registers(enter).__chandle__()}
        touching = [p for p in parts if uses(p, registers)]
        if len(touching) == 2 and touching[0] is enter and _is(touching[1], LEAVE):
            parts = [p for p in parts if p is not touching[0] and p is not touching[1]]
            before.append(touching[0])
            after.append(touching[1])
    return parts, before, after


def _cancel(parts: list[Any]) -> list[Any]:
    """Without a `leave` that the next use, an `enter`, undoes, and with fills made in the matrices."""
    changed = True
    while changed:
        changed = False
        for k, enter in enumerate(parts):
            if not _is(enter, ENTER):
                continue
            registers = _registers(enter)
            handle = {registers.__chandle__()}
            last = next((j for j in range(k - 1, -1, -1) if uses(parts[j], handle)), None)
            if last is None:
                continue
            if _is(parts[last], LEAVE):
                parts = [p for j, p in enumerate(parts) if j not in (last, k)]
            elif (value := _filled(parts[last], registers)) is not None:
                count = int(enter.value.args[4].value)
                fill = fill_matrices(_matrices(enter), count, value, parts[last].span)
                parts = [fill if j == last else p for j, p in enumerate(parts) if j != k]
            else:
                continue
            changed = True
            break
    return parts


def _filled(stmt: Any, registers: Any) -> Any | None:
    """The constant, if `stmt` sets every register to it."""
    loops: dict[int, int] = {}
    while (
        isinstance(stmt, X.For) and constant(stmt.min) == 0 and (extent := constant(stmt.extent)) is not None
    ):
        loops[stmt.loop_var.__chandle__()] = extent
        stmt = stmt.body
    if not isinstance(stmt, X.BufferStore) or not stmt.buffer.same_as(registers):
        return None
    at: Any = stmt.indices[0]
    value: Any = stmt.value.value if isinstance(stmt.value, X.Broadcast) else stmt.value
    if not isinstance(value, X.FloatImm | X.IntImm):
        return None
    width = constant(at.lanes) if isinstance(at, X.Ramp) else 1
    grid = np.meshgrid(*(np.arange(n) for n in loops.values()), indexing="ij")
    base = at.base if isinstance(at, X.Ramp) else at
    try:
        first = np.asarray(evaluate(base, dict(zip(loops, grid, strict=True)))).reshape(-1, 1)
    except NotEvaluable:
        return None
    lanes = np.arange(width or 1)
    return value if len(np.unique(first + lanes)) == int(registers.shape[0]) else None


def _is(stmt: Any, name: str) -> bool:
    return isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, name)


def _matrices(stmt: Any) -> Any:
    return stmt.value.args[1].args[0].source


def _registers(stmt: Any) -> Any:
    return stmt.value.args[2].args[0].source


def _parts(stmt: Any) -> list[Any]:
    return list(stmt.seq) if isinstance(stmt, X.SeqStmt) else [stmt]
