"""unsynchronised-exchange: threads that exchange values through shared memory where no barrier can stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilelang.analysis.collisions import Touching, cell_text, collisions
from tilelang.analysis.divergent_barrier import Place, parts_threads
from tilelang.analysis.subject import Subject, soften
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import UNSYNCHRONISED_EXCHANGE, UNSYNCHRONISED_LOOP
from tilelang.ir.prove import substitute
from tilelang.ir.tile_program import Access, Do, Evaluate, For, Guard, If, Launch, Loop, Node, walk
from tilelang.ir.values import Unknown, show
from tilelang.ops.operands import declared


def check(subject: Subject) -> Iterator[Problem]:
    """In branches that only some threads of a warp take; elsewhere the compiler places the barrier. A branch
    with a call of any kind (a barrier of a warp, an atomic) or a `while` is left to its author.
    """
    if features(subject.target).spreads_blocks and subject.launch is not None:
        yield from _visit(subject, subject.launch.body, Place(team=subject.context.whole_block()))


def _visit(subject: Subject, nodes: list[Node], place: Place) -> Iterator[Problem]:
    for node in nodes:
        if isinstance(node, Launch):
            yield from _visit(subject, node.body, place)
        elif isinstance(node, For) and node.loop.kind != "Parallel":
            inner = place.inside(node.loop)
            parted = parts_threads(subject, node.loop.extents, place)
            if parted and node.condition is None:
                yield from _in_loop(subject, node)
            yield from _visit(subject, node.body, inner.apart() if parted else inner)
        elif isinstance(node, If):
            teams = place.branches(subject, node)
            if teams is not None:
                yield from _visit(subject, node.body, teams[0])
                yield from _visit(subject, node.orelse, teams[1])
            elif parts_threads(subject, (node.condition,), place):
                yield from _in_branch(subject, node)
            else:
                yield from _visit(subject, [*node.body, *node.orelse], place)


def _in_branch(subject: Subject, node: If) -> Iterator[Problem]:
    inside = list(walk([node]))
    if any(isinstance(n, Evaluate) or (isinstance(n, For) and n.loop.kind == "while") for n in inside):
        return
    accesses = subject.shared(_by_condition).get(id(node.condition), [])
    for k, read in enumerate(accesses):
        for write in accesses[:k]:
            if read.mode == "read" and write.mode == "write" and read.buffer is write.buffer:
                problem = _problem(subject, node, write, read)
                if problem is not None:
                    yield problem
                    return


def _in_loop(subject: Subject, node: For) -> Iterator[Problem]:
    """In a loop that some threads leave earlier than others, in either order: it comes round again."""
    inside = list(walk(node.body))
    waits = (Evaluate, Do)
    if any(isinstance(n, waits) or (isinstance(n, For) and n.loop.kind == "while") for n in inside):
        return
    accesses = [
        a
        for a in subject.program.accesses
        if node.loop in a.context.loops and _is_shared_element(a) and not a.context.guards
    ]
    for read in (a for a in accesses if a.mode == "read"):
        for write in (a for a in accesses if a.mode == "write" and a.buffer is read.buffer):
            once = _first_step(subject, node.loop, read), _first_step(subject, node.loop, write)
            for met in collisions(subject, *once):
                yield UNSYNCHRONISED_LOOP.at(
                    read.span,
                    related=(
                        Related(write.span, "the element is written here"),
                        Related(node.loop.span, "not all threads have as many steps"),
                        *declared(read.buffer),
                    ),
                    reader=met.name(met.first),
                    writer=met.name(met.second),
                    access=cell_text(subject, read.buffer, [i.start for i in read.indices], met.first),
                    extents=", ".join(show(e) for e in node.loop.extents),
                )
                return


def _first_step(subject: Subject, loop: Loop, access: Access) -> Touching:
    """The touch in the first step of a loop, by the threads that have one."""
    at = dict(zip(loop.vars, loop.mins, strict=True))
    loops = tuple(x for x in access.context.loops if x is not loop)
    runs = tuple(Guard(e > 0, False, loop.span) for e in loop.extents)
    context = replace(access.context, loops=loops, guards=(*access.context.guards, *runs))
    indices = tuple(substitute(i.start, at) for i in access.indices)
    assert subject.launch is not None
    return Touching(context, indices, subject.launch.thread_vars)


def _by_condition(subject: Subject) -> dict[int, list[Access]]:
    """The elements of shared memory that are touched under each condition, by its `id`."""
    found: dict[int, list[Access]] = {}
    for access in filter(_is_shared_element, subject.program.accesses):
        for condition in {id(g.condition) for g in access.context.guards}:
            found.setdefault(condition, []).append(access)
    return found


def _is_shared_element(access: Access) -> bool:
    return (
        access.buffer.scope == "shared"
        and not access.context.parallel_vars()
        and len(access.indices) == len(access.buffer.shape)
        and not any(isinstance(i.start, Unknown) for i in access.indices)
    )


def _problem(subject: Subject, node: If, write: Access, read: Access) -> Problem | None:
    same_side = [g for g in write.context.guards if g in read.context.guards]
    if len(same_side) != len(write.context.guards):
        return None  # the other branch, or one inside
    for met in collisions(subject, _touching(subject, read), _touching(subject, write)):
        problem = UNSYNCHRONISED_EXCHANGE.at(
            read.span,
            related=(
                Related(write.span, "the element is written here"),
                Related(node.span, "only some threads pass this condition"),
                *declared(read.buffer),
            ),
            reader=met.name(met.first),
            writer=met.name(met.second),
            access=cell_text(subject, read.buffer, [i.start for i in read.indices], met.first),
        )
        return soften(problem, read.context)
    return None


def _touching(subject: Subject, access: Access) -> Touching:
    assert subject.launch is not None
    return Touching(access.context, tuple(i.start for i in access.indices), subject.launch.thread_vars)
