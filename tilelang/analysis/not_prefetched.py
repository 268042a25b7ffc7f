"""not-prefetched: what keeps a copy of a pipelined loop, or the whole loop, from running ahead."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.contents import histories
from tilelang.analysis.pipelined_loads import (
    PipelinedLoad,
    pipelined_loads,
    pipelines,
    read_outside,
    stages_of,
)
from tilelang.analysis.subject import Subject, soften
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Fix, Problem, Related
from tilelang.diagnostics.rules.order import NOT_PREFETCHED, NOTHING_TO_PREFETCH, STAGES_BELOW_ZERO
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Bind, Do, For, Jump, Loop, OpRecord, walk
from tilelang.ir.values import Buffer, as_int, show
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import keyword_edit, keyword_span

from tvm import ir  # isort: skip

_NESTED = "only copies directly in the body of the loop run ahead, not those in a branch or a loop of it"


def check(subject: Subject) -> Iterator[Problem]:
    """On targets that copy asynchronously: on others no loop is pipelined, whatever its author does."""
    yield from _below_zero(subject)
    if not features(subject.target).async_copies or not subject.program.complete:
        return
    loads = subject.shared(pipelined_loads)
    for load in loads:
        if load.record is None or load.record.op != "copy":
            # Not everybody who writes a gather expects it to run ahead.
            continue
        cause = _cause(subject, load, load.record, [x.loop for x in loads if x.tile is load.tile])
        if cause is not None:
            yield _problem(load.record, load.tile, load.loop, cause)
    for node in pipelines(subject):
        here = [x for x in loads if x.loop is node.loop]
        direct = {x.record for x in here if x.record is not None}
        for record in _loads_inside(node):
            if record not in direct:
                dst = record.region("dst")
                if dst is not None:
                    yield _problem(record, dst.buffer, node.loop, _NESTED)
        gathers = any(x.record is None and x.hindrance is None for x in here)
        if not direct and not gathers and not any(_loads_inside(node)):
            yield _nothing(node.loop, "nothing in this loop is copied from global to shared memory")
    for node in walk(subject.program.body):
        if isinstance(node, For) and stages_of(node.loop) >= 2 and node.loop in subject.loops_with_jumps:
            jump = next(n for n in walk(node.body) if isinstance(n, Jump))
            cause = f"`{jump.kind}` at line {jump.span.line} may cut it short, so it cannot load ahead"
            yield _nothing(node.loop, cause)


def _below_zero(subject: Subject) -> Iterator[Problem]:
    """`num_stages=-1`, which no loop can keep: the release and this compiler take it for 0."""
    for node in walk(subject.program.body):
        given = as_int(node.loop.annotations.get("num_stages", 0)) if isinstance(node, For) else None
        if isinstance(node, For) and given is not None and given < 0:
            at = keyword_span(node.loop.span, subject.text, "num_stages")
            edit = keyword_edit(node.loop.span, subject.text, "num_stages", 0)
            fixes = () if edit is None else (Fix("Use num_stages=0", (edit,)),)
            yield STAGES_BELOW_ZERO.at(at, fixes=fixes, stages=given, loop=node.loop.vars[0].name)


def _cause(subject: Subject, load: PipelinedLoad, record: OpRecord, loops: list[Loop]) -> str | None:
    """Why a copy does not run ahead, in words; None if it does, or if another rule says so."""
    tile, source = load.tile.name, load.source.name
    if load.tile.view_of is not None or any(
        b.view_of is not None and b.storage is load.tile.storage for b in subject.program.buffers
    ):
        return f"{load.tile.storage.name} is also used through a view, which has one version only"
    match load.hindrance:
        case "part":
            return _part(subject, load, record)
        case "written-twice":
            return f"another statement of the iteration writes {tile} too"
        case "source-written":
            return f"the loop writes {source}, so a later iteration may need what an earlier one wrote"
        case "index-changes":
            return _moving(subject, record)
        case "read-before":
            return None  # pipelined-write-after-read
    if any(h.escaped for h in subject.shared(histories) if h.buffer is load.tile):
        return None
    line = read_outside(subject, load.tile, loops)
    if line is not None:
        return f"it is read at line {line}, outside the loop, where only one version can be meant"
    return None


def _moving(subject: Subject, record: OpRecord) -> str:
    """Which memory decides where a copy reads."""
    region = record.region("src")
    steers = {v for start in (region.starts if region is not None else ()) for v in free_vars(start)}
    bound = {n.var: n.value for n in walk(subject.program.body) if isinstance(n, Bind)}
    names = [str(v.name) for v in steers if v in bound or not _is_loop_variable(record, v)]
    read = {w for v in steers for w in (free_vars(bound[v]) if v in bound else {v})}
    tiles = [b.name for b in subject.program.buffers if b.known and b.scope != "global" and b.var in read]
    text = "" if region is None else f" {region.text()}"
    if not tiles:
        return f"its place{text} depends on what the loop computes"
    via = f" ({', '.join(n for n in names if n not in tiles)})" if set(names) - set(tiles) else ""
    return (
        f"its place{text} depends on {', '.join(tiles)}{via}, and only indices in global memory are read "
        "ahead: take them from there"
    )


def _is_loop_variable(record: OpRecord, var: ir.Var) -> bool:
    return any(v.same_as(var) for loop in record.context.loops for v in loop.vars)


def _part(subject: Subject, load: PipelinedLoad, record: OpRecord) -> str:
    """What keeps a copy from filling the tile, or from being known to."""
    tile, dst = load.tile, record.region("dst")
    access = next((a for a in subject.accesses(record) if a.argument == "dst"), None)
    if dst is None or access is None:
        return f"the copy fills a part of {tile.name}; only copies of whole tiles run ahead"
    for size in tile.shape:
        if subject.context.runtime(size):
            return f"its size {show(size)} is known only at run time; only tiles of constant size run ahead"
    for start, extent, size in zip(dst.starts, access.extents, tile.shape, strict=True):
        fixed = as_int(start) is not None and as_int(extent) is not None
        if fixed and (as_int(start) != 0 or subject.prover.equal(extent, size) is False):
            return f"the copy fills a part of {tile.name}; only copies of whole tiles run ahead"
    return (
        f"whether {dst.text()} is all of {tile.name} is known only at run time; only copies of whole tiles "
        "run ahead"
    )


def _loads_inside(node: For) -> list[OpRecord]:
    """Copies from global to shared memory anywhere in a loop, but for those of pipelines inside it."""
    inner = {id(r) for n in walk(node.body) if _is_pipeline(n) for r in _records(n)}
    return [r for r in _records(node) if id(r) not in inner and _is_load(r)]


def _is_pipeline(node: object) -> bool:
    return isinstance(node, For) and stages_of(node.loop) >= 2


def _records(node: object) -> list[OpRecord]:
    assert isinstance(node, For)
    return [n.record for n in walk(node.body) if isinstance(n, Do)]


def _is_load(record: OpRecord) -> bool:
    src, dst = record.region("src"), record.region("dst")
    if record.op != "copy" or src is None or dst is None:
        return False
    return src.buffer.scope == "global" and dst.buffer.scope == "shared"


def _problem(record: OpRecord, tile: Buffer, loop: Loop, cause: str) -> Problem:
    problem = NOT_PREFETCHED.at(
        record.span_of("dst"),
        related=(Related(loop.span, "the pipelined loop"), *declared(tile)),
        tile=tile.name,
        cause=cause,
    )
    return soften(problem, record.context)


def _nothing(loop: Loop, cause: str) -> Problem:
    return NOTHING_TO_PREFETCH.at(loop.span, stages=stages_of(loop), cause=cause)
