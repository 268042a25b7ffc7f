"""The loads of pipelined loops, and what keeps each of them from running ahead of its iteration."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from tilelang.analysis.contents import histories
from tilelang.analysis.gathers import gathered
from tilelang.analysis.subject import Subject
from tilelang.arch.tables import features
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_ops import is_ours
from tilelang.ir.tile_program import (
    Bind,
    Do,
    Evaluate,
    For,
    If,
    Launch,
    Loop,
    Node,
    OpRecord,
    Store,
    walk,
)
from tilelang.ir.values import Buffer, Region, Value, as_int
from tilelang.ops.im2col import in_one_tap
from tilelang.ops.pipelining import Hindrance, Load, Step, hindrance

from tvm import ir  # isort: skip


@dataclass(frozen=True, eq=False)
class PipelinedLoad:
    """One copy from global memory to a shared tile in the body of a pipelined loop, T.im2col too; `record` is
    None for a T.Parallel loop that is one.
    """

    record: OpRecord | None
    source: Buffer
    tile: Buffer
    loop: Loop
    hindrance: Hindrance | None


def pipelines(subject: Subject) -> list[For]:
    """Loops with two stages or more on a target that copies asynchronously; one that may be left early runs
    without stages, since copies of iterations that never come would stay in flight.
    """
    if not features(subject.target).async_copies:
        return []
    loops = [n for n in walk(subject.program.body) if isinstance(n, For)]
    # Those inside T.Parallel are refused (unsupported-nesting).
    refused = {id(n) for outer in loops if outer.loop.kind == "Parallel" for n in walk(outer.body)}
    return [
        n
        for n in loops
        if stages_of(n.loop) >= 2 and n.loop not in subject.loops_with_jumps and id(n) not in refused
    ]


def stages_of(loop: Loop) -> int:
    """`num_stages` of a T.Pipelined, 0 for other loops."""
    asked = as_int(loop.annotations.get("num_stages", 0)) or 0
    return asked if loop.kind == "Pipelined" else 0


def pipelined_loads(subject: Subject) -> list[PipelinedLoad]:
    """The loads that stand directly in the body of a pipeline, in program order."""
    found = []
    by_var = {b.var: b for b in subject.program.buffers if b.known}
    for node in pipelines(subject):
        steps = _steps(subject, node, by_var)
        for at, child in enumerate(node.body):
            load = steps[at].load
            if load is None:
                continue
            record = child.record if isinstance(child, Do) else None
            ends = _copied(record) if record is not None else gathered(child, by_var)
            if ends is not None:
                hindered = hindrance(steps, at)
                found.append(PipelinedLoad(record, ends[0], ends[1], node.loop, hindered))
    return found


def _copied(record: OpRecord) -> tuple[Buffer, Buffer] | None:
    src, dst = _ends(record)
    return None if src is None or dst is None else (src.buffer, dst.buffer)


def _ends(record: OpRecord) -> tuple[Region | None, Region | None]:
    """Where an operation that may be asynchronous copies from and to."""
    if record.op == "copy":
        return record.region("src"), record.region("dst")
    if record.op == "im2col" and in_one_tap(record):
        img, col = record.region("img"), record.region("col")
        if img is not None and col is not None and img.buffer.dtype == col.buffer.dtype:
            return img, col
    return None, None


def read_outside(subject: Subject, tile: Buffer, loops: list[Loop]) -> int | None:
    """The line on which a tile is read outside of `loops`, where nobody knows which version is meant."""
    history = next((h for h in subject.shared(histories) if h.buffer is tile), None)
    for touch in history.reads if history is not None else ():
        if not any(x is loop for x in touch.context.loops for loop in loops):
            return touch.span.line
    return None


def _steps(subject: Subject, node: For, by_var: Mapping[ir.Var, Buffer]) -> list[Step]:
    scalars: dict[ir.Var, set[ir.Var]] = {}
    steps = []
    for child in node.body:
        reads, writes = _touched(subject, child, by_var)
        binds: set[Hashable] = {v for n in walk([child]) for v in _bound(n, n is child)}
        if isinstance(child, Bind) and child.var not in binds:
            scalars[child.var] = _replayed(child.value, scalars)
        load = None
        if isinstance(child, Do):
            load = _load(subject, child.record, scalars, by_var)
        elif isinstance(child, For):
            load = _gather(child, scalars, by_var)
        steps.append(Step(frozenset(reads), frozenset(writes), frozenset(binds), load))
    return steps


def _bound(node: Node, outermost: bool) -> Iterator[ir.Var]:
    """Scalars that cannot be replayed: loop variables, what is bound inside of a statement, results of
    instructions.
    """
    if isinstance(node, For):
        yield from node.loop.vars
    elif isinstance(node, Bind) and (not outermost or is_ours(node.value)):
        yield node.var


def _replayed(value: Value, scalars: Mapping[ir.Var, set[ir.Var]]) -> set[ir.Var]:
    """What a value depends on, with scalars of the body replaced by what they depend on."""
    return {w for v in free_vars(value) for w in scalars.get(v, {v})}


def _load(
    subject: Subject,
    record: OpRecord,
    scalars: Mapping[ir.Var, set[ir.Var]],
    by_var: Mapping[ir.Var, Buffer],
) -> Load | None:
    src, dst = _ends(record)
    if src is None or dst is None:
        return None
    if src.buffer.scope != "global" or dst.buffer.scope != "shared":
        return None
    extents = next((a.extents for a in subject.accesses(record) if a.argument in ("dst", "col")), dst.extents)
    whole = all(as_int(s) == 0 for s in dst.starts) and all(
        _covers(subject, e, d) for e, d in zip(extents, dst.buffer.shape, strict=True)
    )
    steps = [record.value(name) for name in ("nhw_step", "c_step")] if record.op == "im2col" else []
    used = {v for start in (*src.starts, *dst.starts, *steps) for v in _replayed(start, scalars)}
    memory = {by_var[v] for v in used if v in by_var}
    return Load(
        src.buffer.storage,
        dst.buffer.storage,
        whole,
        frozenset(by_var[v].storage if v in by_var else v for v in used),
        all(b.scope in ("global", "local.var") for b in memory),
    )


def _gather(node: For, scalars: Mapping[ir.Var, set[ir.Var]], by_var: Mapping[ir.Var, Buffer]) -> Load | None:
    found = gathered(node, by_var)
    if found is None:
        return None
    source, tile = found
    inner = dict(scalars)
    own: set[ir.Var] = set()
    used: set[ir.Var] = set()
    for part in walk([node]):
        match part:
            case For():
                own.update(part.loop.vars)
            case Bind():
                inner[part.var] = _replayed(part.value, inner)
            case Store():
                used = _replayed(part.value, inner) - own - {source.var}
    memory = {by_var[v] for v in used if v in by_var}
    return Load(
        source.storage,
        tile.storage,
        True,
        frozenset(by_var[v].storage if v in by_var else v for v in used),
        all(b.scope in ("global", "local.var") for b in memory),
    )


def _covers(subject: Subject, extent: Value, size: Value) -> bool:
    """Whether a copy fills a dimension that is constant when the kernel is compiled, as a T.const is."""
    if as_int(size) is not None:
        return as_int(extent) == as_int(size)
    fixed = {s.var for s in subject.program.symbols if s.kind == "const"}
    return free_vars(size) <= fixed and subject.prover.equal(extent, size) is True


def _touched(
    subject: Subject, node: Node, by_var: Mapping[ir.Var, Buffer]
) -> tuple[set[Buffer], set[Buffer]]:
    """The storage that a statement and all in it reads and writes."""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()

    def value(*values: Value) -> None:
        reads.update(by_var[v].storage for x in values for v in free_vars(x) if v in by_var)

    for part in walk([node]):
        match part:
            case Do():
                for access in subject.accesses(part.record):
                    value(*access.region.starts)
                    if access.mode != "write":
                        reads.add(access.region.buffer.storage)
                    if access.mode != "read":
                        writes.add(access.region.buffer.storage)
                for operand in part.record.operands.values():
                    value(*(operand.value if isinstance(operand.value, tuple) else (operand.value,)))
            case Store():
                value(part.value, *part.indices)
                writes.add(part.buffer.storage)
            case Bind():
                value(part.value)
            case Evaluate():
                value(part.value)
                writes.update(by_var[v].storage for v in free_vars(part.value) if v in by_var)
            case For():
                value(*part.loop.mins, *part.loop.extents, part.condition)
            case If():
                value(part.condition)
            case Launch():
                pass
    return reads, writes
