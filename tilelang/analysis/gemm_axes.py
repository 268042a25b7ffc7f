"""gemm-axes: a product that sums over elements of its factors which do not belong together, where turning one
of them over would make them the same.

Shapes do not tell: with square tiles each transpose option fits. Where the summed axes come from does
(`tile_axes`): `k * 32` of A against `bx * 32` of B is no sum over k. That alone is no evidence, since
products with constant matrices look like it; that another transpose option makes both start at one place, in
one dimension, is.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.dimension_names import DimensionNames
from tilelang.analysis.subject import Subject, soften
from tilelang.analysis.tile_axes import Axis, Origin, Product, pairs, products
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.shape import GEMM_AXES
from tilelang.ir.values import Buffer, as_int, show
from tilelang.ops.gemm import fits, fitting_transposes, transpose_fixes, transpose_options
from tilelang.ops.operands import regions

_Options = tuple[bool, bool]


def check(subject: Subject) -> Iterator[Problem]:
    """The first such product: its wrong result goes on into others. Silent where an origin is not known."""
    for product in subject.shared(products):
        options = transpose_options(product.record)
        if options is None or not _apart(subject, product, options):
            continue
        found = regions(product.record, ("A", "B", "C"))
        if found is None or not fits(found, options, subject.context):
            continue  # that is an error of its own
        fitting = fitting_transposes(found, options, subject.context)
        cures = [cure for cure in fitting if _together(subject, product, cure)]
        if cures:
            # What goes along a loop together is the better evidence.
            best = next((c for c in cures if all(_moves(*axes) for axes in _summed(product, c))), cures[0])
            yield soften(_problem(subject, product, options, best), product.record.context)
            return


def _summed(product: Product, options: _Options) -> Iterator[tuple[Axis, Axis]]:
    for a, b in product.factors:
        yield a[0 if options[0] else 1], b[1 if options[1] else 0]


def _apart(subject: Subject, product: Product, options: _Options) -> bool:
    """Whether the summed axes certainly do not run over the same elements, each time."""
    names = subject.shared(DimensionNames)
    for one, other in _summed(product, options):
        found = list(pairs(one, other))
        if not found or any(_may_be_one(names, x, y) for x, y in found):
            return False
    return True


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


def _problem(subject: Subject, product: Product, options: _Options, cure: _Options) -> Problem:
    record = product.record
    text, fixes = transpose_fixes(record, options, cure)
    now, then = next(_summed(product, options)), next(_summed(product, cure))
    (a, b), (x, y) = next(pairs(*now)), next(pairs(*then))
    return GEMM_AXES.at(
        record.span,
        fixes=fixes,
        related=tuple(Related(o.buffer.name_span, f"{o.buffer.name} is declared here") for o in (a, b)),
        left=_text(subject, a),
        right=_text(subject, b),
        option=text,
        left_cure=_text(subject, x),
        right_cure=_text(subject, y),
    )


def _text(subject: Subject, origin: Origin) -> str:
    """`dimension 1 (K) of A from k*32 on`."""
    name = subject.shared(DimensionNames).text(origin.buffer, origin.dim)
    first = subject.prover.simplify(origin.first)
    start = "" if as_int(first) == 0 else f" from {show(first)} on"
    return f"dimension {origin.dim} ({name}) of {origin.buffer.name}{start}"
