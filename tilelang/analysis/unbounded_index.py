"""index-out-of-bounds of tiles whose index grows with the number of blocks, where that number is open.

A tile has a fixed size and nothing guards it: `window[bx + 2]` leaves it as soon as the grid is large enough.
Silent under conditions, where the index is cut (`%`, a minimum), and where a grid counts things one by one
(`T.Kernel(batch)`): a table of them may have room for the most that calls give.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.affine import affine
from tilelang.analysis.kernel_facts import size_text
from tilelang.analysis.subject import Subject, is_tile, soften
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.bounds import INDEX_GROWS
from tilelang.ir.prove import free_vars
from tilelang.ir.values import Unknown, as_int, show
from tilelang.ops.operands import declared

from tvm import tirx as X  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """The first of each tile."""
    launch = subject.launch
    if launch is None or subject.assumptions:
        return
    symbols = {s.var for s in subject.program.symbols}
    open_grid = {
        v: e
        for v, e in zip(launch.block_vars, launch.grid, strict=False)
        if isinstance(e, X.FloorDiv) and free_vars(e) <= symbols
    }
    told: set[object] = set()
    for access in subject.program.accesses if open_grid else ():
        buffer = access.buffer
        if buffer in told or not is_tile(buffer) or access.context.guards or access.context.maybe:
            continue
        for dim, index in enumerate(access.indices[: len(buffer.shape)]):
            form = None if isinstance(index.start, Unknown) else affine(index.start)
            terms = {} if form is None else form.terms
            var = next((v for v, c in terms.items() if v in open_grid and c > 0), None)
            if var is not None and as_int(buffer.shape[dim]) is not None:
                told.add(buffer)
                problem = INDEX_GROWS.at(
                    index.span,
                    related=declared(buffer),
                    index=show(index.start if index.written is None else index.written),
                    buffer=buffer.name,
                    var=var.name,
                    blocks=size_text(open_grid[var]),
                    dim=dim,
                    size=show(buffer.shape[dim]),
                )
                yield soften(problem, access.context)
                break
