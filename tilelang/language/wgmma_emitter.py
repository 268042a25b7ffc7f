"""Matrix products by warp groups: where fragments lie, and the statements that multiply them.

The emitter is kernel code itself, as those of `emitters.py` are.
"""

from __future__ import annotations

from typing import Any

from tilelang.language.barriers import (
    warpgroup_arrive,
    warpgroup_commit_batch,
    warpgroup_fence_operand,
    warpgroup_wait,
)
from tilelang.language.emitters import TensorCoreIntrinEmitter
from tilelang.language.functions import meta_class
from tilelang.language.layout_objects import Fragment
from tilelang.language.tile_ops import wait_wgmma, wgmma_gemm


@meta_class
class WGMMATensorCoreIntrinEmitter(TensorCoreIntrinEmitter):
    """Products by `wgmma`: `block_row_warps` is a multiple of the four warps that multiply together.

    Consecutive warps of a group hold 16 rows each, groups of rows follow each other (PTX ISA 9.7.16.5), so
    fragments lie otherwise than those of `mma.sync` where a warp has more than 16 rows. Raises ValueError for
    rows of warps that are no whole groups.
    """

    def _choose_instructions(self) -> None:
        if self.block_row_warps % 4:
            raise ValueError(
                f"wgmma multiplies with groups of 4 warps; {self.block_row_warps} along M are not whole"
            )
        self.wgmma_inst_m = 64
        self.wgmma_inst_n = max(n for n in range(8, 257, 8) if self.warp_col_tiles % n == 0)
        self.wgmma_prefix = f"m64n{self.wgmma_inst_n}k{self.k_dim}"

    @property
    def wgmma_num_inst_m(self) -> int:
        """Instructions along M."""
        return self.warp_row_tiles * 4 // self.wgmma_inst_m

    @property
    def wgmma_num_inst_n(self) -> int:
        """Instructions along N."""
        return self.warp_col_tiles // self.wgmma_inst_n

    @property
    def wgmma_num_k_atoms(self) -> int:
        """Steps along K."""
        return self.chunk // self.micro_size_k

    @property
    def wgmma_accum_regs(self) -> int:
        """Elements of the result in a thread."""
        return self.warp_row_tiles * self.warp_col_tiles // 32

    @property
    def wgmma_a_regs(self) -> int:
        """Registers of 32 bits that hold A in a thread."""
        return self.warp_row_tiles * self.chunk * self._a_bits // (32 * 32)

    def make_mma_load_layout(self, local_buf: Any, matrix: str = "A") -> Fragment:
        """How a fragment that holds A lies in the registers; B is read from shared memory."""
        if matrix != "A":
            raise ValueError(f'wgmma takes only "A" from registers, not {matrix!r}')
        return super().make_mma_load_layout(local_buf, matrix)

    def _row_of_warp(self, row: Any, other: Any, of_a: bool) -> tuple[Any, Any, Any]:
        rows = 16 * self.block_row_warps
        return row // rows, row % 16, other * self.block_row_warps + row % rows // 16

    def wgmma(
        self, A_region: Any, B_region: Any, C_region: Any, clear_accum: Any = False, wg_wait: int = 0
    ) -> None:
        """C += A · B for tiles in shared memory (A also in a fragment) and a fragment C.

        wg_wait: products that may be on their way afterwards; below 0 nothing is waited for.
        """
        wgmma_gemm(
            A_region, B_region, C_region, self.a_transposed, self.b_transposed, clear_accum=clear_accum
        )
        if wg_wait >= 0:
            wait_wgmma(wg_wait)

    def wgmma_rs(
        self, A_region: Any, B_region: Any, C_region: Any, clear_accum: Any = False, wg_wait: int = 0
    ) -> None:
        """`wgmma` for A in a fragment."""
        self.wgmma(A_region, B_region, C_region, clear_accum, wg_wait)

    def wgmma_arrive(self) -> None:
        """`T.warpgroup_arrive`."""
        warpgroup_arrive()

    def wgmma_commit(self) -> None:
        """`T.warpgroup_commit_batch`."""
        warpgroup_commit_batch()

    def wgmma_wait(self, n: int = 0) -> None:
        """`T.warpgroup_wait`."""
        warpgroup_wait(n)

    def wgmma_fence_a(self, A_buf: Any) -> None:
        """`T.warpgroup_fence_operand` for all of A."""
        warpgroup_fence_operand(A_buf, num_regs=self.wgmma_a_regs)

    def wgmma_fence_c(self, C_buf: Any) -> None:
        """`T.warpgroup_fence_operand` for all of the result."""
        warpgroup_fence_operand(C_buf, num_regs=self.wgmma_accum_regs)
