"""Tensor arguments and outputs, their symbolic sizes, and views of the same storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.arch.dtypes import canonical_dtype
from tilelang.language.dtypes import DTypeLike, float32
from tilelang.language.values import DynamicSize, OutsideKernelError, Scalar, Tile

if TYPE_CHECKING:

    class Tensor(Tile):
        """A tensor in global memory; the contract stands at the definition below."""

        def __init__(
            self, shape: Any, dtype: DTypeLike = float32, data: Any = None, scope: str | None = None
        ) -> None: ...
        def __class_getitem__(cls, item: Any) -> Tensor: ...

    class StridedTensor(Tile):
        """A tensor in global memory with explicit strides; the contract stands at the definition below."""

        def __init__(
            self,
            shape: Any,
            strides: Any,
            dtype: DTypeLike = float32,
            scope: str | None = None,
            *,
            data: Any = None,
        ) -> None: ...
        def __class_getitem__(cls, item: Any) -> StridedTensor: ...

else:

    class _Annotation:
        """What an annotation says of a tensor, as code around kernels reads it."""

        name = ""

        def __init__(self, shape: Any, dtype: DTypeLike, data: Any, scope: str | None) -> None:
            self.shape, self.dtype, self.data = shape, dtype, data
            self._scope = scope

        def __class_getitem__(cls, item: Any) -> Any:
            return cls(*item) if isinstance(item, tuple) else cls(item)

        def __repr__(self) -> str:
            return f"T.{type(self).__name__}({self.shape}, {self.dtype})"

        def scope(self) -> str:
            """The memory: "global" if none was given."""
            return self._scope or "global"

    class Tensor(_Annotation):
        """A tensor argument in global memory: `A: T.Tensor((M, K), T.float16)`, also `T.Tensor[[M, K],
        T.float16]`.

        shape: extents, numbers or sizes from T.const and T.dynamic; one number or size is a shape of rank
        1.
        dtype: of the elements. data: in a kernel, the memory of another buffer, as in `T.Tensor((M * N,),
        T.float16, A.data)`. scope: accepted for compatibility; a tensor argument is in global memory. The
        tensor is contiguous, row-major; T.StridedTensor takes others.
        """

        def __init__(
            self, shape: Any, dtype: DTypeLike = float32, data: Any = None, scope: str | None = None
        ) -> None:
            super().__init__(shape, dtype, data, scope)

        @property
        def strides(self) -> tuple[Any, ...]:
            """Row-major steps, in elements."""
            extents = tuple(self.shape) if isinstance(self.shape, tuple | list) else (self.shape,)
            steps: list[Any] = [1]
            for extent in extents[:0:-1]:
                steps.append(steps[-1] * extent)
            return tuple(reversed(steps))

    class StridedTensor(_Annotation):
        """A tensor argument with strides of its own, in elements: `T.StridedTensor((M, N), (s, 1),
        T.float16)`, also `T.StridedTensor[(M, N), (s, 1), T.float16]`.

        Raises ValueError if `shape` and `strides` differ in length.
        """

        def __init__(
            self,
            shape: Any,
            strides: Any,
            dtype: DTypeLike = float32,
            scope: str | None = None,
            data: Any = None,
        ) -> None:
            super().__init__(shape, dtype, data, scope)
            if isinstance(shape, tuple | list) and len(shape) != len(strides):
                raise ValueError(
                    f"T.StridedTensor needs one stride per dimension: the shape has {len(shape)}, "
                    f"the strides have {len(strides)}"
                )
            self.strides = strides


Buffer = Tensor  # the older name


def dynamic(name: str, dtype: DTypeLike = "int32") -> Any:
    """Sizes that may differ from launch to launch: `m = T.dynamic("m")`, `m, n = T.dynamic("m, n")`.

    name: one or several names, separated by commas or spaces. Returns one size, or a tuple for several
    names. They are solved from the shapes of the tensors at each launch; the kernel is compiled once. Works
    at module level and in kernels. Raises ValueError without a name or for an unknown dtype.
    """
    names = name.replace(",", " ").split()
    if not names:
        raise ValueError("T.dynamic needs a name, as in T.dynamic('m')")
    kind = canonical_dtype(dtype)
    sizes = tuple(DynamicSize(n, kind) for n in names)
    return sizes[0] if len(sizes) == 1 else sizes


def symbolic(name: str, dtype: DTypeLike = "int32") -> Any:
    """The older name of `T.dynamic`."""
    return dynamic(name, dtype)


def const(name: str, dtype: DTypeLike = "int32") -> Any:
    """Sizes fixed at each call and compiled in (eager kernels): `M, N = T.const("M, N")`.

    Each must stand by itself in the shape or the strides of some tensor argument, from which its value is
    taken. Every new value compiles a new kernel. Returns one size, or a tuple for several names.
    """
    raise OutsideKernelError("const")


def empty(*shape: Any, dtype: DTypeLike = float32) -> Tile:
    """An output of an eager kernel: `C = T.empty((M, N), T.float16)`, allocated at each call and returned.

    shape: a tuple, or the extents one by one; a dtype may follow the tuple by position. All outputs must be
    returned, and nothing else may be.
    """
    raise OutsideKernelError("empty")


def reshape(src: Any, shape: Any) -> Tile:
    """The same storage under another shape with as many elements, row-major."""
    raise OutsideKernelError("reshape")


def view(src: Any, shape: Any = None, dtype: DTypeLike | None = None, strides: Any = None) -> Tile:
    """The same storage under another shape or dtype with as many bits in total.

    strides: in elements of the view, non-negative; row-major if not given.
    """
    raise OutsideKernelError("view")


def ceildiv(lhs: Any, rhs: Any) -> Any:
    """`lhs / rhs` rounded up, both positive: how many tiles of `rhs` cover `lhs`. Computes on plain numbers
    too.
    """
    if isinstance(lhs, Scalar) or isinstance(rhs, Scalar):
        return (lhs + rhs - 1) // rhs
    return -(-lhs // rhs)


def cdiv(lhs: Any, rhs: Any) -> Any:
    """The short name of `T.ceildiv`."""
    return ceildiv(lhs, rhs)
