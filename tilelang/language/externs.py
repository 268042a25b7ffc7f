"""Foreign code in a kernel: functions and sources of the target's language, and addresses to hand to them."""

from __future__ import annotations

from typing import Any

from tilelang.language.dtypes import DTypeLike
from tilelang.language.values import OutsideKernelError, Scalar, Tile


def import_source(source: str | None = None) -> None:
    """Put `source`, text of the target's language, before the kernel: device functions that it then calls by
    `T.call_extern`. The same as `prelude=` of T.Kernel; not on the CPU.
    """
    raise OutsideKernelError("import_source")


def call_extern(dtype: Any, func_name: str, *args: Any) -> Scalar:
    """Call a function of the target's language: `T.call_extern("float32", "my_exp", x)`.

    dtype: of the result, "handle" or "void" for none. args: numbers are passed by value, whole buffers and
    `T.address_of(A[i, j])` as pointers to which the function may write.
    """
    raise OutsideKernelError("call_extern")


def call_pure_extern(dtype: Any, func_name: str, *args: Any) -> Scalar:
    """The same for a function without effects: its result depends on its arguments alone."""
    raise OutsideKernelError("call_pure_extern")


def call_intrin(dtype: Any, func_name: str, *args: Any) -> Scalar:
    """A scalar function of the compiler by its name: `T.call_intrin("float32", "tir.exp2", x)`."""
    raise OutsideKernelError("call_intrin")


def address_of(obj: Any) -> Any:
    """The address of an element, `T.address_of(A[i, j])`, or of a buffer's first one, for T.call_extern."""
    raise OutsideKernelError("address_of")


def access_ptr(
    base: Any,
    access_type: str | int = "r",
    *extents: Any,
    offset: Any = 0,
    extent: Any = None,
    ignore_last_ndim: int = 0,
) -> Any:
    """The address of the element at which `base` (a buffer or a part of it) starts, `offset` elements on.

    access_type: "r", "w" or "rw": what the function does with it. extents, extent, ignore_last_ndim: how much
    it touches; accepted, the whole buffer is assumed.
    """
    raise OutsideKernelError("access_ptr")


class ptr:
    """Annotation of a pointer argument: `A: T.ptr(T.float16)`, or just `T.ptr`; `T.make_tensor` makes a
    tensor of it. The caller passes a tensor or an address; nothing but its device is checked.
    """

    def __init__(
        self, dtype: DTypeLike | None = None, storage_scope: str = "global", *, is_size_var: bool = False
    ) -> None:
        self.dtype, self.storage_scope = dtype, storage_scope


Ptr = handle = ptr  # other names of the same annotation


def make_tensor(ptr: Any, shape: Any, dtype: DTypeLike = "float32", strides: Any = None) -> Tile:
    """The memory behind a pointer argument, or behind an element of a `T.Tensor(n, T.ptr)`, as a tensor in
    global memory.

    shape, strides: numbers and sizes, also scalar arguments; strides count elements, row-major if not given.
    The author vouches that the memory is there.
    """
    raise OutsideKernelError("make_tensor")


def make_tensor_from_addr(addr: Any, shape: Any, dtype: DTypeLike = "float32", strides: Any = None) -> Tile:
    """The memory at an address, a number of 64 bits as a table of pointers holds them, as a tensor in global
    memory: `T.make_tensor_from_addr(table[bx], (M, N), T.float16)`.

    shape, strides: as of `T.make_tensor`. The author vouches that the memory is there and begins at a
    multiple of 16 bytes.
    """
    raise OutsideKernelError("make_tensor_from_addr")
