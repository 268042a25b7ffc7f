"""`T.Layout` and `T.Fragment`: maps of indices as objects, to be asked, compared and built from others.

Made outside a kernel they are plain records of their arguments. Questions about shapes and equality are
answered by following every element, so they are exact for any formula whose shape is made of integers.
`index`, `thread` and `get_forward_index` answer with formulas over tvm's variables (`tilelang.layout_forms`).
"""

from __future__ import annotations

import importlib
import inspect
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


class Layout:
    """Where the elements of a tile of `shape` lie: `T.Layout((64, 64), lambda i, j: (i, j ^ (i % 8 * 8)))`.

    forward_fn: indices -> one index, or one per dimension of the memory; integer arithmetic with + - * // %
    & | ^ << >>. No two elements may lie at the same place. For shared tiles and global tensors. Made outside
    a kernel it is a plain record of its arguments, which kernels may use.
    """

    def __init__(self, shape: Any, forward_fn: Callable[..., Any]) -> None:
        _check_takes(forward_fn, len(_extents(shape)))
        self.given: dict[str, Any] = {"shape": shape, "forward_fn": forward_fn}  # read by the compiler
        self._variables: list[Any] = []

    def get_input_shape(self) -> list[Any]:
        """The extents of the tile."""
        return _extents(self.given["shape"])

    @property
    def input_size(self) -> list[Any]:
        """The extents of the tile, as `get_input_shape()`."""
        return self.get_input_shape()

    def get_output_shape(self) -> list[Any]:
        """The extents of the memory: as far as an element reaches, for symbolic extents as formulas."""
        return _reach_of(self)

    def map_forward_index(self, indices: Any) -> list[Any]:
        """The place of the element at `indices`, one index per dimension of the memory."""
        return _extents(self.given["forward_fn"](*_extents(list(indices))))

    def get_forward_vars(self) -> list[Any]:
        """tvm's variables for the indices of the tile, of which `get_forward_index()` is made."""
        if not self._variables:
            self._variables = _forms().variables(len(self.get_input_shape()))
        return list(self._variables)

    def get_forward_index(self) -> list[Any]:
        """The place of an element as formulas, one per dimension of the memory."""
        return _formulas(self.map_forward_index(self.get_forward_vars()), self)

    @property
    def index(self) -> list[Any]:
        """The place of an element as formulas, as `get_forward_index()`."""
        return self.get_forward_index()

    @property
    def forward_index(self) -> list[Any]:
        """The place of an element as formulas, as `get_forward_index()`."""
        return self.get_forward_index()

    def get_linearized_forward_index(self) -> Any:
        """The offset of an element in the memory, taken as row-major, as one formula."""
        place = _flat(self.map_forward_index(self.get_forward_vars()), self.get_output_shape())
        return _formulas([place], self)[0]

    def map_region_bounds(self, region: Any) -> list[Any]:
        """The ranges of tvm in which the elements of a region (a range per dimension) lie."""
        own = self.get_forward_vars()
        return _forms().bounds(self.map_forward_index(own), own, list(region))

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
        """From places to indices. Raises ValueError if two elements lie at one place; formulas of the inverse
        do so for a layout that has a swizzle.
        """
        back: dict[tuple[int, ...], tuple[int, ...]] = {}
        for point in _points(self.get_input_shape()):
            place = tuple(self.map_forward_index(point))
            if place in back:
                raise ValueError(
                    f"elements {back[place]} and {point} both lie at {place}: there is no inverse"
                )
            back[place] = point

        return Layout(self.get_output_shape(), _table(back, self.get_input_shape(), self.map_forward_index))

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
        try:
            names, place = self.get_forward_vars(), self.get_forward_index()
            reach = tuple(map(int, self.get_output_shape()))
        except (TypeError, ValueError):  # symbolic extents, or a function of integers only
            return f"Layout({_listed(self.get_input_shape())})"
        shown = f"transform: {_listed(names)} -> {_listed(place)}"
        return f"Layout({_listed(self.get_input_shape())} -> {_listed(reach)}, {shown})"


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
        if forward_fn is None and forward_thread_fn is None:
            raise TypeError("T.Fragment needs forward_fn, or forward_thread_fn")
        self._variables: list[Any] = []
        self._copy: Any = None
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

    @property
    def input_size(self) -> list[Any]:
        """The extents of the tile, as `get_input_shape()`."""
        return self.get_input_shape()

    def get_forward_vars(self) -> list[Any]:
        """tvm's variables for the copy (of a replicated fragment) and the indices, of which `thread` and
        `index` are made.
        """
        if not self._variables:
            self._variables = _forms().variables(len(self.get_input_shape()))
            self._copy = _forms().copy_variable()
        return [*([self._copy] if self.replicate_size > 1 else []), *self._variables]

    @property
    def thread(self) -> Any:
        """The thread that holds an element, as a formula."""
        own = self.get_forward_vars()[-len(self.get_input_shape()) :]
        return _formulas([self._thread(own, self._copy if self.replicate_size > 1 else 0)], self)[0]

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
            raise ValueError("registers are numbered in order where there is no forward_index_fn: no formula")
        own = self.get_forward_vars()[-len(self.get_input_shape()) :]
        return _formulas(self.map_forward_index(own), self)

    @property
    def index(self) -> list[Any]:
        """The register that holds an element, as `get_forward_index()`."""
        return self.get_forward_index()

    @property
    def forward_index(self) -> list[Any]:
        """The register that holds an element, as `get_forward_index()`."""
        return self.get_forward_index()

    def get_linearized_forward_index(self) -> Any:
        """The register that holds an element, counted through all dimensions, as one formula."""
        own = self.get_forward_vars()[-len(self.get_input_shape()) :]
        return _formulas([_flat(self.map_forward_index(own), self.get_output_shape())], self)[0]

    def inverse(self) -> Layout:
        """From registers and the thread (last) to indices and the copy (last).

        Raises ValueError if two elements lie in one register of a thread.
        """
        back: dict[tuple[int, ...], tuple[int, ...]] = {}
        for point in _points(self.get_input_shape()):
            for copy in self._copies():
                place = (*self.map_forward_index(point), self._thread(point, copy))
                if place in back:
                    raise ValueError(f"elements {back[place]} and {(*point, copy)} lie in one register")
                back[place] = (*point, copy)

        def forward(own: Sequence[Any]) -> list[Any]:
            return [*self.map_forward_index(own[:-1]), self._thread(own[:-1], own[-1])]

        held = [*self.get_output_shape(), self.get_thread_size()]
        return Layout(held, _table(back, [*self.get_input_shape(), self.replicate_size], forward))

    def get_output_shape(self) -> list[Any]:
        """The registers that a thread has, per dimension, for symbolic extents as formulas."""
        return _reach_of(self)

    def get_thread_size(self) -> int:
        """How many threads share the tile: one more than the last that holds an element."""
        return 1 + max(
            self._thread(p, copy) for p in _points(self.get_input_shape()) for copy in self._copies()
        )

    def map_forward_thread(self, indices: Any) -> list[Any]:
        """The thread that holds the element at `indices`; of a replicated one, the number of the copy may
        stand before them, as in `get_forward_vars()`.
        """
        indices = _extents(list(indices))
        rank = len(self.get_input_shape())
        copy = indices[0] if len(indices) > rank else 0
        return _extents(self._thread(indices[-rank:], copy))

    def map_forward_index(self, indices: Any) -> list[Any]:
        """The register that holds the element at `indices`."""
        own = tuple(_extents(list(indices)))
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
        shape = _listed(self.get_input_shape())
        try:
            reach, threads = self.get_output_shape(), self.get_thread_size()
            held = f"forward_thread: {self.thread}, forward_index: {_listed(self.index)}"
        except (TypeError, ValueError):  # symbolic extents, functions of integers, registers by counting
            return f"Fragment({shape}, replicate: {self.replicate_size})"
        copies = f"replicate: {self.replicate_size}, thread: {threads}"
        return f"Fragment({shape} -> {_listed(reach)}, {copies}, {held})"


def _forms() -> Any:
    """Formulas are tvm's, which a declaration does not import."""
    return importlib.import_module("tilelang.layout_forms")


def _formulas(values: Sequence[Any], layout: Layout | Fragment) -> list[Any]:
    """Formulas of the variables of `layout`, shortened."""
    names, extents = layout.get_forward_vars(), layout.get_input_shape()
    if len(names) > len(extents):
        extents = [layout.replicate_size, *extents]  # pyright: ignore[reportAttributeAccessIssue]
    return [_forms().simplified(v, names, extents) for v in values]


def _table(
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
        return _forms().inverse_formulas(shape, lambda *own: forward(own))(*place)

    return element_at


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


def _listed(values: Sequence[Any]) -> str:
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def _extents(shape: Any) -> list[Any]:
    """A list of what may be one value; constants of tvm as integers."""
    if hasattr(shape, "__iter__") and not isinstance(shape, str):
        return [_number(n) for n in shape]
    return [_number(shape)]


def _number(value: Any) -> Any:
    if isinstance(value, int):
        return Constant(value)
    return Constant(value.value) if type(value).__name__ == "IntImm" else value


def _points(shape: Sequence[Any]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, shape))


def _reach_of(layout: Layout | Fragment) -> list[Any]:
    """One more than the largest place along each dimension."""
    shape = layout.get_input_shape()
    if all(isinstance(extent, int) for extent in shape):
        return _reach(layout.map_forward_index(point) for point in _points(shape))
    indices = _forms().variables(len(shape))
    return [_number(n) for n in _forms().reach(layout.map_forward_index(indices), indices, shape)]


def _reach(places: Iterator[list[Any]]) -> list[int]:
    return [Constant(max(along) + 1) for along in zip(*places, strict=True)]


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
