"""Nested tuples of integers, of which shapes, strides and coordinates of the layout algebra are made.

They are plain Python: an integer or a tuple of such. A stride may also be a `ScaledBasis`, so many steps
along one dimension of a space of coordinates.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ScaledBasis:
    """`value` steps along a dimension: `2@1` along dimension 1, `1@0@1` along dimension 0 of dimension 1.

    mode: the number of the dimension, or the numbers on the way to it from the outermost on.
    """

    value: int
    mode: int | tuple[int, ...]

    @property
    def path(self) -> tuple[int, ...]:
        """The numbers on the way to the dimension."""
        return self.mode if isinstance(self.mode, tuple) else (self.mode,)

    def __mul__(self, other: int) -> ScaledBasis:
        return ScaledBasis(self.value * other, self.mode)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return "@".join([str(self.value), *map(str, reversed(self.path))])


def E(mode: int | tuple[int, ...]) -> ScaledBasis:
    """One step along a dimension: `E(1)`, `E((1, 0))` along dimension 0 of dimension 1."""
    return ScaledBasis(1, mode)


@dataclass(frozen=True)
class IntTuple:
    """A nested tuple as an object: `from_python((1, (2, 3)))`, or its text by `parse`."""

    value: Any

    @staticmethod
    def parse(text: str) -> IntTuple:
        """What a text such as `(1,(2,3@0))` says. Raises ValueError for another."""
        return IntTuple(parse_tuple(text))

    @property
    def fields(self) -> tuple[IntTuple, ...]:
        """The entries. Raises TypeError for a number."""
        if not isinstance(self.value, tuple):
            raise TypeError(f"{self} is no tuple")
        return tuple(map(IntTuple, self.value))

    def __add__(self, other: Any) -> IntTuple:
        return IntTuple(_paired(self.value, to_python(other), lambda a, b: a + b))

    def __mul__(self, other: Any) -> IntTuple:
        return IntTuple(_paired(self.value, to_python(other), lambda a, b: a * b))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return shown(self.value)


def from_python(value: Any) -> IntTuple:
    """An object for a number, a basis or a nested tuple or list of such."""
    return IntTuple(to_python(value))


def to_python(value: Any) -> Any:
    """The same as plain Python: lists become tuples."""
    if isinstance(value, IntTuple):
        return value.value
    if isinstance(value, tuple | list):
        return tuple(map(to_python, value))
    if isinstance(value, int | ScaledBasis):
        return value
    raise TypeError(f"cannot convert to IntTuple: {value}")


def parse_tuple(text: str) -> Any:
    """What `shown` wrote. Raises ValueError for another text."""

    def basis(match: re.Match[str]) -> str:
        value, *modes = match.group().split("@")
        return f"({value},{[int(m) for m in reversed(modes)]})"

    def read(found: Any) -> Any:
        if isinstance(found, int):
            return found
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], list):
            return ScaledBasis(found[0], tuple(found[1]) if len(found[1]) > 1 else found[1][0])
        if isinstance(found, tuple):
            return tuple(map(read, found))
        raise ValueError(f"{text!r} is no nested tuple of integers")

    try:
        brackets = text.strip().replace(")", ",)")  # "(4)" is a tuple of one
        return read(ast.literal_eval(re.sub(r"\d+(?:@\d+)+", basis, brackets)))
    except (SyntaxError, TypeError):
        raise ValueError(f"{text!r} is no nested tuple of integers") from None


def shown(value: Any) -> str:
    """`(1,(2,3))`."""
    return f"({','.join(map(shown, value))})" if isinstance(value, tuple) else str(value)


def flatten_to_tuple(value: Any) -> tuple[Any, ...]:
    """The leaves from left to right."""
    return tuple(leaves(to_python(value)))


def leaves(value: Any) -> Iterator[Any]:
    """The leaves from left to right."""
    if isinstance(value, tuple):
        for entry in value:
            yield from leaves(entry)
    else:
        yield value


def product(shape: Any) -> int:
    """The number of coordinates of a shape."""
    return math.prod(leaves(to_python(shape)))


def congruent(a: Any, b: Any) -> bool:
    """Whether both are nested alike."""
    a, b = to_python(a), to_python(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(congruent, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def compatible(a: Any, b: Any) -> bool:
    """Whether shapes have as many coordinates and every coordinate in `a` is one in `b`, which may be nested
    deeper.
    """
    a, b = to_python(a), to_python(b)
    if not isinstance(a, tuple):
        return a == product(b)
    return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible, a, b))


def _paired(a: Any, b: Any, operation: Callable[[Any, Any], Any]) -> Any:
    if isinstance(a, tuple) != isinstance(b, tuple) or (isinstance(a, tuple) and len(a) != len(b)):
        raise ValueError(f"{shown(a)} and {shown(b)} must have the same rank")
    if isinstance(a, tuple):
        return tuple(_paired(x, y, operation) for x, y in zip(a, b, strict=True))
    return operation(a, b)
