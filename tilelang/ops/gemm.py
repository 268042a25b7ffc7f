"""T.gemm: C += op(A) · op(B) on tiles, with tensor cores where the target has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules import shape as shape_rules
from tilelang.ir import tile_ops
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import as_int
from tilelang.ops.build import attributes, operand_region, option
from tilelang.ops.gemm_legality import check_dtypes, check_scopes, check_tile
from tilelang.ops.gemm_plan import gemm_plan, lost_wgmma
from tilelang.ops.gemm_shapes import (
    check_ranks,
    check_runtime,
    matching_sides,
    shape_problems,
    transpose_options,
)
from tilelang.ops.operands import declared, dtype_name, regions, shape_text, times
from tilelang.ops.tile_op import CheckContext, Mode, OpDescription, RegionAccess, TileOp

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip


@dataclass(frozen=True, eq=False)
class Gemm:
    """C[M, N] += A[M, K] · B[K, N]; `transpose_a` means A is stored [K, M], `transpose_b` that B is stored
    [N, K].

    `clear_accum` is a boolean expression: start from zero instead of C's contents. `policy` is Square,
    FullRow or FullCol. Leading dimensions of the regions are 1.
    """

    a: Any  # TensorRegion
    b: Any
    c: Any
    transpose_a: bool = False
    transpose_b: bool = False
    policy: str = "Square"
    clear_accum: Any = False
    asynchronous: bool = False  # C is complete after `tl.wgmma_wait` only, where the target can
    span: Any = None

    def call(self) -> Any:
        """The statement `tl.gemm(a, b, c, clear_accum)`."""
        clear = X.const(self.clear_accum, "bool") if isinstance(self.clear_accum, bool) else self.clear_accum
        attrs = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b, "policy": self.policy}
        attrs["asynchronous"] = self.asynchronous or None
        return X.Evaluate(
            tile_ops.call(tile_ops.GEMM, [self.a, self.b, self.c, clear], attrs, span=self.span), self.span
        )

    @staticmethod
    def read(call: ir.Call) -> Gemm:
        """The operation a `tl.gemm` call stands for."""
        a, b, c, clear = call.args
        return Gemm(a, b, c, **attributes(call), clear_accum=clear, span=call.span)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K) of the tile; the extents are compile-time integers by then."""
        c = [int(r.extent) for r in self.c.region][-2:]
        a = [int(r.extent) for r in self.a.region][-2:]
        return c[0], c[1], a[0] if self.transpose_a else a[1]


def accesses(record: OpRecord) -> Sequence[RegionAccess]:
    """A and B are read; C is updated, or only written where `clear_accum` is plainly true."""
    overwrites = as_int(record.value("clear_accum", False)) == 1
    modes: dict[str, Mode] = {"A": "read", "B": "read", "C": "write" if overwrites else "update"}
    return [
        RegionAccess(name, region, mode, region.extents)
        for name, mode in modes.items()
        if (region := record.region(name)) is not None
    ]


def build(record: OpRecord) -> Any:
    """`tl.gemm` over the three regions."""
    regions = [record.region(name) for name in ("A", "B", "C")]
    if any(r is None for r in regions):
        raise ValueError("the operands of T.gemm must be known")
    clear = record.value("clear_accum", False)
    return Gemm(
        *(operand_region(r, r.extents) for r in regions if r is not None),
        transpose_a=bool(as_int(record.value("transpose_A", False))),
        transpose_b=bool(as_int(record.value("transpose_B", False))),
        policy=option(record.value("policy", "Square")),
        clear_accum=clear if as_int(clear) is None else bool(as_int(clear)),
        asynchronous=bool(record.value("asynchronous", False)),
        span=to_tvm(record.span),
    ).call()


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """gemm-shape, gemm-scope, gemm-dtype, gemm-runtime-extent, gemm-tile, thread-count."""
    yield from check_scopes(record, context)
    yield from check_dtypes(record, context)
    shapes = list(check_ranks(record, context))
    yield from shapes
    found, transposes = regions(record, ("A", "B", "C")), transpose_options(record)
    if shapes or found is None or transposes is None:
        return
    pairs = matching_sides(found[0], found[1], found[2], *transposes)
    wrong = [p for p in pairs if context.prover.equal(p[0].size, p[1].size) is False]
    if wrong:
        yield from shape_problems(record, found, transposes, wrong, context)
        return
    empty = next((side for side, _ in pairs if context.prover.equal(side.size, 0)), None)
    if empty is not None:
        yield shape_rules.GEMM_EMPTY.at(
            record.span_of(empty.argument),
            related=declared(empty.region.buffer),
            dim=empty.name,
            operand=empty.region.text(),
            shape=shape_text(empty.region.extents),
        )
        return
    runtime = list(check_runtime(record, pairs, context))
    yield from runtime
    if not runtime:
        yield from check_tile(record, pairs, context)


def describe(record: OpRecord, context: CheckContext) -> OpDescription:
    """`C[128×128] += A[128×32] · B[32×128]`, with the instruction and the warps the lowering will use."""
    found, transposes = regions(record, ("A", "B", "C")), transpose_options(record)
    if found is None or transposes is None or any(len(r.extents) < 2 for r in found):
        return OpDescription("multiplies two tiles", "")
    a, b, c = found
    sides = {left.name: left.size for left, _ in matching_sides(a, b, c, *transposes)}
    operand, accumulator = dtype_name(a.buffer) or "unknown", dtype_name(c.buffer) or "unknown"
    names = [
        r.buffer.name + ("ᵀ" if flipped else "") for r, flipped in ((a, transposes[0]), (b, transposes[1]))
    ]
    sign = "=" if as_int(record.value("clear_accum", False)) == 1 else "+="
    tile = times([sides["M"], sides["N"], sides["K"]])
    summary = f"{c.buffer.name} {sign} {names[0]} · {names[1]}, M×N×K = {tile}, {operand} → {accumulator}"
    plan = gemm_plan(record, context)
    if plan is None:
        return OpDescription(summary, f"{tile} {operand}")
    notes = [plan.instruction.note, lost_wgmma(plan, record, context)]
    return OpDescription(summary, f"{tile} {operand}", plan.text, tuple(filter(None, notes)))


GEMM = TileOp("gemm", verify, accesses, describe, build)
