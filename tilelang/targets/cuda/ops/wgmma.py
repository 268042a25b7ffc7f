"""T.gemm with wgmma (sm_90a): warpgroups of four warps multiply tiles that lie swizzled in shared memory.

Synchronous as yet: one statement waits for the products of a whole T.gemm. Operands may have been written by
cp.async or plain stores; a proxy fence after the barrier makes them visible to wgmma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx as X

from tilelang.arch.cuda import WGMMA, WGMMA_K, WGMMA_M, WGMMA_MOST_N, WGMMA_SM, WGMMA_WARPS
from tilelang.arch.target import Target
from tilelang.ir import tile_ops
from tilelang.ir.tile_ops import seq
from tilelang.layout.gemm_operands import GemmFragments, gemm_fragments, shared_operand
from tilelang.layout.shared import SharedLayout
from tilelang.layout.warp_partition import WarpPartition, warp_partitions
from tilelang.ops.gemm import Gemm
from tilelang.passes.walk import FRAGMENT, constant, shape_of
from tilelang.targets.cuda.wgmma import wgmma_name
from tilelang.targets.simt.block import Block

_WARP = 32
_BITS = 16  # of the operands' elements
_PTX = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
_MODES = {128: 1, 64: 2, 32: 3}  # bytes of a swizzle atom's row -> field of the descriptor
_UNIT = 16  # bytes in which descriptors count
_MOST_ACCUMULATORS = 192  # registers of one thread, of 255


@dataclass(frozen=True)
class WgmmaPlan:
    """The grid of warps and the register layouts of one gemm."""

    warps: WarpPartition
    layouts: GemmFragments

    def text(self, n: int, operand: str, result: str) -> str:
        """What a hover says: `wgmma m64n128k16 float32.float16, warps 4×1`."""
        return f"wgmma m64n{n // self.warps.n}k16 {result}.{operand}, warps {self.warps}"


def wgmma_plan(gemm: Gemm, threads: int, target: Target) -> WgmmaPlan | None:
    """How wgmma carries out this gemm; None where it cannot, which mma.sync then does.

    M must be a multiple of 64 and K of 16, the warps come in fours along M, B lies in shared memory and A
    there or, not transposed, in a fragment, both in whole swizzle atoms.
    """
    m, _, k = gemm.shape
    operand, result = str(gemm.a.source.dtype), str(gemm.c.source.dtype)
    fits = target.sm == WGMMA_SM and (operand, result) in WGMMA and m % WGMMA_M == 0 and k % WGMMA_K == 0
    if not fits or threads % (_WARP * WGMMA_WARPS) or operand != str(gemm.b.source.dtype):
        return None
    if gemm.b.source.scope() == FRAGMENT or gemm.c.source.scope() != FRAGMENT:
        return None
    by_registers = gemm.a.source.scope() == FRAGMENT
    if by_registers and gemm.transpose_a:
        return None
    if not _is_tiled(gemm.b) or not (by_registers or _is_tiled(gemm.a)):
        return None
    grid = _grid(gemm, threads // _WARP)
    if grid is None:
        return None
    layouts = gemm_fragments("wgmma", gemm.shape, (gemm.transpose_a, gemm.transpose_b), grid, _BITS, WGMMA_K)
    return WgmmaPlan(grid, layouts)


def _grid(gemm: Gemm, warps: int) -> WarpPartition | None:
    """The legal grid that the policy prefers; Square takes the part nearest to a square."""
    m, n, _ = gemm.shape
    # A part of N that begins inside a swizzle atom has no descriptor where N is contiguous.
    step_n = 8 if gemm.transpose_b else _atom(gemm.b)
    legal = [
        p
        for p in warp_partitions(m, n, warps, 16, 8)
        if p.m % WGMMA_WARPS == 0
        and n // p.n <= WGMMA_MOST_N
        and (p.n == 1 or n // p.n % step_n == 0)
        and (m // (16 * p.m)) * (n // p.n) // 2 <= _MOST_ACCUMULATORS
    ]
    if not legal:
        return None
    if gemm.policy == "FullRow":
        return legal[-1]
    if gemm.policy == "FullCol":
        return legal[0]
    return min(legal, key=lambda p: abs(m / p.m - n / p.n))


def _is_tiled(region: Any) -> bool:
    """Whether the operand begins at whole swizzle atoms of 8 rows."""
    layout = shared_operand("cuda", shape_of(region.source), _BITS)
    row, column = (constant(r.min) for r in region.region[-2:])
    if layout.kind != "swizzle" or row is None or column is None:
        return False
    return row % 8 == 0 and column % (layout.swizzle_bytes * 8 // _BITS) == 0


def _atom(region: Any) -> int:
    """Elements in a row of the operand's swizzle atoms."""
    return shared_operand("cuda", shape_of(region.source), _BITS).swizzle_bytes * 8 // _BITS


def lower_wgmma(gemm: Gemm, plan: WgmmaPlan, block: Block) -> Any:
    """The proxy fence and the multiplication."""
    m, n, k = gemm.shape
    warps, span = plan.warps, gemm.span
    operand, result = str(gemm.a.source.dtype), str(gemm.c.source.dtype)
    tiles, part, steps = m // (16 * warps.m), n // warps.n, k // WGMMA_K
    group = block.simplify(block.thread // (_WARP * WGMMA_WARPS) % (warps.m // WGMMA_WARPS))
    column = block.simplify(block.thread // (_WARP * warps.m))
    by_registers = gemm.a.source.scope() == FRAGMENT
    # K-major operands are [m, k] and [n, k] as stored.
    turned = (gemm.transpose_a, not gemm.transpose_b)
    integers: list[int] = []
    if by_registers:
        a = X.address_of(X.BufferLoad(block.registers(gemm.a.source), [X.const(0, "int32")]))
    else:
        layout = block.layouts.shared[gemm.a.source.__chandle__()]
        distance = _rows(layout, 16 * warps.m, turned[0])
        lead, stride, *walk = _walk(layout, steps, turned[0])
        integers += [_MODES[layout.swizzle_bytes], lead, stride, distance, *walk]
        a = _pointer(gemm.a, group * WGMMA_M, turned[0], block)
    layout = block.layouts.shared[gemm.b.source.__chandle__()]
    integers += [_MODES[layout.swizzle_bytes], *_walk(layout, steps, turned[1])]
    b = _pointer(gemm.b, column * part, turned[1], block)
    c = block.registers(gemm.c.source)
    d = X.address_of(X.BufferLoad(c, [X.const(0, "int32")]))
    form = "rs" if by_registers else "ss"
    name = wgmma_name(tiles, part, steps, _PTX[operand], _PTX[result], form, turned)
    args = [*(X.const(i, "int32") for i in integers), d, a, b]
    block.note_instruction(span, plan.text(n, operand, result))
    return seq(
        [
            X.Evaluate(tile_ops.call("tl.cuda.fence_proxy_async", [], span=span), span),
            X.Evaluate(tile_ops.call(f"tl.cuda.{name}", args, span=span), span),
        ]
    )


def _rows(layout: SharedLayout, rows: int, turned: bool) -> int:
    """The distance of two tiles that are `rows` apart along M, in units of the descriptor."""
    if not turned:
        return rows * layout.swizzle_bytes // _UNIT
    atom = layout.swizzle_bytes * 8 // _BITS
    return rows // atom * (layout.shape[-2] * layout.swizzle_bytes) // _UNIT


def _walk(layout: SharedLayout, steps: int, turned: bool) -> tuple[int, int, int, int, int]:
    """(leading offset, stride offset, distance of steps, of groups of steps, steps in a group), in units.

    Groups of 8 rows lie one after the other, columns of atoms after all rows of the column before.
    """
    width, rows = layout.swizzle_bytes, layout.shape[-2]
    eight, column = 8 * width // _UNIT, rows * width // _UNIT
    if turned:  # a step of K is 16 rows; M (N) goes along the row and on to the next column of atoms
        return column, eight, 2 * eight, 0, steps
    in_atom = width // (WGMMA_K * _BITS // 8)
    return 1, eight, WGMMA_K * _BITS // 8 // _UNIT, column, in_atom


def _pointer(region: Any, offset: Any, turned: bool, block: Block) -> Any:
    """The address of the operand's first element for this warpgroup, `offset` further along M (N)."""
    *leading, row, column = (r.min for r in region.region)
    place = (row, column + offset) if turned else (row + offset, column)
    load = X.BufferLoad(region.source, [*leading, *(block.simplify(p) for p in place)])
    return X.address_of(load)
