"""Single instructions of tensor cores and of asynchronous copies, for code that deals with threads.

A warp of 32 threads executes them together; registers are arrays of `T.alloc_local`.
"""

from __future__ import annotations

from typing import Any

from tilelang.language.values import OutsideKernelError


def ptx_ldmatrix(trans: bool, num: int, src_access_ptr: Any, dst_access_ptr: Any) -> None:
    """Matrices of 8 by 8 16-bit elements from shared memory into the registers of a warp.

    trans: each matrix is turned over on the way. num: 1, 2 or 4 matrices. src_access_ptr: the address of the
    row that this thread names (`T.access_ptr(tile[row, column], "r")`): lane 8 i + r that of row r of matrix
    i, aligned to 16 bytes. dst_access_ptr: where this thread's `num` registers of 32 bits go. PTX ISA
    9.7.15.5.15.
    """
    raise OutsideKernelError("ptx_ldmatrix")


def ptx_mma(
    dtype: Any,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: str,
    B_dtype: str,
    C_dtype: str,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
    saturate: bool = False,
    operator: Any = None,
) -> None:
    """C += A · B by one `mma.sync` on a warp.

    dtype: of the result, for compatibility. shape: such as "m16n8k16". A_layout, B_layout: "row" and "col",
    the only ones there are. A_dtype, B_dtype, C_dtype: "fp16", "bf16", "tf32", "int8", "uint8", "e4m3",
    "e5m2", "fp64", or the language's names. multiplicand_a, multiplicand_b, accumulator: arrays of registers
    (`A.data`), each with the number of the first element. PTX ISA 9.7.15.5.14.
    """
    raise OutsideKernelError("ptx_mma")


def ptx_mma_sp(
    dtype: Any,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: str,
    B_dtype: str,
    C_dtype: str,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
    metadata: Any,
    meta_index: Any,
    sparse_selector: int,
    saturate: bool = False,
) -> None:
    """C += A · B by one `mma.sp` on a warp, A without the zeros of its 2:4 pattern.

    As `T.ptx_mma`, with shapes such as "m16n8k32", whose K counts the zeros. metadata, meta_index: an array
    of registers (`E.data`) and the first element of the 32 bits that say where the elements of A stand.
    sparse_selector: which lanes of every four say it: 0 or 1 pairs of them, 0 to 3 single ones for the
    smaller of two shapes, 0 for 8-bit operands, where all four do. PTX ISA 9.7.15.6.
    """
    raise OutsideKernelError("ptx_mma_sp")


def ptx_cp_async(dst_access_ptr: Any, src_access_ptr: Any, num_elems: int, predicate: Any = None) -> None:
    """Copy `num_elems` elements from global to shared memory past the registers (cp.async).

    dst_access_ptr, src_access_ptr: addresses aligned to what is copied, which is 4, 8 or 16 bytes. predicate:
    where it is false zeros are written and nothing is read. `T.ptx_commit_group` and `T.ptx_wait_group` wait
    for it. PTX ISA 9.7.9.25.
    """
    raise OutsideKernelError("ptx_cp_async")
