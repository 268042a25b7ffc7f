"""Dtypes as users write them: `T.float16` names a dtype, `T.float16(x)` converts to it."""

from __future__ import annotations

from typing import Any

from tilelang.arch.dtypes import canonical_dtype, dtype_info
from tilelang.language.typed_numbers import typed_number
from tilelang.language.values import DynamicSize, OutsideKernelError, Scalar


class DType(str):
    """A dtype. Equal to its name, and to the torch and numpy dtypes of the same kind; hashes like its name.

    Called, it converts a number (a float to an integer truncates), inside a kernel also what the kernel
    computes. Outside, it is a Python number that keeps its `.dtype` in the kernels that read it; without a
    number, an integer dtype makes a size as `T.dynamic` does.
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
    def itemsize(self) -> int:
        """Bytes in memory, as numpy and torch call it."""
        return self.bytes

    @property
    def lanes(self) -> int:
        """Elements of a vector dtype, 1 for a scalar."""
        return dtype_info(str(self)).lanes

    def with_lanes(self, lanes: int) -> DType:
        """The dtype of a vector of `lanes` such elements."""
        base = str(self) if self.lanes == 1 else str(self).rpartition("x")[0]
        return DType(base if lanes == 1 else f"{base}x{lanes}")

    def as_torch(self) -> Any:
        """The torch dtype that tensors of it have; two 4-bit elements share a byte of torch's.

        Raises ImportError without torch, ValueError where torch has no such dtype, nor vectors.
        """
        import torch

        name = str(self)
        if name == "float4_e2m1fnx2":
            name = "float4_e2m1fn"
        found = getattr(torch, _IN_TORCH.get(name, name), None)
        if not isinstance(found, torch.dtype):
            raise ValueError(f"torch has no dtype {self}")
        return found

    def __call__(self, value: Any = None) -> Scalar:
        if isinstance(value, bool | int | float) and self.lanes == 1:
            return typed_number(value, self)  # type: ignore[return-value]
        if value is None and self.lanes == 1 and str(self).startswith(("int", "uint")):
            return DynamicSize("size", str(self))
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


# What torch stores tensors as, where it has no name for the dtype itself.
_IN_TORCH = {"int4": "int8", "uint4": "uint8", "float4_e2m1fn": "float4_e2m1fn_x2"}

# Read inside kernels and at module level alike: strings, T dtypes, torch and numpy dtypes.
DTypeLike = Any


def _declared(name: str) -> Any:
    """A dtype of the language.

    To type checkers it is anything: from `dtype=T.float16` they would conclude that a kernel takes no other
    kind of dtype, and report `torch.float16` and `"float16"` at its calls.
    """
    return DType(name)


bool_ = _declared("bool")
int4 = _declared("int4")
uint4 = _declared("uint4")
int8 = _declared("int8")
int16 = _declared("int16")
int32 = _declared("int32")
int64 = _declared("int64")
uint8 = _declared("uint8")
uint16 = _declared("uint16")
uint32 = _declared("uint32")
uint64 = _declared("uint64")
float16 = _declared("float16")
bfloat16 = _declared("bfloat16")
float32 = _declared("float32")
float64 = _declared("float64")
float8_e3m4 = _declared("float8_e3m4")
float8_e4m3b11fnuz = _declared("float8_e4m3b11fnuz")
float8_e4m3fn = _declared("float8_e4m3fn")
float8_e4m3fnuz = _declared("float8_e4m3fnuz")
float8_e5m2 = _declared("float8_e5m2")
float8_e5m2fnuz = _declared("float8_e5m2fnuz")
float8_e8m0fnu = _declared("float8_e8m0fnu")
float6_e2m3fn = _declared("float6_e2m3fn")
float6_e3m2fn = _declared("float6_e3m2fn")
float4_e2m1fn = _declared("float4_e2m1fn")

# Other names of the same dtypes. TF32 is a way to multiply float32 tiles; memory holds float32.
half = float16
double = float64
float_ = float32
short = int16
int_ = int32
uint = uint32
long = int64
tfloat32 = float32
float8_e4m3 = float8_e4m3fn

dtype = DType  # the name that kernels import
DTYPE_ALIASES = ("half", "double", "float", "short", "int", "uint", "long", "tfloat32", "float8_e4m3")
