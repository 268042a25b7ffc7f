"""Dtypes as users write them: `T.float16` names a dtype, `T.float16(x)` converts to it."""

from __future__ import annotations

from typing import Any

from tilelang.arch.dtypes import DTYPES, canonical_dtype, dtype_info
from tilelang.language.values import OutsideKernelError, Scalar


class DType(str):
    """A dtype. Equal to its name, and to the torch and numpy dtypes of the same kind; hashes like its name.

    Called inside a kernel, it converts a number or an expression (a float to an integer truncates).
    """

    __slots__ = ()

    def __new__(cls, spelling: Any) -> DType:
        """A dtype from any spelling. Raises ValueError for an unknown one."""
        return super().__new__(cls, canonical_dtype(spelling))

    @property
    def bits(self) -> int:
        """Bits of one element; 1 for bool."""
        return dtype_info(str(self)).bits

    @property
    def bytes(self) -> int:
        """Bytes in memory."""
        return dtype_info(str(self)).bytes

    @property
    def lanes(self) -> int:
        """Elements of a vector dtype, 1 for a scalar."""
        return dtype_info(str(self)).lanes

    def as_torch(self) -> Any:
        """The torch dtype. Raises ImportError without torch, ValueError where torch has no such dtype."""
        import torch

        found = getattr(torch, str(self), None)
        if not isinstance(found, torch.dtype):
            raise ValueError(f"torch has no dtype {self}")
        return found

    def __call__(self, value: Any = None) -> Scalar:
        raise OutsideKernelError(str(self))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other)
        try:
            return str.__eq__(self, canonical_dtype(other))
        except ValueError:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __str__(self) -> str:
        return str.__str__(self)

    def __repr__(self) -> str:
        return f"T.{str.__str__(self)}"


# Read inside kernels and at module level alike: strings, T dtypes, torch and numpy dtypes.
DTypeLike = Any

bool_ = DType("bool")
int8 = DType("int8")
int16 = DType("int16")
int32 = DType("int32")
int64 = DType("int64")
uint8 = DType("uint8")
uint16 = DType("uint16")
uint32 = DType("uint32")
uint64 = DType("uint64")
float16 = DType("float16")
bfloat16 = DType("bfloat16")
float32 = DType("float32")
float64 = DType("float64")

DTYPE_NAMES: tuple[str, ...] = tuple(DTYPES)
