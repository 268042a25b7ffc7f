"""What names inside a kernel stand for, as type checkers see them: scalars and tiles.

Kernels are read, not run, so no scalar or tile exists while Python runs. The one exception are run-time
sizes: `T.dynamic` may stand at module level, where an annotation such as `T.Tensor((m * 2,), ...)` computes
with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilelang.arch.dtypes import canonical_dtype


class OutsideKernelError(RuntimeError, ValueError):
    """A name of the language was called by running Python instead of standing in a kernel.

    Of both classes: the language's release raises RuntimeError by launches and ValueError by allocations.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"T.{name} was called outside a kernel: it has a meaning only in the body of a function "
            "decorated with @tilelang.jit, @T.prim_func or @T.macro, which is compiled, never run"
        )


class Scalar:
    """A number known when the kernel runs: a block or loop variable, an element of a tile, a size, an
    expression.
    """

    def __add__(self, other: Any) -> Scalar:
        return SizeExpression("+", self, other)

    def __radd__(self, other: Any) -> Scalar:
        return SizeExpression("+", other, self)

    def __sub__(self, other: Any) -> Scalar:
        return SizeExpression("-", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return SizeExpression("-", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return SizeExpression("*", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return SizeExpression("*", other, self)

    def __floordiv__(self, other: Any) -> Scalar:
        return SizeExpression("//", self, other)

    def __rfloordiv__(self, other: Any) -> Scalar:
        return SizeExpression("//", other, self)

    def __mod__(self, other: Any) -> Scalar:
        return SizeExpression("%", self, other)

    def __rmod__(self, other: Any) -> Scalar:
        return SizeExpression("%", other, self)

    def __neg__(self) -> Scalar:
        return SizeExpression("-", 0, self)

    def __bool__(self) -> bool:
        raise ValueError("the value is known only when the kernel runs; Python cannot decide on it")

    if TYPE_CHECKING:
        # Inside kernels only, where the compiler reads them.
        def __iter__(self) -> Iterator[Scalar]: ...
        def __index__(self) -> int: ...
        def __truediv__(self, other: Any) -> Scalar: ...
        def __rtruediv__(self, other: Any) -> Scalar: ...
        def __pow__(self, other: Any) -> Scalar: ...
        def __rpow__(self, other: Any) -> Scalar: ...
        def __and__(self, other: Any) -> Scalar: ...
        def __rand__(self, other: Any) -> Scalar: ...
        def __or__(self, other: Any) -> Scalar: ...
        def __ror__(self, other: Any) -> Scalar: ...
        def __xor__(self, other: Any) -> Scalar: ...
        def __rxor__(self, other: Any) -> Scalar: ...
        def __lshift__(self, other: Any) -> Scalar: ...
        def __rlshift__(self, other: Any) -> Scalar: ...
        def __rshift__(self, other: Any) -> Scalar: ...
        def __rrshift__(self, other: Any) -> Scalar: ...
        def __invert__(self) -> Scalar: ...
        def __lt__(self, other: Any) -> Scalar: ...
        def __le__(self, other: Any) -> Scalar: ...
        def __gt__(self, other: Any) -> Scalar: ...
        def __ge__(self, other: Any) -> Scalar: ...


@dataclass(frozen=True, eq=False)
class DynamicSize(Scalar):
    """A size that is solved from the arguments' shapes at each launch. Every call of `T.dynamic` makes a
    new one, and `T.Var(name, dtype)` too; `isinstance(size, T.Var)` tells it from a number.
    """

    name: str
    dtype: str = "int32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", canonical_dtype(self.dtype))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class SizeExpression(Scalar):
    """`left <operator> right` over run-time sizes, written outside a kernel. `operator` is Python's: + - *
    // %, or max and min.
    """

    operator: str
    left: Any
    right: Any

    def __str__(self) -> str:
        if self.operator.isalpha():
            return f"{self.operator}({self.left}, {self.right})"
        is_sum = self.operator in _SUMS
        left = _operand(self.left, () if is_sum else _SUMS)
        right = _operand(self.right, _SUMS if is_sum else (*_SUMS, *_PRODUCTS))
        return f"{left} {self.operator} {right}"


_SUMS = ("+", "-")
_PRODUCTS = ("*", "//", "%")


def _operand(value: Any, in_brackets: tuple[str, ...]) -> str:
    """The text of an operand, in brackets where it shows one of these operators."""
    bare = not isinstance(value, SizeExpression) or value.operator not in in_brackets
    return str(value) if bare else f"({value})"


class Tile:
    """A tensor argument, an output or an allocated tile: indexed by numbers and slices, one entry per
    dimension.

    As the operand of a tile operation `A[i, j]` means "starting at"; elsewhere it is one element.
    """

    if TYPE_CHECKING:
        shape: tuple[Any, ...]
        dtype: Any
        strides: tuple[Any, ...]

        # An element is a number, a slice is a region: what is meant depends on where it stands.
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def scope(self) -> str: ...
