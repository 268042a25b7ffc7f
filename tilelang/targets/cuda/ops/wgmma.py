"""T.gemm with wgmma (sm_90a): warpgroups of four warps multiply tiles that lie swizzled in shared memory.

A T.gemm is one statement that waits for its products; a T.wgmma_gemm goes on, T.wait_wgmma waits. Operands
may have been written by cp.async or plain stores; a proxy fence after the barrier makes them visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx as X

from tilelang.arch.cuda import WGMMA_K_BYTES, WGMMA_M, WGMMA_SM, WGMMA_WARPS
from tilelang.arch.target import Target
from tilelang.arch.warp_partition import WarpPartition
from tilelang.arch.wgmma import PTX_OPERANDS, PTX_RESULTS
from tilelang.ir import tile_ops
from tilelang.ir.teams import Team
from tilelang.ir.tile_ops import seq
from tilelang.layout.annotated import annotations_of
from tilelang.layout.gemm_operands import GemmFragments, gemm_fragments
from tilelang.layout.instruction import mma_a, operand_a
from tilelang.layout.shared import SharedLayout, matrix_operand
from tilelang.layout.wgmma_partition import (
    GROUP_THREADS,
    WgmmaOperand,
    wgmma_k,
    wgmma_partition,
    wgmma_text,
)
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_sp import SparseGemm
from tilelang.passes.accesses import accesses, storages
from tilelang.passes.walk import FRAGMENT, bits_of, constant, index, shape_of, walk
from tilelang.targets.cuda.ops.metadata import Metadata
from tilelang.targets.cuda.wgmma import registers_name, wgmma_name
from tilelang.targets.simt.block import Block, local

_WARP = 32
_MODES = {128: 1, 64: 2, 32: 3}  # bytes of a swizzle atom's row -> field of the descriptor
_UNIT = 16  # bytes in which descriptors count


@dataclass(frozen=True)
class WgmmaPlan:
    """The grid of warps and the register layouts of one gemm."""

    warps: WarpPartition
    layouts: GemmFragments


@dataclass(frozen=True)
class WgmmaRule:
    """Which gemms of a launch become wgmma.

    unswizzled: handles of shared buffers that cannot be laid out for it. refused: handles of fragments that a
    gemm on mma.sync also takes, whose layout they then have. landing: handles of shared buffers that only TMA
    writes, which needs no proxy fence before wgmma.
    """

    target: Target
    unswizzled: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    landing: frozenset[int] = frozenset()

    def plan(self, gemm: Gemm, team: Team) -> WgmmaPlan | None:
        """How wgmma carries out this gemm; None where it cannot, which mma.sync then does."""
        if team.first % GROUP_THREADS or gemm.c.source.scope() != FRAGMENT:
            return None
        if any(h in self.refused for h in _fragments(gemm)):
            return None
        transposes = (gemm.transpose_a, gemm.transpose_b)
        a, b, result = self._operand(gemm.a), self._operand(gemm.b), str(gemm.c.source.dtype)
        sparse = isinstance(gemm, SparseGemm)
        grid = wgmma_partition(gemm.shape, a, b, result, transposes, gemm.policy, team.threads, sparse)
        if grid is None:
            return None
        bits, step = bits_of(a.dtype), wgmma_k(a.dtype)
        layouts = gemm_fragments("wgmma", gemm.shape, transposes, grid, bits, step)
        if sparse:
            m, _, k = gemm.shape
            stored = operand_a(m, k // 2, grid.m, grid.n, mma_a(bits, step), gemm.transpose_a, _WARP, True)
            layouts = replace(layouts, a=stored)
        return WgmmaPlan(grid, layouts)

    def _operand(self, region: Any) -> WgmmaOperand:
        buffer = region.source
        row, column = (constant(r.min) for r in region.region[-2:])
        swizzled = buffer.__chandle__() not in self.unswizzled
        return WgmmaOperand(str(buffer.dtype), buffer.scope(), shape_of(buffer), (row, column), swizzled)


def wgmma_rule(func: X.PrimFunc, gemms: Sequence[tuple[Gemm, Team]], target: Target) -> WgmmaRule | None:
    """The rule for one launch with these gemms; None for a target without wgmma."""
    if target.sm != WGMMA_SM:
        return None
    rule = WgmmaRule(target, frozenset(_unswizzled(func)), landing=frozenset(_landing(func)))
    while True:
        others = {h for g, team in gemms if rule.plan(g, team) is None for h in _fragments(g)}
        if others <= rule.refused:
            return rule
        rule = replace(rule, refused=rule.refused | others)


def _fragments(gemm: Gemm) -> list[int]:
    sources = [region.source for region in (gemm.a, gemm.b, gemm.c)]
    return [s.__chandle__() for s in sources if s.scope() == FRAGMENT]


def _unswizzled(func: X.PrimFunc) -> Iterator[int]:
    """Tiles that have another name, and those whose author wants another layout than the operand's."""
    views = storages(func.body)
    yield from (*views, *views.values())
    annotations = annotations_of(func)
    for stmt in walk(func.body):
        if not isinstance(stmt, X.AllocBuffer) or not stmt.buffer.scope().startswith("shared"):
            continue
        annotated = annotations.get(str(stmt.buffer.name))
        if annotated is not None and annotated.kind != "auto":
            shape, bits = shape_of(stmt.buffer), bits_of(str(stmt.buffer.dtype))
            if len(shape) < 2 or annotated.shared(shape, bits) != matrix_operand(shape, bits):
                yield stmt.buffer.__chandle__()


def _landing(func: X.PrimFunc) -> set[int]:
    """Tiles that no statement writes but copies by TMA."""
    by: dict[bool, set[int]] = {True: set(), False: set()}
    for stmt in walk(func.body):
        is_tma = isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.TMA_COPY)
        by[is_tma].update(a.buffer.__chandle__() for a in accesses(stmt) if a.mode == "write")
    views = storages(func.body)
    return by[True] - by[False] - {*views, *views.values()}


def lower_wgmma(gemm: Gemm, plan: WgmmaPlan, block: Block, landing: frozenset[int] = frozenset()) -> Any:
    """The multiplication, after a proxy fence where threads may have written an operand.

    landing: handles of tiles that only TMA writes.
    """
    m, n, k = gemm.shape
    warps, span = plan.warps, gemm.span
    operand, result = str(gemm.a.source.dtype), str(gemm.c.source.dtype)
    deep = 2 if isinstance(gemm, SparseGemm) else 1
    tiles, part, steps = m // (16 * warps.m), n // warps.n, k // (deep * wgmma_k(operand))
    group = block.simplify(block.thread // GROUP_THREADS % (warps.m // WGMMA_WARPS))
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
        lead, stride, *path = _walk(layout, steps, turned[0])
        integers += [_MODES[layout.swizzle_bytes], lead, stride, distance, *path]
        a = _pointer(gemm.a, group * WGMMA_M, turned[0], block)
    layout = block.layouts.shared[gemm.b.source.__chandle__()]
    integers += [_MODES[layout.swizzle_bytes], *_walk(layout, steps, turned[1], deep)]
    b = _pointer(gemm.b, column * part, turned[1], block)
    c = block.registers(gemm.c.source)
    d = X.address_of(X.BufferLoad(c, [X.const(0, "int32")]))
    form = "rs" if by_registers else "ss"
    types = PTX_OPERANDS[operand], PTX_OPERANDS[str(gemm.b.source.dtype)]
    name = wgmma_name((tiles, part, steps), types, PTX_RESULTS[result], form, turned, deep == 2)
    if gemm.asynchronous:
        name += "_async"
        block.products.append(c)
    args = [*(X.const(i, "int32") for i in integers), d, a, b]
    places: list[Any] = []
    if isinstance(gemm, SparseGemm):
        places, held = _places(gemm, warps, (tiles, steps), block)
        args.append(X.address_of(X.BufferLoad(held, [X.const(0, "int32")])))
    block.note_instruction(span, wgmma_text(n, operand, result, warps, deep == 2))
    product = seq([*places, X.Evaluate(tile_ops.call(f"tl.cuda.{name}", args, span=span), span)])
    shared = {r.source.__chandle__() for r in (gemm.a, gemm.b) if r.source.scope() != FRAGMENT}
    if shared <= landing:
        return product
    return seq([X.Evaluate(tile_ops.call("tl.cuda.fence_proxy_async", [], span=span), span), product])


def _places(
    gemm: SparseGemm, warps: WarpPartition, count: tuple[int, int], block: Block
) -> tuple[list[Any], Any]:
    """(Statements, the registers they fill): 32 bits of metadata for each tile of rows and step of K."""
    tiles, steps = count
    array = local(f"{gemm.e.source.name}_regs", "uint32", tiles * steps)
    metadata, warp = Metadata(gemm, block), block.simplify(block.thread // _WARP % warps.m)
    stores = [
        X.BufferStore(
            array, metadata.register(t * 16 * warps.m + warp * 16, step), [index(t * steps + step)], gemm.span
        )
        for t in range(tiles)
        for step in range(steps)
    ]
    return [X.AllocBuffer(array, span=gemm.span), *stores], array


def lower_arrive(stmt: Any, block: Block) -> Any:
    """Before single instructions: what threads wrote to operands is seen by them."""
    fence = tile_ops.call("tl.cuda.fence_proxy_async", [], span=stmt.span)
    return seq([X.Evaluate(fence, stmt.span), stmt])


def lower_wait_always(stmt: Any, block: Block) -> Any:
    """`lower_wait` where single instructions may be on their way, whose registers the author holds."""
    known = lower_wait(stmt, block)
    if known is not None:
        return known
    return X.Evaluate(tile_ops.call("tl.cuda.wgmma_wait", list(stmt.value.args), span=stmt.span), stmt.span)


def lower_wait(stmt: Any, block: Block) -> Any:
    """Wait for all but the newest products; what they are in is not read before."""
    count = int(stmt.value.args[0].value)
    if not block.products:
        return None
    wait = tile_ops.call("tl.cuda.wgmma_wait", [X.const(count, "int32")], span=stmt.span)
    newest = block.products[len(block.products) - count :] if count else []
    done = {p.__chandle__(): p for p in block.products if not any(p.same_as(n) for n in newest)}
    parts = [X.Evaluate(wait, stmt.span)]
    for product in done.values():
        name = registers_name(int(product.shape[0]), PTX_RESULTS[str(product.dtype)])
        pointer = X.address_of(X.BufferLoad(product, [X.const(0, "int32")]))
        parts.append(X.Evaluate(tile_ops.call(f"tl.cuda.{name}", [pointer], span=stmt.span), stmt.span))
    return seq(parts)


def _rows(layout: SharedLayout, rows: int, turned: bool) -> int:
    """The distance of two tiles that are `rows` apart along M, in units of the descriptor."""
    if not turned:
        return rows * layout.swizzle_bytes // _UNIT
    atom = layout.swizzle_bytes * 8 // layout.bits
    return rows // atom * (layout.shape[-2] * layout.swizzle_bytes) // _UNIT


def _walk(layout: SharedLayout, steps: int, turned: bool, deep: int = 1) -> tuple[int, int, int, int, int]:
    """(leading offset, stride offset, distance of steps, of groups of steps, steps in a group), in units.

    deep: how many times as deep as the usual steps are.
    Groups of 8 rows lie one after the other, columns of atoms after all rows of the column before.
    """
    width, rows = layout.swizzle_bytes, layout.shape[-2]
    eight, column = 8 * width // _UNIT, rows * width // _UNIT
    if turned:  # a step of K is 16 rows; M (N) goes along the row and on to the next column of atoms
        return column, eight, 2 * eight * deep, 0, steps
    step = WGMMA_K_BYTES * deep
    return 1, eight, step // _UNIT, column, width // step


def _pointer(region: Any, offset: Any, turned: bool, block: Block) -> Any:
    """The address of the operand's first element for this warpgroup, `offset` further along M (N)."""
    *leading, row, column = (r.min for r in region.region)
    place = (row, column + offset) if turned else (row + offset, column)
    load = X.BufferLoad(region.source, [*leading, *(block.simplify(p) for p in place)])
    return X.address_of(load)
