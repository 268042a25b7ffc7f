"""Between the layouts of the language, which are functions, and those of the algebra."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.arch.dtypes import element_bits
from tilelang.language.layouts import Layout as DeclaredLayout
from tilelang.layout.cute.layouts import Layout, of_flat
from tilelang.layout.cute.swizzles import ComposedLayout, Swizzle
from tilelang.layout.cute.tuples import ScaledBasis, product

_BYTE = 8
_SHIFT = 3  # of the swizzles of shared memory: rows of eight pieces
_Place = tuple[int, ...]


def affine(declared: Any, apart: bool = False) -> Layout | None:
    """A declared layout that adds up digits of its indices; None for another. apart: to its dimensions."""
    places, reach = _places(declared)
    if not apart:
        places = {point: (_row_major(place, reach),) for point, place in places.items()}
    return _fitted(places, _extents(declared), apart)


def swizzled(declared: Any, buffer: Any, least_b_bits: int | None) -> ComposedLayout | None:
    """A declared layout as a swizzle of one that adds up digits; None for another."""
    places, reach = _places(declared)
    numbers = {point: _row_major(place, reach) for point, place in places.items()}
    highest = max(numbers.values(), default=0).bit_length()
    for swizzle in _candidates(highest):
        if least_b_bits is not None and 0 < swizzle.b_bits < least_b_bits:
            continue
        straight = {point: (swizzle.apply(number),) for point, number in numbers.items()}
        found = _fitted(straight, _extents(declared), False)
        if found is not None:
            composed = ComposedLayout(swizzle, 0, found)
            return composed if buffer is None else composed.recast(element_bits(str(buffer.dtype)), _BYTE)
    return None


def as_declared(layout: Layout) -> DeclaredLayout:
    """A layout of the algebra as one of the language."""
    modes = layout.modes()

    def forward(*indices: Any) -> Any:
        terms = [t for index, mode in zip(indices, modes, strict=True) for t in _digits(index, mode)]
        return sum(terms[1:], terms[0])

    return DeclaredLayout([product(mode.shape) for mode in modes], forward)


def _digits(index: Any, mode: Layout) -> list[Any]:
    """The digits of an index, each times its stride."""
    found, leaves = [], mode.flat()
    for n, (extent, stride) in enumerate(leaves):
        found.append((index if n == len(leaves) - 1 else index % extent) * stride)
        index = index // extent
    return found


def _candidates(bits: int) -> list[Swizzle]:
    """No swizzle, then every one of numbers of so many bits, the widest first."""
    wide = [Swizzle(b, m, _SHIFT) for b in range(_SHIFT, 0, -1) for m in range(max(0, bits - _SHIFT - b) + 1)]
    return [Swizzle(0, 0, 0), *wide]


def _extents(declared: Any) -> list[int]:
    return [int(n) for n in declared.get_input_shape()]


def _places(declared: Any) -> tuple[dict[_Place, _Place], list[int]]:
    """The place of every element, and the extents of the memory."""
    points = itertools.product(*map(range, _extents(declared)))
    places = {p: tuple(int(i) for i in declared.map_forward_index(list(p))) for p in points}
    return places, [int(n) for n in declared.get_output_shape()]


def _row_major(place: Sequence[int], reach: Sequence[int]) -> int:
    number = 0
    for index, extent in zip(place, reach, strict=True):
        number = number * extent + index
    return number


def _fitted(places: dict[_Place, _Place], extents: list[int], apart: bool) -> Layout | None:
    """The layout that gives every element its place."""
    origin = (0,) * len(extents)
    if any(places[origin]):
        return None
    modes = []
    for axis, extent in enumerate(extents):
        mode = _mode(lambda i, axis=axis: places[(*origin[:axis], i, *origin[axis + 1 :])], extent)
        if mode is None:
            return None
        modes.append(mode)
    width = len(places[origin])
    for point, place in places.items():
        steps = [t for i, mode in zip(point, modes, strict=True) for t in _steps(i, mode)]
        if tuple(sum(s[k] for s in steps) for k in range(width)) != place:
            return None
    parts = [of_flat([(n, _stride(d, apart)) for n, d in mode]) for mode in modes]
    return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))


def _mode(place: Callable[[int], _Place], extent: int) -> list[tuple[int, _Place]] | None:
    """Digits of one index and what a step of each adds; None if it is no sum of digits."""
    if extent == 1:
        return [(1, tuple(0 for _ in place(0)))]
    found, unit = [], 1
    while unit < extent:
        step = place(unit)
        if sum(map(bool, step)) > 1:  # moves along two dimensions at once
            return None
        count = 1
        while unit * count < extent and place(unit * count) == tuple(count * s for s in step):
            count += 1
        if extent % (unit * count):
            return None
        found.append((count, step))
        unit *= count
    return found


def _steps(index: int, mode: list[tuple[int, _Place]]) -> list[_Place]:
    found = []
    for extent, step in mode:
        found.append(tuple(index % extent * s for s in step))
        index //= extent
    return found


def _stride(step: _Place, apart: bool) -> Any:
    if not apart:
        return step[0]
    axis = next((k for k, s in enumerate(step) if s), 0)
    return ScaledBasis(step[axis], axis)
