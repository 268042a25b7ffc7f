"""T.gemm with mma.sync: warps share out the tile, operands come through ldmatrix, one step of K after the
other.

Where ldmatrix does not fit (32-bit and 8-bit operands that do not have K innermost, rows that are not 16-byte
aligned) each lane loads its elements one by one; operands in fragments are used where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.instruction import MatrixInstruction
from tilelang.arch.mma import mma_name
from tilelang.arch.target import Target
from tilelang.arch.warp_partition import WarpPartition
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules import resource as rules
from tilelang.ir import tile_ops
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.layout.fragment import Fragment
from tilelang.layout.gemm_operands import GemmFragments, gemm_fragments
from tilelang.layout.shared import CHUNK_BYTES, SharedLayout
from tilelang.ops.gemm import Gemm
from tilelang.passes.walk import FRAGMENT, bits_of, constant, index
from tilelang.targets.simt.block import Block, local, unrolled
from tilelang.targets.simt.share_gemm import instruction_text, share_gemm

WARP = 32


@dataclass(frozen=True)
class GemmPlan:
    """How one gemm is shared out: the instruction, the grid of warps, and the layouts it imposes."""

    instruction: MatrixInstruction
    helper: str
    warps: WarpPartition
    layouts: GemmFragments


def gemm_plan(gemm: Gemm, threads: int, target: Target) -> GemmPlan:
    """Raises KernelError for a tile that this number of warps cannot share."""
    instruction, warps = share_gemm(gemm, threads, target)
    operand, result = str(gemm.a.source.dtype), str(gemm.c.source.dtype)
    helper = mma_name(instruction.shape_text, operand, result, str(gemm.b.source.dtype))
    if helper is None:  # A and B differ in a way that no instruction takes
        operand = f"{operand} times {gemm.b.source.dtype}"
        place, k = place_of(gemm.span), gemm.shape[2]
        problem = rules.GEMM_INSTRUCTION.at(place, operand=operand, accumulator=result, k=k, target=target)
        raise KernelError([problem])
    transposes = (gemm.transpose_a, gemm.transpose_b)
    layouts = gemm_fragments(target.kind, gemm.shape, transposes, warps, bits_of(operand), instruction.k)
    return GemmPlan(instruction, helper, warps, layouts)


def lower_gemm(stmt: Any, block: Block) -> Any:
    """The statements for the `tl.gemm` call in `stmt`, with mma.sync."""
    gemm = Gemm.read(stmt.value)
    plan = gemm_plan(gemm, block.threads, block.target)
    return lower_by(GemmLowering(gemm, plan, block))


def lower_by(lowering: GemmLowering) -> Any:
    """The statements of a lowering, and the words of a hover for them."""
    gemm, plan, block = lowering.gemm, lowering.plan, lowering.block
    lowered = lowering.run()
    text = instruction_text(gemm, plan.instruction, plan.warps)
    block.note_instruction(gemm.span, f"{text}, ldmatrix" if lowering.by_ldmatrix else text)
    return lowered


class GemmLowering:
    """What one thread does for a gemm; `targets.cuda.ops.gemm_sp` makes another of it."""

    def __init__(self, gemm: Gemm, plan: GemmPlan, block: Block) -> None:
        self.gemm, self.plan, self.block, self.span = gemm, plan, block, gemm.span
        m, n, k = gemm.shape
        step = plan.instruction
        self.m_tiles = m // (step.m * plan.warps.m)
        self.n_tiles = n // (step.n * plan.warps.n)
        self.k_tiles = k // step.k
        self.bits = bits_of(str(gemm.a.source.dtype))
        self.a_count = step.m * step.k // WARP  # elements of one instruction tile in a thread
        self.b_count = step.n * step.k // WARP
        self.c_count = step.m * step.n // WARP
        self.lane = block.simplify(block.thread % WARP)
        self.row_warp = block.simplify(block.thread // WARP % plan.warps.m)
        self.by_ldmatrix = False  # whether an operand comes that way
        self.column_warp = block.simplify(block.thread // WARP // plan.warps.m)
        self.immediates: list[Any] = []

    def run(self) -> Any:
        cleared = clear_accumulator(self.gemm, self.block)
        return seq([cleared, self.each("kk", self.k_tiles, self._step)])

    def each(self, name: str, extent: int, body: Callable[[Any], Any]) -> Any:
        return each(self.block, name, extent, body, self.span)

    def _step(self, kk: Any) -> Any:
        """One step of K: load both operands, multiply every pair of tiles."""
        places, place_of_tile = self._places(kk)
        a_array, a_at, a_load = self._operand(
            self.gemm.a, self.plan.layouts.a, kk, self.m_tiles, self.a_count, self._load_a
        )
        b_array, b_at, b_load = self._operand(
            self.gemm.b, self.plan.layouts.b, kk, self.n_tiles, self.b_count, self._load_b
        )
        c = self.block.registers(self.gemm.c.source)

        def multiply(i: Any, j: Any) -> Any:
            pointers = [
                address(c, (i * self.n_tiles + j) * self.c_count),
                address(a_array, a_at(i)),
                address(b_array, b_at(j)),
            ]
            args = [*self.immediates, *pointers, *place_of_tile(i)]
            return X.Evaluate(tile_ops.call(f"tl.cuda.{self.plan.helper}", args, span=self.span), self.span)

        products = self.each(
            "i", self.m_tiles, lambda i: self.each("j", self.n_tiles, lambda j: multiply(i, j))
        )
        return seq([*places, *a_load, *b_load, products])

    def _places(self, kk: Any) -> tuple[list[Any], Callable[[Any], list[Any]]]:
        """(Statements, what row tile i adds to the operands of its instructions) for step `kk`."""
        return [], lambda i: []

    # Operands

    def _operand(
        self,
        region: Any,
        layout: Fragment,
        kk: Any,
        tiles: int,
        count: int,
        load: Callable[[ir.Var, Any], Any | None],
    ) -> tuple[ir.Var, Callable[[Any], Any], list[Any]]:
        """(register array, where tile i begins in it, statements that fill it) for step `kk`."""
        buffer = region.source
        rounded = str(buffer.dtype) == "float32"
        if buffer.scope() == FRAGMENT and not rounded:
            return self.block.registers(buffer), lambda i: (i * self.k_tiles + kk) * count, []
        array = local(f"{buffer.name}_regs", str(buffer.dtype), tiles * count)
        statements = [X.AllocBuffer(array, span=self.span)]
        moved = None if buffer.scope() == FRAGMENT else load(array, kk)
        if moved is None:
            moved = self._load_elements(array, region, layout, kk, tiles, count)
        statements.append(moved)
        if rounded:
            statements.append(self.each("r", tiles * count, lambda r: self._round(array, r)))
        return array, lambda i: i * count, statements

    def _round(self, array: ir.Var, r: Any) -> Any:
        value = tile_ops.call(
            "tl.cuda.round_tf32", [X.BufferLoad(array, [r])], dtype="float32", span=self.span
        )
        return X.BufferStore(array, value, [r], self.span)

    def _load_elements(
        self, array: ir.Var, region: Any, layout: Fragment, kk: Any, tiles: int, count: int
    ) -> Any:
        """Element by element, from shared memory or from the operand's own fragment."""
        buffer = region.source

        def one(i: Any, r: Any) -> Any:
            position = (i * self.k_tiles + kk) * count + r
            if buffer.scope() == FRAGMENT:
                value = X.BufferLoad(self.block.registers(buffer), [self.block.simplify(position)])
            else:
                row, column = layout.indices(self.block.thread, position)
                value = X.BufferLoad(buffer, self._at(region, row, column))
            return X.BufferStore(array, value, [self.block.simplify(i * count + r)], self.span)

        return self.each("i", tiles, lambda i: self.each("r", count, lambda r: one(i, r)))

    def _load_a(self, array: ir.Var, kk: Any) -> Any | None:
        """Tiles of 16 rows: matrices 0 and 1 are its upper and lower half, 2 and 3 the same in the second 16
        bytes.
        """
        region, transposed = self.gemm.a, self.gemm.transpose_a
        if not self._fits(region, transposed) or self.a_count * self.bits != 128:
            return None
        run, row0 = CHUNK_BYTES * 8 // self.bits, self.row_warp * (self.m_tiles * 16)

        def tile(i: Any) -> Any:
            if transposed:
                k = kk * 16 + self.lane % 8 + self.lane // 16 * 8
                m = row0 + i * 16 + self.lane // 8 % 2 * 8
                return self.ldmatrix(array, i * self.a_count, region, k, m, 4, True)
            m, k = row0 + i * 16 + self.lane % 16, kk * (2 * run) + self.lane // 16 * run
            return self.ldmatrix(array, i * self.a_count, region, m, k, 4, False)

        return self.each("i", self.m_tiles, tile)

    def _load_b(self, array: ir.Var, kk: Any) -> Any | None:
        """Tiles of 8 columns, two at a time: matrices 0 and 1 are the halves of K of the first, 2 and 3 of
        the second.
        """
        region, transposed = self.gemm.b, self.gemm.transpose_b
        if not self._fits(region, not transposed) or self.b_count * self.bits != 64 or self.bits == 64:
            return None
        run, column0 = CHUNK_BYTES * 8 // self.bits, self.column_warp * (self.n_tiles * 8)

        def tiles(first: Any, count: int) -> Any:
            second = self.lane // 16 * 8 if count == 2 else index(0)
            half = self.lane // 8 % 2
            if transposed:
                n, k = column0 + first * 8 + self.lane % 8 + second, kk * (2 * run) + half * run
                return self.ldmatrix(array, first * self.b_count, region, n, k, 2 * count, False)
            k, n = kk * 16 + self.lane % 8 + half * 8, column0 + first * 8 + second
            return self.ldmatrix(array, first * self.b_count, region, k, n, 2 * count, True)

        pairs = self.n_tiles // 2
        parts = [self.each("j", pairs, lambda j: tiles(j * 2, 2))] if pairs else []
        if self.n_tiles % 2:
            parts.append(tiles(index(self.n_tiles - 1), 1))
        return seq(parts)

    def _fits(self, region: Any, transposing: bool) -> bool:
        """Whether ldmatrix can read the operand: 16-byte rows, aligned; it transposes elements of 16 bits
        only.
        """
        if transposing and self.bits != 16:
            return False
        layout: SharedLayout = self.block.layouts.shared[region.source.__chandle__()]
        run = CHUNK_BYTES * 8 // self.bits
        start = region.region[-1].min
        return layout.row_step % run == 0 and layout.run % run == 0 and self.block.widths.multiple(start, run)

    def ldmatrix(
        self, array: ir.Var, at: Any, region: Any, row: Any, column: Any, count: int, transposing: bool
    ) -> Any:
        self.by_ldmatrix = True
        source = X.BufferLoad(region.source, self._at(region, row, column))
        name = f"tl.cuda.ldmatrix_x{count}{'_trans' if transposing else ''}"
        pointers = [address(array, self.block.simplify(at)), X.address_of(source)]
        return X.Evaluate(tile_ops.call(name, pointers, span=self.span), self.span)

    def _at(self, region: Any, row: Any, column: Any) -> list[Any]:
        """Indices into the operand's buffer of an element of the region."""
        mins = [r.min for r in region.region]
        places = [mins[-2] + row, mins[-1] + column]
        return [*mins[:-2], *(self.block.simplify(p) for p in places)]


def address(buffer: ir.Var, at: Any) -> Any:
    return X.address_of(X.BufferLoad(buffer, [index(at)]))


def clear_accumulator(gemm: Gemm, block: Block) -> Any | None:
    """Zero C, always or under a condition; None where it is kept."""
    condition = gemm.clear_accum
    if constant(condition) == 0:
        return None
    c = block.registers(gemm.c.source)
    zero, count = X.const(0, str(c.dtype)), block.fragment(gemm.c.source).registers
    clear = each(block, "r", count, lambda r: X.BufferStore(c, zero, [r], gemm.span), gemm.span)
    return clear if constant(condition) == 1 else X.IfThenElse(condition, clear, None, gemm.span)


def each(block: Block, name: str, extent: int, body: Callable[[Any], Any], span: Any) -> Any:
    """`body` for every value below `extent`, unrolled."""
    if extent == 1:
        return body(index(0))
    var = X.Var(name, "int32")
    block.bind(var, extent)
    return unrolled(var, extent, body(var), span)
