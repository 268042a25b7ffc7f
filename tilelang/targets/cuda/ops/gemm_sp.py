"""T.gemm_sp with mma.sp: as T.gemm with mma.sync, over the stored half of A and a B twice as deep.

PTX ISA 9.7.15.6. The registers of A are those of the dense instruction of half the depth, those of B of two
such instructions side by side along K.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.mma import mma_sp_name
from tilelang.arch.tables import choose_sparse_instruction
from tilelang.arch.target import Target
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules import resource as rules
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.layout.gemm_operands import GemmFragments, gemm_fragments
from tilelang.layout.instruction import mma_a, operand_a
from tilelang.layout.shared import CHUNK_BYTES
from tilelang.ops.gemm_sp import SparseGemm
from tilelang.passes.walk import bits_of, index
from tilelang.targets.cuda.ops.gemm import GemmLowering, GemmPlan, address, lower_by
from tilelang.targets.cuda.ops.metadata import Metadata
from tilelang.targets.simt.block import Block, local
from tilelang.targets.simt.share_gemm import share_gemm


def has_instruction(gemm: SparseGemm, target: Target) -> bool:
    """Whether mma.sp multiplies such tiles."""
    operand, result = str(gemm.a.source.dtype), str(gemm.c.source.dtype)
    found = choose_sparse_instruction(target, operand, result, gemm.shape[2])
    return found is not None and _helper(gemm, found.shape_text) is not None


def _helper(gemm: SparseGemm, shape: str) -> str | None:
    a, b, c = (str(r.source.dtype) for r in (gemm.a, gemm.b, gemm.c))
    return mma_sp_name(shape, a, c, b)


def sparse_plan(gemm: SparseGemm, threads: int, target: Target) -> GemmPlan:
    """Raises KernelError for a tile that this number of warps cannot share."""
    instruction, warps = share_gemm(gemm, threads, target, choose_sparse_instruction)
    helper = _helper(gemm, instruction.shape_text)
    if helper is None:  # `has_instruction` said otherwise
        place, operand = place_of(gemm.span), str(gemm.a.source.dtype)
        result, k = str(gemm.c.source.dtype), gemm.shape[2]
        problem = rules.GEMM_INSTRUCTION.at(place, operand=operand, accumulator=result, k=k, target=target)
        raise KernelError([problem])
    m, _, k = gemm.shape
    bits, half = bits_of(str(gemm.a.source.dtype)), instruction.k // 2
    transposes = (gemm.transpose_a, gemm.transpose_b)
    dense = gemm_fragments(target.kind, gemm.shape, transposes, warps, bits, half)
    a = operand_a(m, k // 2, warps.m, warps.n, mma_a(bits, half), gemm.transpose_a)
    return GemmPlan(instruction, helper, warps, GemmFragments(a, dense.b, dense.c))


def lower_gemm_sp(stmt: Any, block: Block) -> Any:
    """The statements for the `tl.gemm_sp` call in `stmt`, with mma.sp."""
    gemm = SparseGemm.read(stmt.value)
    return lower_by(_SparseLowering(gemm, sparse_plan(gemm, block.threads, block.target), block))


class _SparseLowering(GemmLowering):
    def __init__(self, gemm: SparseGemm, plan: GemmPlan, block: Block) -> None:
        super().__init__(gemm, plan, block)
        self._sparse = gemm
        self.a_count //= 2
        self.immediates = [X.const(0, "int32")]  # the selector

    def _places(self, kk: Any) -> tuple[list[Any], Callable[[Any], list[Any]]]:
        array = local(f"{self._sparse.e.source.name}_regs", "uint32", self.m_tiles)
        metadata = Metadata(self._sparse, self.block)

        def load(i: Any) -> Any:
            row = self.row_warp * (self.m_tiles * 16) + i * 16
            return X.BufferStore(array, metadata.register(row, kk), [index(i)], self.span)

        statements = [X.AllocBuffer(array, span=self.span), self.each("i", self.m_tiles, load)]
        return statements, lambda i: [address(array, i)]

    def _load_b(self, array: ir.Var, kk: Any) -> Any | None:
        """Tiles of 8 columns, one at a time: its four matrices are the quarters of K."""
        region, transposed = self.gemm.b, self.gemm.transpose_b
        if not self._fits(region, not transposed) or self.b_count * self.bits != 128:
            return None
        run, column0 = CHUNK_BYTES * 8 // self.bits, self.column_warp * (self.n_tiles * 8)

        def tile(j: Any) -> Any:
            at, first = j * self.b_count, column0 + j * 8
            if transposed:
                n, k = first + self.lane % 8, kk * (4 * run) + self.lane // 8 * run
                return self.ldmatrix(array, at, region, n, k, 4, False)
            return self.ldmatrix(array, at, region, kk * 32 + self.lane, first, 4, True)

        return seq([self.each("j", self.n_tiles, tile)])
