"""uneven-grid: one axis of a grid counts whole blocks only, another one the last part of a block too.

`N // 64` leaves the last columns out wherever 64 does not divide N. By itself that says that only multiples
are given; beside `T.ceildiv(M, 64)`, for a size as open as N, it may be a tail that was forgotten, or a
ragged number of rows beside a width that is always padded: a hint. Where the kernel counts the last part of N
itself in another place, or tests indices against N, it contradicts itself: a warning. A kernel that counts
other sizes in whole blocks, or asserts something of them, takes multiples only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilelang.analysis.affine import affine
from tilelang.analysis.dimension_names import DimensionNames
from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.launches import launch_by_launch
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules.bounds import UNEVEN_GRID, UNEVEN_LAUNCH
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_ops import CHECK, is_call
from tilelang.ir.tile_program import Evaluate, For, walk
from tilelang.ir.values import Unknown, Value, as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """The first such axis. Silent where T.assume says something of the sizes."""
    launch = subject.launch
    if launch is None or subject.assumptions or not subject.program.complete:
        return
    if _promised(subject):
        return
    kinds = {s.var: s.kind for s in subject.program.symbols}
    counted = [_division(e) for e in launch.grid]
    ceiled = [c for c in counted if c is not None and c[2] == c[1] - 1]
    for var, found in zip(launch.block_vars, counted, strict=False):
        if found is None or found[2] != 0 or found[1] < 2:
            continue
        size, step, _ = found
        other = next((c for c in ceiled if kinds.get(c[0]) == kinds.get(size) and c[0] is not size), None)
        place = _writes(subject, var, size, step)
        if other is not None and place is not None and size in kinds:
            problem = _problem(subject, place, var, size, step, UNEVEN_GRID, other=other[0].name)
            yield problem if _minds_the_rest(subject, size) else replace(problem, severity=Severity.HINT)
            return


def check_launches(subject: Subject) -> Iterator[Problem]:
    """A launch that counts whole blocks of a size whose last part another launch counts too."""
    parts = launch_by_launch(subject)
    if len(parts) < 2 or subject.assumptions or not subject.program.complete or _promised(subject):
        return
    kinds = {s.var: s.kind for s in subject.program.symbols}
    counted = {p: [_division(e) for e in p.launch.grid] for p in parts if p.launch is not None}
    for part, axes in counted.items():
        assert part.launch is not None
        elsewhere = [
            c for other, found in counted.items() if other is not part for c in found if c is not None
        ]
        for var, found in zip(part.launch.block_vars, axes, strict=False):
            if found is None or found[2] != 0 or found[1] < 2 or found[0] not in kinds:
                continue
            size, step, _ = found
            place = _writes(part, var, size, step)
            if place is None or place.buffer.storage in part.elsewhere:  # which may write the rest
                continue
            if any(of.same_as(size) and added == by - 1 for of, by, added in elsewhere):
                yield _problem(part, place, var, size, step, UNEVEN_LAUNCH)
                break


def _problem(
    subject: Subject, place: GlobalPlace, var: ir.Var, size: ir.Var, step: int, rule: Rule, other: str = ""
) -> Problem:
    assert subject.launch is not None
    dim = next(d for d, s in enumerate(place.buffer.shape) if isinstance(s, ir.Var) and s.same_as(size))
    return rule.at(
        subject.launch.span,
        related=declared(place.buffer),
        var=var.name,
        size=subject.shared(DimensionNames).text(place.buffer, dim),
        step=step,
        most=step - 1,
        dim=dim,
        buffer=place.buffer.name,
        other=other,
    )


def _promised(subject: Subject) -> bool:
    """Whether the kernel says elsewhere that sizes are multiples: `assert N % 64 == 0`, a table of N // 64
    entries, a loop of K // 32 steps.
    """
    symbols = {s.var for s in subject.program.symbols}
    if any(free_vars(p) & symbols for p in subject.program.promises):
        return True
    for node in walk(subject.program.body):
        checked = isinstance(node, Evaluate) and is_call(node.value, CHECK) and free_vars(node.value)
        if checked and checked & symbols:
            return True
    whole = [e for b in subject.program.buffers for e in b.shape]
    whole += [e for n in walk(subject.program.body) if isinstance(n, For) for e in n.loop.extents]
    counted = (_division(e) for e in whole)
    return any(c is not None and c[0] in symbols and c[1] > 2 and c[2] == 0 for c in counted)


def _minds_the_rest(subject: Subject, size: ir.Var) -> bool:
    """Whether another loop or axis counts the last part of this size, or an index is tested against it."""
    counts = (found for _, extent in subject.ranges.values() if (found := _division(extent)) is not None)
    if any(of.same_as(size) and added > 0 for of, _, added in counts):
        return True
    return any(
        size in free_vars(guard.condition)
        for place in subject.shared(global_places)
        for guard in place.context.guards
        if not isinstance(guard.condition, Unknown)
    )


def _division(value: Value) -> tuple[ir.Var, int, int] | None:
    """(size, divisor, what is added) of `(size + n) // divisor`."""
    if not isinstance(value, X.FloorDiv):
        return None
    form, divisor = affine(value.a), as_int(value.b)
    if form is None or divisor is None or len(form.terms) != 1:
        return None
    ((size, factor),) = form.terms.items()
    return (size, divisor, form.constant) if factor == 1 else None


def _writes(subject: Subject, var: ir.Var, size: ir.Var, step: int) -> GlobalPlace | None:
    """A write that goes through a dimension of this size in steps of a block; None where its tensor is
    written elsewhere too.
    """
    writes = [p for p in subject.shared(global_places) if p.writes]
    for place in writes:
        if sum(p.buffer is place.buffer for p in writes) > 1:
            continue
        for start, extent in zip(place.starts, place.buffer.shape, strict=True):
            form = affine(start)
            walks = form is not None and form.coefficient(var) == step
            if walks and isinstance(extent, ir.Var) and extent.same_as(size):
                return place
    return None
