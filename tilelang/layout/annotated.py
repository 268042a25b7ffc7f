"""Layouts that the author annotated: how they are kept with the tile function, and what they mean.

The function's attribute `tl.layouts` holds them as JSON by buffer name, so that they are part of its text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tilelang.layout.formula import evaluate_formula
from tilelang.layout.fragment import Digit, Fragment, Replica, joined_digits, prime_factors
from tilelang.layout.shared import SharedLayout, linear, matrix_operand

LAYOUTS = "tl.layouts"  # attribute of the function
LOOP_LAYOUT = "tl.loop_layout"  # annotation of a T.Parallel loop, or attribute of a copy
Kind = Literal["auto", "swizzle", "linear", "formula", "fragment"]


@dataclass(frozen=True)
class Annotation:
    """One annotated layout.

    kind auto: the best for a tensor-core operand. swizzle: atoms of `bytes`. linear: row-major. formula:
    `place` is the offset of an element, in `size` places (a formula of sizes where it is text). fragment:
    `thread` and `place` (the register) of an element, the number of the copy being the last index.
    """

    kind: Kind
    shape: tuple[int | str, ...]
    bytes: int = 0
    place: str = ""
    size: int | str = 0
    thread: str = ""
    replicate: int = 1

    @cached_property
    def _indices(self) -> tuple[Any, ...]:
        extents = [int(n) for n in self.shape] + ([self.replicate] if self.kind == "fragment" else [])
        return tuple(np.meshgrid(*(np.arange(n) for n in extents), indexing="ij"))

    @cached_property
    def places(self) -> np.ndarray:
        """The offset (or register) of every element of a tile of constant shape."""
        indices = self._indices if self.kind == "fragment" else self._indices[: len(self.shape)]
        return np.broadcast_to(np.asarray(evaluate_formula(self.place, indices)), indices[0].shape)

    @cached_property
    def threads(self) -> np.ndarray:
        """The thread that holds each element (last dimension: each copy of it)."""
        return np.broadcast_to(
            np.asarray(evaluate_formula(self.thread, self._indices)), self._indices[0].shape
        )

    def shared(self, shape: Sequence[int], bits: int) -> SharedLayout:
        """The layout of a shared buffer; dimensions of `shape` before the annotated ones are versions.

        Raises ValueError for a swizzle that the rows do not allow.
        """
        own = tuple(shape[len(shape) - len(self.shape) :])
        if self.kind == "auto":
            return matrix_operand(tuple(shape), bits)
        if self.kind == "linear":
            return linear(tuple(shape), bits)
        if self.kind == "swizzle":
            if len(own) < 2 or own[-1] * bits // 8 % self.bytes or own[-2] % 8:
                raise ValueError(
                    f"a {self.bytes}-byte swizzle needs rows of a multiple of {self.bytes} bytes, in eights"
                )
            return SharedLayout(tuple(shape), bits, "swizzle", swizzle_bytes=self.bytes)
        run = _run(self.places)
        return SharedLayout(
            tuple(shape), bits, "formula", formula=self.place, inner=len(own), size=int(self.size), chunk=run
        )

    def stored(self, rank: int, bits: int) -> SharedLayout:
        """How a global tensor of that rank is stored: by the formula, no two elements surely side by side."""
        return SharedLayout((1,) * rank, bits, "formula", formula=self.place, inner=rank)

    def fragment(self, threads: int, first: int = 0) -> Fragment | None:
        """The layout over a block of `threads`, None where digits of the flat index cannot express it.

        Of a team's threads, which begin with `first`, the author gives the numbers in the team or the block.
        """
        numbers = self.threads
        if first and int(numbers.min()) == first:
            numbers = numbers - first
        return _as_fragment(tuple(int(n) for n in self.shape), numbers, self.places, threads)


def _run(places: np.ndarray) -> int:
    """How many neighbours of the last dimension lie side by side, aligned to their number."""
    run = 1
    while places.shape[-1] % (run * 2) == 0:
        groups = places.reshape(-1, run * 2)
        if (np.diff(groups, axis=1) != 1).any() or (groups[:, 0] % (run * 2)).any():
            break
        run *= 2
    return run


def _as_fragment(
    shape: tuple[int, ...], thread: np.ndarray, register: np.ndarray, threads: int
) -> Fragment | None:
    """Find the digits: factors of the dimensions, each of which adds to the thread or to the register."""
    copies = thread.shape[-1]
    thread = thread.reshape(-1, copies)
    register = register.reshape(-1, copies)
    if (register != register[:, :1]).any() or thread[0, 0] or register[0, 0]:
        return None
    digits: list[Digit] = []
    stride = 1
    for n in reversed(shape):
        for factor in prime_factors(n):
            to_thread, to_register = int(thread[stride, 0]), int(register[stride, 0])
            if bool(to_thread) == bool(to_register):
                return None
            place = "thread" if to_thread else "register"
            digits.append(Digit(stride, factor, place, to_thread or to_register))
            stride *= factor
    replicas = _replicas(thread[0])
    if replicas is None:
        return None
    held = math.prod([d.extent for d in digits if d.place == "thread"] + [r.extent for r in replicas])
    if held < threads and threads % held == 0:
        replicas.append(Replica(threads // held, held))
    try:
        made = Fragment(shape, tuple(joined_digits(digits)), tuple(replicas))
    except ValueError:
        return None
    if made.threads != threads:
        return None
    flat = np.arange(math.prod(shape))
    index = np.unravel_index(flat, shape)
    same = (np.asarray(made.thread(index)) == thread[:, 0]).all()
    same = same and (np.asarray(made.register(index)) == register[:, 0]).all()
    return made if same and (thread == thread[:, :1] + thread[:1]).all() else None


def _replicas(first: np.ndarray) -> list[Replica] | None:
    """The copies of the first element as digits of the thread number."""
    found, at = [], 1
    for factor in prime_factors(len(first)):
        if not first[at]:
            return None
        found.append(Replica(factor, int(first[at])))
        at *= factor
    return found


def annotations_text(annotations: Mapping[str, Annotation]) -> str:
    """What the attribute holds."""
    return json.dumps({name: asdict(a) for name, a in sorted(annotations.items())})


def annotated_names(attrs: Mapping[str, Any]) -> frozenset[str]:
    """The names of the buffers whose layout the author has chosen, from the attributes of a tile program."""
    return frozenset(json.loads(str(attrs[LAYOUTS]))) if LAYOUTS in attrs else frozenset()


def loop_text(layout: Annotation) -> str:
    """What the annotation `LOOP_LAYOUT` of a loop holds."""
    return json.dumps(asdict(layout))


def loop_annotation(text: str) -> Annotation:
    """The layout that a loop's annotation holds."""
    data = json.loads(text)
    return Annotation(**{**data, "shape": tuple(data["shape"])})


def annotations_of(func: Any) -> dict[str, Annotation]:
    """The annotated layouts of a tile function by buffer name."""
    if not func.attrs or LAYOUTS not in func.attrs:
        return {}
    return read_annotations(str(func.attrs[LAYOUTS]))


def read_annotations(text: str) -> dict[str, Annotation]:
    """What `annotations_text` wrote."""
    found = json.loads(text)
    return {name: Annotation(**{**data, "shape": tuple(data["shape"])}) for name, data in found.items()}
