"""Software pipelining: loads of later iterations run while this one computes.

In:  `For` loops of kind Pipelined with `num_stages`, over statements and tile operations.
Out: loops without pipelining. A loop with S >= 2 stages becomes

         for s in 0 .. S-2:                         # prologue
             copies of iteration s -> version s;  commit
         for k:
             wait until at most S-2 groups are in flight;  barrier
             if k + S-1 < extent: copies of iteration k + S-1 -> version (k + S-1) % S
             commit
             the rest of the body, reading version k % S

     Every tile filled by such a copy has S versions, which loops of as many stages share. One barrier per
     iteration orders everything: it makes the group of iteration k visible, and it comes after the last read
     of the version that is refilled next.
Not: reordering anything else. A copy joins the pipeline only if it surely may run early: from global memory
     that the loop does not write, at indices that nothing else in the body determines (scalars read from
     memory are replayed), filling a whole shared tile that is read only after it, in the same iteration.
     So does a T.Parallel loop that is such a copy (`passes.gathers`). Every other statement stays where it
     is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ir.tile_ops import seq
from tilelang.ops.copy import Copy
from tilelang.ops.pipelining import Load, Step, hindrance
from tilelang.passes.accesses import Access, accesses, all_accesses
from tilelang.passes.gathers import Gather, gather
from tilelang.passes.walk import (
    children,
    constant,
    index,
    loop_kind,
    remake,
    shape_of,
    substitute,
    variables,
    walk,
)

STAGES = "num_stages"
# Annotation of a pipelined loop and of its prologue: accesses to versioned tiles inside are in order already.
SETTLED = "tl.settled"


@dataclass(frozen=True)
class PipelinePlan:
    """The function without pipelined loops, and the versioned tiles by handle, for `insert_sync`."""

    func: X.PrimFunc
    versioned: frozenset[int]


def plan_pipelines(func: X.PrimFunc, asynchronous: bool = True) -> PipelinePlan:
    """Rewrite all pipelined loops. Without `asynchronous` they become serial loops and nothing is
    versioned.
    """
    planner = _Planner(func, asynchronous)
    body = planner.rewrite(func.body, inside_loop=False)
    body = _allocate(body, {h: v for h, v in planner.versions.items() if h not in planner.hoisted})
    versioned = frozenset(v.__chandle__() for by in planner.versions.values() for v in by.values())
    return PipelinePlan(func.with_body(body), versioned)


def covered_producers(body: Any, loop: X.For) -> list[Producer | GatherProducer]:
    """The copies of a pipelined loop that may run early."""
    planner = _Planner(X.PrimFunc([], body), asynchronous=True)
    return planner.producers_of(loop)


@dataclass(eq=False)
class Producer:
    """A copy that runs early: `stmt` of the body, refilling `buffer`, with scalars of the body
    substituted.
    """

    stmt: Any
    copy: Copy
    buffer: ir.Var

    def early(self, loop_var: ir.Var, k: Any, versioned: ir.Var, version: Any) -> Any:
        """The copy of iteration `k`, into a version of its tile."""
        src = substitute(self.copy.src, {loop_var: k})
        mins, extents = [version], [index(1)]
        for r in self.copy.dst.region:
            mins.append(r.min)
            extents.append(r.extent)
        dst = tile_ops.region(versioned, mins, extents)
        return replace(self.copy, src=src, dst=dst, is_async=True, span=self.stmt.span).call()


@dataclass(eq=False)
class GatherProducer:
    """A T.Parallel loop that runs early as a copy does."""

    stmt: Any
    gather: Gather

    @property
    def buffer(self) -> ir.Var:
        return self.gather.tile

    def early(self, loop_var: ir.Var, k: Any, versioned: ir.Var, version: Any) -> Any:
        """The loop for iteration `k`, into a version of its tile."""
        return self.gather.early({loop_var: k}, versioned, version)


@dataclass(frozen=True)
class _Staged:
    """A loop whose `producers` run early; `versions`: their tiles, by handle, in as many versions."""

    loop: X.For
    producers: list[Producer | GatherProducer]
    versions: Mapping[int, ir.Var]
    stages: int

    @property
    def _ahead(self) -> int:
        return self.stages - 1

    def _copies(self, k: Any, number: Any) -> list[Any]:
        """The copies of iteration `k`, the `number`-th from 0."""
        version = _modulo(number, self.stages)
        return [
            p.early(self.loop.loop_var, k, self.versions[p.buffer.__chandle__()], version)
            for p in self.producers
        ]

    def prologue(self) -> Any:
        """The copies of the first iterations."""
        loop, at, ahead = self.loop, self.loop.span, self._ahead
        step = X.Var(f"{loop.loop_var.name}_first", loop.loop_var.ty)
        k = step if constant(loop.min) == 0 else loop.min + step
        body = seq([_when(step < loop.extent, self._copies(k, step), loop, ahead), _commit(at)])
        if ahead == 1:
            return substitute(body, {step: 0})
        notes = {LOOP_KIND: "unroll", SETTLED: True}
        return X.For(step, index(0), index(ahead), X.ForKind.UNROLLED, body, annotations=notes, span=at)

    def steady(self, rest: list[Any]) -> Any:
        """The loop: each iteration waits for its copies, issues those of a later one and does `rest`."""
        loop, at, ahead = self.loop, self.loop.span, self._ahead
        k, first = loop.loop_var, loop.min
        number = k if constant(first) == 0 else k - first
        later = seq(self._copies(k + ahead, number + ahead))
        issue = X.IfThenElse(number + ahead < loop.extent, later, None, at)
        current = _modulo(number, self.stages)
        consume = [read_version(s, self.versions, current) for s in rest]
        body = seq([_wait(self.stages - 2, at), _barrier(at), issue, _commit(at), *consume])
        notes = {LOOP_KIND: "serial", SETTLED: True}
        return X.For(k, first, loop.extent, X.ForKind.SERIAL, body, annotations=notes, span=at)


class _Planner:
    def __init__(self, func: X.PrimFunc, asynchronous: bool) -> None:
        self._asynchronous = asynchronous
        self.versions: dict[int, dict[int, ir.Var]] = {}  # tile -> stages -> the tile in so many versions
        self.hoisted: set[int] = set()  # tiles allocated in a loop whose prologue fills them already
        self._viewed: set[int] = set()
        self._producers: dict[int, list[Producer | GatherProducer]] = {}  # loop -> its producers
        self._find(func.body)
        self._keep_only_covered(func.body)

    # Which copies may run early

    def producers_of(self, loop: X.For) -> list[Producer | GatherProducer]:
        """Those of one loop."""
        return self._producers.get(loop.__chandle__(), [])

    def _find(self, stmt: Any) -> None:
        if isinstance(stmt, X.DeclBuffer):
            self._viewed.update(v.__chandle__() for v in variables(stmt.data))
        for child in children(stmt):
            self._find(child)
        if self._asynchronous and loop_kind(stmt) == "Pipelined" and _stages(stmt) >= 2:
            self._producers[stmt.__chandle__()] = list(_candidates(stmt))

    def _keep_only_covered(self, body: Any) -> None:
        """A tile is versioned only if each of its reads lies in a loop that fills it; repeat until nothing
        changes.
        """
        while True:
            bad = set(self._viewed)
            for access, loops in _with_loops(body, ()):
                handle = access.buffer.__chandle__()
                filled = any(
                    p.buffer.same_as(access.buffer) for loop in loops for p in self._producers.get(loop, ())
                )
                if access.mode == "read" and not filled:
                    bad.add(handle)
            changed = False
            for loop, producers in self._producers.items():
                kept = [p for p in producers if p.buffer.__chandle__() not in bad]
                changed |= len(kept) < len(producers)
                self._producers[loop] = kept
            if not changed:
                return

    # The rewriting

    def rewrite(self, stmt: Any, inside_loop: bool) -> Any:
        if loop_kind(stmt) == "Pipelined":
            return self._pipeline(stmt, inside_loop)
        inside = inside_loop or isinstance(stmt, X.For | X.While)
        return remake(stmt, lambda s: self.rewrite(s, inside))

    def _pipeline(self, loop: X.For, inside_loop: bool) -> Any:
        producers = self._producers.get(loop.__chandle__(), [])
        body = self.rewrite(loop.body, True)
        if not producers:
            return _plain(loop, body)
        stages = _stages(loop)
        shared = any(stages in self.versions.get(p.buffer.__chandle__(), {}) for p in producers)
        versions = {p.buffer.__chandle__(): self._versions_of(p.buffer, stages) for p in producers}
        taken = {p.stmt.__chandle__() for p in producers}
        rest = [s for s in _sequence(body) if s.__chandle__() not in taken]
        staged = _Staged(loop, producers, versions, stages)
        # In an outer loop, or after a loop over the same tiles, the prologue refills versions that slower
        # threads may still read.
        before = [_barrier(loop.span)] if inside_loop or shared else []
        own = {s.buffer.__chandle__() for s in walk(loop.body) if isinstance(s, X.AllocBuffer)}
        self.hoisted |= own & set(versions)
        allocated = [X.AllocBuffer(v, span=loop.span) for handle, v in versions.items() if handle in own]
        return seq([*allocated, *before, staged.prologue(), staged.steady(rest)])

    def _versions_of(self, buffer: ir.Var, stages: int) -> ir.Var:
        """`buffer` in `stages` versions: the same for every loop that has as many."""
        found = self.versions.setdefault(buffer.__chandle__(), {})
        if stages not in found:
            found[stages] = versioned(buffer, stages)
        return found[stages]


def _candidates(loop: X.For) -> Iterator[Producer | GatherProducer]:
    """Copies of the body that may run early as far as this loop alone tells."""
    if not _unit_step(loop) or _jumps(loop.body):
        return
    body = _sequence(loop.body)
    scalars: dict[ir.Var, Any] = {}
    steps: list[Step] = []
    copies: dict[int, Producer | GatherProducer] = {}
    for at, stmt in enumerate(body):
        touched = list(all_accesses(stmt))
        binds = {v.__chandle__() for v in _defined(stmt)}
        if isinstance(stmt, X.Bind):
            if tile_ops.is_ours(stmt.value):  # what an instruction returns cannot be had twice
                binds.add(stmt.var.__chandle__())
            else:
                scalars[stmt.var] = substitute(stmt.value, scalars)
        load = None
        if isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.COPY):
            copy = Copy.read(stmt.value)
            if copy.src.source.scope() == "global" and copy.dst.source.scope().startswith("shared"):
                src, dst = substitute(copy.src, scalars), substitute(copy.dst, scalars)
                copy = replace(copy, src=src, dst=dst)
                copies[at] = Producer(stmt, copy, copy.dst.source)
                load = _load(copy)
        elif loop_kind(stmt) == "Parallel" and (found := gather(stmt, scalars)) is not None:
            copies[at] = GatherProducer(stmt, found)
            load = _gathering(found)
        reads, writes = (
            frozenset(a.buffer.__chandle__() for a in touched if (a.mode == "write") is written)
            for written in (False, True)
        )
        steps.append(Step(reads, writes, frozenset(binds), load))
    for at, producer in copies.items():
        if hindrance(steps, at) is None:
            yield producer


def _load(copy: Copy) -> Load:
    """The copy as `ops.pipelining` describes it, memory and scalars named by their handles."""
    used = [v for region in (copy.src, copy.dst) for r in region.region for v in variables(r.min)]
    return Load(
        copy.src.source.__chandle__(),
        copy.dst.source.__chandle__(),
        _covers(copy.dst),
        frozenset(v.__chandle__() for v in used),
        _steady(used),
    )


def _gathering(found: Gather) -> Load:
    used = found.steered_by
    handles = frozenset(v.__chandle__() for v in used) - {found.source.__chandle__()}
    return Load(found.source.__chandle__(), found.tile.__chandle__(), True, handles, _steady(used))


def _steady(used: list[ir.Var]) -> bool:
    """Whether all memory among what a load depends on can be read early."""
    return not any(X.is_buffer_var(v) and v.scope() not in ("global", "local.var") for v in used)


def _defined(stmt: Any) -> Iterator[ir.Var]:
    """Scalars that `stmt` binds and that cannot be replayed by substitution: loop variables of inner
    loops.
    """
    if isinstance(stmt, X.For):
        yield stmt.loop_var
    for child in children(stmt):
        if isinstance(child, X.Bind):
            yield child.var
        yield from _defined(child)


def _with_loops(stmt: Any, loops: tuple[int, ...]) -> Iterator[tuple[Access, tuple[int, ...]]]:
    for access in accesses(stmt):
        yield access, loops
    inner = (*loops, stmt.__chandle__()) if isinstance(stmt, X.For) else loops
    for child in children(stmt):
        yield from _with_loops(child, inner)


def _covers(region: Any) -> bool:
    """Whether the region is the whole buffer, of constant size."""
    return all(
        constant(r.min) == 0 and constant(r.extent) is not None and constant(r.extent) == constant(n)
        for r, n in zip(region.region, region.source.shape, strict=True)
    )


def versioned(buffer: ir.Var, stages: int) -> ir.Var:
    return X.decl_buffer(
        [stages, *shape_of(buffer)], str(buffer.dtype), str(buffer.name), scope=buffer.scope()
    )


def read_version(stmt: Any, versions: Mapping[int, ir.Var], version: Any) -> Any:
    """`stmt` with every access to a versioned tile going to `version` of it."""

    def load(e: Any) -> Any:
        new = versions.get(e.source.__chandle__())
        return e if new is None else X.BufferLoad(new, [version, *e.indices], e.span)

    def region(e: Any) -> Any:
        new = versions.get(e.source.__chandle__())
        if new is None:
            return e
        lead = ir.Range.from_min_extent(version, index(1))
        return X.BufferRegion(new, [lead, *e.region])

    return tvm_ffi.structural_map(stmt, [(ir.TensorLoad, load), (ir.TensorRegion, region)])


def _when(condition: Any, stmts: list[Any], loop: X.For, ahead: int) -> Any:
    """`stmts`, under `condition` unless the loop surely has that many iterations."""
    extent = constant(loop.extent)
    if extent is not None and extent >= ahead:
        return seq(stmts)
    return X.IfThenElse(condition, seq(stmts), None, loop.span)


def _plain(loop: X.For, body: Any) -> X.For:
    return X.For(
        loop.loop_var,
        loop.min,
        loop.extent,
        X.ForKind.SERIAL,
        body,
        annotations={LOOP_KIND: "serial"},
        step=loop.step,
        span=loop.span,
    )


def _allocate(body: Any, versions: Mapping[int, Mapping[int, ir.Var]]) -> Any:
    """With versioned tiles allocated where the tile is, and without what nothing touches any more."""
    used = {a.buffer.__chandle__() for a in all_accesses(body)}

    def mark(stmt: Any) -> None:
        if isinstance(stmt, X.DeclBuffer):
            used.update(v.__chandle__() for v in variables(stmt.data))
        for child in children(stmt):
            mark(child)

    mark(body)

    def place(stmt: Any) -> Any:
        if isinstance(stmt, X.AllocBuffer):
            handle = stmt.buffer.__chandle__()
            kept = [stmt] if handle in used else []
            more = [X.AllocBuffer(v, span=stmt.span) for v in versions.get(handle, {}).values()]
            return seq([*kept, *more]) if kept or more else None
        return remake(stmt, place)

    return place(body)


def _sequence(body: Any) -> list[Any]:
    """The statements of a body, nested sequences flattened."""
    return [s for part in body.seq for s in _sequence(part)] if isinstance(body, X.SeqStmt) else [body]


def _jumps(stmt: Any) -> bool:
    """Whether a `break` or `continue` stands in `stmt`: copies of iterations that never come would stay in
    flight.
    """
    return any(isinstance(s, X.Break | X.Continue) for s in walk(stmt))


def _stages(loop: X.For) -> int:
    return int(loop.annotations[STAGES]) if STAGES in loop.annotations else 0


def _unit_step(loop: X.For) -> bool:
    return loop.step is None or constant(loop.step) == 1


def _modulo(number: Any, stages: int) -> Any:
    known = constant(number)
    return index(known % stages) if known is not None else X.FloorMod(number, index(stages))


def _barrier(at: Any) -> Any:
    return X.Evaluate(tile_ops.call(tile_ops.SYNC, [], span=at), at)


def _commit(at: Any) -> Any:
    return X.Evaluate(tile_ops.call(tile_ops.ASYNC_COMMIT, [], span=at), at)


def _wait(in_flight: int, at: Any) -> Any:
    return X.Evaluate(tile_ops.call(tile_ops.ASYNC_WAIT, [index(in_flight)], span=at), at)
