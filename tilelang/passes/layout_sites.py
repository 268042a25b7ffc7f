"""The statements whose layouts are inferred: what each does with the fragments that it touches.

A Parallel loop is one; so is a reduction, seen as a loop over its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.analysis.out_of_step import Around
from tilelang.ops.reduce import Reduce
from tilelang.passes.parallel_loop import LoopAccess, ParallelLoop, VectorWidths, in_memory
from tilelang.passes.walk import FRAGMENT, bits_of, children, constant, loads


@dataclass(frozen=True, eq=False)
class Use:
    """A fragment as a site indexes it: `dims[k]` is the loop variable that is exactly index k, None for
    another index. `value` is what a store writes there.
    """

    buffer: ir.Var
    indices: tuple[Any, ...]
    mode: str
    dims: tuple[int | None, ...]
    value: Any = None

    @property
    def handle(self) -> int:
        return self.buffer.__chandle__()


@dataclass(eq=False)
class Site:
    """A Parallel loop, or a reduction seen as a loop over its source."""

    stmt: Any
    vars: tuple[ir.Var, ...]
    extents: tuple[int, ...]
    uses: list[Use]
    span: Any
    vector: int
    outer: dict[int, int]  # variables of serial loops around it: handle -> extent
    memory: bool = False
    reduce: Reduce | None = None
    copy: bool = False  # moves elements and does nothing else
    by_author: bool = False  # an elementwise loop of the kernel's own, not one that an operation became
    threads: int = 0  # of the block or the team that runs it
    packed: bool = False  # in memory two elements share a byte

    def fragments(self) -> Iterator[Use]:
        """The uses, written ones first."""
        yield from (u for u in self.uses if u.mode == "write")
        yield from (u for u in self.uses if u.mode != "write")


def loop_site(
    loop: ParallelLoop,
    outer: dict[int, int],
    threads: int,
    widths: VectorWidths,
    root: Callable[[int], int],
) -> Site:
    """A Parallel loop of constant extents, inside the serial loops `outer`; `root`: a view -> its buffer."""
    assert loop.shape is not None
    limit = loop.note("coalesced_width")
    vector = widths.loop(loop)
    uses = [
        Use(a.buffer, a.indices, a.mode, loop_dims(a.indices, loop.vars), _plain_value(loop, a, root))
        for a in loop.accesses
        if a.buffer.scope() == FRAGMENT
    ]
    return Site(
        loop.stmt,
        loop.vars,
        loop.shape,
        uses,
        loop.span,
        vector if limit is None else min(vector, int(limit)),
        outer | inner_loops(loop.body),
        memory=any(in_memory(a.buffer) for a in loop.accesses),
        copy=loop.note("tl.op") == "copy" and isinstance(loop.body, X.BufferStore),
        by_author=loop.note("tl.op") is None,
        threads=threads,
        packed=any(in_memory(a.buffer) and bits_of(str(a.buffer.dtype)) < 8 for a in loop.accesses),
    )


def _plain_value(loop: ParallelLoop, access: LoopAccess, root: Callable[[int], int]) -> Any:
    """What a store writes, unless it depends on a fragment that the loop writes."""
    if access.mode != "write" or not isinstance(access.element, X.BufferStore):
        return None
    written = {root(a.buffer.__chandle__()) for a in loop.accesses if a.mode == "write"}
    read = {root(load.source.__chandle__()) for load in loads(access.element.value)}
    return None if written & read else access.element.value


def reduction_site(stmt: Any, reduce: Reduce, outer: dict[int, int], threads: int) -> Site:
    """The reduction `stmt`, inside the serial loops `outer`."""
    extents = tuple(int(r.extent) for r in reduce.src.region)
    loop_vars = tuple(X.Var(f"r{k}", "int32") for k in range(len(extents)))
    uses = []
    if reduce.src.source.scope() == FRAGMENT:
        indices = tuple(v + r.min for v, r in zip(loop_vars, reduce.src.region, strict=True))
        plain = tuple(k if constant(r.min) == 0 else None for k, r in enumerate(reduce.src.region))
        uses.append(Use(reduce.src.source, indices, "read", plain))
    if reduce.dst.source.scope() == FRAGMENT:
        uses.append(Use(reduce.dst.source, (), "reduce", reduced_dims(reduce)))
    return Site(
        stmt, loop_vars, extents, uses, reduce.span, vector=1, outer=outer, reduce=reduce, threads=threads
    )


def around_site(site: Site) -> Around:
    """The site's loops as those around an index. Serial variables are taken to begin at 0."""
    extents = {v.__chandle__(): n for v, n in zip(site.vars, site.extents, strict=True)}

    def values(var: ir.Var) -> tuple[int, int] | None:
        end = site.outer.get(var.__chandle__(), 0)
        return (0, end - 1) if end > 1 else None

    return Around(site.vars, lambda v: extents.get(v.__chandle__()), values)


def loop_dims(indices: tuple[Any, ...], loop_vars: tuple[ir.Var, ...]) -> tuple[int | None, ...]:
    """For each index the loop variable that it is exactly, by its number; None for another index."""
    handles = [v.__chandle__() for v in loop_vars]
    return tuple(
        handles.index(i.__chandle__()) if isinstance(i, ir.Var) and i.__chandle__() in handles else None
        for i in indices
    )


def reduced_dims(reduce: Reduce) -> tuple[int | None, ...]:
    """For each dimension of the destination the dimension of the source, None where the reduced one is kept
    as 1.
    """
    count = len(reduce.src.region)
    if len(reduce.dst.region) == count:
        return tuple(None if k == reduce.dim else k for k in range(count))
    kept = [k for k in range(count) if k != reduce.dim]
    return tuple(kept) if kept else (None,)


def inner_loops(body: Any) -> dict[int, int]:
    """Serial loops inside a Parallel body with constant bounds: variable -> end."""
    found: dict[int, int] = {}

    def visit(stmt: Any) -> None:
        if isinstance(stmt, X.For):
            low, count = constant(stmt.min), constant(stmt.extent)
            if low is not None and count is not None:
                found[stmt.loop_var.__chandle__()] = low + count
        for child in children(stmt):
            visit(child)

    visit(body)
    return found
