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
from tilelang.ir.prove import free_vars, substitute
from tilelang.ir.tile_program import Context, Guard, Loop
from tilelang.ir.values import Unknown, Value, as_int

from tvm import ir  # isort: skip

_MOST_POINTS = 1 << 20
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
    ranges = ranges_around(subject, context) | {v: (n, 1) for v, n in (sizes or {}).items()}
    for var in subject.launch.block_vars if subject.launch is not None else ():
        if var in last_of and not _close({var}, ranges):
            ranges[var] = (0, 1)
    for var in [v for loop in context.loops for v in loop.vars if v in last_of and v in ranges]:
        low, extent = ranges[var]
        runs = not isinstance(extent, Unknown) and subject.prover.at_least(extent, 1) is True
        if runs and not _close({var}, ranges, subject.definitions):
            ranges[var] = (low, 1)
    wanted: set[ir.Var] = set()
    for value in values:
        if isinstance(value, Unknown):
            return None
        wanted |= free_vars(value)
    if not _close(wanted, ranges, subject.definitions):
        return None
    sure = not context.maybe and not any(loop in subject.loops_with_jumps for loop in context.loops)
    guards = []
    undecided: list[Guard] = []
    for guard in context.guards:
        inside = free_vars(guard.condition)
        if isinstance(guard.condition, Unknown) or not _close(inside, ranges, subject.definitions):
            undecided.append(guard)
            continue
        wanted |= inside
        guards.append(guard)
    empty_depth = 0  # of the loops of open length: behind the last one that may be empty
    for depth, loop in enumerate(context.loops, 1):  # an empty one keeps its body from running at all
        for var, extent in zip(loop.vars, loop.extents, strict=False):
            number = as_int(extent)
            if var in wanted or (number is not None and number > 0):
                continue
            inside = free_vars(extent)
            if inside and not isinstance(extent, Unknown) and _close(inside, ranges, subject.definitions):
                wanted |= {var, *inside}
            elif subject.prover.at_least(extent, 1) is not True:
                empty_depth = depth
    ordered = [v for v in dict.fromkeys((*(sizes or {}), *ranges)) if v in wanted]
    derived = {v: subject.definitions[v] for v in subject.definitions if v in wanted and v not in ranges}
    found = _enumerate(ordered, ranges, derived, guards, sure, frozenset(last_of), most)
    if found is None or not (undecided or empty_depth):
        return found
    inner = _inside_of(undecided, empty_depth, context) if found.sure else frozenset()
    return replace(found, sure=False, inner=inner)


def _inside_of(guards: Sequence[Guard], depth: int, context: Context) -> frozenset[ir.Var]:
    """The variables of the loops that stand inside all of these conditions, and inside of `depth` loops."""
    depth = max(depth, *(len(context.loops) if g.depth is None else g.depth for g in guards), 0)
    return frozenset(v for loop in context.loops[depth:] for v in loop.vars)


def ranges_around(subject: Subject, context: Context) -> dict[ir.Var, tuple[Value, Value]]:
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


def _of_loop(loop: Loop) -> dict[ir.Var, tuple[Value, Value]]:
    return {v: (m, e) for v, m, e in zip(loop.vars, loop.mins, loop.extents, strict=False)}


def _close(
    wanted: set[ir.Var],
    ranges: Mapping[ir.Var, tuple[Value, Value]],
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
    ranges: Mapping[ir.Var, tuple[Value, Value]],
    derived: Mapping[ir.Var, ir.Expr],
    guards: list[Guard],
    sure: bool,
    last_of: frozenset[ir.Var],
    most: int,
) -> Iterations | None:
    env: dict[int, Any] = {}
    active: np.ndarray = np.ones((), bool)
    whole = True
    sizes = [1 if v in last_of else as_int(ranges[v][1]) for v in ordered]
    left = most
    try:
        for k, var in enumerate(ordered):
            low, extent = (np.asarray(_number(_spelled_out(b, derived), env)) for b in ranges[var])
            first, end = int(low.min()), int((low + extent).max())
            if end <= first:
                return None
            # Axes that come later need room too; those of unknown length are taken to be short.
            later = int(np.prod([s or 1 for s in sizes[k + 1 :]], dtype=np.int64))
            axis = np.arange(first, end) if end - first <= most else np.array([first, end - 1])
            if var in last_of:
                axis, whole = axis[-1:], False
            if len(axis) * max(1, later) > left:
                keep = min(len(axis), _SAMPLE)
                axis = np.unique(np.concatenate([axis[: keep - 1], axis[-1:]]))
                whole = False
            left //= max(1, len(axis))
            shape = [1] * len(ordered)
            shape[k] = len(axis)
            env[var.__chandle__()] = axis.reshape(shape)
            if low.ndim or extent.ndim:
                here = env[var.__chandle__()]
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


def _spelled_out(value: Value, derived: Mapping[ir.Var, ir.Expr]) -> Value:
    """A bound without derived names: they get their values when all axes are there."""
    for _ in derived:
        if not isinstance(value, ir.Expr) or not free_vars(value) & derived.keys():
            break
        value = substitute(value, derived)
    return value


def _number(value: Value, env: Mapping[int, Any]) -> Any:
    number = as_int(value)
    return number if number is not None else evaluate(value, env)
