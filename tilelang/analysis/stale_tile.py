"""stale-tile: a loop reads a tile again and again that only an earlier loop loads, piece by piece.

Behind the earlier loop the tile holds its last piece. A second loop of as many steps, which reads the tile
first of all and never loads it, works on that one piece each time: its T.copy is missing, or goes the wrong
way. Updates in place (`x = exp(x)`) are no loads.

Where the second loop writes another value in each step all the same (it computes with the step's number, or
loads the tensor's pieces into another tile), the last piece may be meant: a hint.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.contents import History, Touch, histories, stores_by_place, sure_loads
from tilelang.analysis.read_before_write import place_of
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Related, Severity
from tilelang.diagnostics.rules.order import STALE_TILE
from tilelang.ir.prove import free_vars, operands_of
from tilelang.ir.tile_program import Loop, Store, walk
from tilelang.ir.values import Buffer, Unknown, Value, as_int

from tvm import ir  # isort: skip

_IN_ORDER = ("serial", "Pipelined", "unroll")
_DECISIONS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or", "Not"})


def check(subject: Subject) -> Iterator[Problem]:
    """Silent under conditions, about products that add up, and where a loop may have a single step."""
    if not subject.program.complete:
        return
    for history in subject.shared(histories):
        tile = history.buffer
        if history.escaped or tile.role is not None or tile.scope == "global":
            continue
        if any(t.context.guards or t.context.maybe or t.mode == "update" for t in history.touches):
            continue
        found = _stale(subject, history)
        if found is not None:
            problem = _problem(subject, tile, *found)
            meant = _steps_differ(subject, tile, found[1], found[2])
            yield problem.with_severity(Severity.HINT) if meant else problem


def _stale(subject: Subject, history: History) -> tuple[Touch, Loop, Touch] | None:
    """The first read and its loop, and the load."""
    writes = history.writes
    loads = [t for t in writes if _loads_a_piece(subject, history.buffer, t)]
    for read in history.reads if loads else ():
        later = _loops(read)
        if len(later) != 1 or not _only_updates(history, later[0]):
            continue
        if history.inside(later[0])[0] is not read:  # the first of the loop
            continue
        load = next((t for t in loads if t.order < read.order), None)
        if load is None or any(
            _loops(t) != _loops(load) for t in writes if load.order < t.order < read.order
        ):
            continue
        (earlier,) = _loops(load)
        if (
            earlier is not later[0]
            and _as_long(subject, earlier, later[0])
            and _writes_pieces(subject, later[0])
        ):
            return read, later[0], load
    return None


def _loops(touch: Touch) -> list[Loop]:
    """The loops that run in order around a statement; those over threads or a vector are spread."""
    return [loop for loop in touch.context.loops if loop.kind not in ("Parallel", "vectorized")]


def _only_updates(history: History, loop: Loop) -> bool:
    """Whether all that a loop writes to a tile is made of what the tile holds."""
    inside = history.inside(loop)
    read = {t.order for t in inside if t.mode == "read" and t.record is None}
    return loop.kind in _IN_ORDER and all(
        t.mode == "read" or (t.record is None and t.order in read) for t in inside
    )


def _loads_a_piece(subject: Subject, tile: Buffer, touch: Touch) -> bool:
    """Whether a statement fills the whole tile from a place in global memory that moves with its loop."""
    loops = _loops(touch)
    if len(loops) != 1 or loops[0].kind not in _IN_ORDER or touch.mode != "write":
        return False
    variables = set(loops[0].vars)
    if touch.record is not None:
        src = touch.record.region("src") if touch.record.op == "copy" else None
        if src is None or src.buffer.scope != "global" or not touch.is_whole(tile):
            return False
        return any(variables & free_vars(s) for s in src.starts)
    values = [store.value for store in subject.shared(stores_by_place).get(touch.span, ())]
    parallel = set(touch.context.parallel_vars())
    indices = [s for s in touch.starts or () if isinstance(s, ir.Var) and s in parallel]
    if len(indices) != len(tile.shape) or len(values) != 1:
        return False
    tensors = {b.var for b in subject.program.buffers if b.known and b.scope == "global"}
    names = free_vars(values[0])
    return bool(variables & names) and bool(tensors & names)


def _as_long(subject: Subject, a: Loop, b: Loop) -> bool:
    """Whether two loops surely have the same number of steps, and that is not one."""
    if len(a.extents) != 1 or len(b.extents) != 1 or {a, b} & subject.loops_with_jumps:
        return False
    one, two = a.extents[0], b.extents[0]
    if isinstance(one, Unknown) or isinstance(two, Unknown) or as_int(one) in (0, 1):
        return False
    return subject.prover.equal(one, two) is True


def _writes_pieces(subject: Subject, loop: Loop) -> bool:
    """Whether a loop writes each step's result elsewhere: then it goes through the tensor once more."""
    variables = set(loop.vars)

    def moves(places: tuple[Value, ...]) -> bool:
        return any(variables & free_vars(p) for p in places if not isinstance(p, Unknown))

    stores = [n for n in walk(subject.program.body) if isinstance(n, Store) and loop in n.context.loops]
    if any(s.buffer.scope == "global" and moves(s.indices) for s in stores):
        return True
    return any(
        access.mode != "read" and access.region.buffer.scope == "global" and moves(access.region.starts)
        for record in subject.records
        if loop in record.context.loops
        for access in subject.accesses(record)
    )


def _steps_differ(subject: Subject, tile: Buffer, later: Loop, load: Touch) -> bool:
    """Whether the steps of a loop that never loads a tile do different things with it all the same: they
    compute with their number, or bring the pieces that the tile held into another one.
    """
    variables = set(later.vars)
    stores = [n for n in walk(subject.program.body) if isinstance(n, Store) and later in n.context.loops]
    if any(_counts(s.value, variables) for s in stores):
        return True
    sources = {
        access.region.buffer
        for record in subject.records
        if record is load.record
        for access in subject.accesses(record)
        if access.mode == "read"
    }
    if load.record is None:
        filled = subject.shared(stores_by_place).get(load.span, ())
        read = {v for n in filled for v in sure_loads(n.value)}
        sources = {b for b in subject.program.buffers if b.known and b.var in read and b.scope == "global"}
    again = [
        access
        for record in subject.records
        if later in record.context.loops
        for access in subject.accesses(record)
        if access.mode == "read" and access.region.buffer in sources
    ]
    loads = {v for s in stores for v in sure_loads(s.value)}
    return bool(again) or any(b.var in loads for b in sources)


def _counts(value: object, variables: set[ir.Var]) -> bool:
    """Whether a number is computed from a loop's variables: not where they choose an element, nor where they
    only decide, as in masks.
    """
    kind = type(value).__name__
    if kind == "Var":
        return value in variables
    if kind == "TensorLoad" or kind in _DECISIONS or not isinstance(value, ir.Expr):
        return False
    return any(_counts(operand, variables) for operand in operands_of(value))


def _problem(subject: Subject, tile: Buffer, read: Touch, later: Loop, load: Touch) -> Problem:
    return STALE_TILE.at(
        place_of(subject, tile, read),
        related=(
            Related(load.span, f"{tile.name} is loaded here, in another loop"),
            Related(later.span, "this loop never loads it"),
        ),
        buffer=tile.name,
        line=load.span.line,
        var=", ".join(str(v.name) for v in later.vars),
    )
