"""gemm-axes: a product that sums over elements of its factors which do not belong together, where turning one
of them over would make them the same.

Shapes do not tell: with square tiles each transpose option fits. Where the summed axes come from does
(`tile_axes`): `k * 32` of A against `bx * 32` of B is no sum over k. That alone is no evidence, since
products with constant matrices look like it; that another transpose option makes both start at one place, in
one dimension, is.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis import partly_used
from tilelang.analysis.dimension_names import DimensionNames
from tilelang.analysis.meant_shift import meant_shift
from tilelang.analysis.subject import Subject, soften
from tilelang.analysis.tile_axes import Axis, Origin, Product, pairs, tile_axes
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.shape import GEMM_AXES, GEMM_AXES_SHIFTED, GEMM_AXES_STILL
from tilelang.ir.tile_program import Loop
from tilelang.ir.values import Buffer, as_int, show
from tilelang.ops.gemm_shapes import fits, fitting_transposes, may_fit, transpose_fixes, transpose_options
from tilelang.ops.operands import regions

from tvm import ir  # isort: skip

_Options = tuple[bool, bool]


def check(subject: Subject) -> Iterator[Problem]:
    """The first such product: its wrong result goes on into others. Silent where an origin is not known."""
    if not any(record.op == "gemm" for record in subject.records):
        return
    for product in subject.shared(tile_axes).products:
        options = transpose_options(product.record)
        if options is None or not _apart(subject, product, options):
            continue
        found = regions(product.record, ("A", "B", "C"))
        if (
            found is None
            or found[0].buffer is found[1].buffer
            or not may_fit(found, options, subject.context)
        ):
            continue  # a power of a tile may be meant; shapes that do not fit are an error of their own
        fitting = fitting_transposes(found, options, subject.context)
        cures = [cure for cure in fitting if _together(subject, product, cure)]
        if cures:
            # What goes along a loop together is the better evidence.
            best = next((c for c in cures if all(_moves(*axes) for axes in _summed(product, c))), cures[0])
            yield soften(_problem(subject, product, options, best), product.record.context)
            return
        if not fits(found, options, subject.context):
            continue
        var = _moves_alone(subject, product, options)
        if var is not None and not subject.told_by(partly_used.check):
            yield soften(_one_moves(subject, product, options, var), product.record.context)
            return
        beside = _beside(subject, product, options)
        if beside is not None and not subject.told_by(partly_used.check):
            yield soften(_shifted(subject, product, *beside), product.record.context)
            return


def _summed(product: Product, options: _Options) -> Iterator[tuple[Axis, Axis]]:
    for a, b in product.factors:
        yield a[0 if options[0] else 1], b[1 if options[1] else 0]


def _summed_beside(product: Product, options: _Options) -> Iterator[tuple[Axis, Axis, Axis, Axis]]:
    """The summed axes of both factors, and the other ones where the author turned the tile over."""
    for (one, other), (a, b) in zip(_summed(product, options), product.factors, strict=True):
        beside_one = a[1 if options[0] else 0] if _turned(a) else None
        beside_other = b[0 if options[1] else 1] if _turned(b) else None
        yield one, other, beside_one, beside_other


def _turned(factor: tuple[Axis, Axis]) -> bool:
    """Whether a tile holds two dimensions of a tensor in the other order."""
    return any(p.buffer is q.buffer and p.dim > q.dim for p, q in pairs(*factor))


def _apart(subject: Subject, product: Product, options: _Options) -> bool:
    """Whether the summed axes certainly do not run over the same elements, each time."""
    names = subject.shared(DimensionNames)
    for one, other, beside_one, beside_other in _summed_beside(product, options):
        found = list(pairs(one, other))
        if not found or any(_may_be_one(names, x, y) for x, y in found):
            return False
        if any(
            _counts_within(names, x, y, beside_one) or _counts_within(names, y, x, beside_other)
            for x, y in found
        ):
            return False
    return True


def _counts_within(names: DimensionNames, x: Origin, y: Origin, beside: Axis) -> bool:
    """Whether `x` may number the elements that begin at `y`: the other axis of its tile goes over them, as
    in the square matrix of each chunk, `A[chunk * 64 + i, j]`, where j is element j of the chunk. Where
    the tile is as it was loaded, a transpose that was forgotten is likelier.
    """
    if x.moves or not y.moves:
        return False
    rows = [o for o in beside or () if o.buffer is x.buffer and o.dim != x.dim]
    return any(o.starts_with(y) and names.same(*_dims(o, y)) is not False for o in rows)


def _may_be_one(names: DimensionNames, x: Origin, y: Origin) -> bool:
    meet = x.starts_with(y)
    return meet is None or (meet and names.same(*_dims(x, y)) is not False)


def _together(subject: Subject, product: Product, options: _Options) -> bool:
    """Whether the summed axes would run over one dimension from one place on, each time.

    That they move together says so, or that they stand still and have one name.
    """
    names = subject.shared(DimensionNames)
    for one, other in _summed(product, options):
        met = [(x, y) for x, y in pairs(one, other) if x.starts_with(y)]
        same = [names.same(*_dims(x, y)) for x, y in met]
        if not any(s or (s is None and x.moves) for s, (x, _) in zip(same, met, strict=True)):
            return False
    return True


def _moves(one: Axis, other: Axis) -> bool:
    return any(x.moves and x.starts_with(y) for x, y in pairs(one, other))


def _dims(x: Origin, y: Origin) -> tuple[Buffer, int, Buffer, int]:
    return x.buffer, x.dim, y.buffer, y.dim


def _moves_alone(subject: Subject, product: Product, options: _Options) -> ir.Var | None:
    """A loop that sums up, along which one factor goes through a dimension and the other stands still."""
    names = subject.shared(DimensionNames)
    for loop in product.record.context.loops:
        if loop.kind not in ("serial", "Pipelined", "unroll") or _made_anew(subject, product, loop):
            continue
        # Whoever wants a tile that stays the same loads it once.
        loaded = all(_loaded_in(subject, product, name, loop) for name in ("A", "B"))
        for var in loop.vars:
            if all(_alone(names, one, other, var, loaded) for one, other in _summed(product, options)):
                return var
    return None


def _loaded_in(subject: Subject, product: Product, name: str, loop: Loop) -> bool:
    """Whether a factor is copied from a tensor inside a loop."""
    factor = product.record.region(name)
    for record in subject.records:
        if record.op == "copy" and loop in record.context.loops and factor is not None:
            src, dst = record.region("src"), record.region("dst")
            if dst is not None and src is not None and dst.buffer is factor.buffer:
                return src.buffer.scope == "global"
    return False


def _alone(names: DimensionNames, one: Axis, other: Axis, var: ir.Var, loaded: bool) -> bool:
    """Whether `var` moves all origins of one axis and none of the other, in dimensions of one name, or of one
    size where both are loaded in its loop.
    """
    if not one or not other:
        return False
    if not any(
        names.same(*_dims(x, y)) or (loaded and not names.differ(*_dims(x, y))) for x, y in pairs(one, other)
    ):
        return False
    moved = [[var in o.start.terms for o in axis if o.start is not None] for axis in (one, other)]
    if len(moved[0]) != len(one) or len(moved[1]) != len(other):
        return False
    return (all(moved[0]) and not any(moved[1])) or (all(moved[1]) and not any(moved[0]))


def _beside(subject: Subject, product: Product, options: _Options) -> tuple[Origin, Origin] | None:
    """The two summed axes where they go along together, a constant apart, through dimensions of one size.

    Of one tensor they are a lag, as in an autocorrelation.
    """
    names = subject.shared(DimensionNames)
    found = None
    for one, other in _summed(product, options):
        if one is None or other is None or len(one) != 1 or len(other) != 1:
            return None
        (x,), (y,) = one, other
        if x.start is None or y.start is None or not x.start.terms or names.differ(*_dims(x, y)):
            return None
        if (
            x.buffer is y.buffer
            or meant_shift(subject, x.buffer, x.dim)
            or meant_shift(subject, y.buffer, y.dim)
        ):
            return None
        if x.start.terms != y.start.terms or x.start.constant == y.start.constant:
            return None
        found = x, y
    return found


def _shifted(subject: Subject, product: Product, x: Origin, y: Origin) -> Problem:
    return GEMM_AXES_SHIFTED.at(
        product.record.span,
        related=tuple(Related(o.buffer.name_span, f"{o.buffer.name} is declared here") for o in (x, y)),
        left=origin_text(subject, x),
        right=origin_text(subject, y),
    )


def _made_anew(subject: Subject, product: Product, loop: Loop) -> bool:
    """Whether the sum begins again inside a loop, or may."""
    record = product.record
    result, clear = record.region("C"), record.value("clear_accum", False)
    if result is None or as_int(clear) == 1:
        return True
    storage = result.buffer.storage
    for other in subject.records:
        if other is not record and loop in other.context.loops:
            for access in subject.accesses(other):
                if access.mode != "read" and access.region.buffer.storage is storage:
                    return True
    return any(
        a.mode == "write" and a.buffer.storage is storage and loop in a.context.loops
        for a in subject.program.accesses
    )


def _one_moves(subject: Subject, product: Product, options: _Options, var: ir.Var) -> Problem:
    one, other = next(_summed(product, options))
    a, b = next(p for p in pairs(one, other))
    still = b if a.start is not None and var in a.start.terms else a
    return GEMM_AXES_STILL.at(
        product.record.span,
        related=tuple(Related(o.buffer.name_span, f"{o.buffer.name} is declared here") for o in (a, b)),
        left=origin_text(subject, a),
        right=origin_text(subject, b),
        still=still.buffer.name,
        var=var.name,
    )


def _problem(subject: Subject, product: Product, options: _Options, cure: _Options) -> Problem:
    record = product.record
    text, fixes = transpose_fixes(record, options, cure)
    now, then = next(_summed(product, options)), next(_summed(product, cure))
    (a, b), (x, y) = next(pairs(*now)), next(pairs(*then))
    return GEMM_AXES.at(
        record.span,
        fixes=fixes,
        related=tuple(Related(o.buffer.name_span, f"{o.buffer.name} is declared here") for o in (a, b)),
        left=origin_text(subject, a),
        right=origin_text(subject, b),
        option=text,
        left_cure=origin_text(subject, x),
        right_cure=origin_text(subject, y),
    )


def origin_text(subject: Subject, origin: Origin) -> str:
    """`dimension 1 (K) of A from k*32 on`."""
    name = subject.shared(DimensionNames).text(origin.buffer, origin.dim)
    first = subject.prover.simplify(origin.first)
    start = "" if as_int(first) == 0 else f" from {show(first)} on"
    return f"dimension {origin.dim} ({name}) of {origin.buffer.name}{start}"
