"""The iterations of a statement as numbers: all values of the loops, blocks and threads around it at once.

Most kernels have tiles of constant size, so what an index or a condition is in every iteration can simply be
computed. Rules take witnesses from here ("iterations (0, 0) and (0, 1)"), and what is computed is exact:
guards and loops whose bounds depend on outer loops are taken into account.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tilelang.analysis.subject import Subject
from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.ir.expressions import spelled_out
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Context, Guard, Loop
from tilelang.ir.values import Unknown, Value, as_int

from tvm import ir  # isort: skip

_MOST_POINTS = 1 << 20
_Range = tuple[Value, Value]  # first value and extent
_NONE: Mapping[ir.Var, ir.Expr] = MappingProxyType({})
_LARGEST = 1 << 60  # that is computed with
_SAMPLE = 3  # of a long axis: its first and last values, which is where indices leave and meet


@dataclass(frozen=True, eq=False)
class Iterations:
    """Points of an iteration space, one array axis for each of `variables`.

    `active` says which points really run. It is exact if `sure`; else it is what may run: a condition that
    reads memory, a `break` or an undecided branch may keep any of them from running. Not `whole`: long axes
    are represented by their ends, so that what is found is there, but not all is found.

    `inner`: where nothing but conditions on memory or unknown sizes and loops that may be empty keep it from
    being sure, the variables of the loops inside all of these: once these let a statement run, all their
    points do.
    """

    variables: tuple[ir.Var, ...]
    env: Mapping[int, Any]
    active: np.ndarray
    sure: bool
    whole: bool
    inner: frozenset[ir.Var] = frozenset()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.active.shape

    def values(self, value: Value) -> np.ndarray:
        """`value` at every point. Raises NotEvaluable where it reads memory or an unknown symbol."""
        number = as_int(value)
        if number is not None and abs(number) > _LARGEST:
            raise NotEvaluable
        found = number if number is not None else evaluate(value, self.env)
        return np.broadcast_to(np.asarray(found), self.shape)

    def at(self, point: int) -> dict[ir.Var, int]:
        """The values of all variables at a point, counted in row-major order."""
        places = np.unravel_index(point, self.shape)
        axes = (self.env[v.__chandle__()].reshape(-1) for v in self.variables)
        return {v: int(axis[k]) for v, axis, k in zip(self.variables, axes, places, strict=True)}


def iterations(
    subject: Subject,
    context: Context,
    values: Iterable[Value],
    *,
    last_of: Collection[ir.Var] = (),
    most: int = _MOST_POINTS,
    sizes: Mapping[ir.Var, int] | None = None,
) -> Iterations | None:
    """The iterations around a statement, over the variables that `values` and the guards depend on.

    Variables in `last_of` stand at their last value, those of a grid of unknown size at 0, which every launch
    has, those of a loop of unknown length that surely runs at their first; symbols have the numbers of
    `sizes`. At most about `most` points are made. None where `values` depend on something that is no number:
    a symbol, memory, a loop of unknown length.
    """
    symbols = sizes or {}
    ranges = ranges_around(subject, context) | {v: (n, 1) for v, n in symbols.items()}
    _hold(subject, context, ranges, last_of)
    wanted: set[ir.Var] = set()
    for value in values:
        if isinstance(value, Unknown):
            return None
        wanted |= free_vars(value)
    if not _close(wanted, ranges, subject.definitions):
        return None
    guards, undecided = _note_conditions(subject, context, ranges, wanted)
    sure = not context.maybe and not any(loop in subject.loops_with_jumps for loop in context.loops)
    empty_depth = _note_empty_loops(subject, context, ranges, wanted)
    ordered = [v for v in dict.fromkeys((*symbols, *ranges)) if v in wanted]
    derived = {v: subject.definitions[v] for v in subject.definitions if v in wanted and v not in ranges}
    found = _enumerate(ordered, ranges, derived, guards, sure, frozenset(last_of), most)
    if found is None or not (undecided or empty_depth):
        return found
    inner = _inside_of(undecided, empty_depth, context) if found.sure else frozenset()
    return replace(found, sure=False, inner=inner)


def _hold(
    subject: Subject, context: Context, ranges: dict[ir.Var, _Range], last_of: Collection[ir.Var]
) -> None:
    """Give one value to what is to stand at its last one, but has no known last value."""
    for var in subject.launch.block_vars if subject.launch is not None else ():
        if var in last_of and not _close({var}, ranges):
            ranges[var] = (0, 1)
    for var in [v for loop in context.loops for v in loop.vars if v in last_of and v in ranges]:
        low, extent = ranges[var]
        runs = not isinstance(extent, Unknown) and subject.prover.at_least(extent, 1) is True
        if runs and not _close({var}, ranges, subject.definitions):
            ranges[var] = (low, 1)


def _note_conditions(
    subject: Subject, context: Context, ranges: Mapping[ir.Var, _Range], wanted: set[ir.Var]
) -> tuple[list[Guard], list[Guard]]:
    """The conditions around a statement that depend on its iterations alone, whose variables are added to
    `wanted`, and the others.
    """
    decided: list[Guard] = []
    others: list[Guard] = []
    for guard in context.guards:
        inside = free_vars(guard.condition)
        if isinstance(guard.condition, Unknown) or not _close(inside, ranges, subject.definitions):
            others.append(guard)
        else:
            wanted |= inside
            decided.append(guard)
    return decided, others


def _note_empty_loops(
    subject: Subject, context: Context, ranges: Mapping[ir.Var, _Range], wanted: set[ir.Var]
) -> int:
    """Add to `wanted` what decides whether a loop is empty, and so whether its body runs at all. How many
    loops stand around, down to the last one of which that is not known; 0 where there is none.
    """
    empty_depth = 0
    for depth, loop in enumerate(context.loops, 1):
        for var, extent in zip(loop.vars, loop.extents, strict=False):
            number = as_int(extent)
            if var in wanted or (number is not None and number > 0):
                continue
            inside = free_vars(extent)
            if inside and not isinstance(extent, Unknown) and _close(inside, ranges, subject.definitions):
                wanted |= {var, *inside}
            elif subject.prover.at_least(extent, 1) is not True:
                empty_depth = depth
    return empty_depth


def _inside_of(guards: Sequence[Guard], depth: int, context: Context) -> frozenset[ir.Var]:
    """The variables of the loops that stand inside all of these conditions, and inside of `depth` loops."""
    depth = max(depth, *(len(context.loops) if g.depth is None else g.depth for g in guards), 0)
    return frozenset(v for loop in context.loops[depth:] for v in loop.vars)


def ranges_around(subject: Subject, context: Context) -> dict[ir.Var, _Range]:
    """Blocks, threads, then loops from outside in."""
    launch, found = subject.launch, {}
    if launch is not None:
        found |= dict(zip(launch.block_vars, ((0, e) for e in launch.grid), strict=False))
        found |= dict(zip(launch.thread_vars, ((0, e) for e in launch.threads or ()), strict=False))
    for loop in context.loops:
        if as_int(loop.step) == 1:
            found |= _of_loop(loop)
    return found


def variables_behind(subject: Subject, context: Context, values: Iterable[Value]) -> set[ir.Var]:
    """The variables that decide about `values` where a statement stands, and about whether it runs: also
    those behind the bounds of loops, behind names and behind the conditions around it.
    """
    all_values = (*values, *(guard.condition for guard in context.guards))
    found = {v for value in all_values if not isinstance(value, Unknown) for v in free_vars(value)}
    _close(found, ranges_around(subject, context), subject.definitions)
    return found


def _of_loop(loop: Loop) -> dict[ir.Var, _Range]:
    return {v: (m, e) for v, m, e in zip(loop.vars, loop.mins, loop.extents, strict=False)}


def _close(
    wanted: set[ir.Var],
    ranges: Mapping[ir.Var, _Range],
    definitions: Mapping[ir.Var, ir.Expr] = _NONE,
) -> bool:
    """Add what the bounds and the definitions of `wanted` depend on; False if some of it has no range."""
    todo = list(wanted)
    while todo:
        var = todo.pop()
        if var not in ranges and var not in definitions:
            return False
        for bound in ranges[var] if var in ranges else (definitions[var],):
            if isinstance(bound, Unknown):
                return False
            fresh = free_vars(bound) - wanted
            wanted |= fresh
            todo += fresh
    return True


def _enumerate(
    ordered: list[ir.Var],
    ranges: Mapping[ir.Var, _Range],
    derived: Mapping[ir.Var, ir.Expr],
    guards: list[Guard],
    sure: bool,
    last_of: frozenset[ir.Var],
    most: int,
) -> Iterations | None:
    """All points of `ordered`, from outside in; `derived` names have their values at each."""
    sizes = [1 if v in last_of else as_int(ranges[v][1]) for v in ordered]
    env: dict[int, Any] = {}
    active: np.ndarray = np.ones((), bool)
    whole, left = True, most
    try:
        for k, var in enumerate(ordered):
            low, extent = (np.asarray(_number(spelled_out(b, derived), env)) for b in ranges[var])
            first, end = int(low.min()), int((low + extent).max())
            if end <= first:
                return None
            # Axes that come later need room too; those of unknown length are taken to be short.
            later = int(np.prod([s or 1 for s in sizes[k + 1 :]], dtype=np.int64))
            axis = np.array([end - 1]) if var in last_of else _axis(first, end, left // max(1, later))
            whole = whole and len(axis) == end - first
            left //= len(axis)
            here = env[var.__chandle__()] = axis.reshape(
                [len(axis) if j == k else 1 for j in range(len(sizes))]
            )
            if low.ndim or extent.ndim:
                active = active & (here >= low) & (here < low + extent)
        for var, value in derived.items():  # in the order of the program: later ones use earlier ones
            env[var.__chandle__()] = np.asarray(_number(value, env))
    except NotEvaluable:
        return None
    for guard in guards:
        try:
            holds = np.asarray(_number(guard.condition, env)).astype(bool)
        except NotEvaluable:
            sure = False
            continue
        active = active & (~holds if guard.negated else holds)
    full = tuple(env[v.__chandle__()].size for v in ordered)
    return Iterations(tuple(ordered), env, np.broadcast_to(active, full), sure, whole)


def _axis(first: int, end: int, room: int) -> np.ndarray:
    """All values from `first` to before `end`, or its ends where there is not as much room."""
    if end - first <= max(room, _SAMPLE):
        return np.arange(first, end)
    return np.array([*range(first, first + _SAMPLE - 1), end - 1])


def _number(value: Value, env: Mapping[int, Any]) -> Any:
    number = as_int(value)
    return number if number is not None else evaluate(value, env)
