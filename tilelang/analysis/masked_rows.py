"""Rows of scores of which a mask leaves nothing: their maximum stays at minus infinity, and exp(-inf - -inf)
is not a number. What online-softmax says of masks: `j < i` for `j <= i`, or a comparison turned round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilelang.analysis.affine import affine
from tilelang.analysis.subject import Subject
from tilelang.analysis.tensor_use import usual_sizes
from tilelang.ir.evaluate import NotEvaluable, evaluate, is_choice
from tilelang.ir.expressions import conjuncts, spelled_out, without_casts
from tilelang.ir.tile_program import Store, walk
from tilelang.ir.values import Buffer, Unknown, Value, as_int

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_MOST = 1 << 21  # points that are looked at


@dataclass(frozen=True, eq=False)
class MaskedRow:
    """The mask and the first row of the first block that nothing is left of."""

    store: Store
    row: int
    of: int  # rows of the tile


def masked_row(subject: Subject, scores: Buffer, dim: int) -> MaskedRow | None:
    """The first such row where `scores` are masked with minus infinity and reduced along `dim`. None where a
    mask depends on memory, on sizes that are no tensor's, or on what blocks share among each other.
    """
    for node in walk(subject.program.body):
        if isinstance(node, Store) and node.buffer is scores and len(node.indices) > dim:
            kept = _kept(node.value)
            column = node.indices[dim]
            if kept is not None and isinstance(column, ir.Var) and not node.context.guards:
                rows = [v for k, v in enumerate(node.indices) if k != dim and isinstance(v, ir.Var)]
                found = _Mask(subject, node, *kept, column, rows).first_empty()
                if found is not None:
                    return MaskedRow(node, *found)
    return None


def _kept(value: Value) -> tuple[Value, bool] | None:
    """The condition under which a score stays, and whether it is the contrary of what is written."""
    if not is_choice(value):
        return None
    condition, yes, no = value.args
    hidden = [_is_minus_infinity(v) for v in (yes, no)]
    return (condition, hidden[0]) if hidden[0] != hidden[1] else None


def _is_minus_infinity(value: Value) -> bool:
    value = without_casts(value)
    return isinstance(value, X.FloatImm) and value.value == -float("inf")


class _Mask:
    """One mask: its condition, and which variables count rows and which count columns."""

    def __init__(
        self,
        subject: Subject,
        store: Store,
        condition: Value,
        negated: bool,
        column: ir.Var,
        rows: list[ir.Var],
    ) -> None:
        self._subject = subject
        self._store = store
        self._negated = negated
        self._condition = spelled_out(condition, subject.definitions)
        self._column = column
        self._rows = rows

    def first_empty(self) -> tuple[int, int] | None:
        """The number of the first row that keeps nothing, of how many, in the first block."""
        rows = self._counts_rows()
        launch = self._subject.launch
        if rows is None or launch is None or len(self._rows) != 1:
            return None
        env: dict[int, Any] = {v.__chandle__(): n for v, n in self._subject.shared(usual_sizes).items()}
        env |= {v.__chandle__(): 0 for v in launch.block_vars}
        try:
            kept, real = self._in_first_block(env, rows)
        except NotEvaluable:
            return None
        empty = np.flatnonzero(real & ~kept)
        return (int(empty[0]), kept.size) if empty.size else None

    def _in_first_block(self, env: dict[int, Any], rows: set[ir.Var]) -> tuple[np.ndarray, np.ndarray]:
        """Per row whether anything is kept, and whether it is asked for at all: rows past the end are not."""
        order: list[ir.Var] = []
        ranges: dict[ir.Var, np.ndarray] = {}
        for loop in self._store.context.loops:
            if loop in self._subject.loops_with_jumps or as_int(loop.step) != 1:
                raise NotEvaluable
            for var, low, extent in zip(loop.vars, loop.mins, loop.extents, strict=True):
                first, count = (_number(b, env) for b in (low, extent))
                ranges[var] = np.arange(first, first + count)
                order.append(var)
        if int(np.prod([len(r) for r in ranges.values()], dtype=np.int64)) > _MOST:
            raise NotEvaluable
        for k, var in enumerate(order):
            shape = [1] * len(order)
            shape[k] = len(ranges[var])
            env[var.__chandle__()] = ranges[var].reshape(shape)
        full = tuple(len(ranges[v]) for v in order)
        if 0 in full:
            raise NotEvaluable
        holds = np.broadcast_to(np.asarray(evaluate(self._condition, env)).astype(bool), full) ^ self._negated
        asked = np.ones(full, bool)
        for leaf in conjuncts(self._condition, self._negated):
            if not self._about_columns(leaf[0]):
                asked &= np.asarray(evaluate(leaf[0], env)).astype(bool) ^ leaf[1]
        row = self._rows[0]
        others = tuple(k for k, v in enumerate(order) if not v.same_as(row) and v not in rows)
        if len(order) - len(others) != 1:  # a loop inside the block that goes through rows too
            raise NotEvaluable
        return np.asarray(holds.any(axis=others)), np.asarray(asked.any(axis=others))

    def _about_columns(self, condition: Value) -> bool:
        form = _difference(condition)
        return form is None or self._column in form

    def _counts_rows(self) -> set[ir.Var] | None:
        """The variables that stand against the column in comparisons; None where that is not known, or blocks
        share the columns of a row.
        """
        rows: set[ir.Var] = {*self._rows}
        columns: set[ir.Var] = {self._column}
        for leaf in _leaves(self._condition):
            form = _difference(leaf)
            if form is None:
                return None
            sign = form.get(self._column)
            if sign is None:
                continue
            for var, step in form.items():
                (columns if step * sign > 0 else rows).add(var)
        launch = self._subject.launch
        blocks = set(launch.block_vars) if launch is not None else set()
        return None if rows & columns or columns & blocks else rows


def _leaves(condition: Value) -> Iterator[Value]:
    if isinstance(condition, X.Not):
        yield from _leaves(condition.a)
    elif isinstance(condition, X.And | X.Or):
        yield from _leaves(condition.a)
        yield from _leaves(condition.b)
    else:
        yield condition


def _difference(condition: Value) -> Mapping[ir.Var, int] | None:
    """Left less right side of a comparison, as coefficients of variables."""
    if not isinstance(condition, X.LT | X.LE | X.GT | X.GE):
        return None
    form = affine(condition.a - condition.b)
    return None if form is None else form.terms


def _number(value: Value, env: Mapping[int, Any]) -> int:
    if isinstance(value, Unknown):
        raise NotEvaluable
    known = as_int(value)
    return known if known is not None else int(evaluate(value, env))
