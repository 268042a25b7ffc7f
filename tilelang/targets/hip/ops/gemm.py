"""T.gemm with MFMA: 16×16 tiles on wavefronts of 64, operands read from LDS into registers step by step along
K.

The instruction gets B as its first operand and A as its second (see `layout.instruction.MFMA_C`). A lane's
elements of one operand are neighbours along K, so an operand stored with K innermost is read by vectors.
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
from tilelang.layout.fragment import Fragment
from tilelang.layout.gemm_operands import GemmFragments, gemm_fragments, shared_operand
from tilelang.layout.instruction import MFMA_C
from tilelang.ops.gemm import Gemm
from tilelang.passes.infer_layouts import GemmLayouts
from tilelang.passes.walk import FRAGMENT, bits_of, constant, index
from tilelang.targets.simt.block import Block, local, ramp, unrolled
from tilelang.targets.simt.share_gemm import imposed, instruction_text, share_gemm

TILE = 16


@dataclass(frozen=True)
class _Plan:
    """How one gemm is shared out: the instruction, the grid of wavefronts, and the layouts they impose."""

    instruction: MatrixInstruction
    waves: WarpPartition
    layouts: GemmFragments

    @property
    def name(self) -> str:
        """The device helper: `mfma_f32_16x16x16f16`."""
        return self.instruction.name.removeprefix("v_")

    @property
    def slots(self) -> int:
        """Elements of an operand that one lane gives to one instruction."""
        return max(1, self.instruction.k // 4)


def gemm_layouts(target: Target) -> Callable[[Gemm, Team], GemmLayouts]:
    """The rule for `infer_layouts`: what MFMA imposes on fragments; swizzled LDS for other operands."""

    def rule(gemm: Gemm, team: Team) -> GemmLayouts:
        plan = _plan(gemm, team.threads, target)
        return imposed(gemm, plan.layouts, partial(shared_operand, target.kind))

    return rule


def lower_gemm(stmt: Any, block: Block) -> Any:
    """The statement for the `tl.gemm` call in `stmt` on the threads of the block."""
    gemm = Gemm.read(stmt.value)
    plan = _plan(gemm, block.threads, block.target)
    block.note_instruction(gemm.span, instruction_text(gemm, plan.instruction, plan.waves))
    m, n, k = gemm.shape
    slots, at = plan.slots, gemm.span
    rows, columns, steps = m // (TILE * plan.waves.m), n // (TILE * plan.waves.n), k // plan.instruction.k
    c: Any = block.registers(gemm.c.source)
    step = X.Var("kk", "int32")
    a = _Operand(gemm.a, gemm.transpose_a, plan.layouts.a, rows, steps, slots, block, at)
    b = _Operand(gemm.b, not gemm.transpose_b, plan.layouts.b, columns, steps, slots, block, at)
    i, j = X.Var("i", "int32"), X.Var("j", "int32")
    c_tile = X.address_of(c[(i * columns + j) * MFMA_C.registers])
    multiply = X.Evaluate(
        tile_ops.call(f"tl.hip.{plan.name}", [c_tile, b.tile(j, step), a.tile(i, step)], span=at), at
    )
    body = seq(
        [*a.load(step), *b.load(step), unrolled(i, rows, unrolled(j, columns, multiply, at), at)],
    )
    return seq([_clear(gemm, c), unrolled(step, steps, body, at)])


def _plan(gemm: Gemm, threads: int, target: Target) -> _Plan:
    instruction, waves = share_gemm(gemm, threads, target)
    bits, transposes = bits_of(str(gemm.a.source.dtype)), (gemm.transpose_a, gemm.transpose_b)
    layouts = gemm_fragments(target.kind, gemm.shape, transposes, waves, bits, instruction.k)
    return _Plan(instruction, waves, layouts)


def _clear(gemm: Gemm, c: Any) -> Any:
    """Zero the accumulator where `clear_accum` says so; None where it plainly does not."""
    known = constant(gemm.clear_accum)
    if known == 0:
        return None
    q = X.Var("q", "int32")
    zero = X.BufferStore(c, X.const(0, str(c.dtype)), [q], gemm.span)
    loop = unrolled(q, int(c.shape[0]), zero, gemm.span)
    return loop if known is not None else X.IfThenElse(gemm.clear_accum, loop, None, gemm.span)


class _Operand:
    """A or B of one gemm: already in registers, or loaded from LDS one step of K at a time."""

    def __init__(
        self,
        region: Any,
        k_outer: bool,
        whole: Fragment,
        tiles: int,
        steps: int,
        slots: int,
        block: Block,
        span: Any,
    ) -> None:
        self._region, self._k_outer, self._whole = region, k_outer, whole
        self._tiles, self._steps, self._slots = tiles, steps, slots
        self._block, self._span = block, span
        source = region.source
        self._held = source.scope() == FRAGMENT
        self._registers: Any
        if self._held:
            self._registers = block.registers(source)
        else:
            self._registers = local(f"{source.name}_frag", str(source.dtype), tiles * slots)

    def tile(self, i: Any, step: Any) -> Any:
        """The address of the registers of tile `i` in this step."""
        first = (i * self._steps + step) * self._slots if self._held else i * self._slots
        return X.address_of(self._registers[first])

    def load(self, step: Any) -> list[Any]:
        """Fill the registers for one step: by vectors along K where K is innermost in memory."""
        if self._held:
            return []
        i, s = X.Var("i", "int32"), X.Var("s", "int32")
        vector = not self._k_outer and self._slots > 1
        lane = index(0) if vector else s
        # The register number within the whole operand: tiles of one row of tiles follow each other along K.
        register = (i * self._steps + step) * self._slots + lane
        inside = self._whole.indices(self._block.thread, register)
        mins = [r.min for r in self._region.region]
        *lead, row, column = mins
        row, column = row + inside[0], column + inside[1]
        simplify = self._block.simplify
        source, first = self._region.source, i * self._slots
        if vector:
            value = X.BufferLoad(source, [*lead, simplify(row), ramp(simplify(column), self._slots)])
            store = X.BufferStore(self._registers, value, [ramp(first, self._slots)], self._span)
            body = unrolled(i, self._tiles, store, self._span)
        else:
            value = X.BufferLoad(source, [*lead, simplify(row), simplify(column)])
            store = X.BufferStore(self._registers, value, [first + s], self._span)
            body = unrolled(i, self._tiles, unrolled(s, self._slots, store, self._span), self._span)
        return [X.AllocBuffer(self._registers, span=self._span), body]
