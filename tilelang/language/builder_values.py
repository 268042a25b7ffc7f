"""More names of TVM's own script: vectors of indices, variables with a value of their own, opaque blocks.

Each means what the language writes in another way; the documentation says how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.language.dtypes import DTypeLike
from tilelang.language.values import OutsideKernelError, Scalar, Tile


def Ramp(base: Any, stride: int, lanes: int) -> Scalar:
    """The vector of `base + k * stride` for k below `lanes`: `A[T.Ramp(i, 1, 4)]` is `A[i:i + 4]`."""
    raise OutsideKernelError("Ramp")


def ramp(base: Any, stride: int, lanes: int) -> Scalar:
    """The same as `T.Ramp`."""
    raise OutsideKernelError("ramp")


def Range(begin: Any, end: Any) -> Any:
    """The numbers from `begin` up to but not including `end`, as `.min` and `.extent`."""
    raise OutsideKernelError("Range")


def var(dtype: DTypeLike, name: str = "") -> Scalar:
    """A variable that `T.let` or `T.Let` gives its value."""
    raise OutsideKernelError("var")


def Let(expr: Any, where: Mapping[Any, Any]) -> Scalar:
    """`expr`, with the variables of `where` (from `T.var`) having the values given there, evaluated once."""
    raise OutsideKernelError("Let")


def let(v: Any, value: Any, body: Any = None) -> Scalar:
    """`T.Let(body, {v: value})`; without `body` the variable has that value from here on, and is returned."""
    raise OutsideKernelError("let")


def Call(dtype: DTypeLike, op: str, args: Sequence[Any], annotations: Any = None) -> Scalar:
    """A call of one of TVM's operators by its name, `T.call_intrin(dtype, op, *args)`. annotations: none."""
    raise OutsideKernelError("Call")


def isnullptr(x: Any) -> bool:
    """Whether an address (`A.data`) is null: never, since a kernel that uses a tensor is not launched
    without it.
    """
    raise OutsideKernelError("isnullptr")


def sblock(name: str = "", no_realize: bool = False) -> Any:
    """`with T.sblock("name"):` the body, under a name that means nothing here. Blocks with axes of their own
    (T.axis) are TVM's schedules, and no part of the language.
    """
    raise OutsideKernelError("sblock")


def reads(*buffer_slices: Any) -> None:
    """What a block reads; the compiler sees it."""
    raise OutsideKernelError("reads")


def writes(*buffer_slices: Any) -> None:
    """What a block writes; the compiler sees it."""
    raise OutsideKernelError("writes")


def sblock_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of a block in TVM's script; accepted, none of them changes a kernel's meaning."""
    raise OutsideKernelError("sblock_attr")


def env_thread(thread_tag: str, dtype: str = "int32") -> Any:
    """The number that `T.launch_thread(it, extent)` launches: "blockIdx.x" to "threadIdx.z"."""
    raise OutsideKernelError("env_thread")


def launch_thread(thread: Any, extent: Any) -> Any:
    """`with T.launch_thread("blockIdx.x", n) as bx:` one dimension of a launch; `T.Kernel` names all of them.

    thread: a name, or what `T.env_thread` gave. The dimensions of the threads stand inside those of the
    blocks, before anything else. As a statement: for the rest of the function.
    """
    raise OutsideKernelError("launch_thread")


def mma_fill(dtype: DTypeLike, local_size: int, local_ptr: Any, offset: Any) -> None:
    """Zeros in `local_size` registers of an array (`C.data`) from `offset` on."""
    raise OutsideKernelError("mma_fill")


def mma_store(
    dtype: DTypeLike, m: int, n: int, dst_ptr: Any, src_ptr: Any, src_offset: Any, dst_stride: Any
) -> None:
    """The accumulators of m16n8k16, twice side by side, from the registers of a warp to rows in memory.

    m, n: 16. dst_ptr: where the first row begins (`T.access_ptr(C[i, j], "w")`), `dst_stride` elements from
    one row to the next. src_ptr, src_offset: an array (`C.data`) and its first register; 8 are stored.
    PTX ISA 9.7.15.5.
    """
    raise OutsideKernelError("mma_store")


def buffer(
    shape: Any,
    dtype: DTypeLike = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> Tile:
    """The same as `T.decl_buffer`."""
    raise OutsideKernelError("buffer")


def buffer_decl(
    shape: Any,
    dtype: DTypeLike = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> Tile:
    """The same as `T.decl_buffer`."""
    raise OutsideKernelError("buffer_decl")
