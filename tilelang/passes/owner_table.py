"""Which thread of a block touches which element of a buffer.

Known where the indices depend on nothing but the thread and loops that end at a known number at the latest,
inside the access's statement or around it: all iterations up to there count, conditions do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.ir.teams import Team
from tilelang.passes.walk import constant, substitute, variables

NOBODY, MANY = -1, -2  # in place of a thread's number
_MOST_ELEMENTS = 1 << 20  # of a buffer
_MOST_TOUCHES = 1 << 22  # threads times iterations that are looked at one by one


@dataclass(frozen=True)
class Threads:
    """Who comes to an access. `extents`: of the thread variables by handle, x first; `team`: all that do,
    None for the block. `blocks`: variables of the grid, to take elements by their place in the block's part,
    which is supposed to be the same for all blocks. `named`: what names stand for, by handle.
    """

    extents: Mapping[int, int]
    team: Team | None = None
    blocks: Iterable[int] = ()
    named: Mapping[int, Any] = field(default_factory=dict)


def owner_table(
    element: Any, buffer: ir.Var, threads: Threads, loops: Mapping[int, int]
) -> np.ndarray | None:
    """Element of `buffer` -> the thread that touches it by `element`, `NOBODY` or `MANY`; None if unknown.

    loops: their variables, each running from 0 to a number, or not as far.
    """
    shape = [n for n in map(constant, buffer.shape) if n is not None]
    if len(shape) < len(buffer.shape) or isinstance(element, ir.TensorRegion):
        return None
    if np.prod(shape, dtype=np.int64) > _MOST_ELEMENTS:
        return None
    found = _touches(element, shape, threads, loops)
    if found is None:
        return None
    who, at, lanes = found
    owners = np.full(int(np.prod(shape)), NOBODY)
    for lane in range(lanes):
        inside = at + lane < len(owners)
        place, mine = (at + lane)[inside], who[inside]
        before = owners[place]
        owners[place] = np.where((before == NOBODY) | (before == mine), mine, MANY)
        owners[place[owners[place] != mine]] = MANY  # several threads in this very assignment
    return owners


def value_range(expr: Any, loops: Mapping[int, int], named: Mapping[int, Any]) -> tuple[int, int] | None:
    """The least and the greatest value of `expr` while `loops` run from 0 to their ends; None if unknown."""
    known = constant(expr)
    if known is not None:
        return known, known
    written = written_out(expr, named)
    used = {v.__chandle__() for v in variables(written)}
    extents = {v: n for v, n in loops.items() if v in used}
    if np.prod(list(extents.values()), dtype=np.int64) > _MOST_TOUCHES or 0 in extents.values():
        return None
    axes = np.meshgrid(*(np.arange(n) for n in extents.values()), indexing="ij", sparse=True)
    try:
        values = np.asarray(evaluate(written, dict(zip(extents, axes, strict=True))))
    except NotEvaluable:
        return None
    return int(values.min()), int(values.max())


def _touches(
    element: Any, shape: list[int], threads: Threads, loops: Mapping[int, int]
) -> tuple[np.ndarray, np.ndarray, int] | None:
    """(the thread, the first element) of every access, and how many elements follow each other in one."""
    indices = [written_out(i, threads.named) for i in element.indices]
    used = {v.__chandle__() for i in indices for v in variables(i)}
    # Arrays have few dimensions; a statement has as many loops as its author unrolls.
    extents = {**threads.extents, **{v: n for v, n in loops.items() if v in used}}
    axes = np.meshgrid(*(np.arange(n) for n in extents.values()), indexing="ij", sparse=True)
    env = dict.fromkeys(threads.blocks, np.zeros((), int)) | dict(zip(extents, axes, strict=True))
    lanes, parts = 1, []
    try:
        for i in indices:
            if isinstance(i, X.Ramp):
                lanes, i = int(i.lanes), i.base
            parts.append(np.asarray(evaluate(i, env)))
    except NotEvaluable:
        return None
    thread, scale = np.zeros((), int), 1
    for handle, extent in threads.extents.items():
        thread, scale = thread + env[handle] * scale, scale * extent
    full = np.broadcast_shapes(*(p.shape for p in parts), thread.shape)
    if np.prod(full, dtype=np.int64) > _MOST_TOUCHES:
        return None
    flat, inside = np.zeros((), int), np.ones((), bool)
    for part, n in zip(parts, shape, strict=True):
        flat = flat * n + part
        inside = inside & (part >= 0) & (part < n)  # outside only under a condition
    who, at = np.broadcast_to(thread, full).ravel(), np.broadcast_to(flat, full).ravel()
    here = np.broadcast_to(inside, full).ravel()
    if threads.team is not None:
        here = here & threads.team.has(who)
    return who[here], at[here], lanes


def written_out(expr: Any, named: Mapping[int, Any]) -> Any:
    """`expr` with names replaced by what they stand for, names inside that too."""
    values = {v: named[v.__chandle__()] for v in variables(expr) if v.__chandle__() in named}
    return written_out(substitute(expr, values), named) if values else expr
