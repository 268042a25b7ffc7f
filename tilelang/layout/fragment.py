"""Fragments: which thread holds which element of a tile, and in which of its registers.

A fragment is a mixed-radix factorisation of the flat row-major index of the tile. Each digit of the index
goes to the thread number or to the register number with a stride; threads may repeat the tile (`replicate`).
So a fragment is exact and exactly invertible, and its maps are sums of `index // a % b * c`, which read well
in generated code. The maps take Python integers, numpy arrays or TIRX expressions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

Place = Literal["thread", "register"]


@dataclass(frozen=True)
class Digit:
    """`index // stride % extent` goes to `place`, times `place_stride`."""

    stride: int
    extent: int
    place: Place
    place_stride: int


@dataclass(frozen=True)
class Replica:
    """Threads that differ only in `thread // stride % extent` hold the same elements."""

    extent: int
    stride: int


@dataclass(frozen=True)
class Fragment:
    """The layout of a tile of `shape` over threads and registers.

    `digits`, in order of rising stride, factor the flat row-major index of the `padded` shape (the shape
    itself unless given): each stride is the product of the extents before. Positions outside `shape` belong
    to no element.
    """

    shape: tuple[int, ...]
    digits: tuple[Digit, ...]
    replicate: tuple[Replica, ...] = ()
    padded: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.padded:
            object.__setattr__(self, "padded", self.shape)
        size = 1
        for d in self.digits:
            if d.stride != size:
                raise ValueError(f"digit {d} must have stride {size}")
            size *= d.extent
        if size < math.prod(self.padded):
            raise ValueError(f"{size} positions for {math.prod(self.padded)} elements")
        for place, places in (("thread", self._thread_places()), ("register", self._register_places())):
            count = 1
            for stride, extent in sorted(places):
                if stride != count:
                    raise ValueError(f"{place} digits of {self.digits} leave a gap or overlap at {count}")
                count *= extent

    def _thread_places(self) -> list[tuple[int, int]]:
        own = [(d.place_stride, d.extent) for d in self.digits if d.place == "thread" and d.extent > 1]
        return own + [(r.stride, r.extent) for r in self.replicate if r.extent > 1]

    def _register_places(self) -> list[tuple[int, int]]:
        return [(d.place_stride, d.extent) for d in self.digits if d.place == "register" and d.extent > 1]

    # Sizes

    @cached_property
    def threads(self) -> int:
        """Threads that hold the tile, replicas included."""
        return math.prod(extent for _, extent in self._thread_places())

    @cached_property
    def registers(self) -> int:
        """Elements that each thread holds."""
        return math.prod(extent for _, extent in self._register_places())

    @property
    def replicas(self) -> int:
        """How many threads hold each element."""
        return math.prod(r.extent for r in self.replicate)

    @property
    def positions(self) -> int:
        """Values of the flat index, padding included."""
        return math.prod(d.extent for d in self.digits)

    @property
    def exact(self) -> bool:
        """Whether every (thread, register) holds an element: no padding."""
        return self.padded == self.shape and self.positions == math.prod(self.shape)

    # Maps

    def flat(self, indices: Sequence[Any]) -> Any:
        """The flat row-major index of an element."""
        return row_major(indices, self.padded)

    def thread(self, indices: Sequence[Any]) -> Any:
        """The owner with replica number 0."""
        return self._forward(indices, "thread")

    def register(self, indices: Sequence[Any]) -> Any:
        """The register of the owner."""
        return self._forward(indices, "register")

    def _forward(self, indices: Sequence[Any], place: Place) -> Any:
        split = self.by_dimension()
        if split is None:
            flat = self.flat(indices)
            return _sum(
                _scaled(_digit(flat, d.stride, d.extent, d is self.digits[-1]), d.place_stride)
                for d in self.digits
                if d.place == place
            )
        return _sum(
            _scaled(_digit(indices[dim], stride, d.extent, last), d.place_stride)
            for dim, stride, d, last in split
            if d.place == place
        )

    def indices(self, thread: Any, register: Any) -> tuple[Any, ...]:
        """The element held by `thread` in `register`: the inverse. Outside `shape` where the position is
        padding.
        """
        split = self.by_dimension()
        if split is None:
            flat = _sum(_scaled(self._place_digit(d, thread, register), d.stride) for d in self.digits)
            return _unflatten(flat, self.padded)
        return tuple(
            _sum(
                _scaled(self._place_digit(d, thread, register), stride)
                for at, stride, d, _ in split
                if at == dim
            )
            for dim in range(len(self.shape))
        )

    def _place_digit(self, d: Digit, thread: Any, register: Any) -> Any:
        if d.place == "thread":
            return _digit(thread, d.place_stride, d.extent, d.place_stride * d.extent == self.threads)
        return _digit(register, d.place_stride, d.extent, d.place_stride * d.extent == self.registers)

    def replica(self, thread: Any) -> Any:
        """Which copy a thread holds, from 0; 0 where there is only one."""
        terms, scale = [], 1
        for r in self.replicate:
            value = _digit(thread, r.stride, r.extent, r.stride * r.extent == self.threads)
            terms.append(_scaled(value, scale))
            scale *= r.extent
        return _sum(terms)

    def by_dimension(self) -> list[tuple[int, int, Digit, bool]] | None:
        """The digits split at the borders between dimensions, None where a digit straddles one.

        Entries are (dimension, stride within the dimension, digit, whether it is the dimension's last).
        """
        return self._split

    @cached_property
    def _split(self) -> list[tuple[int, int, Digit, bool]] | None:
        found: list[tuple[int, int, Digit]] = []
        for d in self.digits:
            stride, left, place_stride = d.stride, d.extent, d.place_stride
            while left > 1:
                dim, border = self._dimension_at(stride)
                if stride % border or (dim and self.padded[dim] % (stride // border)):
                    return None
                room = self.padded[dim] // (stride // border) if dim else left
                part = min(left, room)
                if left % part or (dim and room % part):
                    return None
                found.append((dim, stride // border, Digit(stride, part, d.place, place_stride)))
                stride, left, place_stride = stride * part, left // part, place_stride * part
        top = {dim: max(s for at, s, _ in found if at == dim) for dim, _, _ in found}
        return [(dim, stride, d, stride == top[dim]) for dim, stride, d in found]

    def _dimension_at(self, stride: int) -> tuple[int, int]:
        """The dimension that a digit of the flat index with `stride` belongs to, and the stride of that
        dimension.
        """
        border = 1
        for dim in range(len(self.padded) - 1, 0, -1):
            if stride < border * self.padded[dim]:
                return dim, border
            border *= self.padded[dim]
        return 0, border

    # Derived fragments

    def reduce(self, dim: int) -> Fragment | None:
        """The layout of the tile without dimension `dim`: its thread digits become replicas, its registers
        vanish.

        None where a digit straddles the border of the dimension.
        """
        split = self.by_dimension()
        if split is None:
            return None
        shape = tuple(n for k, n in enumerate(self.shape) if k != dim)
        replicas = list(self.replicate)
        replicas += [
            Replica(d.extent, d.place_stride) for at, _, d, _ in split if at == dim and d.place == "thread"
        ]
        return from_split(shape, [(at - (at > dim), s, d) for at, s, d, _ in split if at != dim], replicas)

    def select(self, dims: Sequence[int | None], extents: Sequence[int] | None = None) -> Fragment | None:
        """The layout of a tile whose dimension k is this one's dimension `dims[k]` (None: extent 1), the
        others dropped.

        `extents` are the new tile's sizes where they differ from this one's. None where a digit straddles a
        border or a size does not fit.
        """
        split = self.by_dimension()
        if split is None:
            return None
        shape = tuple(1 if d is None else self.shape[d] for d in dims)
        padded = tuple(1 if d is None else self._dim_positions(d) for d in dims)
        if extents is not None:
            if any(e > p for e, p in zip(extents, padded, strict=True)):
                return None
            shape = tuple(extents)
        at = {d: k for k, d in enumerate(dims) if d is not None}
        replicas = list(self.replicate)
        replicas += [
            Replica(d.extent, d.place_stride)
            for dim, _, d, _ in split
            if dim not in at and d.place == "thread"
        ]
        kept = [(at[dim], s, d) for dim, s, d, _ in split if dim in at]
        return from_split(shape, kept, replicas)

    def _dim_positions(self, dim: int) -> int:
        split = self.by_dimension() or []
        return max(self.padded[dim], math.prod(d.extent for at, _, d, _ in split if at == dim))

    def with_shape(self, shape: tuple[int, ...]) -> Fragment:
        """The same places for the leading part of the tile (for a loop that covers only `shape` of it)."""
        return replace(self, shape=shape)

    # Tables

    @cached_property
    def table(self) -> np.ndarray:
        """[threads, registers] -> flat index in `shape`, -1 for padding."""
        thread = np.arange(self.threads)[:, None]
        register = np.arange(self.registers)[None, :]
        parts = [np.broadcast_to(x, (self.threads, self.registers)) for x in self.indices(thread, register)]
        inside = np.ones((self.threads, self.registers), bool)
        for part, n in zip(parts, self.shape, strict=True):
            inside &= part < n
        return np.where(inside, row_major(parts, self.shape), -1)

    def equal(self, other: Fragment) -> bool:
        """Whether both put every element into the same threads and registers."""
        return self.shape == other.shape and (
            (self.digits, self.replicate, self.padded) == (other.digits, other.replicate, other.padded)
            or (self.table.shape == other.table.shape and bool((self.table == other.table).all()))
        )

    def describe(self) -> str:
        """One line for hovers: `64 elements in each of 128 threads, every element in 2 threads`."""
        text = f"{self.registers} element{'s' * (self.registers != 1)} in each of {self.threads} threads"
        if self.replicas > 1:
            text += f", every element in {self.replicas} threads"
        return text


def partition(shape: tuple[int, ...], threads: int, vector: int = 1) -> Fragment:
    """Consecutive elements, `vector` at a time, to consecutive threads: the usual layout of an elementwise
    loop.

    thread = flat // vector % threads, register = flat // (vector · threads) · vector + flat % vector. A tile
    with fewer vectors than threads is repeated where that fits.
    """
    total = math.prod(shape)
    vectors = -(-total // vector)
    used = threads
    if vectors < threads and threads % vectors == 0:
        used = vectors
    rest = -(-vectors // used)
    return built(
        shape,
        shape,
        [(vector, "register"), (used, "thread"), (rest, "register")],
        Replica(threads // used, used),
    )


def partition_rows(shape: tuple[int, ...], threads: int, vector: int = 1) -> Fragment:
    """Like `partition`, but no digit straddles two dimensions: rows are padded to whole vectors and whole
    threads.

    Reductions along any dimension can be read off such a layout. Threads go to the last dimension first, a
    power of two that divides what is left of them.
    """
    left = threads
    padded: list[int] = []
    digits: list[tuple[int, Place]] = []
    for k, n in reversed(list(enumerate(shape))):
        width = vector if k == len(shape) - 1 else 1
        vectors = -(-n // width)
        across = 1
        while across < vectors and left % (across * 2) == 0:
            across *= 2
        rest = -(-vectors // across)
        digits.extend([(width, "register"), (across, "thread"), (rest, "register")])
        padded.insert(0, width * across * rest)
        left //= across
    return built(shape, tuple(padded), digits, Replica(left, threads // left))


def replicated(shape: tuple[int, ...], threads: int) -> Fragment:
    """Every thread holds the whole tile, in row-major order."""
    return built(shape, shape, [(math.prod(shape), "register")], Replica(threads, 1))


def built(
    shape: tuple[int, ...], padded: tuple[int, ...], extents: Sequence[tuple[int, Place]], replica: Replica
) -> Fragment:
    """Digits in rising order of the flat index, each at the next free stride of its place."""
    digits: list[Digit] = []
    stride = 1
    next_stride = {"thread": 1, "register": 1}
    for extent, place in extents:
        if extent > 1:
            digits.append(Digit(stride, extent, place, next_stride[place]))
            next_stride[place] *= extent
            stride *= extent
    replicate = (replica,) if replica.extent > 1 else ()
    return Fragment(shape, tuple(digits), replicate, padded)


def from_split(
    shape: tuple[int, ...],
    split: Sequence[tuple[int, int, Digit]],
    replicas: Sequence[Replica],
) -> Fragment | None:
    """A fragment from (dimension, stride in it, digit) triples; registers are renumbered without gaps."""
    kept = sorted(split, key=lambda item: (-item[0], item[1]))
    order = sorted((d.place_stride, k) for k, (_, _, d) in enumerate(kept) if d.place == "register")
    new_stride: dict[int, int] = {}
    count = 1
    for _, k in order:
        new_stride[k] = count
        count *= kept[k][2].extent
    digits: list[Digit] = []
    stride, full = 1, []
    for dim in range(len(shape) - 1, -1, -1):
        size = 1
        for k, (at, inner, d) in enumerate(kept):
            if at != dim:
                continue
            if inner != size:
                return None
            place_stride = new_stride[k] if d.place == "register" else d.place_stride
            digits.append(Digit(stride * size, d.extent, d.place, place_stride))
            size *= d.extent
        size = max(size, 1)
        full.insert(0, size)
        stride *= size
    if any(f < s for f, s in zip(full, shape, strict=True)):
        return None
    return Fragment(shape, tuple(joined_digits(digits)), tuple(replicas), tuple(full))


def joined_digits(digits: Sequence[Digit]) -> list[Digit]:
    """Neighbouring digits that continue each other as one."""
    merged: list[Digit] = []
    for d in digits:
        last = merged[-1] if merged else None
        if last and last.place == d.place and last.place_stride * last.extent == d.place_stride:
            merged[-1] = Digit(last.stride, last.extent * d.extent, d.place, last.place_stride)
        else:
            merged.append(d)
    return merged


def prime_factors(n: int) -> list[int]:
    """The primes whose product is `n`, in ascending order: [2, 2, 3] of 12, none of 1."""
    found, p = [], 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found


def row_major(indices: Sequence[Any], shape: Sequence[int]) -> Any:
    """The flat row-major index."""
    terms, stride = [], 1
    for index, n in zip(reversed(indices), reversed(shape), strict=True):
        terms.append(_scaled(index, stride))
        stride *= n
    return _sum(reversed(terms))


def _unflatten(flat: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    parts: list[Any] = []
    stride = 1
    for k in range(len(shape) - 1, -1, -1):
        parts.insert(0, _digit(flat, stride, shape[k], k == 0))
        stride *= shape[k]
    return tuple(parts)


def _digit(value: Any, stride: int, extent: int, last: bool) -> Any:
    """`value // stride % extent` without operations that do nothing. `last`: nothing lies above the digit."""
    if extent == 1 and not last:
        return 0
    value = value if stride == 1 else value // stride
    return value if last else value % extent


def _scaled(value: Any, factor: int) -> Any:
    return value if factor == 1 or (isinstance(value, int) and value == 0) else value * factor


def _sum(terms: Any) -> Any:
    total: Any = 0
    for term in terms:
        if isinstance(term, int) and term == 0:
            continue
        total = term if isinstance(total, int) and total == 0 else total + term
    return total
