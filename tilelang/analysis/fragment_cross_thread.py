"""fragment-cross-thread: one iteration of T.Parallel that needs fragment elements of several threads.

An iteration runs on the thread that owns the fragment elements it touches. That is impossible by
construction when an index is rotated against the loop, when one variable walks a diagonal, or when one loop
uses two index forms. A loop whose fragments are all touched at one offset runs where they lie. What another
layout could satisfy (`f[i // 2]` alone, `f[i, 0]` beside `f[i, j]`, replicated rows) stays silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilelang.analysis.affine import Affine, affine
from tilelang.analysis.out_of_step import Around, Shift, read_whole, shift
from tilelang.analysis.staging import shared_copy
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.layout import (
    FRAGMENT_CROSS_THREAD,
    FRAGMENT_DIAGONAL,
    FRAGMENT_TWO_FORMS,
)
from tilelang.ir.tile_program import Access, Context, Loop
from tilelang.ir.values import Buffer, Region, Unknown, Value, as_int
from tilelang.layout.annotated import annotated_names
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip


@dataclass(frozen=True, eq=False)
class _Seen:
    access: Access
    indices: tuple[Value, ...]
    variables: tuple[ir.Var, ...]  # of the parallel loops around it
    region: Loop  # the outermost of them


def check(subject: Subject) -> Iterator[Problem]:
    """Every access is looked at alone, then those of one parallel region together."""
    if subject.target.kind == "cpu":  # there a fragment is the whole tile of its block
        return
    told: set[tuple[str, int]] = set()  # `f[i, i] = f[i, i] + 1` is one mistake
    regions = _regions(subject)
    inside: dict[Loop, list[_Seen]] = {}
    for together in regions:
        inside.setdefault(together[0].region, []).extend(together)
    for together in regions:
        if _held_whole(subject, together):
            continue
        beside = inside[together[0].region]
        found = [(seen, _alone(subject, seen, beside)) for seen in together]
        fixes = shared_copy(subject, [seen.access for seen, problem in found if problem is not None])
        left = [seen for seen, problem in found if problem is None]
        for access, problem in ((seen.access, problem) for seen, problem in found if problem is not None):
            if (problem.message, access.span.line) not in told:
                yield soften(replace(problem, fixes=fixes), access.context)
            told.add((problem.message, access.span.line))
        if left:
            yield from _two_forms(subject, left)


def _regions(subject: Subject) -> list[list[_Seen]]:
    """What each parallel region does with each fragment that is spread over the threads."""
    regions: dict[tuple[Loop, Buffer], list[_Seen]] = {}
    everywhere = _replicated(subject)
    for access in subject.program.accesses:
        variables = access.context.parallel_vars()
        indices = tuple(i.start for i in access.indices)
        if access.buffer.scope != "local.fragment" or not variables or access.buffer.storage in everywhere:
            continue
        if len(indices) != len(access.buffer.shape) or any(isinstance(i, Unknown) for i in indices):
            continue
        outermost = next(loop for loop in access.context.loops if loop.kind == "Parallel")
        seen = _Seen(access, indices, variables, outermost)
        regions.setdefault((outermost, access.buffer), []).append(seen)
    return list(regions.values())


def _replicated(subject: Subject) -> set[Buffer]:
    """Fragments that every thread holds whole, because they are touched outside `T.Parallel`, or at a fixed
    element inside: then each element is at hand wherever it is read. And those that the author lays out.
    """
    annotated = annotated_names(subject.program.attrs)
    return {
        access.buffer.storage
        for access in subject.program.accesses
        if access.buffer.scope == "local.fragment"
        and (
            access.buffer.name in annotated  # who holds what is the author's choice
            or not access.context.parallel_vars()
            or (access.mode == "read" and all(as_int(i.start) is not None for i in access.indices))
        )
    }


def _alone(subject: Subject, seen: _Seen, beside: list[_Seen]) -> Problem | None:
    """What is wrong with one access; `beside`: all accesses to fragments in the same region."""
    access = seen.access
    walked = [v for index in seen.indices if (v := _walked(index, seen)) is not None]
    twice = next((v for k, v in enumerate(walked) if any(v.same_as(w) for w in walked[:k])), None)
    if twice is not None and _at_least_two(subject, twice):
        return FRAGMENT_DIAGONAL.at(
            access.span,
            related=declared(access.buffer),
            var=twice.name,
            access=_text(access),
            target=subject.target,
        )
    around = _around(subject, access.context, seen.variables)
    for index in seen.indices:
        found = shift(index, around)
        if found is not None and not _followed(found, index, beside, around):
            return FRAGMENT_CROSS_THREAD.at(
                access.span,
                related=declared(access.buffer),
                var=found.var.name,
                access=_text(access),
                target=subject.target,
            )
    return None


def _followed(found: Shift, index: Value, beside: list[_Seen], around: Around) -> bool:
    """Whether the region can run where the fragment's elements lie (`passes.follow_fragments`): all of its
    fragments are touched at one offset from the variable, which nothing inside the region changes, and no
    iteration is known to leave them.
    """
    form = affine(index)
    inside = [v for s in beside for v in _counted_inside(s)]
    if found.wraps or form is None or any(v.same_as(w) for v in form.variables for w in inside):
        return False
    extent = around.extent(found.var) or 0
    for seen in beside:
        for at, size in zip(seen.indices, seen.access.buffer.shape, strict=True):
            other, rows = affine(at), as_int(size)
            if other is None:
                return False
            if other.coefficient(found.var) == 0:
                continue
            if other.constant != form.constant or any(
                other.coefficient(v) != form.coefficient(v) for v in (*other.variables, *form.variables)
            ):
                return False
            leaves = rows is not None and (found.low < 0 or found.high + extent > rows)
            if leaves and not seen.access.context.guards:
                return False
    return True


def _counted_inside(seen: _Seen) -> list[ir.Var]:
    """Variables of serial loops that stand inside the parallel region."""
    loops = seen.access.context.loops
    inside = loops[next(k for k, loop in enumerate(loops) if loop is seen.region) :]
    return [v for loop in inside if loop.kind != "Parallel" for v in loop.vars]


def _walked(index: Value, seen: _Seen) -> ir.Var | None:
    """The parallel variable that an index follows step by step, up or down: `i`, `63 - i`."""
    form = affine(index)
    if form is None or len(form.variables) != 1:
        return None
    (var,) = form.variables
    parallel = any(var.same_as(p) for p in seen.variables)
    return var if parallel and abs(form.coefficient(var)) == 1 else None


def _around(subject: Subject, context: Context, variables: tuple[ir.Var, ...]) -> Around:
    serial = {v for loop in context.loops if loop.kind != "Parallel" for v in loop.vars}

    def values(var: ir.Var) -> tuple[int, int] | None:
        first, count = (as_int(n) for n in subject.ranges.get(var, (None, None)))
        if var not in serial or first is None or count is None or count < 2:
            return None
        return first, first + count - 1

    return Around(variables, lambda v: _extent(subject, v), values)


def _held_whole(subject: Subject, seen: list[_Seen]) -> bool:
    """Whether every thread holds the fragment, so that the shifted reads of one parallel region find it."""
    first = seen[0]
    around = _around(subject, first.access.context, first.variables)
    longest = max(seen, key=lambda s: len(s.access.context.loops))
    if longest is not first:
        around = _around(subject, longest.access.context, first.variables)
    return read_whole(first.access.buffer.shape, [(s.access.mode, s.indices) for s in seen], around)


def _two_forms(subject: Subject, together: list[_Seen]) -> Iterator[Problem]:
    first = together[0]
    for later in together[1:]:
        if _conflict(subject, first, later):
            problem = FRAGMENT_TWO_FORMS.at(
                later.access.span,
                related=(
                    Related(first.access.span, f"{_text(first.access)} is touched here"),
                    *declared(later.access.buffer),
                ),
                fixes=shared_copy(subject, [s.access for s in together[1:] if _conflict(subject, first, s)]),
                access=_text(later.access),
                other=_text(first.access),
                target=subject.target,
            )
            yield soften(problem, later.access.context)
            return


def _conflict(subject: Subject, a: _Seen, b: _Seen) -> bool:
    """Whether two index tuples are both affine in parallel variables and differ in one of them."""
    for x, y in zip(a.indices, b.indices, strict=True):
        p, q = affine(x), affine(y)
        if p is None or q is None:
            if _divided(subject, x, y, a) or _divided(subject, y, x, b):
                return True
            if not _same(subject, x, y):
                return False
            continue
        if not (_uses(p, a) and _uses(q, b)):
            continue
        if subject.prover.equal(x, y) is not True and _differ(subject, p, q):
            return True
    return False


def _same(subject: Subject, x: Value, y: Value) -> bool:
    return subject.prover.equal(x, y) is True


def _divided(subject: Subject, x: Value, y: Value, seen: _Seen) -> bool:
    """Whether one index is a parallel variable and the other a quotient or rest of the same variable that
    leaves it: `f[i]` beside `f[i // 2]`.
    """
    if not isinstance(x, ir.Var) or not any(x.same_as(p) for p in seen.variables):
        return False
    if not isinstance(y, X.FloorDiv | X.FloorMod) or not isinstance(y.a, ir.Var) or not y.a.same_as(x):
        return False
    extent, by = _extent(subject, x), as_int(y.b)
    if extent is None or by is None:
        return False
    return extent >= 2 and by >= 2 if isinstance(y, X.FloorDiv) else 1 <= by < extent


def _differ(subject: Subject, p: Affine, q: Affine) -> bool:
    """Different coefficients of variables that vary, or a different constant."""
    variables = [*p.variables, *(v for v in q.variables if p.coefficient(v) == 0)]
    changed = [v for v in variables if p.coefficient(v) != q.coefficient(v)]
    if not changed:
        return p.constant != q.constant
    return any(_at_least_two(subject, v) for v in changed)


def _uses(form: Affine, seen: _Seen) -> bool:
    return any(v.same_as(p) for v in form.variables for p in seen.variables)


def _extent(subject: Subject, var: ir.Var) -> int | None:
    found = subject.ranges.get(var)
    return None if found is None else as_int(found[1])


def _at_least_two(subject: Subject, var: ir.Var) -> bool:
    extent = _extent(subject, var)
    return extent is not None and extent >= 2


def _text(access: Access) -> str:
    return Region(access.buffer, access.indices, access.span).text()
