"""one-row-for-all: a loop over all rows that uses the statistic of one row for each of them.

`m[0]` in place of `m[i]`, where `T.reduce_max(s, m, dim=1)` made a maximum for each row. A constant, a block
or an outer loop in the index picks one row; silent where the statement uses the row's own value too (all
relative to the first), and where outer loops go through most of the rows, by ones or by pairs.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.affine import affine
from tilelang.analysis.global_places import global_places
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.bounds import ONE_ROW_FOR_ALL
from tilelang.diagnostics.span import Span
from tilelang.ir.expressions import loads_of
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Store, walk
from tilelang.ir.values import Buffer, Unknown, as_int, show
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """The first read of a statement."""
    if not any(record.op == "reduce" for record in subject.records):
        return
    stores = [n for n in walk(subject.program.body) if isinstance(n, Store)]
    statistics = _statistics(subject, stores)
    by_var = {b.var: b for b in statistics if b.known}
    for store in stores:
        for load in loads_of(store.value):
            tile = by_var.get(load.source)
            if (
                tile is None
                or len(load.indices) != 1
                or any(_own(store, tile, x) for x in loads_of(store.value))
            ):
                continue
            var = _over_rows(subject, store, tile)
            if var is None or _of_one_row(subject, store, tile, load.indices[0]):
                continue
            if _picks_one(subject, load.indices[0], store, tile):
                problem = ONE_ROW_FOR_ALL.at(
                    _place(subject, store, tile, load.indices[0]),
                    related=declared(tile),
                    access=f"{tile.name}[{show(load.indices[0])}]",
                    count=show(tile.shape[0]),
                    var=var.name,
                    buffer=tile.name,
                )
                yield soften(problem, store.context)
                break


def _statistics(subject: Subject, stores: list[Store]) -> set[Buffer]:
    """Fragments of one value per row: results of reductions, copies of them, and what is computed from them
    element by element.
    """
    found = {
        out.buffer
        for record in subject.records
        if record.op == "reduce" and (out := record.region("out")) is not None and _fits(out.buffer)
    }
    by_var = {b.var: b for b in subject.program.buffers if b.known}
    while True:
        more = {
            dst.buffer
            for record in subject.records
            if record.op == "copy"
            and (src := record.region("src")) is not None
            and (dst := record.region("dst")) is not None
            and src.buffer in found
            and _fits(dst.buffer)
        }
        for store in stores:
            if _fits(store.buffer) and len(store.indices) == 1 and isinstance(store.indices[0], ir.Var):
                for load in loads_of(store.value):
                    own = len(load.indices) == 1 and load.indices[0] is not None
                    if own and by_var.get(load.source) in found and store.indices[0].same_as(load.indices[0]):
                        more.add(store.buffer)
        if more <= found:
            return found
        found |= more


def _fits(buffer: Buffer) -> bool:
    size = as_int(buffer.shape[0]) if len(buffer.shape) == 1 else None
    return buffer.scope == "local.fragment" and buffer.view_of is None and size is not None and size > 1


def _over_rows(subject: Subject, store: Store, tile: Buffer) -> ir.Var | None:
    """The variable of T.Parallel that goes over as many elements as the fragment has, and indexes what is
    written; the first dimension's if there are two.
    """
    rows = as_int(tile.shape[0])
    parallel = {
        v for v in store.context.parallel_vars() if as_int(subject.ranges.get(v, (0, None))[1]) == rows
    }
    for index in store.indices:
        for var in free_vars(index):
            if var in parallel:
                return var
    return None


def _own(store: Store, tile: Buffer, load: ir.TensorLoad) -> bool:
    """Whether a load takes the element that belongs to the iteration."""
    inside = set(store.context.parallel_vars())
    return load.source.same_as(tile.var) and any(inside & free_vars(i) for i in load.indices)


def _of_one_row(subject: Subject, store: Store, tile: Buffer, index: object) -> bool:
    """Whether the statement takes other elements of that row too, `s[0, j] - m[0]`: then j is a column."""
    by_var = {b.var: b for b in subject.program.buffers if b.known and b.scope != "global"}
    return any(
        other is not None
        and other is not tile
        and len(load.indices) > 1
        and any(show(i) == show(index) for i in load.indices)
        for load in loads_of(store.value)
        for other in (by_var.get(load.source),)
    )


def _picks_one(subject: Subject, index: object, store: Store, tile: Buffer) -> bool:
    if isinstance(index, Unknown):
        return False
    behind = free_vars(index)
    known = {b.var for b in subject.program.buffers if b.known}
    if behind & (known | set(store.context.parallel_vars())) or not behind <= set(subject.ranges):
        return False
    rows, taken = as_int(tile.shape[0]), len({show(x.indices[0]) for x in _loads_from(store, tile)})
    for var in behind:
        steps = as_int(subject.ranges[var][1])
        if steps is None:
            if not _counts_tiles(subject, var):
                return False
            continue
        taken *= steps
    return not behind or (rows is not None and 2 * taken < rows)


def _counts_tiles(subject: Subject, var: ir.Var) -> bool:
    """Whether an open loop or grid goes through tensors in tiles, and never element by element."""
    forms = [affine(s) for p in subject.shared(global_places) for s in p.starts]
    steps = {abs(f.coefficient(var)) for f in forms if f is not None and f.coefficient(var)}
    return bool(steps) and 1 not in steps


def _loads_from(store: Store, tile: Buffer) -> list[ir.TensorLoad]:
    return [x for x in loads_of(store.value) if x.source.same_as(tile.var)]


def _place(subject: Subject, store: Store, tile: Buffer, index: object) -> Span:
    """Where the element is written in the statement."""
    for access in subject.program.accesses:
        mine = access.buffer is tile and access.mode == "read" and access.context is store.context
        if mine and show(access.indices[0].start) == show(index):
            return access.span
    return store.span
