"""Thread code on a fragment that its author laid out: `f[t // 8, t % 8]`, an element that thread t holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import ir

from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.layout.fragment import Fragment
from tilelang.passes.layout_parts import LooseAccess
from tilelang.passes.owner_table import written_out
from tilelang.passes.walk import variables

_MOST_TOUCHES = 1 << 20  # threads times iterations that are looked at one by one


def own_element(
    fragment: Fragment,
    access: LooseAccess,
    thread_vars: Sequence[tuple[ir.Var, int]],
    named: Mapping[int, Any],
) -> bool:
    """Whether every thread that comes to `access` finds the element among its own; False if that is unknown.

    thread_vars: with their extents, x last; named: what names stand for.
    """
    indices = [written_out(i, named) for i in access.element.indices]
    conditions = [written_out(c, named) for c in access.conditions]
    used = {v.__chandle__() for e in (*indices, *conditions) for v in variables(e)}
    extents = {v.__chandle__(): n for v, n in thread_vars}
    extents |= {h: n for h, n in access.outer.items() if h in used and h not in extents}
    if np.prod(list(extents.values()), dtype=np.int64) > _MOST_TOUCHES:
        return False
    axes = np.meshgrid(*(np.arange(n) for n in extents.values()), indexing="ij")
    env = {h: axis.ravel() for h, axis in zip(extents, axes, strict=True)}
    thread = np.zeros(axes[0].size, int)
    for var, extent in thread_vars:
        thread = thread * extent + env[var.__chandle__()]
    try:
        parts = [np.broadcast_to(np.asarray(evaluate(i, env)), thread.shape) for i in indices]
    except NotEvaluable:
        return False
    here = np.ones(thread.shape, bool)
    for condition in conditions:
        try:
            here = here & np.asarray(evaluate(condition, env), bool)
        except NotEvaluable:
            continue  # it may hold for all
    for part, n in zip(parts, fragment.shape, strict=True):
        if ((part[here] < 0) | (part[here] >= n)).any():
            return False
    thread, parts = thread[here], [p[here] for p in parts]
    register = np.broadcast_to(np.asarray(fragment.register(parts)), thread.shape)
    element = np.ravel_multi_index(parts, fragment.shape)
    return bool((fragment.table[thread, register] == element).all())
