"""A layout of the algebra: a shape and a stride for each of its leaves, nested alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.layout.cute.tuples import (
    ScaledBasis,
    congruent,
    leaves,
    parse_tuple,
    product,
    shown,
    to_python,
)


@dataclass(frozen=True)
class Layout:
    """From coordinates to a number: `(4,(2,4)):(1,(16,4))` sends (i, (j, k)) to i + 16 j + 4 k.

    A number in the place of nested coordinates counts them, the first dimension fastest.
    """

    shape: Any
    stride: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", to_python(self.shape))
        object.__setattr__(self, "stride", to_python(self.stride))
        if not congruent(self.shape, self.stride):
            raise ValueError(
                f"Layout shape and stride must be congruent: {shown(self.shape)} vs {shown(self.stride)}"
            )

    @staticmethod
    def parse(text: str) -> Layout:
        """What a text such as `(4,8):(8,1)` says. Raises ValueError for another."""
        shape, colon, stride = text.partition(":")
        if not colon:
            raise ValueError(f"Layout text must be 'shape:stride', not {text!r}")
        return Layout(parse_tuple(shape), parse_tuple(stride))

    @staticmethod
    def from_tilelang(layout: Any) -> Layout | None:
        """A layout of the language as one of the algebra, from indices to the place counted in row-major
        order; None for one that is no sum of digits of its indices, as one with a swizzle.
        """
        from tilelang.layout.cute.convert import affine

        return affine(layout)

    @staticmethod
    def from_tilelang_hierarchical(layout: Any) -> Layout | None:
        """As `from_tilelang`, but to the place with its dimensions apart."""
        from tilelang.layout.cute.convert import affine

        return affine(layout, apart=True)

    def to_tilelang(self) -> Any:
        """The same as a layout of the language, an index for each outermost dimension."""
        from tilelang.layout.cute.convert import as_declared

        return as_declared(self)

    def with_shape(self, shape: Any) -> Layout:
        """The same numbers for coordinates of another shape."""
        from tilelang.layout.cute.algebra import composition

        return composition(self, make_layout(shape))

    def __getitem__(self, index: int) -> Layout:
        found = self.modes()
        if not 0 <= index < len(found):
            raise IndexError(f"index {index} is out of range of {self}, which has {len(found)} modes")
        return found[index]

    def modes(self) -> list[Layout]:
        """The outermost dimensions, each a layout."""
        if not isinstance(self.shape, tuple):
            return [self]
        return [Layout(n, d) for n, d in zip(self.shape, self.stride, strict=True)]

    def flat(self) -> list[tuple[int, Any]]:
        """The leaves: extents with their strides."""
        return list(zip(leaves(self.shape), leaves(self.stride), strict=True))

    def __call__(self, coord: Any) -> Any:
        """The number of a coordinate; the coordinate in the space of strides that are bases."""
        return total(_terms(to_python(coord), self.shape, self.stride))

    def __repr__(self) -> str:
        return f"{shown(self.shape)}:{shown(self.stride)}"


def joined(modes: Sequence[Layout]) -> Layout:
    """The layout with these outermost dimensions."""
    return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def of_flat(pairs: Sequence[tuple[int, Any]]) -> Layout:
    """The layout of some leaves: one alone without brackets, none as `1:0`."""
    if not pairs:
        return Layout(1, 0)
    if len(pairs) == 1:
        return Layout(*pairs[0])
    return Layout(tuple(n for n, _ in pairs), tuple(d for _, d in pairs))


def make_layout(shape: Any, stride: Any = None) -> Layout:
    """A layout; without strides a dense one whose first dimension is the fastest."""
    return make_column_major_layout(shape) if stride is None else Layout(shape, stride)


def make_column_major_layout(shape: Any) -> Layout:
    """A dense layout whose first dimension is the fastest."""
    plain = to_python(shape)
    return Layout(plain, _dense(plain, 1))


def make_row_major_layout(shape: Any) -> Layout:
    """A dense layout whose last dimension is the fastest."""
    plain = to_python(shape)
    return Layout(plain, _reversed(_dense(_reversed(plain), 1)))


def make_identity_layout(shape: Any) -> Layout:
    """From coordinates to themselves."""
    plain = to_python(shape)
    return Layout(plain, _bases(plain, ()))


def size(layout: Any) -> int:
    """How many coordinates a layout has; of a swizzled one, those of its layout."""
    inner = getattr(layout, "layout", layout)
    if not isinstance(inner, Layout):
        raise TypeError(f"expected a layout, got {layout!r}")
    return product(inner.shape)


def rank(layout: Layout) -> int:
    """How many outermost dimensions a layout has."""
    if not isinstance(layout, Layout):
        raise TypeError(f"expected a layout, got {layout!r}")
    return len(layout.modes())


def coshape(layout: Layout) -> Any:
    """One more than the largest number, for each dimension of the space of strides that are bases."""
    reach = [d * (n - 1) for n, d in layout.flat()]
    return _plus_one(total(reach, largest=True))


def cosize(layout: Layout) -> int:
    """The number of places from the first to the last that a layout reaches."""
    return product(coshape(layout))


def total(terms: Sequence[Any], largest: bool = False) -> Any:
    """The sum of some numbers, or of steps along dimensions: one alone as it is, else the coordinate that
    they lead to. largest: also one alone as a coordinate.
    """
    bases = [t for t in terms if isinstance(t, ScaledBasis)]
    if not bases:
        return sum(terms)
    if any(t for t in terms if not isinstance(t, ScaledBasis)):
        raise ValueError("strides are numbers or steps along dimensions, not both")
    steps: dict[tuple[int, ...], int] = {}
    for basis in bases:
        steps[basis.path] = steps.get(basis.path, 0) + basis.value
    if len(steps) == 1 and not largest:
        ((path, value),) = steps.items()
        return ScaledBasis(value, _mode(path))
    return _nested(steps)


def _nested(steps: dict[tuple[int, ...], int]) -> Any:
    if list(steps) == [()]:
        return steps[()]
    count = 1 + max(path[0] for path in steps)
    parts = ({p[1:]: v for p, v in steps.items() if p[0] == n} for n in range(count))
    return tuple(_nested(part) if part else 0 for part in parts)


def _plus_one(value: Any) -> Any:
    return tuple(map(_plus_one, value)) if isinstance(value, tuple) else value + 1


def _terms(coord: Any, shape: Any, stride: Any) -> list[Any]:
    """What each leaf adds for a coordinate."""
    if not isinstance(shape, tuple):
        if isinstance(coord, tuple):
            raise ValueError(f"the coordinate {shown(coord)} is nested deeper than the shape {shape}")
        return [stride * coord]
    if not isinstance(coord, tuple):
        parts = []
        for extent in shape[:-1]:
            parts.append(coord % product(extent))
            coord //= product(extent)
        coord = (*parts, coord)
    if len(coord) != len(shape):
        raise ValueError(f"the coordinate {shown(coord)} does not fit the shape {shown(shape)}")
    return [t for c, n, d in zip(coord, shape, stride, strict=True) for t in _terms(c, n, d)]


def _dense(shape: Any, step: int) -> Any:
    if not isinstance(shape, tuple):
        return step if shape != 1 else 0
    found = []
    for extent in shape:
        found.append(_dense(extent, step))
        step *= product(extent)
    return tuple(found)


def _reversed(value: Any) -> Any:
    return tuple(map(_reversed, reversed(value))) if isinstance(value, tuple) else value


def _bases(shape: Any, path: tuple[int, ...]) -> Any:
    if isinstance(shape, tuple):
        return tuple(_bases(extent, (*path, n)) for n, extent in enumerate(shape))
    return ScaledBasis(1, _mode(path)) if path else 1


def _mode(path: tuple[int, ...]) -> int | tuple[int, ...]:
    """A way to a dimension as `ScaledBasis` has it."""
    first, *more = path
    return path if more else first
