"""mask-and-loop: a loop goes through something in tiles, and a condition on the position counts differently.

`for t in range(ceildiv(n, 16))` with `t * 16 + i < n` keeps the n elements and hides what its last tile has
too many. `<=` keeps one more, `>` keeps nothing but what lies past the end, and in a loop of n // 16 steps
the condition never hides anything: the elements of the last tile that n does not fill are not visited at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tilelang.analysis import guard_at_end
from tilelang.analysis.comparisons import Comparison, comparisons
from tilelang.analysis.global_places import global_places
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules.bounds import FIRST_LEFT_OUT, KEEPS_ONE_MORE, KEEPS_THE_REST, MASK_AND_LOOP
from tilelang.diagnostics.span import Span
from tilelang.ir.evaluate import is_choice
from tilelang.ir.expressions import loads_of, spelled_out
from tilelang.ir.prove import free_vars, operands_of, substitute
from tilelang.ir.tile_program import Bind, Context, Loop, Store, walk
from tilelang.ir.values import Unknown, Value, as_int, show

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_IN_ORDER = ("serial", "Pipelined", "unroll")
_Count = Literal["up", "down", "exact"]


@dataclass(frozen=True, eq=False)
class _Kept:
    """A condition under which something that is read is kept. `chosen`: else a constant takes its place."""

    condition: Value
    negated: bool
    span: Span
    context: Context
    chosen: bool


@dataclass(frozen=True, eq=False)
class _Walk:
    """A loop that goes through `length` elements in tiles of `tile`, and whether its steps are rounded up."""

    loop: Loop
    length: Value
    tile: int
    rounded: _Count
    first: int = 0  # step


def check(subject: Subject) -> Iterator[Problem]:
    """Once for each loop and statement. Silent about what guard_at_end tells, and about sizes that tiles
    divide.
    """
    if not subject.program.complete:
        return
    told = {p.span for p in subject.found(guard_at_end.check)}
    seen: set[tuple[Loop, str]] = set()
    names = {n.var: n.value for n in walk(subject.program.body) if isinstance(n, Bind)}
    for kept in _all_kept(subject, names):
        found = _found(subject, kept, names)
        if found is None or kept.span in told:
            continue
        rule, walked = found
        (var,) = walked.loop.vars
        if (walked.loop, show(kept.condition)) not in seen:
            seen.add((walked.loop, show(kept.condition)))
            problem = rule.at(
                kept.span,
                related=(Related(walked.loop.span, "the loop"),),
                length=show(walked.length),
                tile=walked.tile,
                var=var.name,
            )
            yield soften(problem, kept.context)


def _all_kept(subject: Subject, names: dict[ir.Var, Value]) -> Iterator[_Kept]:
    for access in subject.program.accesses:
        if access.buffer.scope == "global":
            for guard in access.context.guards:
                yield _Kept(guard.condition, guard.negated, guard.span, access.context, chosen=False)
    for node in walk(subject.program.body):
        if isinstance(node, Store):
            for choice in _choices(node.value):
                condition, yes, no = choice.args
                read = [bool(loads_of(spelled_out(v, names))) for v in (yes, no)]
                if read[0] != read[1]:
                    yield _Kept(condition, read[1], node.span, node.context, chosen=True)


def _choices(value: Value) -> Iterator[ir.Call]:
    if is_choice(value):
        yield value
    if isinstance(value, ir.Expr) and not isinstance(value, ir.TensorLoad):
        for part in operands_of(value):
            yield from _choices(part)


def _found(subject: Subject, kept: _Kept, names: dict[ir.Var, Value]) -> tuple[Rule, _Walk] | None:
    if isinstance(kept.condition, Unknown):
        return None
    condition = spelled_out(kept.condition, names)
    for comparison in comparisons(condition, kept.negated):
        for inside, (small, large) in ((True, _sides(comparison)), (False, _sides(comparison)[::-1])):
            walked = _walked(subject, kept.context, small, large, names)
            rule = None if walked is None else _rule(subject, kept, comparison, walked, inside)
            if walked is not None and rule is not None:
                return rule, walked
    return None


def _rule(subject: Subject, kept: _Kept, comparison: Comparison, walked: _Walk, inside: bool) -> Rule | None:
    if not inside:  # `position > length`: the contrary may be told to fill the rest with something
        return KEEPS_THE_REST if kept.chosen or _reads_along(subject, kept, walked) else None
    if walked.first == 1:
        return None if _reads_in_front(subject, walked.loop) else FIRST_LEFT_OUT
    if walked.rounded == "down":
        return MASK_AND_LOOP
    return KEEPS_ONE_MORE if comparison.or_equal and walked.rounded == "up" else None


def _reads_along(subject: Subject, kept: _Kept, walked: _Walk) -> bool:
    """Whether a statement under a condition touches a tensor at the position that the loop has come to."""
    (var,) = walked.loop.vars
    return any(
        access.context is kept.context
        and access.buffer.scope == "global"
        and any(
            not isinstance(i.start, Unknown)
            and not isinstance(size, Unknown)
            and var in free_vars(i.start)
            and subject.prover.equal(size, walked.length) is True
            for i, size in zip(access.indices, access.buffer.shape, strict=False)
        )
        for access in subject.program.accesses
    )


def _reads_in_front(subject: Subject, loop: Loop) -> bool:
    """Whether what a loop reads is read outside of it too, as its first tile may be."""
    (var,) = loop.vars
    inside = [
        p
        for p in subject.shared(global_places)
        if loop in p.context.loops and not p.writes and any(var in free_vars(s) for s in p.starts)
    ]
    return any(
        loop not in p.context.loops and any(p.buffer is q.buffer for q in inside)
        for p in subject.shared(global_places)
    )


def _sides(comparison: Comparison) -> tuple[Value, Value]:
    return comparison.small, comparison.large


def _walked(
    subject: Subject, context: Context, position: Value, end: Value, names: dict[ir.Var, Value]
) -> _Walk | None:
    """The loop that goes through `end - position` elements, counted down by the loop and within its tile."""
    loops = [x for x in context.loops if x.kind in _IN_ORDER and len(x.vars) == 1]
    parallel = [x for x in context.loops if x.kind in ("Parallel", "serial", "vectorized", "unroll")]
    for loop in reversed(loops):
        (var,), (low,), (extent,) = loop.vars, loop.mins, loop.extents
        first = as_int(low)
        if loop in subject.loops_with_jumps or first not in (0, 1) or isinstance(extent, Unknown):
            continue
        assert first is not None
        if not isinstance(position, ir.Expr) or var not in free_vars(position):
            continue
        left = subject.prover.simplify(end - position)
        tile = _step(subject, left, var)
        if tile is None or tile < 2:
            continue
        inner = [
            (v, e)
            for x in parallel
            if x is not loop and context.loops.index(x) > context.loops.index(loop)
            for v, e in zip(x.vars, x.extents, strict=True)
            if v in free_vars(left)
        ]
        if len(inner) != 1 or as_int(inner[0][1]) != tile or _step(subject, left, inner[0][0]) != 1:
            continue
        length = subject.prover.simplify(substitute(left, {var: 0, inner[0][0]: 0}))
        rounded = _rounded(subject, spelled_out(extent, names) + first, length, tile)
        if rounded is not None:
            return _Walk(loop, length, tile, rounded, first)
    return None


def _step(subject: Subject, left: Value, var: ir.Var) -> int | None:
    """By how much what is left shrinks when a variable grows by one."""
    if not isinstance(left, ir.Expr):
        return None
    return as_int(subject.prover.simplify(left - substitute(left, {var: var + 1})))


def _rounded(subject: Subject, extent: Value, length: Value, tile: int) -> _Count | None:
    known, steps = as_int(length), as_int(extent)
    if known is not None:
        if steps is None or known <= 0:
            return None
        if known % tile == 0:
            return "exact" if steps == known // tile else None
        return {known // tile: "down", -(-known // tile): "up"}.get(steps)  # type: ignore[return-value]
    if not isinstance(extent, ir.Expr):
        return None
    if subject.prover.equal(extent, X.floordiv(length + (tile - 1), tile)) is True:
        return "up"
    if subject.prover.equal(extent, X.floordiv(length, tile)) is True:
        return "down"
    return None
