"""Memory of a block: tiles shared by its threads, tiles spread over them, and variables of each thread."""

from __future__ import annotations

from typing import Any

from tilelang.language.dtypes import DTypeLike
from tilelang.language.values import OutsideKernelError, Tile


def alloc_shared(shape: Any, dtype: DTypeLike, scope: str = "shared.dyn") -> Tile:
    """A tile in shared memory, seen by all threads of the block; a pipelined loop keeps several versions of
    it.

    scope: "shared.dyn" or "shared". Contents are undefined until written.
    """
    raise OutsideKernelError("alloc_shared")


def alloc_fragment(shape: Any, dtype: DTypeLike, scope: str = "local.fragment") -> Tile:
    """A tile in registers, spread over the threads of the block by a layout that the compiler infers.

    shape: compile-time numbers. Elements are reached in `T.Parallel` loops and by tile operations.
    """
    raise OutsideKernelError("alloc_fragment")


def alloc_local(shape: Any, dtype: DTypeLike, scope: str = "local") -> Tile:
    """An array private to each thread. It must not be indexed by a `T.Parallel` variable; use a fragment
    for that.
    """
    raise OutsideKernelError("alloc_local")


def alloc_var(dtype: DTypeLike, *args: Any, scope: str = "local.var", init: Any = None) -> Any:
    """A scalar variable that may change: `n = T.alloc_var(T.int32, init=0)`, then plain `n = n + 1`.

    args: the initial value and the scope by position, `(dtype, init)`, `(dtype, scope)` or `(dtype, init,
    scope)`. Zero if no initial value is given.
    """
    raise OutsideKernelError("alloc_var")


def alloc_global(shape: Any, dtype: DTypeLike, scope: str = "global") -> Tile:
    """A workspace in global memory, the same for all blocks; every call of the kernel has its own.

    Contents are undefined until written. It is no argument of the kernel and is not returned.
    """
    raise OutsideKernelError("alloc_global")
