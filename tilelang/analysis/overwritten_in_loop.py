"""overwritten-in-loop: every iteration replaces a tile that nothing has read since the one before.

Only the last iteration's result is left then, where the author wanted a sum or a maximum: a product with
clear_accum=True, T.clear inside the loop, a reduction that clears, a tile that is cleared before the loop and
then replaced element by element. Tiles that are merely copied to are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.contents import History, Touch, histories
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import OVERWRITTEN_IN_LOOP
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Do, For, Loop, Store, walk
from tilelang.ir.values import Buffer, Unknown, as_int, same_size
from tilelang.ops.registry import PRODUCTS

from tvm import ir  # isort: skip

_WORK = (*PRODUCTS, "reduce")
_IN_ORDER = ("serial", "Pipelined", "unroll")


def check(subject: Subject) -> Iterator[Problem]:
    """Silent where an iteration may differ from the others by a condition, or where all write the same."""
    loops = [n for n in walk(subject.program.body) if isinstance(n, For) and n.loop.kind in _IN_ORDER]
    for history in subject.shared(histories):
        if history.escaped or history.buffer.role is not None:
            continue
        for node in loops:
            found = _overwrite(history, node.loop)
            if found is not None and _several(node.loop) and _varies(subject, history.buffer, node):
                yield _problem(history, node.loop, *found)
                break


def _overwrite(history: History, loop: Loop) -> tuple[Touch, Touch] | None:
    """A write that replaces the whole tile in each iteration, and the read behind the loop."""
    inside = history.inside(loop)
    if any(t.context.guards or t.context.maybe for t in inside):
        return None
    own = {t.order for t in inside if t.mode == "write" and t.record is None}  # of stores that read it too
    if any(t.mode == "read" and t.order not in own for t in inside):
        return None
    writes = [t for t in inside if t.mode == "write" and loop in t.steady]
    if any(t.mode == "read" or (t.record is not None and t.record.op in _WORK) for t in inside):
        first = next((t for t in writes if t.record is not None and t.is_whole(history.buffer)), None)
        first = first or _anew(history, inside)
    elif inside and _is_started(history, inside[0]):
        first = next((t for t in writes if _every_element(history.buffer, t)), None)
    else:
        return None  # only filled and copied to: little is lost
    if first is None:
        return None
    after = next((t for t in history.touches if t.order > inside[-1].order and t.mode != "write"), None)
    return None if after is None else (first, after)


def _anew(history: History, inside: list[Touch]) -> Touch | None:
    """The store that an iteration begins with, where it replaces all elements by what is not made of them."""
    first = inside[0]
    read = any(t.order == first.order and t.mode == "read" for t in inside)
    every = first.mode == "write" and _every_element(history.buffer, first)
    return first if every and not read and _is_started(history, first) else None


def _is_started(history: History, first: Touch) -> bool:
    """Whether the tile is given its first value right before, as a sum is."""
    before = [t for t in history.touches if t.order < first.order]
    return bool(before) and before[-1].record is not None and before[-1].record.op == "fill"


def _every_element(buffer: Buffer, touch: Touch) -> bool:
    """Whether a store in T.Parallel writes the whole tile: every dimension by a variable of its own."""
    if touch.record is not None or touch.starts is None or len(touch.starts) != len(buffer.shape):
        return False
    sizes = {
        v: extent
        for loop in touch.context.loops
        if loop.kind == "Parallel"
        for v, low, extent in zip(loop.vars, loop.mins, loop.extents, strict=True)
        if as_int(low) == 0
    }
    used = [s for s in touch.starts if isinstance(s, ir.Var) and s in sizes]
    return len(set(used)) == len(touch.starts) and all(
        same_size(sizes[s], d) for s, d in zip(used, buffer.shape, strict=True)
    )


def _several(loop: Loop) -> bool:
    """Whether the loop is not known to run once only."""
    return all(not isinstance(e, Unknown) and as_int(e) not in (0, 1) for e in loop.extents)


def _varies(subject: Subject, tile: Buffer, node: For) -> bool:
    """Whether what is written depends on the iteration: by an index, or by tiles that the loop fills anew."""
    changing: set[Buffer] = set()
    loop_vars = set(node.loop.vars)
    for _ in range(2):  # a tile may be filled from one that stands behind it
        for part in walk(node.body):
            for target, sources in _flows(subject, part):
                if any(s in changing or (isinstance(s, ir.Var) and s in loop_vars) for s in sources):
                    changing.add(target)
    return tile in changing


def _flows(subject: Subject, node: object) -> Iterator[tuple[Buffer, list[object]]]:
    """Tile -> what is written there is made of: buffers, and variables of indices and values."""
    if isinstance(node, Do):
        accesses = subject.accesses(node.record)
        read = [a for a in accesses if a.mode != "write"]
        sources: list[object] = [a.region.buffer.storage for a in read]
        sources += [v for a in read for s in a.region.starts for v in free_vars(s)]
        for access in accesses:
            if access.mode != "read":
                yield access.region.buffer.storage, sources
    elif isinstance(node, Store):
        by_var = {b.var: b.storage for b in subject.program.buffers if b.known}
        found = free_vars(node.value)
        yield node.buffer.storage, [by_var.get(v, v) for v in found]


def _problem(history: History, loop: Loop, first: Touch, after: Touch) -> Problem:
    return OVERWRITTEN_IN_LOOP.at(
        first.span,
        related=(
            Related(loop.span, "in this loop"),
            Related(after.span, f"{history.buffer.name} is read here, behind the loop"),
        ),
        buffer=history.buffer.name,
        var=", ".join(v.name for v in loop.vars),
        line=after.span.line,
    )
