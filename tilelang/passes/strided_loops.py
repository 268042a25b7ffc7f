"""Loops whose iterations each touch elements of a fragment that lie apart: `f[i, 8 * j + 2 * c + v]`, j and v
serial, as a thread that unpacks its own share of a matrix operand writes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import ir

from tilelang.analysis.affine import affine
from tilelang.layout.fragment import Digit, Fragment, from_split
from tilelang.passes.layout_sites import Site, Use


@dataclass(frozen=True)
class _Span:
    """A variable that moves an index by `step`, `extent` times; `axis`: its number among the loop's
    variables, None for a serial one.
    """

    step: int
    extent: int
    axis: int | None

    @property
    def end(self) -> int:
        return self.step * self.extent


def strided_loop(site: Site, use: Use, fragment: Fragment) -> Fragment | None:
    """The loop whose iterations run where `fragment` holds what they touch; None where the indices' variables
    move in each other's steps, or where a serial one would move to another thread.
    """
    split = fragment.by_dimension()
    dims = [_spans(site, index) for index in use.indices]
    if split is None:
        return None
    entries: list[tuple[int, int, Digit]] = []
    for dim, stride, digit, _ in split:
        spans = dims[dim]
        pieces = _cut(stride, digit, spans) if spans is not None else None
        if spans is None or pieces is None:
            return None
        for at, piece in pieces:
            span = next((s for s in spans if s.step <= at and at * piece.extent <= s.end), None)
            if span is not None and span.axis is not None:
                entries.append((span.axis, at // span.step, piece))
            elif piece.place == "thread":
                return None
    axes = [s.axis for s in itertools.chain(*(spans for spans in dims if spans)) if s.axis is not None]
    moved = [v for v, extent in enumerate(site.extents) if extent > 1]
    if len(axes) != len(set(axes)) or not set(moved) <= set(axes):
        return None
    return from_split(site.extents, entries, fragment.replicate)


def _spans(site: Site, index: object) -> list[_Span] | None:
    """The variables of an index, the one that moves it least first; None unless each moves it in whole turns
    of those before.
    """
    form = affine(index)
    if form is None or form.constant:
        return None
    axes = {v.__chandle__(): k for k, v in enumerate(site.vars)}
    spans = []
    for var in form.variables:
        extent = _extent(site, axes, var)
        if extent is None or form.coefficient(var) < 1:
            return None
        if extent > 1:
            spans.append(_Span(form.coefficient(var), extent, axes.get(var.__chandle__())))
    spans.sort(key=lambda s: s.step)
    return spans if all(b.step % a.end == 0 for a, b in itertools.pairwise(spans)) else None


def _extent(site: Site, axes: Mapping[int, int], var: ir.Var) -> int | None:
    axis = axes.get(var.__chandle__())
    return site.outer.get(var.__chandle__()) if axis is None else site.extents[axis]


def _cut(stride: int, digit: Digit, spans: Sequence[_Span]) -> list[tuple[int, Digit]] | None:
    """A digit in pieces, (stride, piece), each inside of one span or beside all of them; None if it cannot
    be cut so.
    """
    end = stride * digit.extent
    borders = sorted({b for s in spans for b in (s.step, s.end) if stride < b < end})
    pieces: list[tuple[int, Digit]] = []
    for at, border in itertools.pairwise([stride, *borders, end]):
        if border % at or end % border:
            return None
        apart = digit.place_stride * (at // stride)
        pieces.append((at, replace(digit, extent=border // at, place_stride=apart)))
    return pieces
