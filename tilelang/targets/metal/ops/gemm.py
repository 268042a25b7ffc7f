"""T.gemm with simdgroup matrices: 8×8 tiles, operands loaded from threadgroup memory step by step along K.

Metal does not say which lane holds which element of a simdgroup matrix. So an accumulator has two forms:
registers in a layout of our own (`layout.instruction.SIMDGROUP_C`), in which threads compute on its elements,
and matrices, in which gemms accumulate. `enter` and `leave` calls mark where the form changes; `accumulators`
moves them out of loops and expands them, tile by tile through a scratch tile of each simdgroup.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx as X

from tilelang.arch.instruction import MatrixInstruction
from tilelang.arch.target import Target
from tilelang.arch.warp_partition import WarpPartition
from tilelang.ir import tile_ops
from tilelang.ir.teams import Team
from tilelang.ir.tile_ops import seq
from tilelang.layout.gemm_operands import GemmFragments, gemm_fragments, shared_operand
from tilelang.layout.instruction import SIMDGROUP_C
from tilelang.layout.shared import linear
from tilelang.ops.gemm import Gemm
from tilelang.passes.infer_layouts import GemmLayouts
from tilelang.passes.walk import FRAGMENT, bits_of, constant, index
from tilelang.targets.metal.emit import SIMDGROUP_SCOPE
from tilelang.targets.simt.block import Block, unrolled
from tilelang.targets.simt.share_gemm import imposed, instruction_text, share_gemm

SIMD = 32
TILE = 8
# Arguments: scratch, matrices, registers, lane, number of matrices.
ENTER = "tl.metal.enter_matrices"  # the registers' values into the matrices
LEAVE = "tl.metal.leave_matrices"  # and back


@dataclass(frozen=True)
class _Plan:
    """How one gemm is shared out over the simdgroups, and the register layouts of what lies in fragments."""

    instruction: MatrixInstruction
    simdgroups: WarpPartition
    layouts: GemmFragments


def gemm_layouts(target: Target, padded: bool = True) -> Callable[[Gemm, Team], GemmLayouts]:
    """The rule for `infer_layouts`: fragments by 8×8 tiles; rows in memory `padded` against bank conflicts.

    No swizzle: `simdgroup_load` takes rows at one distance.
    """

    def rule(gemm: Gemm, team: Team) -> GemmLayouts:
        plan = _plan(gemm, team.threads, target)
        return imposed(gemm, plan.layouts, partial(shared_operand, target.kind) if padded else linear)

    return rule


class GemmLowering:
    """Lowers the gemms of one kernel; remembers the matrices of each accumulator."""

    def __init__(self) -> None:
        self._sums: dict[int, Any] = {}

    def lower(self, stmt: Any, block: Block) -> Any:
        """The statement for the `tl.gemm` call in `stmt`, between an `enter` and a `leave` call."""
        gemm = Gemm.read(stmt.value)
        plan = _plan(gemm, block.threads, block.target)
        block.note_instruction(gemm.span, instruction_text(gemm, plan.instruction, plan.simdgroups))
        m, n, k = gemm.shape
        rows, columns = m // (TILE * plan.simdgroups.m), n // (TILE * plan.simdgroups.n)
        at, sums = gemm.span, self._matrices(gemm.c.source, rows * columns)
        group = block.thread // SIMD
        a = _Operand(
            gemm.a,
            k_outer=gemm.transpose_a,
            swapped=gemm.transpose_a,
            tiles=rows,
            steps=k // TILE,
            first=group % plan.simdgroups.m * (rows * TILE),
            block=block,
            span=at,
        )
        b = _Operand(
            gemm.b,
            k_outer=not gemm.transpose_b,
            swapped=gemm.transpose_b,
            tiles=columns,
            steps=k // TILE,
            first=group // plan.simdgroups.m * (columns * TILE),
            block=block,
            span=at,
        )
        i, j, step = X.Var("i", "int32"), X.Var("j", "int32"), X.Var("kk", "int32")
        product = [X.address_of(sums[i * columns + j]), a.tile(i), b.tile(j)]
        multiply = do("tl.metal.simdgroup_multiply_accumulate", product, at)
        multiply = unrolled(i, rows, unrolled(j, columns, multiply, at), at)
        body = seq([*a.load(step), *b.load(step), multiply])
        change = accumulator_form(sums, block.registers(gemm.c.source), block)
        return seq(
            [
                do(ENTER, change, at),
                _clear(gemm, sums, rows * columns),
                X.For(step, index(0), index(k // TILE), X.ForKind.SERIAL, body, span=at),
                do(LEAVE, change, at),
            ]
        )

    def _matrices(self, c: Any, count: int) -> Any:
        handle = c.__chandle__()
        if handle not in self._sums:
            self._sums[handle] = _matrices(f"{c.name}_mat", str(c.dtype), count)
        return self._sums[handle]


def _plan(gemm: Gemm, threads: int, target: Target) -> _Plan:
    instruction, grid = share_gemm(gemm, threads, target)
    bits, transposes = bits_of(str(gemm.a.source.dtype)), (gemm.transpose_a, gemm.transpose_b)
    layouts = gemm_fragments(target.kind, gemm.shape, transposes, grid, bits, instruction.k)
    return _Plan(instruction, grid, layouts)


def _matrices(name: str, dtype: str, count: int) -> Any:
    return X.decl_buffer((count,), dtype, name, scope=SIMDGROUP_SCOPE)


def do(name: str, args: list[Any], span: Any) -> Any:
    """The statement that calls an instruction."""
    return X.Evaluate(tile_ops.call(name, args, span=span), span)


def accumulator_form(sums: Any, registers: Any, block: Block) -> list[Any]:
    """The arguments of `enter` and `leave`. Scratch comes first, as what other threads could disturb."""
    scratch, lane = _scratch(str(registers.dtype), block)
    count = index(int(sums.shape[0]))
    return [scratch, X.address_of(sums[0]), X.address_of(registers[0]), lane, count]


def _scratch(dtype: str, block: Block) -> tuple[Any, Any]:
    """(address of the simdgroup's scratch tile in threadgroup memory, number of the lane)."""
    name = f"tile_{dtype}"
    space: Any = next((w for w in block.workspaces if str(w.name) == name), None)
    if space is None:
        space = block.workspace(name, dtype, block.threads // SIMD * TILE * TILE)
    group = block.simplify(block.thread // SIMD * (TILE * TILE))
    return X.address_of(space[group]), block.simplify(block.thread % SIMD)


def fill_matrices(sums: Any, count: int, value: Any, span: Any) -> Any:
    """Every element of every matrix becomes `value`."""
    t = X.Var("t", "int32")
    name = f"tl.metal.simdgroup_fill_{sums.dtype}"
    return unrolled(t, count, do(name, [X.address_of(sums[t]), value], span), span)


def _clear(gemm: Gemm, sums: Any, count: int) -> Any:
    known = constant(gemm.clear_accum)
    if known == 0:
        return None
    fill = fill_matrices(sums, count, X.const(0, str(sums.dtype)), gemm.span)
    return fill if known is not None else X.IfThenElse(gemm.clear_accum, fill, None, gemm.span)


class _Operand:
    """A or B of one gemm: its matrices for one step of K, from threadgroup memory or from registers."""

    def __init__(
        self,
        region: Any,
        k_outer: bool,
        swapped: bool,
        tiles: int,
        steps: int,
        first: Any,
        block: Block,
        span: Any,
    ) -> None:
        self._region, self._k_outer, self._swapped = region, k_outer, swapped
        self._tiles, self._steps, self._first = tiles, steps, first
        self._block, self._span = block, span
        self._matrices = _matrices(f"{region.source.name}_mat", str(region.source.dtype), tiles)

    def tile(self, i: Any) -> Any:
        """The address of matrix `i` of this step."""
        return X.address_of(self._matrices[i])

    def load(self, step: Any) -> list[Any]:
        i = X.Var("i", "int32")
        held = self._region.source.scope() == FRAGMENT
        load = self._from_registers(i, step) if held else self._from_memory(i, step)
        return [X.AllocBuffer(self._matrices, span=self._span), unrolled(i, self._tiles, load, self._span)]

    def _from_memory(self, i: Any, step: Any) -> Any:
        """`simdgroup_load`, rows and columns swapped where the operand is stored so."""
        outer, inner = self._first + i * TILE, step * TILE
        row, column = (inner, outer) if self._k_outer else (outer, inner)
        *lead, row0, column0 = (r.min for r in self._region.region)
        source, simplify = self._region.source, self._block.simplify
        at = X.address_of(X.BufferLoad(source, [*lead, simplify(row0 + row), simplify(column0 + column)]))
        layout = self._block.layouts.shared[source.__chandle__()]
        swapped = X.const(self._swapped, "bool")
        return do("tl.metal.simdgroup_load", [self.tile(i), at, index(layout.row_step), swapped], self._span)

    def _from_registers(self, i: Any, step: Any) -> Any:
        """The operand lies in a fragment: tile by tile, as accumulators enter."""
        registers: Any = self._block.registers(self._region.source)
        first = (i * self._steps + step) * SIMDGROUP_C.registers
        scratch, lane = _scratch(str(registers.dtype), self._block)
        args = [scratch, self.tile(i), X.address_of(registers[first]), lane]
        return do("tl.metal.matrix_from_registers", args, self._span)
