"""reducer-update: a store to a reducer in T.Parallel that cannot be shared out over the threads.

What the lowering of reducers refuses (`passes/expand_reducers.py`), told before anything is lowered; sums of
too many values, which depend on how an index is made, are left to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm import ir

from tilelang.analysis.parallel_reduction_race import parallel_stores
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.layout import REDUCER_UPDATE
from tilelang.ir.expressions import loads_of
from tilelang.ir.folds import fold_into, same_element
from tilelang.ir.tile_program import Store
from tilelang.ir.values import show
from tilelang.ops.operands import declared


def check(subject: Subject) -> Iterator[Problem]:
    """On the CPU the iterations of a loop run one after the other, and any update will do."""
    if subject.target.kind == "cpu":
        return
    for node in parallel_stores(subject, ("local.reducer",)):
        why = None if _is_own_element(node) else _refused(node)
        if why is not None:
            problem = REDUCER_UPDATE.at(
                node.span, related=declared(node.buffer), buffer=node.buffer.name, why=why
            )
            yield soften(problem, node.context)


def _is_own_element(node: Store) -> bool:
    """Whether each iteration writes an element of its own and reads no other one, as in a fragment."""
    variables = node.context.parallel_vars()
    own = all(any(isinstance(i, ir.Var) and i.same_as(v) for i in node.indices) for v in variables)
    loads = [load for load in loads_of(node.value) if load.source.same_as(node.buffer.var)]
    return own and all(same_element(load.indices, node.indices) for load in loads)


def _refused(node: Store) -> str | None:
    """Why the values of the iterations cannot be kept and folded; None where they can."""
    if fold_into(node.buffer.var, node.indices, str(node.buffer.dtype), node.value) is None:
        return "the new value is no fold of the old one, as in acc[i] += x or acc[i] = T.max(acc[i], x)"
    read = next((i for i in node.indices if loads_of(i)), None)
    return None if read is None else f"the index `{show(read)}` is no variable of the loop"
