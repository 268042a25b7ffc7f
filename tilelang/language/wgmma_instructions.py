"""Single `wgmma` instructions and the descriptors of their tiles in shared memory, for sm_90a.

The 128 threads of a warp group execute them together. `T.warpgroup_arrive()` stands before products,
`T.warpgroup_commit_batch()` makes a group of them, `T.warpgroup_wait(n)` waits for all but the newest n.
PTX ISA 9.7.16.5.
"""

from __future__ import annotations

from typing import Any, Literal

from tilelang.language.values import OutsideKernelError, Tile


def alloc_descriptor(kind: Literal["wgmma", "tcgen05", "utcmma"] = "wgmma", dtype: Any = "uint64") -> Tile:
    """A variable for the descriptor of a tile. kind: "wgmma"; the others are of sm_100 and not supported."""
    raise OutsideKernelError("alloc_descriptor")


def alloc_wgmma_desc(dtype: Any = "uint64") -> Tile:
    """A variable for the descriptor of a tile that `T.ptx_wgmma_ss` and `T.ptx_wgmma_rs` read."""
    raise OutsideKernelError("alloc_wgmma_desc")


def initialize_wgmma_descriptor(
    descriptor: Any,
    start_address: Any,
    layout_type_: int = 0,
    leading_byte_offset: int = 0,
    stride_byte_offset: int = 0,
) -> None:
    """Describe the tile in shared memory that begins at `start_address` (`T.access_ptr(tile[0, 0], "r")`).

    layout_type_: 0 without swizzle, 1, 2 and 3 for one of 128, 64 and 32 bytes. leading_byte_offset,
    stride_byte_offset: in units of 16 bytes, 0 to 16383; of a tile whose rows along K are swizzled, eight
    rows follow each other after the stride.
    """
    raise OutsideKernelError("initialize_wgmma_descriptor")


def increase_descriptor_offset(descriptor: Any, offset: Any) -> None:
    """Move the beginning of a described tile by `offset` bytes, a multiple of 16."""
    raise OutsideKernelError("increase_descriptor_offset")


def ptx_wgmma_ss(
    dtype: Any,
    wgmma_prefix: str,
    a_is_k_major: bool,
    b_is_k_major: bool,
    a_dtype_abbrv: str,
    b_dtype_abbrv: str,
    accum_dtype_abbrv: str,
    A_desc: Any,
    A_offset: Any,
    B_desc: Any,
    B_offset: Any,
    C_data: Any,
    C_offset: Any,
    scale_out: Any,
    scale_in_a: bool,
    scale_in_b: bool,
) -> None:
    """C += A · B by one wgmma, A and B in shared memory.

    dtype: of the result, for compatibility. wgmma_prefix: such as "m64n128k16". a_is_k_major, b_is_k_major:
    whether K is the contiguous dimension, as it must be for operands of other than 16 bits. The dtypes are
    "fp16", "bf16", "tf32", "e4m3", "e5m2", "int8", "uint8" or the language's names. A_desc, B_desc:
    descriptors (`desc.data`), moved by A_offset and B_offset units of 16 bytes. C_data, C_offset: the array
    of registers (`C.data`) and the number of its first element. scale_out: 0 overwrites C. scale_in_a,
    scale_in_b: False takes the operand's negative.
    """
    raise OutsideKernelError("ptx_wgmma_ss")


def ptx_wgmma_rs(
    dtype: Any,
    wgmma_prefix: str,
    b_is_k_major: bool,
    a_dtype_abbrv: str,
    b_dtype_abbrv: str,
    accum_dtype_abbrv: str,
    A_buf: Any,
    A_offset: Any,
    B_desc: Any,
    B_offset: Any,
    C_data: Any,
    C_offset: Any,
    scale_out: Any,
    scale_in_a: bool,
    scale_in_b: bool,
) -> None:
    """`T.ptx_wgmma_ss` with A in four registers of each thread, from element A_offset of an array on."""
    raise OutsideKernelError("ptx_wgmma_rs")


def ptx_wgmma_sp_ss(
    dtype: Any,
    wgmma_prefix: str,
    a_is_k_major: bool,
    b_is_k_major: bool,
    a_dtype_abbrv: str,
    b_dtype_abbrv: str,
    accum_dtype_abbrv: str,
    A_desc: Any,
    A_offset: Any,
    E_data: Any,
    E_offset: Any,
    sparse_selector: int,
    B_desc: Any,
    B_offset: Any,
    C_data: Any,
    C_offset: Any,
    scale_out: Any,
    scale_in_a: bool,
    scale_in_b: bool,
) -> None:
    """`T.ptx_wgmma_ss` with an A that is stored without the zeros of its 2:4 pattern.

    wgmma_prefix: such as "m64n128k32", twice as deep as for a dense A. E_data, E_offset: an array of
    registers (`E.data`) and the first element of the 32 bits that say where the elements of A stand.
    sparse_selector: which pair of every four lanes says it, 0 or 1; 0 for 8-bit operands. PTX ISA 9.7.16.6.
    """
    raise OutsideKernelError("ptx_wgmma_sp_ss")


def ptx_wgmma_sp_rs(
    dtype: Any,
    wgmma_prefix: str,
    b_is_k_major: bool,
    a_dtype_abbrv: str,
    b_dtype_abbrv: str,
    accum_dtype_abbrv: str,
    A_buf: Any,
    A_offset: Any,
    E_buf: Any,
    E_offset: Any,
    sparse_selector: int,
    B_desc: Any,
    B_offset: Any,
    C_data: Any,
    C_offset: Any,
    scale_out: Any,
    scale_in_a: bool,
    scale_in_b: bool,
) -> None:
    """`T.ptx_wgmma_sp_ss` with A in four registers of each thread, from element A_offset of an array on."""
    raise OutsideKernelError("ptx_wgmma_sp_rs")
