"""What helpers of kernels ask about a tensor or tile, or about a part of one: scope, shape, strides, dtype.

They are read inside kernels like any function of the author's: the compiler interprets their source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilelang.arch.dtypes import element_bits

_SHARED = ("shared", "shared.dyn")


def _whole(part: Any) -> Any:
    """The tensor or tile that a subscript is a part of."""
    return part.buffer if hasattr(part, "buffer") else part


def is_global(buffer: Any) -> bool:
    """Whether it is a tensor in global memory."""
    return _whole(buffer).scope() == "global"


def is_shared(buffer: Any, allow_dynamic: bool = True) -> bool:
    """Whether it is a tile in shared memory; allow_dynamic: also in the arena whose size a launch chooses."""
    scope = _whole(buffer).scope()
    return scope in _SHARED if allow_dynamic else scope == "shared"


def is_shared_dynamic(buffer: Any) -> bool:
    """Whether it is a tile in the shared arena whose size a launch chooses, as of `T.alloc_shared`."""
    return _whole(buffer).scope() == "shared.dyn"


def is_fragment(buffer: Any) -> bool:
    """Whether it is a tile in the registers of the block."""
    return _whole(buffer).scope() == "local.fragment"


def is_local(buffer: Any) -> bool:
    """Whether it is a private array of each thread."""
    return _whole(buffer).scope() == "local"


def is_local_var(buffer: Any) -> bool:
    """Whether it is a variable of `T.alloc_var`."""
    return _whole(buffer).scope() == "local.var"


def is_reducer(buffer: Any) -> bool:
    """Whether it is a reducer of `T.alloc_reducer`."""
    return _whole(buffer).scope() == "local.reducer"


def is_tensor_memory(buffer: Any) -> bool:
    """Whether it is a tile in the tensor memory of Blackwell, which this package does not allocate."""
    return _whole(buffer).scope() == "shared.tmem"


def prim_expr_equal(lhs: Any, rhs: Any) -> bool:
    """Whether two extents are the same number, or expressions that read the same."""
    if lhs is rhs:
        return True
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs == rhs
    return str(lhs) == str(rhs)


def is_full_region(buffer_region: Any) -> bool:
    """Whether a part of a tensor or tile is all of it."""
    part, whole = retrieve_shape(buffer_region), retrieve_shape(_whole(buffer_region))
    return len(part) == len(whole) and all(prim_expr_equal(a, b) for a, b in zip(part, whole, strict=True))


def legalize_pairwise_extents(src_extents: list[Any], dst_extents: list[Any]) -> tuple[list[Any], list[Any]]:
    """The extents of both sides of a copy as they are compared: by their last dimensions. None is changed."""
    return list(src_extents), list(dst_extents)


def retrieve_shape(obj: Any) -> list[Any]:
    """The extents of a tensor or tile, or of a slice of one; one of `A[i, j]`, an element, are ones."""
    return list(obj.shape)


def retrieve_stride(obj: Any) -> list[Any]:
    """Elements from one index to the next along each dimension of the tensor or tile."""
    buffer = _whole(obj)
    if buffer.strides:
        return list(buffer.strides)
    shape = list(buffer.shape)
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def get_buffer_region_from_load(buffer_load: Any, extents: Sequence[Any] | None = None) -> Any:
    """The region of tvm that a load of tvm begins at, of these extents; without them the region of a load of
    neighbours (a Ramp), and None for a load of one element.
    """
    from tvm import ir
    from tvm import tirx as X

    indices = list(buffer_load.indices)
    if extents is not None:
        ranges = [ir.Range.from_min_extent(i, n) for i, n in zip(indices, extents, strict=True)]
    elif any(isinstance(i, X.Ramp) for i in indices):
        ranges = [
            ir.Range.from_min_extent(i.base, i.lanes)
            if isinstance(i, X.Ramp)
            else ir.Range.from_min_extent(i, 1)
            for i in indices
        ]
    else:
        return None
    return X.BufferRegion(buffer_load.source, ranges)


def retrieve_dtype(obj: Any) -> Any:
    """The dtype of the elements."""
    return obj.dtype


def bits_product(shape: Sequence[Any], dtype: Any) -> Any:
    """Bits of a tensor of that shape and dtype."""
    return math.prod(shape) * element_bits(dtype)


def array_reduce(array: Sequence[int]) -> int:
    """The product of some numbers."""
    return math.prod(array)


def get_buffer_elems(buffer: Any) -> int:
    """How many elements a tensor or tile has."""
    return math.prod(buffer.shape)


def get_prim_func_name(func: Any, default: str | None = None) -> str | None:
    """The name of a tile function; `default` where there is none."""
    if func is None or not func.attrs or "global_symbol" not in func.attrs:
        return default
    return str(func.attrs["global_symbol"])


def retrieve_func_from_module(ir_module: Any) -> Any:
    """The one function of a module of tvm. Raises ValueError for another number of them."""
    functions = list(ir_module.functions.values())
    if len(functions) != 1:
        raise ValueError(f"a module with one function is expected, this one has {len(functions)}")
    return functions[0]
