"""read-before-write: a tile, or a part of it, is read although nothing was written there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from tilelang.analysis.bounds import first_value
from tilelang.analysis.contents import History, Touch, histories, unexplained
from tilelang.analysis.coverage import ranges_text, reached, span_of
from tilelang.analysis.iterations import iterations, variables_behind
from tilelang.analysis.open_sizes import given_sizes
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import (
    READ_BEFORE_FIRST_WRITE,
    READ_BEFORE_WRITE,
    READ_OF_NEW_OUTPUT,
    READ_OF_UNASSIGNED,
    READ_PARTLY_WRITTEN,
    READ_UNWRITTEN_ELEMENT,
)
from tilelang.diagnostics.span import Span
from tilelang.ir.evaluate import NotEvaluable
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Evaluate, Loop, walk
from tilelang.ir.values import Buffer, as_int
from tilelang.ops.operands import declared
from tilelang.ops.reduce import reduced_dim
from tilelang.ops.registry import PRODUCTS

from tvm import ir  # isort: skip

_MOST_ELEMENTS = 1 << 16
_MOST_BOXES = 64


def check(subject: Subject) -> Iterator[Problem]:
    """The first read of each tile. Accumulators of T.gemm are the affair of uninitialised-accumulator."""
    for history in subject.shared(histories):
        first = next((t for t in history.touches if _reads(t)), None)
        if first is None or history.buffer.empty or _may_be_given(subject, history):
            continue
        if history.may_hold_something(first):
            yield from _partly(subject, history)
            continue
        later = next((w for w in history.writes if w.shares_loop(first)), None)
        rule = READ_BEFORE_WRITE if later is None else READ_BEFORE_FIRST_WRITE
        if history.buffer.role == "output":
            rule = READ_OF_NEW_OUTPUT
        yield rule.at(
            place_of(subject, history.buffer, first),
            related=declared(history.buffer),
            buffer=history.buffer.name,
            line=0 if later is None else later.span.line,
            why=" of out_idx" if subject.program.style == "lazy" else "",
        )


def check_variables(subject: Subject) -> Iterator[Problem]:
    """Scalar variables without a start value that are read and assigned nowhere: they stay 0."""
    if not subject.program.complete:
        return
    assigned = {a.buffer for a in subject.program.accesses if a.mode != "read"}
    assigned |= {a.region.buffer for r in subject.records for a in subject.accesses(r) if a.mode != "read"}
    assigned |= subject.shared(unexplained)
    called = {v for n in walk(subject.program.body) if isinstance(n, Evaluate) for v in free_vars(n.value)}
    told: set[Buffer] = set()
    for access in subject.program.accesses:
        buffer = access.buffer
        if buffer.scope != "local.var" or buffer.init is not None or buffer in assigned | told:
            continue
        if buffer.known and buffer.var not in called and not access.context.maybe:
            told.add(buffer)
            yield READ_OF_UNASSIGNED.at(access.span, related=declared(buffer), buffer=buffer.name)


def _may_be_given(subject: Subject, history: History) -> bool:
    """An output that the caller passes in may hold something; one that the runtime allocates does not, unless
    other blocks wrote to it, which this one may have waited for.
    """
    if history.buffer.role != "output":
        return False
    program = subject.program
    if history.buffer not in [program.params[i].buffer for i in program.outputs]:
        return True
    return bool(history.writes) and any(isinstance(n, Evaluate) for n in walk(program.body))


def _reads(touch: Touch) -> bool:
    is_gemm_accumulator = touch.record is not None and touch.record.op in PRODUCTS and touch.mode == "update"
    return touch.mode != "write" and not is_gemm_accumulator


def _partly(subject: Subject, history: History) -> Iterator[Problem]:
    """The first read of elements that no write reaches before it."""
    if history.escaped or history.buffer.role == "output":
        return
    shape = [as_int(d) for d in history.buffer.shape]
    writes = history.writes
    filled = min((w.order for w in writes if _fills(w, shape)), default=None)
    for read in history.touches:
        if not _reads(read) or read.starts is None or read.context.maybe:
            continue
        if filled is not None and filled < read.order:
            continue
        others = [w for w in writes if w is not read]
        for dim, size in enumerate(shape):
            if size is None or not _matters(subject, read, dim, len(shape)):
                continue
            steps = _steps_with(subject, read, dim)
            before = [w for w in others if w.may_precede(read) or not steps.isdisjoint(w.context.loops)]
            missing = _missing(subject, read, before, dim, size)
            if missing is not None:
                yield soften(_part_problem(subject, history, read, before, dim, missing), read.context)
                return
            given = _smallest(subject, before) if _mixes(read, dim) else {}
            missing = _missing(subject, read, before, dim, size, given) if given else None
            if missing is not None:
                problem = _part_problem(subject, history, read, before, dim, missing)
                yield soften(given_sizes(problem, given), read.context)
                return
        element = _element(subject, read, others, shape)
        if element is not None:
            problem = READ_UNWRITTEN_ELEMENT.at(
                place_of(subject, history.buffer, read),
                related=declared(history.buffer),
                buffer=history.buffer.name,
                element=", ".join(map(str, element)),
            )
            yield soften(problem, read.context)
            return


def _mixes(read: Touch, dim: int) -> bool:
    """Whether the elements of a dimension are folded, so that one that nobody wrote spoils the result. What
    is computed element by element may be left where it is.
    """
    record = read.record
    return record is not None and record.op == "reduce" and reduced_dim(record) == dim


def _smallest(subject: Subject, writes: list[Touch]) -> dict[ir.Var, int]:
    """Sizes of tensors that masks of the writes ask for, at 1; none where some sizes only are taken."""
    if subject.assumptions or subject.program.promises:
        return {}
    asked = {v for w in writes for v in variables_behind(subject, w.context, ())}
    return {s.var: 1 for s in subject.program.symbols if s.var in asked}


def _element(
    subject: Subject, read: Touch, others: list[Touch], shape: list[int | None]
) -> tuple[int, ...] | None:
    """An element that is certainly read and certainly not written before, where masks go over several
    dimensions.
    """
    sizes = [n for n in shape if n is not None]
    if len(sizes) < max(2, len(shape)) or prod(sizes) > _MOST_ELEMENTS or read.starts is None:
        return None
    if read.record is not None and read.record.op != "reduce":
        return None
    steps = {loop for dim in range(len(sizes)) for loop in _steps_with(subject, read, dim)}
    before = [w for w in others if w.may_precede(read) or not steps.isdisjoint(w.context.loops)]
    taken = _touched(subject, read, sizes, surely=True)
    for write in before if taken is not None else ():
        written = _touched(subject, write, sizes, surely=False)
        if written is None:
            return None
        taken = taken & ~written
    if taken is None or not before or not taken.any():
        return None
    return tuple(int(k) for k in np.unravel_index(int(taken.argmax()), taken.shape))


def _touched(subject: Subject, touch: Touch, sizes: list[int], *, surely: bool) -> np.ndarray | None:
    """The elements that a statement touches at least (`surely`) or at most; None where that is not known."""
    if touch.starts is None or len(touch.starts) != len(sizes):
        return None
    points = iterations(subject, touch.context, (*touch.starts, *touch.extents))
    if points is None or (surely and not points.sure) or not points.whole:
        return None
    flags = np.zeros(sizes, bool)
    try:
        starts = [points.values(s)[points.active] for s in touch.starts]
        counts = [points.values(e)[points.active] for e in touch.extents]
    except NotEvaluable:
        return None
    if not starts[0].size:
        return flags
    if all((c == 1).all() for c in counts):
        inside = np.ones(starts[0].shape, bool)
        for at, size in zip(starts, sizes, strict=True):
            inside &= (at >= 0) & (at < size)
        flags[tuple(at[inside] for at in starts)] = True
        return flags
    boxes = set(zip(*(a.tolist() for a in (*starts, *counts)), strict=True))
    if len(boxes) > _MOST_BOXES:
        return None
    for box in boxes:
        begin, count = box[: len(sizes)], box[len(sizes) :]
        flags[tuple(slice(max(0, b), max(0, b + n)) for b, n in zip(begin, count, strict=True))] = True
    return flags


def _steps_with(subject: Subject, read: Touch, dim: int) -> set[Loop]:
    """The loops in order with which a read moves on, so that what it meets may have been written by an
    iteration before: of two halves that change places, the first iteration reads only one.
    """
    assert read.starts is not None
    loops = [loop for loop in read.context.loops if loop.kind != "Parallel"]
    if not loops:
        return set()
    behind = variables_behind(subject, read.context, (read.starts[dim], read.extents[dim]))
    return {loop for loop in loops if not behind.isdisjoint(loop.vars)}


def _fills(write: Touch, shape: list[int | None]) -> bool:
    """Whether a write certainly reaches every element, and everything behind it runs later."""
    context = write.context
    if write.mode != "write" or context.loops or context.guards or context.maybe or write.starts is None:
        return False
    whole = [as_int(e) for e in write.extents] == shape and None not in shape
    return whole and all(as_int(s) == 0 for s in write.starts)


def _missing(
    subject: Subject,
    read: Touch,
    before: list[Touch],
    dim: int,
    size: int,
    given: Mapping[ir.Var, int] | None = None,
) -> np.ndarray | None:
    """Coordinates of a dimension that are certainly read and certainly not written, with `given` sizes."""
    assert read.starts is not None
    written = reached(subject, dim, size, [(w.context, w.starts, w.extents) for w in before], given)
    if written is None:
        return None
    part = span_of(subject, read.context, read.starts[dim], read.extents[dim], given)
    if part is None or not part.sure:
        return None
    taken = np.zeros(size, bool)
    for first, count in part.pieces:
        taken[max(0, first) : max(0, first + count)] = True
    missing = taken & ~written
    return missing if missing.any() else None


def _matters(subject: Subject, read: Touch, dim: int, rank: int) -> bool:
    """Whether all that is read there is used: rows of a product may be computed and never stored, and so may
    what a copy to a tensor takes beyond its end.
    """
    record = read.record
    if record is None:
        return True
    if record.op in PRODUCTS:
        operand = read.argument.removesuffix("_sparse")
        transposed = as_int(record.value(f"transpose_{operand}", False))
        if transposed is None or operand not in ("A", "B", "E"):
            return False
        inner = rank - 1 if (operand != "B") != bool(transposed) else rank - 2
        return dim == inner
    dst = record.region("dst")
    return dst is None or dst.buffer.scope != "global" or _fits(subject, read, dst.buffer)


def _fits(subject: Subject, read: Touch, tensor: Buffer) -> bool:
    """Whether a tensor surely has room for what is copied to it, in the first iteration of everything."""
    record = read.record
    dst = record.region("dst") if record is not None else None
    if dst is None:
        return False
    starts = [first_value(subject, s) for s in dst.starts]
    sizes = [as_int(d) for d in tensor.shape]
    wanted = [as_int(e) for e in read.extents]
    if None in starts or None in sizes or None in wanted or len(sizes) < len(wanted):
        return False
    ends = zip(sizes[len(sizes) - len(wanted) :], starts[len(starts) - len(wanted) :], wanted, strict=True)
    return all(n - a >= e for n, a, e in ends if n is not None and a is not None and e is not None)


def _part_problem(
    subject: Subject, history: History, read: Touch, before: list[Touch], dim: int, missing: np.ndarray
) -> Problem:
    last = max((w for w in before if w.order < read.order), key=lambda w: w.order, default=before[-1])
    return READ_PARTLY_WRITTEN.at(
        place_of(subject, history.buffer, read),
        related=(Related(last.span, "the last write before it"), *declared(history.buffer)),
        buffer=history.buffer.name,
        dim=dim,
        missing=ranges_text(missing),
    )


def place_of(subject: Subject, buffer: Buffer, touch: Touch) -> Span:
    """The subscript itself where the read is one element of a longer statement."""
    if touch.record is not None:
        return touch.span
    for access in subject.program.accesses:
        if access.mode == "read" and access.buffer.storage is buffer and touch.span.line == access.span.line:
            return access.span
    return touch.span
