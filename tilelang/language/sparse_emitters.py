"""Products of a 2:4 sparse A by hand: which elements and metadata lanes hold, and the instructions for them.

The emitters are kernel code itself, as those of `emitters.py` are.
"""

from __future__ import annotations

from typing import Any

from tilelang.arch.dtypes import element_bits
from tilelang.language.emitters import TensorCoreIntrinEmitter
from tilelang.language.externs import access_ptr
from tilelang.language.functions import meta_class
from tilelang.language.layout_objects import Fragment
from tilelang.language.loops import unroll
from tilelang.language.matrix_instructions import ptx_ldmatrix, ptx_mma_sp
from tilelang.language.tile_ops import wait_wgmma, wgmma_gemm_sp

_WARP = 32
_REGISTER = 32  # bits


@meta_class
class SparseTensorCoreIntrinEmitter(TensorCoreIntrinEmitter):
    """Products by `mma.sp` of tiles in shared memory, A without the zeros of its 2:4 pattern.

    As `T.TensorCoreIntrinEmitter`, with the dtype of E after that of A, e_transposed (E lies as (..., M))
    after b_transposed, and warp_k, the depth K of the dense tiles. `T.gemm_sp` says what A and E hold.
    Registers: `warp_rows * local_size_e` elements of E; A has half as many as B for a column. Raises
    ValueError for a dtype of E of which no whole number fills the bits that a lane takes of a row.
    """

    SPARSE_FACTOR = 2
    SPARSE_SELECTOR = 0
    _fours_of_b = 4

    def __init__(
        self,
        a_dtype: Any = "float16",
        e_dtype: Any = "uint8",
        b_dtype: Any = "float16",
        accum_dtype: Any = "float16",
        a_transposed: bool = False,
        b_transposed: bool = False,
        e_transposed: bool = False,
        block_row_warps: int = 2,
        block_col_warps: int = 2,
        warp_row_tiles: int = 8,
        warp_col_tiles: int = 8,
        warp_k: int = 16,
        reduce_k: int = 1,
        num_elems_per_byte: int = 1,
        is_m_first: bool | None = False,
        thread_var: Any = None,
    ) -> None:
        bits, held = element_bits(a_dtype), element_bits(e_dtype)
        if bits not in (8, 16, 32) or held > (_REGISTER if bits == 8 else _REGISTER // 2):
            raise ValueError(f"E of {e_dtype} does not go with an A of {a_dtype}")
        self.e_dtype, self.e_transposed, self.warp_k = e_dtype, e_transposed, warp_k
        self.e_factor = held // 4 * (2 if bits == 32 else 4)  # elements of a dense row for one of E
        self.local_size_e = _REGISTER // held
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
            warp_k,
            reduce_k,
            num_elems_per_byte,
            is_m_first,
            thread_var,
        )

    def _choose_instructions(self) -> None:
        """Instructions twice as deep as those of a dense A."""
        self.k_dim = self.micro_size_k = 2 * self.k_dim
        self.local_size_b = self.n_dim * self.k_dim // _WARP
        self.mma_prefix = f"m16n8k{self.k_dim}"

    def ldmatrix_a(self, A_local_buf: Any, A_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Step `ki` of the stored half of A into registers."""
        lane, _, warp_m = self.extract_thread_binding(self.get_thread_binding())
        depth = rk * (self.warp_k // 2) + ki * (self.micro_size_k // 2)
        for i in unroll(self.warp_rows):
            first = warp_m * self.warp_row_tiles + i * self.micro_size_x
            self._load(A_local_buf, i * self.local_size_a, A_shared_buf, first, depth, lane, True)

    def ldmatrix_e(self, E_local_buf: Any, E_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """The 32 bits of metadata of each lane for step `ki` into registers (PTX ISA 9.7.15.6.1).

        Lane 4 g + t: half t % 2 of the depth for row g, then for row g + 8; of 8-bit elements half t // 2 of
        the depth for row g + 8 (t % 2).
        """
        lane, _, warp_m = self.extract_thread_binding(self.get_thread_binding())
        step = (rk * self.warp_k + ki * self.micro_size_k) // self.e_factor
        half = self.micro_size_k // self.e_factor // 2
        for i in unroll(self.warp_rows):
            first = warp_m * self.warp_row_tiles + i * self.micro_size_x + lane // 4
            for j in unroll(self.local_size_e):
                if self._a_bits == 8:
                    row, column = first + lane % 2 * 8, step + lane % 4 // 2 * half + j
                else:
                    row, column = first + j // half * 8, step + lane % 2 * half + j % half
                value = E_shared_buf[column, row] if self.e_transposed else E_shared_buf[row, column]
                E_local_buf[i * self.local_size_e + j] = value

    def ldmatrix_b(self, B_local_buf: Any, B_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Step `ki` of B into registers, 8 columns at a time: four matrices are the quarters of K."""
        lane, warp_n, _ = self.extract_thread_binding(self.get_thread_binding())
        depth, bits = rk * self.warp_k + ki * self.micro_size_k, self._b_bits
        eight = self.k_dim * 8 // _WARP
        for j in unroll(self.warp_cols):
            for half in unroll(self.n_dim // 8):
                first = warp_n * self.warp_col_tiles + j * self.micro_size_y + half * 8
                at = j * self.local_size_b + half * eight
                if self.b_transposed:
                    source = access_ptr(
                        B_shared_buf[first + lane % 8, depth + lane // 8 * (128 // bits)], "r"
                    )
                    ptx_ldmatrix(False, 4, source, access_ptr(B_local_buf[at], "w"))
                elif bits == 16:
                    source = access_ptr(B_shared_buf[depth + lane, first], "r")
                    ptx_ldmatrix(True, 4, source, access_ptr(B_local_buf[at], "w"))
                else:
                    per = _REGISTER // bits
                    for e in unroll(eight):
                        column = depth + lane % 4 * per + e % per + e // per * 4 * per
                        B_local_buf[at + e] = B_shared_buf[column, first + lane // 4]

    def mma_sp(
        self, A_local_buf: Any, E_local_buf: Any, B_local_buf: Any, C_local_buf: Any, k_inner: Any = 0
    ) -> None:
        """C += A · B for the step that is in the registers. k_inner: which step of those that fragments hold;
        an array of `T.alloc_local` holds one.
        """
        eight = self.k_dim * 8 // _WARP
        step_a = k_inner if A_local_buf.scope() == "local.fragment" else 0
        step_b = k_inner if B_local_buf.scope() == "local.fragment" else 0
        for i in unroll(self.warp_rows):
            for j in unroll(self.warp_cols):
                for half in unroll(self.n_dim // 8):
                    ptx_mma_sp(
                        self.accum_dtype,
                        self.mma_prefix,
                        "row",
                        "col",
                        self.a_dtype,
                        self.b_dtype,
                        self.accum_dtype,
                        A_local_buf.data,
                        (step_a * self.warp_rows + i) * self.local_size_a,
                        B_local_buf.data,
                        (step_b * self.warp_cols + j) * self.local_size_b + half * eight,
                        C_local_buf.data,
                        (i * self.warp_cols + j) * self.local_size_out + half * 4,
                        E_local_buf.data,
                        i * self.local_size_e,
                        self.SPARSE_SELECTOR,
                        False,
                    )


@meta_class
class WGSparseTensorCoreIntrinEmitter(SparseTensorCoreIntrinEmitter):
    """Products by sparse `wgmma`: `block_row_warps` is a multiple of the four warps that multiply together.

    Raises ValueError for rows of warps that are no whole groups.
    """

    def _choose_instructions(self) -> None:
        super()._choose_instructions()
        if self.block_row_warps % 4:
            raise ValueError(
                f"wgmma multiplies with groups of 4 warps; {self.block_row_warps} along M are not whole"
            )
        self.wgmma_inst_m = 64
        self.wgmma_inst_n = max(n for n in range(8, 257, 8) if self.warp_col_tiles % n == 0)
        self.wgmma_prefix = f"m64n{self.wgmma_inst_n}k{self.k_dim}"

    def make_mma_load_layout(self, local_buf: Any, matrix: str = "A") -> Fragment:
        """How a fragment that holds the stored half of A lies in the registers."""
        if matrix != "A":
            raise ValueError(f'wgmma takes only "A" from registers, not {matrix!r}')
        return super().make_mma_load_layout(local_buf, matrix)

    def _row_of_warp(self, row: Any, other: Any, of_a: bool) -> tuple[Any, Any, Any]:
        rows = 16 * self.block_row_warps
        return row // rows, row % 16, other * self.block_row_warps + row % rows // 16

    def wgmma_ss(
        self,
        A_region: Any,
        E_region: Any,
        B_region: Any,
        C_region: Any,
        clear_accum: Any = False,
        wg_wait: int = 0,
    ) -> None:
        """C += A · B for tiles in shared memory and a fragment C.

        wg_wait: products that may be on their way afterwards; below 0 nothing is waited for.
        """
        flags = (self.a_transposed, self.e_transposed, self.b_transposed)
        wgmma_gemm_sp(A_region, E_region, B_region, C_region, *flags, clear_accum=clear_accum)
        if wg_wait >= 0:
            wait_wgmma(wg_wait)

    def wgmma_rs(
        self,
        A_region: Any,
        E_region: Any,
        B_region: Any,
        C_region: Any,
        clear_accum: Any = False,
        wg_wait: int = 0,
    ) -> None:
        """`wgmma_ss` for A in a fragment."""
        self.wgmma_ss(A_region, E_region, B_region, C_region, clear_accum, wg_wait)
