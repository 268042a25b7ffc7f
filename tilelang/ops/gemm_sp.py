"""T.gemm_sp: what its operands hold and which sizes fit. The statements it stands for are written by
`frontend.sparse_gemm`, a loop that writes A out and a T.gemm: rules and targets see these.

Format, that of mma.sp (PTX ISA 9.7.15.6, "Multiply-and-Accumulate Instruction: mma.sp"): of 4 neighbours
along K two are stored, and 4 bits say which: the position of the first, then of the second, 2 bits each, the
lowest bits first. Of 32-bit elements one in 2 is stored, and its 4 bits count in halves of an element: 0b0100
or 0b1110. An element of E holds the 4 bits of as many neighbouring groups as fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.arch.dtypes import dtype_info
from tilelang.ir.values import Region, show

from tvm import tirx as X  # isort: skip

_CODE_BITS = 4  # of one group in E


@dataclass(frozen=True)
class Mistake:
    """An operand that T.gemm_sp cannot take: its name (None: two do not go together), and what is wrong."""

    operand: str | None
    text: str


def wrong_tile(a: Region, e: Region) -> Mistake | None:
    """What is wrong with scope, rank or dtype of A_sparse and E."""
    for name, region in (("A_sparse", a), ("E", e)):
        if region.buffer.scope != "shared" or len(region.extents) != 2:
            where = "must be a tile of two dimensions in shared memory"
            return Mistake(name, f"`{name}` {where}; {region.buffer.name} is none")
    stored, codes = dtype_info(str(a.buffer.dtype)), dtype_info(str(e.buffer.dtype))
    if stored.bits not in (8, 16, 32) or not codes.is_integer or codes.bits < 8:
        said = "stores elements of 8, 16 or 32 bits and E as integers"
        return Mistake(None, f"{said}, not {a.buffer.dtype} with {e.buffer.dtype}")
    return None


def dense_sizes(
    a: Region, e: Region, shape: Sequence[int], a_turned: bool, e_turned: bool
) -> tuple[int, int] | Mistake:
    """(M, K) of the dense A; `shape`: the extents of A_sparse as stored, then those of E."""
    rows, stored, e_rows, e_columns = shape
    if a_turned:
        rows, stored = stored, rows
    if e_turned:
        e_rows, e_columns = e_columns, e_rows
    size, dtype, width = 2 * stored, str(a.buffer.dtype), dtype_info(str(e.buffer.dtype)).bits
    wanted = size // group(dtype) * _CODE_BITS
    if e_rows == rows and e_columns * width == wanted:
        return rows, size
    return Mistake(
        "E",
        f"{e.buffer.name} must be ({rows}, {show(wanted // width)}) {e.buffer.dtype}: 4 bits for each "
        f"{group(dtype)} of the {size} elements of a row of A, not ({e_rows}, {e_columns})",
    )


def group(dtype: str) -> int:
    """How many neighbours along K share one code."""
    return 2 if dtype_info(dtype).bits == 32 else 4


def groups_coded(dtype: str) -> int:
    """How many groups one element of E, of `dtype`, codes."""
    return dtype_info(dtype).bits // _CODE_BITS


def code_of(codes: Any, number: Any, dtype: str) -> Any:
    """The code (and what stands above it) of the group `number` along K in an element of E, as uint32."""
    shift = X.Cast("uint32", X.floormod(number, groups_coded(dtype)) * _CODE_BITS)
    return X.shift_right(codes, shift)


def position(code: Any, number: int, dtype: str) -> Any:
    """Where in its group the stored element `number` of it stands, an int32."""
    size = group(dtype)
    low = 2 * number if size == 4 else 1  # of a 32-bit element the upper bit of its first half counts
    found = X.shift_right(code, X.const(low, "uint32"))
    return X.Cast("int32", X.bitwise_and(found, X.const(3 if size == 4 else 1, "uint32")))
