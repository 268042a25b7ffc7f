"""Operations on layouts: composing, complementing, inverting, dividing and multiplying them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilelang.layout.cute.layouts import Layout, cosize, joined, make_layout, of_flat, size
from tilelang.layout.cute.tuples import ScaledBasis, product


def flatten(layout: Layout) -> Layout:
    """The same with its leaves side by side."""
    found = of_flat(layout.flat())
    return (
        joined([found]) if isinstance(layout.shape, tuple) and not isinstance(found.shape, tuple) else found
    )


def coalesce(layout: Layout, max_extent: int | None = None) -> Layout:
    """The same function of a counted coordinate with as few dimensions as it needs.

    max_extent: no dimension grows beyond it.
    """
    found: list[tuple[int, Any]] = []
    for extent, stride in layout.flat():
        if extent == 1:
            continue
        if found and _follows(found[-1], stride):
            merged = found[-1][0] * extent
            if max_extent is None or merged <= max_extent:
                found[-1] = (merged, found[-1][1])
                continue
        found.append((extent, stride))
    return of_flat(found)


def filter(layout: Layout) -> Layout:
    """Without the dimensions along which nothing moves, as few as can be."""
    return coalesce(of_flat([(n, d) for n, d in layout.flat() if n != 1 and _moves(d)]))


def composition(lhs: Layout, rhs: Layout) -> Layout:
    """`lhs` after `rhs`, with the shape of `rhs` or a finer one.

    Raises ValueError where that is no layout: extents do not divide, or the dimensions of `rhs` together pass
    the end of a dimension of `lhs`.
    """
    found = _composed(lhs, rhs)
    if any(isinstance(d, ScaledBasis) for _, d in rhs.flat()):
        return found
    for i in range(size(rhs)):
        at = rhs(i)
        if at < size(lhs) and found(i) != lhs(at):
            raise ValueError(f"{lhs} after {rhs} is no layout: {i} leads to {lhs(at)}, not {found(i)}")
    return found


def _composed(lhs: Layout, rhs: Layout) -> Layout:
    """`lhs` along each dimension of `rhs`."""
    if isinstance(rhs.shape, tuple):
        return joined([_composed(lhs, mode) for mode in rhs.modes()])
    if isinstance(rhs.stride, ScaledBasis):
        part = lhs
        for mode in rhs.stride.path:
            part = part[mode]
        return _composed(part, Layout(rhs.shape, rhs.stride.value))
    return _along(_open_ended(lhs), rhs.shape, rhs.stride)


def complement(layout: Layout, cotarget: int) -> Layout:
    """The layout of what `layout` leaves out of 0 .. cotarget - 1: both together reach every number once.

    Raises ValueError for a layout that reaches a number twice, or whose strides are no numbers.
    """
    kept = filter(layout).flat()
    if any(isinstance(d, ScaledBasis) for _, d in kept):
        raise ValueError(f"strides of {layout} are no numbers, so nothing can be left out")
    found, reached = [], 1
    for extent, stride in sorted(kept, key=lambda leaf: leaf[1]):
        if stride == 0:
            continue
        if stride // reached == 0:
            raise ValueError(f"Non-injective layout detected in complement: {layout}")
        found.append((stride // reached, reached))
        reached = extent * stride
    found.append((math.ceil(cotarget / reached), reached))
    return coalesce(of_flat(found))


def right_inverse(layout: Layout) -> Layout:
    """From the numbers 0, 1, ... that a layout reaches without a gap to counted coordinates."""
    found, next_stride = [], 1
    for extent, stride, place in _by_stride(layout):
        if stride != next_stride:
            continue
        found.append((extent, place))
        next_stride = extent * stride
    return coalesce(of_flat(found))


def left_inverse(layout: Layout) -> Layout:
    """From the numbers that a layout reaches to counted coordinates; those in gaps count as what is below.

    Raises ValueError for a layout whose dimensions overlap or do not divide.
    """
    found, below, place_below, last = [], 1, 0, 1
    for extent, stride, place in _by_stride(layout):
        if stride % below or stride < below * last:
            raise ValueError(
                f"{layout} has no inverse: the stride {stride} does not begin above {below * last}"
            )
        found.append((stride // below, place_below))
        below, place_below, last = stride, place, extent
    return coalesce(of_flat([*found, (last, place_below)]))


def logical_divide(layout: Layout, tiler: Layout) -> Layout:
    """(inside a tile, which tile): the elements that `tiler` names, and how they repeat over all of it."""
    return composition(layout, joined([tiler, complement(tiler, size(layout))]))


def logical_product(block: Layout, tiler: Layout) -> Layout:
    """(inside a block, which block): blocks laid out without overlap as `tiler` says."""
    rest = complement(block, size(block) * cosize(tiler))
    return joined([block, composition(rest, tiler)])


def blocked_product(block: Layout, tiler: Layout) -> Layout:
    """The product with each dimension of the block beside that of the tiler: a larger tile of blocks."""
    rank = max(len(block.modes()), len(tiler.modes()))
    inner, outer = logical_product(_padded(block, rank), _padded(tiler, rank)).modes()
    return joined([joined(pair) for pair in zip(inner.modes(), outer.modes(), strict=True)])


def tiled_product(block: Layout, tiler: Layout) -> Layout:
    """The product as the block, then each dimension of the tiler."""
    inner, outer = logical_product(block, tiler).modes()
    return joined([inner, *outer.modes()] if len(outer.modes()) > 1 else [inner, outer])


def restrict(layout: Layout, region: Sequence[Any]) -> tuple[Any, Layout]:
    """The number of the first element of a region, a range of tvm for each dimension, and the layout of its
    elements from there.

    Raises ValueError where they have none: a range that begins or ends inside a nested dimension.
    """
    first = [_number(r.min) for r in region]
    extents = [_number(r.extent) for r in region]
    modes = [composition(m, Layout(n, 1)) for m, n in zip(layout.modes(), extents, strict=True)]
    for mode, part, start in zip(layout.modes(), modes, first, strict=True):
        for k in range(product(part.shape)) if not isinstance(mode.shape, int) else ():
            if mode(start + k) != mode(start) + part(k):
                raise ValueError(f"{start} to {start + product(part.shape)} of {mode} is no layout")
    whole = isinstance(layout.shape, tuple)
    return layout(tuple(first) if whole else first[0]), joined(modes) if whole else modes[0]


def _along(leaves: list[tuple[int, Any]], extent: int, stride: int) -> Layout:
    """The coordinates 0, stride, 2 stride, ... of a flat layout."""
    found: list[tuple[int, Any]] = []
    rest, step = extent, stride
    for own, own_stride in leaves[:-1]:
        if rest == 1 or step == 0:  # no further element; the stride is as if there were one
            step = math.ceil(step / own)
            continue
        if step % own == 0:
            step //= own
            continue
        taken = min(math.ceil(own / step), rest)
        if step >= own or rest % taken or (own % step and rest > taken):
            raise ValueError(f"{extent}:{stride} does not divide the extents of {of_flat(leaves)}")
        found.append((taken, own_stride * step))
        rest //= taken
        step = math.ceil(step / own)
    if rest != 1 or not found:
        found.append((rest, leaves[-1][1] * step))
    return of_flat(found)


def _open_ended(layout: Layout) -> list[tuple[int, Any]]:
    """The leaves, as few as can be; the last one, which goes on beyond its extent, is kept even if that is
    1.
    """
    leaves = layout.flat()
    last = leaves[-1]
    return coalesce(of_flat([*leaves[:-1], (2, last[1])])).flat() if last[0] == 1 else coalesce(layout).flat()


def _by_stride(layout: Layout) -> list[tuple[int, int, int]]:
    """Extent, stride and place in the counted coordinate of the leaves that move, the smallest stride first;
    none for strides that are no numbers.
    """
    found, place = [], 1
    for extent, stride in coalesce(layout).flat():
        if isinstance(stride, ScaledBasis):
            return []
        if stride and extent != 1:
            found.append((extent, stride, place))
        place *= extent
    return sorted(found, key=lambda leaf: leaf[1])


def _follows(leaf: tuple[int, Any], stride: Any) -> bool:
    """Whether a stride goes on where a leaf ends."""
    extent, own = leaf
    return own * extent == stride


def _moves(stride: Any) -> bool:
    return (stride.value if isinstance(stride, ScaledBasis) else stride) != 0


def _padded(layout: Layout, rank: int) -> Layout:
    modes = layout.modes()
    return joined([*modes, *[make_layout(1, 0)] * (rank - len(modes))])


def _number(value: Any) -> int:
    return int(getattr(value, "value", value))
