"""Maps from the indices of a tile to places: the ground that `T.Layout` and `T.Fragment` stand on.

Places are followed element by element, or given as formulas of tvm's variables (`tilelang.layout_forms`).
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any


class Constant(int):
    """A number of a layout: an integer that also has a `value`, as tvm's constants do."""

    __slots__ = ()

    @property
    def value(self) -> int:
        """The number itself."""
        return int(self)


class IndexMap:
    """What layouts and fragments answer alike about the elements of a tile, from `map_forward_index`.

    `given`: what it was made from, which the compiler reads.
    """

    def __init__(self, **given: Any) -> None:
        self.given: dict[str, Any] = given
        self._variables: list[Any] = []

    def map_forward_index(self, indices: Any) -> list[Any]:
        """The place of the element at `indices`: in memory, or among the registers of its thread."""
        raise NotImplementedError

    def get_input_shape(self) -> list[Any]:
        """The extents of the tile."""
        return extents_of(self.given["shape"])

    @property
    def input_size(self) -> list[Any]:
        """The extents of the tile, as `get_input_shape()`."""
        return self.get_input_shape()

    def get_output_shape(self) -> list[Any]:
        """The extents of the memory, or the registers of a thread per dimension: as far as an element
        reaches, for symbolic extents as formulas.
        """
        shape = self.get_input_shape()
        if all(isinstance(extent, int) for extent in shape):
            places = (self.map_forward_index(point) for point in points(shape))
            return [Constant(max(along) + 1) for along in zip(*places, strict=True)]
        indices = forms().variables(len(shape))
        return extents_of(forms().reach(self.map_forward_index(indices), indices, shape))

    def get_forward_vars(self) -> list[Any]:
        """tvm's variables for the indices of the tile, of which formulas are made."""
        return self._index_variables()

    def get_forward_index(self) -> list[Any]:
        """The place of an element as formulas, one per dimension of the memory or of the registers."""
        return self._formulas(self.map_forward_index(self._index_variables()))

    @property
    def index(self) -> list[Any]:
        """The place of an element as formulas, as `get_forward_index()`."""
        return self.get_forward_index()

    @property
    def forward_index(self) -> list[Any]:
        """The place of an element as formulas, as `get_forward_index()`."""
        return self.get_forward_index()

    def get_linearized_forward_index(self) -> Any:
        """The place of an element as one formula: memory and registers are taken as row-major."""
        place = row_major(self.map_forward_index(self._index_variables()), self.get_output_shape())
        return self._formulas([place])[0]

    def _index_variables(self) -> list[Any]:
        if not self._variables:
            self._variables = forms().variables(len(self.get_input_shape()))
        return list(self._variables)

    def _variable_extents(self) -> list[Any]:
        """How far each of `get_forward_vars()` runs."""
        return self.get_input_shape()

    def _formulas(self, values: Sequence[Any]) -> list[Any]:
        """Formulas of the variables, shortened."""
        names, extents = self.get_forward_vars(), self._variable_extents()
        return [forms().simplified(v, names, extents) for v in values]


def forms() -> Any:
    """Formulas are tvm's, which a declaration does not import."""
    return importlib.import_module("tilelang.layout_forms")


def lookup(
    back: dict[tuple[int, ...], tuple[int, ...]],
    shape: Sequence[Any],
    forward: Callable[[Sequence[Any]], list[Any]],
) -> Callable[..., Any]:
    """What lies at a place, by `back`; for places that are no integers as formulas, from `forward`."""

    def element_at(*place: Any) -> Any:
        if all(isinstance(p, int) for p in place):
            if tuple(place) not in back:
                raise ValueError(f"no element lies at {tuple(map(int, place))}")
            return back[tuple(place)]
        return forms().inverse_formulas(shape, lambda *own: forward(own))(*place)

    return element_at


def listed(values: Sequence[Any]) -> str:
    """`values` as Python writes a tuple of them."""
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def extents_of(shape: Any) -> list[Any]:
    """A list of what may be one value; constants of tvm as integers."""
    if hasattr(shape, "__iter__") and not isinstance(shape, str):
        return [_number(n) for n in shape]
    return [_number(shape)]


def _number(value: Any) -> Any:
    if isinstance(value, int):
        return Constant(value)
    return Constant(value.value) if type(value).__name__ == "IntImm" else value


def points(shape: Sequence[Any]) -> Iterator[tuple[int, ...]]:
    """The indices of all elements of a tile of `shape`, in row-major order."""
    return itertools.product(*map(range, shape))


def row_major(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The number of an element of a tile of `shape`, counted row by row."""
    number: Any = 0
    for index, extent in zip(indices, shape, strict=True):
        number = number * extent + index
    return number


def reshaped(
    layout: IndexMap, shape: Any, own: Callable[..., Any], rescale_num: int, rescale_den: int
) -> Callable[..., Any]:
    """`own` of the indices that an element has in the tile of `layout`, from those it has in `shape`."""
    old, new = layout.get_input_shape(), extents_of(shape)
    if rescale_num != rescale_den or math.prod(old) != math.prod(new):
        raise ValueError(f"a tile of {math.prod(old)} elements cannot be reshaped to {tuple(new)}")

    def at(*indices: Any) -> Any:
        rest, found = row_major(indices, new), []
        for extent in old[:0:-1]:
            found.append(rest % extent)
            rest = rest // extent
        return own(rest, *found[::-1])

    return at
