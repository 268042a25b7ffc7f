"""`T.Layout` and `T.Fragment`: maps of indices as objects, to be asked, compared and built from others.

Made outside a kernel they are plain records of their arguments. Questions about shapes and equality are
answered by following every element, so they are exact for any formula whose shape is made of integers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any


class Layout:
    """Where the elements of a tile of `shape` lie: `T.Layout((64, 64), lambda i, j: (i, j ^ (i % 8 * 8)))`.

    forward_fn: indices -> one index, or one per dimension of the memory; integer arithmetic with + - * // %
    & | ^ << >>. No two elements may lie at the same place. For shared tiles and global tensors. Made outside
    a kernel it is a plain record of its arguments, which kernels may use.
    """

    def __init__(self, shape: Any, forward_fn: Callable[..., Any]) -> None:
        self.given: dict[str, Any] = {"shape": shape, "forward_fn": forward_fn}  # read by the compiler

    def get_input_shape(self) -> list[Any]:
        """The extents of the tile."""
        return _extents(self.given["shape"])

    def get_output_shape(self) -> list[int]:
        """The extents of the memory: as far as an element reaches. Raises TypeError for symbolic extents."""
        return _reach(self.map_forward_index(point) for point in _points(self.get_input_shape()))

    def map_forward_index(self, indices: Any) -> list[Any]:
        """The place of the element at `indices`, one index per dimension of the memory."""
        return _extents(self.given["forward_fn"](*indices))

    def __call__(self, *indices: Any) -> list[Any]:
        """The place of an element, as `map_forward_index`."""
        return self.map_forward_index(indices)

    def is_equal(self, other: Layout) -> bool:
        """Whether both put every element of equal tiles at the same place, whatever their formulas."""
        shape = self.get_input_shape()
        return shape == other.get_input_shape() and all(
            self.map_forward_index(point) == other.map_forward_index(point) for point in _points(shape)
        )

    def inverse(self) -> Layout:
        """From places to indices, for integers only. Raises ValueError if two elements lie at one place."""
        back: dict[tuple[int, ...], tuple[int, ...]] = {}
        for point in _points(self.get_input_shape()):
            place = tuple(self.map_forward_index(point))
            if place in back:
                raise ValueError(
                    f"elements {back[place]} and {point} both lie at {place}: there is no inverse"
                )
            back[place] = point

        def element_at(*place: Any) -> tuple[int, ...]:
            if tuple(place) not in back:
                raise ValueError(f"no element lies at {tuple(place)}")
            return back[tuple(place)]

        return Layout(self.get_output_shape(), element_at)

    def expand(self, leading_shape: Any) -> Layout:
        """The same behind further dimensions, which stay as they are."""
        leading = _extents(leading_shape)
        own = self.given["forward_fn"]
        count = len(leading)

        def expanded(*indices: Any) -> list[Any]:
            return [*indices[:count], *_extents(own(*indices[count:]))]

        return Layout([*leading, *self.get_input_shape()], expanded)

    def repeat(self, dim: int, factor: int) -> Layout:
        """`factor` copies of it side by side along the dimension `dim`: their number comes first in a place.

        Raises ValueError for a dimension that there is not, or fewer than one copy.
        """
        shape = self.get_input_shape()
        if not -len(shape) <= dim < len(shape):
            raise ValueError(f"dim out of range: dim={dim}, ndim={len(shape)}")
        if factor < 1:
            raise ValueError(f"factor must be >= 1, got {factor}")
        axis, own = dim % len(shape), self.given["forward_fn"]
        extent = shape[axis]

        def repeated(*indices: Any) -> list[Any]:
            within = [i % extent if n == axis else i for n, i in enumerate(indices)]
            return [indices[axis] // extent, *_extents(own(*within))]

        return Layout([e * factor if n == axis else e for n, e in enumerate(shape)], repeated)

    def reshape(self, shape: Any, rescale_num: int = 1, rescale_den: int = 1) -> Layout:
        """The same elements, in row-major order, as a tile of another shape.

        rescale_num / rescale_den: elements of the new tile for one of this, which must be 1 here. Raises
        ValueError for another number of elements.
        """
        return Layout(
            _extents(shape), _reshaped(self, shape, self.given["forward_fn"], rescale_num, rescale_den)
        )

    def __repr__(self) -> str:
        return f"Layout({tuple(self.get_input_shape())})"


class Fragment:
    """Which thread holds which element of a fragment, and in which of its registers.

    forward_fn: indices (and, with replicate > 1, the number of the copy last) -> (thread, register). Or give
    the two apart as forward_thread_fn and forward_index_fn; without the latter registers are numbered in
    order. Made outside a kernel it is a plain record of its arguments, which kernels may use.
    """

    def __init__(
        self,
        shape: Any,
        forward_fn: Callable[..., Any] | None = None,
        forward_thread_fn: Callable[..., Any] | None = None,
        replicate: int = 1,
        forward_index_fn: Callable[..., Any] | None = None,
    ) -> None:
        self.given: dict[str, Any] = {  # read by the compiler
            "shape": shape,
            "forward_fn": forward_fn,
            "forward_thread_fn": forward_thread_fn,
            "replicate": replicate,
            "forward_index_fn": forward_index_fn,
        }

    @property
    def replicate_size(self) -> int:
        """How many threads hold each element."""
        return int(self.given["replicate"])

    def get_input_shape(self) -> list[Any]:
        """The extents of the tile."""
        return _extents(self.given["shape"])

    def get_output_shape(self) -> list[int]:
        """The registers that a thread has, per dimension. Raises TypeError for symbolic extents."""
        return _reach(self.map_forward_index(point) for point in _points(self.get_input_shape()))

    def get_thread_size(self) -> int:
        """How many threads share the tile: one more than the last that holds an element."""
        return 1 + max(
            self._thread(p, copy) for p in _points(self.get_input_shape()) for copy in self._copies()
        )

    def map_forward_thread(self, indices: Any) -> list[Any]:
        """The thread that holds the element at `indices`; of a replicated one, the copy may follow them."""
        indices = list(indices)
        rank = len(self.get_input_shape())
        return [self._thread(indices[:rank], indices[rank] if len(indices) > rank else 0)]

    def map_forward_index(self, indices: Any) -> list[Any]:
        """The register that holds the element at `indices`."""
        own = tuple(indices)
        if self.given["forward_fn"] is not None:
            return _extents(self._both(own, 0)[1])
        if self.given["forward_index_fn"] is not None:
            return _extents(self.given["forward_index_fn"](*own))
        mine = self._thread(own, 0)
        before = itertools.takewhile(lambda point: point != own, _points(self.get_input_shape()))
        return [sum(self._thread(point, 0) == mine for point in before)]

    def is_equal(self, other: Fragment) -> bool:
        """Whether both give every element of equal tiles to the same threads and registers."""
        shape = self.get_input_shape()
        if shape != other.get_input_shape() or self.replicate_size != other.replicate_size:
            return False
        return all(
            self.map_forward_index(p) == other.map_forward_index(p)
            and all(self._thread(p, c) == other._thread(p, c) for c in self._copies())
            for p in _points(shape)
        )

    def repeat(self, repeats: Any, repeat_on_thread: bool = False, lower_dim_first: bool = True) -> Fragment:
        """Copies of it side by side, `repeats` along each dimension: in further registers, or in further
        threads (repeat_on_thread). lower_dim_first: copies along the last dimension are numbered first.

        Raises ValueError unless there is a number of copies for each dimension.
        """
        shape, times = self.get_input_shape(), _extents(repeats)
        if len(times) != len(shape):
            raise ValueError(f"a tile of {len(shape)} dimensions is repeated along each, not {times}")
        order = list(range(len(shape)))
        order = order if lower_dim_first else order[::-1]
        step = self.get_thread_size() if repeat_on_thread else math.prod(self.get_output_shape())

        def within(indices: Sequence[Any]) -> list[Any]:
            return [i % e for i, e in zip(indices, shape, strict=True)]

        def copy_of(indices: Sequence[Any]) -> Any:
            number: Any = 0
            for axis in order:
                number = number * times[axis] + indices[axis] // shape[axis]
            return number

        def thread(*indices: Any) -> Any:
            own, copy = indices[: len(shape)], (*indices[len(shape) :], 0)[0]
            base = self._thread(within(own), copy)
            return base + copy_of(own) * step if repeat_on_thread else base

        def register(*indices: Any) -> Any:
            base = self.map_forward_index(within(indices))
            return (
                base if repeat_on_thread else [_flat(base, self.get_output_shape()) + copy_of(indices) * step]
            )

        grown = [e * n for e, n in zip(shape, times, strict=True)]
        return Fragment(grown, None, thread, self.replicate_size, register)

    def replicate(self, replicate: int) -> Fragment:
        """The same in `replicate` groups of threads, each of which holds all of it."""
        size, inner = self.get_thread_size(), self.replicate_size
        rank = len(self.get_input_shape())

        def thread(*indices: Any) -> Any:
            copy = (*indices[rank:], 0)[0]
            return self._thread(indices[:rank], copy % inner) + copy // inner * size

        def register(*indices: Any) -> Any:
            return self.map_forward_index(indices)

        return Fragment(self.given["shape"], None, thread, replicate * inner, register)

    def reshape(self, shape: Any, rescale_num: int = 1, rescale_den: int = 1) -> Fragment:
        """The same elements, in row-major order, as a tile of another shape; see `Layout.reshape`."""
        rank = len(_extents(shape))
        register = _reshaped(self, shape, lambda *own: self.map_forward_index(own), rescale_num, rescale_den)

        def thread(*indices: Any) -> Any:
            held = _reshaped(
                self,
                shape,
                lambda *own: self._thread(own, (*indices[rank:], 0)[0]),
                rescale_num,
                rescale_den,
            )
            return held(*indices[:rank])

        return Fragment(_extents(shape), None, thread, self.replicate_size, register)

    def condense_rep_var(self) -> Fragment:
        """The same: copies are numbered without gaps already."""
        return self

    def _copies(self) -> range:
        return range(self.replicate_size)

    def _both(self, indices: Sequence[Any], copy: Any) -> Any:
        return self.given["forward_fn"](*indices, *([copy] if self.replicate_size > 1 else []))

    def _thread(self, indices: Sequence[Any], copy: Any) -> Any:
        if self.given["forward_fn"] is not None:
            return _extents(self._both(indices, copy)[0])[0]
        copies = [copy] if self.replicate_size > 1 else []
        return _extents(self.given["forward_thread_fn"](*indices, *copies))[0]

    def __repr__(self) -> str:
        return f"Fragment({tuple(self.get_input_shape())}, replicate={self.replicate_size})"


def _extents(shape: Any) -> list[Any]:
    return list(shape) if isinstance(shape, tuple | list) else [shape]


def _points(shape: Sequence[Any]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, shape))


def _reach(places: Iterator[list[Any]]) -> list[int]:
    return [max(along) + 1 for along in zip(*places, strict=True)]


def _flat(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    flat: Any = 0
    for index, extent in zip(indices, shape, strict=True):
        flat = flat * extent + index
    return flat


def _reshaped(
    layout: Layout | Fragment, shape: Any, own: Callable[..., Any], rescale_num: int, rescale_den: int
) -> Callable[..., Any]:
    """`own` of the indices that an element has in the tile of `layout`, from those it has in `shape`."""
    old, new = layout.get_input_shape(), _extents(shape)
    if rescale_num != rescale_den or math.prod(old) != math.prod(new):
        raise ValueError(f"a tile of {math.prod(old)} elements cannot be reshaped to {tuple(new)}")

    def reshaped(*indices: Any) -> Any:
        rest, found = _flat(indices, new), []
        for extent in old[:0:-1]:
            found.append(rest % extent)
            rest = rest // extent
        return own(rest, *found[::-1])

    return reshaped
