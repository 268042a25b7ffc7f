"""`T.Layout` and `T.Fragment`: maps of indices as objects, to be asked, compared and built from others.

Made outside a kernel they are plain records of their arguments. Questions about shapes and equality are
answered by following every element, so they are exact for any formula whose shape is made of integers.
`index`, `thread` and `get_forward_index` answer with formulas over tvm's variables (`index_maps`).
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.language.index_maps import (
    IndexMap,
    extents_of,
    forms,
    listed,
    lookup,
    points,
    reshaped,
    row_major,
)


class Layout(IndexMap):
    """Where the elements of a tile of `shape` lie: `T.Layout((64, 64), lambda i, j: (i, j ^ (i % 8 * 8)))`.

    forward_fn: indices -> one index, or one per dimension of the memory; integer arithmetic with + - * // %
    & | ^ << >>. No two elements may lie at the same place. For shared tiles and global tensors. Made outside
    a kernel it is a plain record of its arguments, which kernels may use.
    """

    def __init__(self, shape: Any, forward_fn: Callable[..., Any]) -> None:
        _check_takes(forward_fn, len(extents_of(shape)))
        super().__init__(shape=shape, forward_fn=forward_fn)

    def map_forward_index(self, indices: Any) -> list[Any]:
        """The place of the element at `indices`, one index per dimension of the memory."""
        return extents_of(self.given["forward_fn"](*extents_of(list(indices))))

    def map_region_bounds(self, region: Any) -> list[Any]:
        """The ranges of tvm in which the elements of a region (a range per dimension) lie."""
        own = self.get_forward_vars()
        return forms().bounds(self.map_forward_index(own), own, list(region))

    def __call__(self, *indices: Any) -> list[Any]:
        """The place of an element, as `map_forward_index`."""
        return self.map_forward_index(indices)

    def is_equal(self, other: Layout) -> bool:
        """Whether both put every element of equal tiles at the same place, whatever their formulas."""
        shape = self.get_input_shape()
        return shape == other.get_input_shape() and all(
            self.map_forward_index(point) == other.map_forward_index(point) for point in points(shape)
        )

    def inverse(self) -> Layout:
        """From places to indices. Raises ValueError if two elements lie at one place; formulas of the inverse
        do so for a layout that has a swizzle.
        """
        back: dict[tuple[int, ...], tuple[int, ...]] = {}
        for point in points(self.get_input_shape()):
            place = tuple(self.map_forward_index(point))
            if place in back:
                raise ValueError(
                    f"elements {back[place]} and {point} both lie at {place}: there is no inverse"
                )
            back[place] = point

        return Layout(self.get_output_shape(), lookup(back, self.get_input_shape(), self.map_forward_index))

    def expand(self, leading_shape: Any) -> Layout:
        """The same behind further dimensions, which stay as they are; of a fragment, its registers."""
        leading = extents_of(leading_shape)
        count = len(leading)

        def expanded(*indices: Any) -> list[Any]:
            return [*indices[:count], *self.map_forward_index(indices[count:])]

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
            return [indices[axis] // extent, *extents_of(own(*within))]

        return Layout([e * factor if n == axis else e for n, e in enumerate(shape)], repeated)

    def reshape(self, shape: Any, rescale_num: int = 1, rescale_den: int = 1) -> Layout:
        """The same elements, in row-major order, as a tile of another shape.

        rescale_num / rescale_den: elements of the new tile for one of this, which must be 1 here. Raises
        ValueError for another number of elements.
        """
        return Layout(
            extents_of(shape), reshaped(self, shape, self.given["forward_fn"], rescale_num, rescale_den)
        )

    def __repr__(self) -> str:
        try:
            names, place = self.get_forward_vars(), self.get_forward_index()
            reach = tuple(map(int, self.get_output_shape()))
        except (TypeError, ValueError):  # symbolic extents, or a function of integers only
            return f"Layout({listed(self.get_input_shape())})"
        shown = f"transform: {listed(names)} -> {listed(place)}"
        return f"Layout({listed(self.get_input_shape())} -> {listed(reach)}, {shown})"


class Fragment(Layout):
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
        if forward_fn is None and forward_thread_fn is None:
            raise TypeError("T.Fragment needs forward_fn, or forward_thread_fn")
        IndexMap.__init__(
            self,
            shape=shape,
            forward_fn=forward_fn,
            forward_thread_fn=forward_thread_fn,
            replicate=replicate,
            forward_index_fn=forward_index_fn,
        )
        self._copy: Any = None

    @property
    def replicate_size(self) -> int:
        """How many threads hold each element."""
        return int(self.given["replicate"])

    def get_forward_vars(self) -> list[Any]:
        """tvm's variables for the copy (of a replicated fragment) and the indices, of which `thread` and
        `index` are made.
        """
        own = self._index_variables()
        if self._copy is None:
            self._copy = forms().copy_variable()
        return [self._copy, *own] if self.replicate_size > 1 else own

    @property
    def thread(self) -> Any:
        """The thread that holds an element, as a formula."""
        own = self.get_forward_vars()
        copy = own.pop(0) if self.replicate_size > 1 else 0
        return self._formulas([self._thread(own, copy)])[0]

    @property
    def forward_thread(self) -> Any:
        """The thread that holds an element, as `thread`."""
        return self.thread

    @property
    def thread_range(self) -> None:
        """No range of threads is bound to a layout here."""
        return None

    def get_forward_index(self) -> list[Any]:
        """The register that holds an element, as formulas.

        Raises ValueError for a fragment without a function for it: registers are numbered by counting then.
        """
        if self.given["forward_fn"] is None and self.given["forward_index_fn"] is None:
            if self.get_output_shape() == [1]:
                return self._formulas([0])
            raise ValueError("registers are numbered in order where there is no forward_index_fn: no formula")
        return super().get_forward_index()

    def inverse(self) -> Layout:
        """From registers and the thread (last) to indices and the copy (last).

        Raises ValueError if two elements lie in one register of a thread.
        """
        back: dict[tuple[int, ...], tuple[int, ...]] = {}
        for point in points(self.get_input_shape()):
            for copy in self._copies():
                place = (*self.map_forward_index(point), self._thread(point, copy))
                if place in back:
                    raise ValueError(f"elements {back[place]} and {(*point, copy)} lie in one register")
                back[place] = (*point, copy)

        def forward(own: Sequence[Any]) -> list[Any]:
            return [*self.map_forward_index(own[:-1]), self._thread(own[:-1], own[-1])]

        held = [*self.get_output_shape(), self.get_thread_size()]
        return Layout(held, lookup(back, [*self.get_input_shape(), self.replicate_size], forward))

    def get_thread_size(self) -> int:
        """How many threads share the tile: one more than the last that holds an element."""
        return 1 + max(
            self._thread(p, copy) for p in points(self.get_input_shape()) for copy in self._copies()
        )

    def map_forward_thread(self, indices: Any) -> list[Any]:
        """The thread that holds the element at `indices`; of a replicated one, the number of the copy may
        stand before them, as in `get_forward_vars()`.
        """
        indices = extents_of(list(indices))
        rank = len(self.get_input_shape())
        copy = indices[0] if len(indices) > rank else 0
        return extents_of(self._thread(indices[-rank:], copy))

    def map_forward_index(self, indices: Any) -> list[Any]:
        """The register that holds the element at `indices`."""
        own = tuple(extents_of(list(indices)))
        if self.given["forward_fn"] is not None:
            return extents_of(self._both(own, 0)[1])
        if self.given["forward_index_fn"] is not None:
            return extents_of(self.given["forward_index_fn"](*own))
        mine = self._thread(own, 0)
        before = itertools.takewhile(lambda point: point != own, points(self.get_input_shape()))
        return [sum(self._thread(point, 0) == mine for point in before)]

    def is_equal(self, other: Layout) -> bool:
        """Whether both give every element of equal tiles to the same threads and registers."""
        if not isinstance(other, Fragment):
            return False
        shape = self.get_input_shape()
        if shape != other.get_input_shape() or self.replicate_size != other.replicate_size:
            return False
        return all(
            self.map_forward_index(p) == other.map_forward_index(p)
            and all(self._thread(p, c) == other._thread(p, c) for c in self._copies())
            for p in points(shape)
        )

    def repeat(  # pyright: ignore[reportIncompatibleMethodOverride]  # so the language has it
        self, repeats: Any, repeat_on_thread: bool = False, lower_dim_first: bool = True
    ) -> Fragment:
        """Copies of it side by side, `repeats` along each dimension: in further registers, or in further
        threads (repeat_on_thread). lower_dim_first: copies along the last dimension are numbered first.

        Raises ValueError unless there is a number of copies for each dimension.
        """
        shape, times = self.get_input_shape(), extents_of(repeats)
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
            if repeat_on_thread:
                return base
            return [row_major(base, self.get_output_shape()) + copy_of(indices) * step]

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
        rank = len(extents_of(shape))
        register = reshaped(self, shape, lambda *own: self.map_forward_index(own), rescale_num, rescale_den)

        def thread(*indices: Any) -> Any:
            held = reshaped(
                self,
                shape,
                lambda *own: self._thread(own, (*indices[rank:], 0)[0]),
                rescale_num,
                rescale_den,
            )
            return held(*indices[:rank])

        return Fragment(extents_of(shape), None, thread, self.replicate_size, register)

    def condense_rep_var(self) -> Fragment:
        """The same: copies are numbered without gaps already."""
        return self

    def _variable_extents(self) -> list[Any]:
        copies = [self.replicate_size] if self.replicate_size > 1 else []
        return [*copies, *self.get_input_shape()]

    def _copies(self) -> range:
        return range(self.replicate_size)

    def _both(self, indices: Sequence[Any], copy: Any) -> Any:
        return self.given["forward_fn"](*indices, *([copy] if self.replicate_size > 1 else []))

    def _thread(self, indices: Sequence[Any], copy: Any) -> Any:
        if self.given["forward_fn"] is not None:
            return extents_of(self._both(indices, copy)[0])[0]
        copies = [copy] if self.replicate_size > 1 else []
        return extents_of(self.given["forward_thread_fn"](*indices, *copies))[0]

    def __repr__(self) -> str:
        shape = listed(self.get_input_shape())
        try:
            reach, threads = self.get_output_shape(), self.get_thread_size()
            held = f"forward_thread: {self.thread}, forward_index: {listed(self.index)}"
        except (TypeError, ValueError):  # symbolic extents, functions of integers, registers by counting
            return f"Fragment({shape}, replicate: {self.replicate_size})"
        copies = f"replicate: {self.replicate_size}, thread: {threads}"
        return f"Fragment({shape} -> {listed(reach)}, {copies}, {held})"


def _check_takes(function: Callable[..., Any], count: int) -> None:
    """Raise TypeError for a function of another number of indices."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built-in functions, and what the compiler is given while it traces
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise TypeError(
            f"forward_fn must take {count} indices, one for each dimension of the tile: {error}"
        ) from None
