"""Products of operands whose tiles were rearranged beforehand, for loads without conflicts.

The emitter is kernel code itself, as those of `emitters.py` are.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from tilelang.arch.dtypes import element_bits
from tilelang.language.emitters import TensorCoreIntrinEmitter
from tilelang.language.externs import access_ptr
from tilelang.language.functions import meta_class
from tilelang.language.loops import unroll
from tilelang.language.matrix_instructions import ptx_ldmatrix

_CHUNK = 128  # bits of a row of a matrix that ldmatrix moves


class TransformKind(IntEnum):
    """How an operand lies: `TensorCoreIntrinEmitterWithLadderTransform` says what each means."""

    NonTransform = 0
    InterWarpTransform = 1
    IntraWarpTransform = 2
    LDMatrixTransform = 3


@meta_class
class TensorCoreIntrinEmitterWithLadderTransform(TensorCoreIntrinEmitter):
    """`TensorCoreIntrinEmitter` with two more arguments, for operands rearranged beforehand.

    transform_kind_a, transform_kind_b: 0, the operand lies as it is. Else it is (tiles along M or N, tiles
    along K, 16, micro_size_k), K innermost: 1, each tile in one piece, row by row; 2, its rows of 16 bytes in
    the order in which lanes 0 to 31 name them to `ldmatrix`; 3, what each lane holds in its registers, one
    lane after the other. Raises ValueError for tiles that cannot be rearranged so.
    """

    def __init__(
        self,
        a_dtype: Any = "float16",
        b_dtype: Any = "float16",
        accum_dtype: Any = "float16",
        a_transposed: bool = False,
        b_transposed: bool = False,
        block_row_warps: int = 2,
        block_col_warps: int = 2,
        warp_row_tiles: int = 8,
        warp_col_tiles: int = 8,
        chunk: int = 16,
        reduce_k: int = 1,
        num_elems_per_byte: int = 1,
        is_m_first: bool | None = False,
        transform_kind_a: int = 0,
        transform_kind_b: int = 0,
        thread_var: Any = None,
    ) -> None:
        super().__init__(
            a_dtype,
            b_dtype,
            accum_dtype,
            a_transposed,
            b_transposed,
            block_row_warps,
            block_col_warps,
            warp_row_tiles,
            warp_col_tiles,
            chunk,
            reduce_k,
            num_elems_per_byte,
            is_m_first,
            thread_var,
        )
        self.transform_kind_a, self.transform_kind_b = int(transform_kind_a), int(transform_kind_b)
        for name, kind, inner, dtype in (
            ("a", self.transform_kind_a, not a_transposed, a_dtype),
            ("b", self.transform_kind_b, b_transposed, b_dtype),
        ):
            if kind not in (0, 1, 2, 3):
                raise ValueError(f"transform_kind_{name} is 0, 1, 2 or 3, not {kind}")
            if kind and (not inner or element_bits(dtype) == 64 or (name == "b" and self.n_dim != 16)):
                raise ValueError(
                    f"transform_kind_{name}={kind} rearranges tiles of 16 rows with K innermost, of elements "
                    "of 32 bits at most"
                )

    def ldmatrix_a(self, A_local_buf: Any, A_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Step `ki` of A into registers."""
        if self.transform_kind_a == 0:
            super().ldmatrix_a(A_local_buf, A_shared_buf, ki, rk)
            return
        lane, _, warp_m = self.extract_thread_binding(self.get_thread_binding())
        step = rk * (self.chunk // self.micro_size_k) + ki
        for i in unroll(self.warp_rows):
            tile, at = warp_m * self.warp_rows + i, i * self.local_size_a
            self._load_tile(A_local_buf, at, A_shared_buf, tile, step, lane, self.transform_kind_a, True)

    def ldmatrix_b(self, B_local_buf: Any, B_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Step `ki` of B into registers."""
        if self.transform_kind_b == 0:
            super().ldmatrix_b(B_local_buf, B_shared_buf, ki, rk)
            return
        lane, warp_n, _ = self.extract_thread_binding(self.get_thread_binding())
        step = rk * (self.chunk // self.micro_size_k) + ki
        for j in unroll(self.warp_cols):
            tile, at = warp_n * self.warp_cols + j, j * self.local_size_b
            self._load_tile(B_local_buf, at, B_shared_buf, tile, step, lane, self.transform_kind_b, False)

    def _load_tile(
        self, registers: Any, at: Any, shared: Any, tile: Any, step: Any, lane: Any, kind: int, of_a: bool
    ) -> None:
        """Tile `tile` of M or N at step `step` of K into registers from `at` on."""
        wide = _CHUNK // (self._a_bits if of_a else self._b_bits)
        row = self.micro_size_k
        if kind == 3:
            size = self.local_size_a if of_a else self.local_size_b
            for e in unroll(size):
                place = lane * size + e
                registers[at + e] = shared[tile, step, place // row, place % row]
            return
        if kind == 2:
            source = access_ptr(shared[tile, step, lane * wide // row, lane * wide % row], "r")
        elif of_a:
            source = access_ptr(shared[tile, step, lane % 16, lane // 16 * wide], "r")
        else:
            source = access_ptr(shared[tile, step, lane // 16 * 8 + lane % 8, lane // 8 % 2 * wide], "r")
        ptx_ldmatrix(False, 4, source, access_ptr(registers[at], "w"))
