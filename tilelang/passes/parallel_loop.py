"""A T.Parallel region as a record: its variables, its extents, what its body touches, how wide it may access
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tvm import ir, sym
from tvm import tirx as X

from tilelang.ir.build import LOOP_KIND
from tilelang.layout.shared import SharedLayout
from tilelang.passes.accesses import all_accesses
from tilelang.passes.walk import bits_of, constant, index, loop_kind, substitute, uses

VECTOR_BYTES = 16
ASYNC = "tl.async"  # note of a loop that is part of an open asynchronous group


@dataclass(frozen=True, eq=False)
class LoopAccess:
    """One element that the body touches, as a function of loop variables."""

    buffer: ir.Var
    indices: tuple[Any, ...]
    mode: Literal["read", "write"]
    element: Any


@dataclass(frozen=True, eq=False)
class ParallelLoop:
    """Directly nested Parallel loops as one. `extents` may be expressions; `stmt` is the outermost loop."""

    stmt: X.For
    vars: tuple[ir.Var, ...]
    extents: tuple[Any, ...]
    body: Any
    notes: Mapping[str, Any]
    accesses: tuple[LoopAccess, ...]

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The extents if all are constants."""
        found = [constant(e) for e in self.extents]
        return None if None in found else tuple(n for n in found if n is not None)

    @property
    def span(self) -> Any:
        return self.stmt.span

    def note(self, name: str, default: Any = None) -> Any:
        return self.notes.get(name, default)


def nested_parallel(
    loop_vars: Sequence[ir.Var], extents: Sequence[Any], body: Any, notes: Mapping[str, Any], span: Any
) -> X.For:
    """Directly nested Parallel loops around `body`; the outermost carries `notes`, less those that are None.
    One iteration if there are no variables.
    """
    if not loop_vars:
        loop_vars, extents = [X.Var("i", "int32")], [1]
    kept = {k: v for k, v in notes.items() if v is not None}
    for k in reversed(range(len(loop_vars))):
        annotations = {LOOP_KIND: "Parallel", **(kept if k == 0 else {})}
        body = X.For(
            loop_vars[k],
            index(0),
            index(extents[k]),
            X.ForKind.PARALLEL,
            body,
            annotations=annotations,
            span=span,
        )
    return body


def parallel_loop(stmt: X.For) -> ParallelLoop:
    """The region that begins at `stmt`, a loop of kind Parallel."""
    loop_vars: list[ir.Var] = []
    extents: list[Any] = []
    shifts: dict[ir.Var, Any] = {}
    body: Any = stmt
    while loop_kind(body) == "Parallel":
        loop_vars.append(body.loop_var)
        known = constant(body.extent)
        extents.append(body.extent if known is None else known)
        if constant(body.min) != 0:
            shifts[body.loop_var] = body.loop_var + body.min
        body = body.body
        if isinstance(body, X.SeqStmt) and len(body.seq) == 1:
            body = body.seq[0]
    body = substitute(body, shifts)
    notes = {str(k): v for k, v in stmt.annotations.items()}
    return ParallelLoop(stmt, tuple(loop_vars), tuple(extents), body, notes, tuple(_accesses(body)))


def _accesses(body: Any) -> Iterator[LoopAccess]:
    for access in all_accesses(body):
        if not isinstance(access.element, ir.TensorRegion):
            yield LoopAccess(access.buffer, tuple(access.element.indices), access.mode, access.element)


class VectorWidths:
    """How many consecutive iterations of the innermost variable one access may cover.

    `analyzer` knows the ranges of the variables outside; `shared` the layouts of shared buffers by handle.
    """

    def __init__(self, analyzer: sym.Analyzer, shared: Mapping[int, SharedLayout]) -> None:
        self._analyzer = analyzer
        self._shared = shared

    def loop(self, loop: ParallelLoop) -> int:
        """The widest access to memory in the loop; 1 if there is none."""
        return max((self.access(loop, a) for a in loop.accesses if in_memory(a.buffer)), default=1)

    def access(self, loop: ParallelLoop, access: LoopAccess) -> int:
        """Elements of one access: a power of two of at most 16 bytes; 1 where they are not contiguous and
        aligned.
        """
        inner, extent = loop.vars[-1], constant(loop.extents[-1])
        buffer = access.buffer
        bits = bits_of(str(buffer.dtype))
        if extent is None or not access.indices or not _contiguous(access, inner):
            return 1
        width = VECTOR_BYTES * 8 // bits
        while width > 1 and (extent % width or not self._aligned(access, inner, width)):
            width //= 2
        return width

    def several(self, loop: ParallelLoop, access: LoopAccess, lanes: int) -> bool:
        """Whether `lanes` iterations at once, more than one access covers, are neighbours that the widest
        accesses make up one after another: eight float32 beside eight float16.
        """
        inner, extent = loop.vars[-1], constant(loop.extents[-1])
        width = VECTOR_BYTES * 8 // bits_of(str(access.buffer.dtype))
        if extent is None or not access.indices or not _contiguous(access, inner):
            return False
        return lanes % width == 0 and extent % lanes == 0 and self._aligned(access, inner, lanes)

    def chunks(self, loop: ParallelLoop, access: LoopAccess, lanes: int) -> int:
        """Elements of each access that `lanes` iterations at once make in a tile whose rows are stored in
        chunks that lie apart; 0 where those are no whole chunks, or where the rows are in one piece.
        """
        layout = self._shared.get(access.buffer.__chandle__())
        if layout is None or lanes % layout.run or layout.run >= lanes or layout.run == 1:
            return 0
        return layout.run if self.access(loop, access) == layout.run else 0

    def window(self, access: LoopAccess, inner: ir.Var, lanes: int) -> tuple[int, int] | None:
        """(width, offset) where each group of `lanes` iterations reads inside of one piece of fewer
        neighbours, as `A[i, j // 2]` does: the piece is `width` elements, aligned, and the group's first
        iteration reads the one at `offset`. None where that is not known.
        """
        bits = bits_of(str(access.buffer.dtype))
        if bits < 8 or not access.indices or any(uses(i, {inner.__chandle__()}) for i in access.indices[:-1]):
            return None
        last = access.indices[-1]
        first = self._analyzer.simplify(substitute(last, {inner: inner * lanes}))
        reach = 0
        for lane in range(1, lanes):
            here = substitute(last, {inner: inner * lanes + lane})
            ahead = constant(self._analyzer.simplify(here - first))
            if ahead is None or ahead < 0:
                return None
            reach = max(reach, ahead)
        width = 2
        while reach and width < lanes and width * bits <= VECTOR_BYTES * 8:
            steps = self._steps(access.buffer, width)
            offset = self._remainder(first, width)
            whole = self.multiple(index(access.buffer.shape[-1]), width)  # no piece goes past the end
            if steps is None or offset is None or not whole:
                return None
            rows = zip(access.indices[:-1], steps, strict=True)
            if not all(constant(i) == 0 or self.multiple(step, width) for i, step in rows):
                return None
            if offset + reach < width:
                return width, offset
            width *= 2
        return None

    def _remainder(self, value: Any, factor: int) -> int | None:
        """What is left of `value` by `factor`, if that is known."""
        known = constant(value)
        if known is not None:
            return known % factor
        found = self._analyzer.modular_set(value)
        return int(found.base) % factor if int(found.coeff) % factor == 0 else None

    def _aligned(self, access: LoopAccess, inner: ir.Var, width: int) -> bool:
        """Whether every group of `width` iterations starts at a multiple of `width` elements."""
        steps = self._steps(access.buffer, width)
        if steps is None:
            return False
        for i, step in zip(access.indices[:-1], steps, strict=True):
            if constant(i) != 0 and not self.multiple(step, width):
                return False
        return self.multiple(substitute(access.indices[-1], {inner: inner * width}), width)

    def _steps(self, buffer: ir.Var, width: int) -> list[Any] | None:
        """Strides of all dimensions but the last, in elements; None where the last is not contiguous."""
        layout = self._shared.get(buffer.__chandle__())
        if layout is not None:  # shared, or global and stored as annotated
            return [layout.row_step] * (len(layout.shape) - 1) if layout.run % width == 0 else None
        if buffer.strides:
            return list(buffer.strides[:-1]) if constant(buffer.strides[-1]) == 1 else None
        steps: list[Any] = []
        step: Any = 1
        for n in reversed(buffer.shape[1:]):
            extent, known = constant(n), constant(step)
            step = n * step if extent is None or known is None else extent * known
            steps.insert(0, step)
        return steps

    def multiple(self, value: Any, factor: int) -> bool:
        """Whether `value` is surely a multiple of `factor`."""
        known = constant(value)
        if known is not None:
            return known % factor == 0
        found = self._analyzer.modular_set(value)
        return int(found.coeff) % factor == 0 and int(found.base) % factor == 0

    def uniform(self, condition: Any, inner: ir.Var, width: int) -> bool:
        """Whether `condition` has one value for each group of `width` iterations of `inner`."""
        if not uses(condition, {inner.__chandle__()}):
            return True
        if isinstance(condition, X.And | X.Or):
            return self.uniform(condition.a, inner, width) and self.uniform(condition.b, inner, width)
        if isinstance(condition, X.Not):
            return self.uniform(condition.a, inner, width)
        if not isinstance(condition, X.LT | X.GE):
            return False
        # base + lane < bound, with base and bound multiples of the width and 0 <= lane < width.
        if uses(condition.b, {inner.__chandle__()}) or not _unit(condition.a, inner):
            return False
        base = substitute(condition.a, {inner: inner * width})
        return self.multiple(base, width) and self.multiple(condition.b, width)


def in_memory(buffer: ir.Var) -> bool:
    """Whether the buffer lies in global or shared memory, not in registers."""
    return not buffer.scope().startswith("local")


def _contiguous(access: LoopAccess, inner: ir.Var) -> bool:
    handle = {inner.__chandle__()}
    if any(uses(i, handle) for i in access.indices[:-1]):
        return False
    return _unit(access.indices[-1], inner)


def _unit(expr: Any, inner: ir.Var) -> bool:
    """Whether `expr` is `inner` plus something without it."""
    if constant(expr) is not None:
        return False
    difference = sym.Analyzer().simplify(substitute(expr, {inner: inner + 1}) - expr)
    return constant(difference) == 1
