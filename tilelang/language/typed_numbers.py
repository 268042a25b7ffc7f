"""Numbers that know their dtype: what `T.float32(3)` and `T.max_value("int32")` are outside kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilelang.language.dtypes import DType


class TypedFloat(float):
    """A float with the dtype it belongs to; negated it keeps it, in any other expression it is a float."""

    dtype: DType

    def __new__(cls, value: float, dtype: DType) -> TypedFloat:
        made = super().__new__(cls, value)
        made.dtype = dtype
        return made

    def __neg__(self) -> TypedFloat:
        return TypedFloat(-float(self), self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return TypedFloat, (float(self), self.dtype)

    @property
    def value(self) -> float:
        """The plain number."""
        return float(self)


class TypedInt(int):
    """An integer with the dtype it belongs to; negated it keeps it, in any other expression it is an int."""

    dtype: DType

    def __new__(cls, value: int, dtype: DType) -> TypedInt:
        made = super().__new__(cls, value)
        made.dtype = dtype
        return made

    def __neg__(self) -> TypedInt:
        return TypedInt(-int(self), self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return TypedInt, (int(self), self.dtype)

    @property
    def value(self) -> int:
        """The plain number."""
        return int(self)


def typed_number(value: float, dtype: DType) -> TypedFloat | TypedInt:
    """`value` as a number of `dtype`; a float becomes an integer by truncation.

    Raises ValueError for one that an integer dtype does not have.
    """
    name = str(dtype)
    if name.startswith(("float", "bfloat")):
        return TypedFloat(value, dtype)
    whole = int(value)
    if name == "bool":
        low, high = 0, 1
    elif name.startswith("u"):
        low, high = 0, 2**dtype.bits - 1
    else:
        low, high = -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    if not low <= whole <= high:
        raise ValueError(f"{name} has no {whole}: it holds {low} to {high}")
    return TypedInt(whole, dtype)
