"""partly-used, for loops that go through a tensor and leave out the first or the last tile of each pass.

Three things say that the tile was meant, whatever the dimension is called. Another loop goes through the same
tensor from end to end, as the second pass of a softmax does. The loop's steps lie side by side and one more
would close the gap: 3 tiles of 32 in each block of 128, 31 rows of every 32, or the end of two tensors at
once. Another loop counts the same tiles rounded up, where this one rounds down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tilelang.analysis import output_not_written, partly_used
from tilelang.analysis.affine import Affine, affine
from tilelang.analysis.comparisons import comparisons
from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.subject import Subject
from tilelang.analysis.tensor_use import TensorUse, TensorUses, tensor_uses
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.bounds import ENDS_OF_TWO, GAPS_BETWEEN, ROUNDED_DOWN, SHORT_PASS
from tilelang.ir.prove import free_vars, operands_of, substitute
from tilelang.ir.tile_program import Bind, For, If, Loop, Store, walk
from tilelang.ir.values import Value, as_int, show
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_IN_ORDER = ("serial", "Pipelined", "unroll")
_FEWEST = 3  # steps of a loop that may be one short


@dataclass(frozen=True, eq=False)
class _Pass:
    """The touches of one tensor in one loop that stands in no other."""

    loop: Loop
    places: tuple[GlobalPlace, ...]


def check(subject: Subject) -> Iterator[Problem]:
    """Silent where other rules say what is left out."""
    if subject.launch is None or not subject.program.complete:
        return
    uses = subject.shared(tensor_uses)
    found: list[Problem] = [*_rounded_down(subject), *_ends(uses)]
    for use in uses.uses:
        if use.buffer in uses.unknown or not all(_only_bounded(subject, p) for p in use.places):
            continue
        gap = next(_gaps(uses, use), None)
        found += [gap] if gap is not None else _short(uses, use)
    if found and not subject.told_by(partly_used.check, output_not_written.check):
        yield from partly_used.unique_places(found)


def _only_bounded(subject: Subject, place: GlobalPlace) -> bool:
    """Whether all conditions around a touch do is keep an index inside its tensor."""
    return not place.context.maybe and all(
        any(
            subject.prover.equal(side, size) is True
            for comparison in comparisons(g.condition, g.negated)
            for side in (comparison.small, comparison.large)
            for size in place.buffer.shape
            if not isinstance(side, int)
        )
        for g in place.context.guards
    )


# -- A pass beside a whole one


def _short(uses: TensorUses, use: TensorUse) -> Iterator[Problem]:
    passes, single = _passes(use)
    if len(passes) < 2 or use.writes:
        return
    for dim in range(len(use.buffer.shape)):
        whole = next(
            (p for p in passes if uses.whole(TensorUse(use.buffer, p.places, use.writes), dim)), None
        )
        for one in passes if whole is not None else ():
            missing = _left_out(uses, use, dim, (*one.places, *single))
            if missing is None or one is whole or not _walks(one, dim):
                continue
            tile = max(uses.number(p.extents[dim]) or 0 for p in one.places)
            tile = max(tile, *(_reach(uses, p, dim) for p in one.places))
            if missing.sum() <= tile and not missing.all() and (missing[0] or missing[-1]):
                assert whole is not None
                yield SHORT_PASS.at(
                    one.loop.span,
                    related=(
                        Related(one.places[0].span, f"{one.places[0].text} is read here"),
                        Related(whole.loop.span, "this loop goes through all of it"),
                        *declared(use.buffer),
                    ),
                    **partly_used.words_of(uses, use, dim, missing),
                    line=whole.loop.span.line,
                )


def _passes(use: TensorUse) -> tuple[list[_Pass], list[GlobalPlace]]:
    """By the outermost loop that runs in order; and the touches in none."""
    found: dict[Loop, list[GlobalPlace]] = {}
    single: list[GlobalPlace] = []
    for place in use.places:
        outer = next((x for x in place.context.loops if x.kind in _IN_ORDER), None)
        if outer is None:
            single.append(place)
        else:
            found.setdefault(outer, []).append(place)
    return [_Pass(loop, tuple(places)) for loop, places in found.items()], single


def _walks(one: _Pass, dim: int) -> bool:
    """Whether loops that run in order go along a dimension, not those over threads alone."""
    return any(
        v in free_vars(place.starts[dim])
        for place in one.places
        for x in place.context.loops
        if x.kind in _IN_ORDER
        for v in x.vars
    )


def _reach(uses: TensorUses, place: GlobalPlace, dim: int) -> int:
    """How many elements the variables of T.Parallel reach, one beside the other."""
    form = affine(place.starts[dim])
    parallel = {v for x in place.context.loops if x.kind == "Parallel" for v in x.vars}
    sizes = [
        uses.number(uses.subject.ranges.get(v, (0, None))[1]) or 0
        for v, step in (form.terms if form is not None else {}).items()
        if v in parallel and step == 1
    ]
    return max(sizes, default=0)


def _left_out(uses: TensorUses, use: TensorUse, dim: int, places: Sequence[GlobalPlace]) -> np.ndarray | None:
    return uses.left_out(TensorUse(use.buffer, tuple(places), use.writes), dim)


# -- Gaps between tiles that one step more would close


def _gaps(uses: TensorUses, use: TensorUse) -> Iterator[Problem]:
    for dim in range(len(use.buffer.shape)):
        missing: np.ndarray | None = None
        for place in use.places:
            loop = _one_short(uses, place, dim)
            if loop is None:
                continue
            missing = uses.left_out(use, dim) if missing is None else missing
            if missing is None or missing.all():
                break
            (var,) = [v for v in loop[0].vars if v.same_as(loop[1])]
            yield GAPS_BETWEEN.at(
                loop[0].span,
                related=(Related(place.span, f"{place.text} is used here"), *declared(use.buffer)),
                **partly_used.words_of(uses, use, dim, missing),
                var=var.name,
                steps=loop[2],
                distance=loop[3],
            )
            return


def _one_short(uses: TensorUses, place: GlobalPlace, dim: int) -> tuple[Loop, ir.Var, int, int] | None:
    """The loop and variable whose steps lie side by side, one too few to reach where the next outer variable
    begins; how many there are, and how far apart the outer ones are.
    """
    form, span = in_numbers(uses, place.starts[dim]), uses.number(place.extents[dim])
    if form is None or span is None:
        return None
    loops = {v: x for x in place.context.loops for v in x.vars}
    previous: tuple[ir.Var, int, int] | None = None
    for var, step in sorted(form.terms.items(), key=lambda term: term[1]):
        low, count = (uses.number(b) for b in uses.subject.ranges.get(var, (None, None)))
        if low != 0 or count is None or step <= 0 or count < 1:
            return None
        if previous is not None and step > span and count > 1:
            inner, inner_step, inner_count = previous
            closes = step == inner_step * (inner_count + 1)
            if closes and inner_count >= _FEWEST and inner in loops and _counts_tiles(uses, loops[inner]):
                return loops[inner], inner, inner_count, step
            return None
        if step != span:
            return None
        previous, span = (var, step, count), step * count
    return None


def _ends(uses: TensorUses) -> Iterator[Problem]:
    """A loop that leaves the last tile of two tensors out, whose sizes are the same number."""
    found: dict[tuple[Loop, ir.Var, int], list[tuple[TensorUse, GlobalPlace, int]]] = {}
    for use in uses.uses:
        if use.writes or use.buffer in uses.unknown or len(use.places) != 1:
            continue
        (place,) = use.places
        loops = {v: x for x in place.context.loops for v in x.vars if x.kind in _IN_ORDER}
        for dim, start in enumerate(place.starts if not place.context.guards else ()):
            form, size, tile = affine(start), as_int(use.buffer.shape[dim]), as_int(place.extents[dim])
            if form is None or form.constant or len(form.terms) != 1 or size is None:
                continue
            ((var, step),) = form.terms.items()
            low, count = (as_int(b) for b in uses.subject.ranges.get(var, (None, None)))
            if var not in loops or low != 0 or count is None or count < _FEWEST or step != tile:
                continue
            if size == step * (count + 1) and _counts_tiles(uses, loops[var]):
                found.setdefault((loops[var], var, size), []).append((use, place, dim))
    for (loop, var, _), both in found.items():
        if len(both) > 1:
            (use, place, dim), (other, _, other_dim) = both[:2]
            missing = uses.left_out(use, dim)
            if missing is not None:
                yield ENDS_OF_TWO.at(
                    loop.span,
                    related=(
                        Related(place.span, f"{place.text} is read here"),
                        *declared(use.buffer, other.buffer),
                    ),
                    **partly_used.words_of(uses, use, dim, missing),
                    var=var.name,
                    other=other.buffer.name,
                    other_dim=other_dim,
                )


def _rounded_down(subject: Subject) -> Iterator[Problem]:
    """A loop of `N // 64` steps beside one of T.ceildiv(N, 64), where nothing looks after the rest."""
    assert subject.launch is not None
    loops = [n.loop for n in walk(subject.launch.body) if isinstance(n, For) and n.loop.kind in _IN_ORDER]
    counts = [(x.extents[0], x.span, x) for x in loops if len(x.vars) == 1]
    counts += [(e, subject.launch.span, None) for e in subject.launch.grid]
    for steps, span, loop in counts:
        tile = as_int(steps.b) if isinstance(steps, X.FloorDiv) else None
        if loop is None or not isinstance(steps, X.FloorDiv) or tile is None or tile < 2:
            continue
        rounded = X.floordiv(steps.a + (tile - 1), tile)
        for other, where, _ in counts:
            if isinstance(other, ir.Expr) and subject.prover.equal(other, rounded) is True:
                if loop not in subject.loops_with_jumps and not _looks_after(subject, steps.a):
                    yield ROUNDED_DOWN.at(
                        span,
                        related=(Related(where, "rounded up here"),),
                        steps=show(steps),
                        tile=tile,
                        what=show(steps.a),
                        line=where.line,
                    )
                break


def _looks_after(subject: Subject, size: Value) -> bool:
    """Whether anything in a kernel computes with the rest of a division of a size, or with its quotient."""
    symbols = free_vars(size)
    values: list[Value] = [v for p in subject.shared(global_places) for v in (*p.starts, *p.extents)]
    for node in walk(subject.program.body):
        if isinstance(node, If):
            values.append(node.condition)
        elif isinstance(node, Store | Bind):
            values.append(node.value)
    return any(_divides(v, symbols) for v in values)


def _divides(value: Value, symbols: set[ir.Var]) -> bool:
    if isinstance(value, X.FloorDiv | X.FloorMod) and free_vars(value.a) & symbols:
        return True
    return isinstance(value, ir.Expr) and any(_divides(part, symbols) for part in operands_of(value))


def _counts_tiles(uses: TensorUses, loop: Loop) -> bool:
    """Whether a loop has no jumps, and its length is the same in all blocks."""
    return loop not in uses.subject.loops_with_jumps and all(
        not free_vars(e) & set(uses.subject.ranges) for e in loop.extents if as_int(e) is None
    )


def in_numbers(uses: TensorUses, value: Value) -> Affine | None:
    """The affine form, with the numbers that were taken for symbols."""
    form = affine(value)
    if form is not None or not isinstance(value, ir.Expr):
        return form
    known = {v: n for v, n in uses.sizes.items() if v in free_vars(value)}
    return affine(uses.subject.prover.simplify(substitute(value, known)))
