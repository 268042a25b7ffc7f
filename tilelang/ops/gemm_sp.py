"""T.gemm_sp: C += op(A) · op(B) with an A that is stored without the zeros of its 2:4 pattern.

Format, that of mma.sp (PTX ISA 9.7.15.6, "Multiply-and-Accumulate Instruction: mma.sp"): of 4 neighbours
along K two are stored, and 4 bits say which: the position of the first, then of the second, 2 bits each, the
lowest bits first. Of 32-bit elements one in 2 is stored, and its 4 bits count in halves of an element: 0b0100
or 0b1110. An element of E holds the 4 bits of as many neighbouring groups as fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilelang.arch.dtypes import dtype_info
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.ir import tile_ops
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import Operand, OpRecord
from tilelang.ir.values import Buffer, Region, Unknown, as_int, show
from tilelang.ops.build import attributes, operand_region, option
from tilelang.ops.gemm import GEMM, Gemm
from tilelang.ops.tile_op import CheckContext, Mode, OpDescription, RegionAccess, TileOp

from tvm import tirx as X  # isort: skip

CODE_BITS = 4  # of one group in E


@dataclass(frozen=True, eq=False)
class SparseGemm(Gemm):
    """A Gemm whose `a` is the stored half of A; `e` says where its elements stand, transposed if
    `transpose_e`.
    """

    e: Any = None
    transpose_e: bool = False

    def call(self) -> Any:
        """The statement `tl.gemm_sp(a, b, c, clear_accum, e)`."""
        clear = X.const(self.clear_accum, "bool") if isinstance(self.clear_accum, bool) else self.clear_accum
        attrs = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b, "policy": self.policy}
        attrs |= {"transpose_e": self.transpose_e, "asynchronous": self.asynchronous or None}
        operands = [self.a, self.b, self.c, clear, self.e]
        return X.Evaluate(tile_ops.call(tile_ops.GEMM_SP, operands, attrs, span=self.span), self.span)

    @staticmethod
    def read(call: Any) -> SparseGemm:
        """The operation a `tl.gemm_sp` call stands for."""
        a, b, c, clear, e = call.args
        return SparseGemm(a, b, c, **attributes(call), clear_accum=clear, span=call.span, e=e)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K) of the tile, with the K of the dense A."""
        m, n, stored = super().shape
        return m, n, 2 * stored


def gemm_of(call: Any) -> Gemm | None:
    """The product that a call stands for, of a dense or of a stored A; None for another call."""
    if tile_ops.is_call(call, tile_ops.GEMM_SP):
        return SparseGemm.read(call)
    return Gemm.read(call) if tile_ops.is_call(call, tile_ops.GEMM) else None


@dataclass(frozen=True)
class Mistake:
    """An operand that T.gemm_sp cannot take: its name (None: two do not go together), and what is wrong."""

    operand: str | None
    text: str


def wrong_tile(a: Region, e: Region) -> Mistake | None:
    """What is wrong with scope, rank or dtype of A_sparse and E."""
    for name, region, scopes, where in (
        ("A_sparse", a, ("shared", "local.fragment"), "in shared memory or in a fragment"),
        ("E", e, ("shared",), "in shared memory"),
    ):
        leading = [as_int(n) for n in region.extents[:-2]]
        several = any(n is not None and n != 1 for n in leading)
        if region.buffer.scope not in scopes or len(region.extents) < 2 or several:
            what = f"must be a tile of two dimensions {where}"
            return Mistake(name, f"`{name}` {what}; {region.text()} is none")
    stored, codes = dtype_info(str(a.buffer.dtype)), dtype_info(str(e.buffer.dtype))
    if stored.bits not in (8, 16, 32) or not codes.is_integer or codes.bits < 8:
        said = "stores elements of 8, 16 or 32 bits and E as integers"
        return Mistake(None, f"{said}, not {a.buffer.dtype} with {e.buffer.dtype}")
    return None


def dense_sizes(
    a: Region, e: Region, shape: Sequence[int], a_turned: bool, e_turned: bool
) -> tuple[int, int] | Mistake:
    """(M, K) of the dense A; `shape`: the extents of A_sparse as stored, then those of E."""
    rows, stored, e_rows, e_columns = shape
    if a_turned:
        rows, stored = stored, rows
    if e_turned:
        e_rows, e_columns = e_columns, e_rows
    size, dtype, width = 2 * stored, str(a.buffer.dtype), dtype_info(str(e.buffer.dtype)).bits
    wanted = size // group(dtype) * CODE_BITS
    if e_rows == rows and e_columns * width == wanted:
        return rows, size
    return Mistake(
        "E",
        f"{e.buffer.name} must be ({rows}, {show(wanted // width)}) {e.buffer.dtype}: 4 bits for each "
        f"{group(dtype)} of the {size} elements of a row of A, not ({e_rows}, {e_columns})",
    )


def group(dtype: str) -> int:
    """How many neighbours along K share one code."""
    return 2 if dtype_info(dtype).bits == 32 else 4


def accesses(record: OpRecord) -> Sequence[RegionAccess]:
    """A, E and B are read; C is updated, or only written where `clear_accum` is plainly true."""
    overwrites = as_int(record.value("clear_accum", False)) == 1
    modes: dict[str, Mode] = {"A_sparse": "read", "E": "read", "B": "read"}
    modes["C"] = "write" if overwrites else "update"
    return [
        RegionAccess(name, region, mode, region.extents)
        for name, mode in modes.items()
        if (region := record.region(name)) is not None
    ]


def build(record: OpRecord) -> Any:
    """`tl.gemm_sp` over the four regions."""
    regions = [record.region(name) for name in ("A_sparse", "B", "C", "E")]
    if any(r is None for r in regions):
        raise ValueError("the operands of T.gemm_sp must be known")
    a, b, c, e = (operand_region(r, r.extents) for r in regions if r is not None)
    clear = record.value("clear_accum", False)
    return SparseGemm(
        a,
        b,
        c,
        transpose_a=_flag(record, "transpose_A"),
        transpose_b=_flag(record, "transpose_B"),
        policy=option(record.value("policy", "Square")),
        clear_accum=clear if as_int(clear) is None else bool(as_int(clear)),
        asynchronous=bool(record.value("asynchronous", False)),
        span=to_tvm(record.span),
        e=e,
        transpose_e=_flag(record, "transpose_E"),
    ).call()


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """bad-arguments for A and E; all that T.gemm is checked for, with A as it would be written out."""
    a, e = record.region("A_sparse"), record.region("E")
    if a is None or e is None or not (a.buffer.known and e.buffer.known):
        return
    found: tuple[int, int] | Mistake | None = wrong_tile(a, e) or _runtime(a, e, context)
    if found is None:
        found = _sizes(record, a, e)
    if isinstance(found, Mistake):
        span = record.span if found.operand is None else record.span_of(found.operand)
        yield BAD_ARGUMENTS.at(span, callee=record.called, what=found.text)
    elif found is not None:
        yield from GEMM.verify(dense_record(record, found), context)


def describe(record: OpRecord, context: CheckContext) -> OpDescription:
    """The words of T.gemm's, with the A that is stored."""
    a, e = record.region("A_sparse"), record.region("E")
    if a is None or e is None or not (a.buffer.known and e.buffer.known) or wrong_tile(a, e) is not None:
        return OpDescription("multiplies by a matrix with 2 of 4 elements", "")
    sizes = _sizes(record, a, e)
    if sizes is None or isinstance(sizes, Mistake):
        return OpDescription("multiplies by a matrix with 2 of 4 elements", "")
    dense = GEMM.describe(dense_record(record, sizes), context)
    return replace(dense, instruction=None, notes=("2 of 4 elements of A are stored",))


def dense_record(record: OpRecord, sizes: tuple[int, int]) -> OpRecord:
    """The T.gemm of the dense A."""
    a = record.region("A_sparse")
    assert a is not None
    stored = a.buffer
    written_out = Buffer(f"{stored.name}_dense", "shared", sizes, stored.dtype, stored.span, stored.name_span)
    operands = {n: o for n, o in record.operands.items() if n not in ("A_sparse", "E", "transpose_E")}
    operands["A"] = Operand(Region(written_out, None, a.span), record.span_of("A_sparse"))
    operands["transpose_A"] = Operand(False, record.span_of("transpose_A"))
    return OpRecord("gemm", record.span, record.callee_span, operands, record.context, record.callee)


def _sizes(record: OpRecord, a: Region, e: Region) -> tuple[int, int] | Mistake | None:
    """(M, K) of the dense A; None where they are not known."""
    turns = [as_int(record.value(name, False)) for name in ("transpose_A", "transpose_E")]
    shape = [n for n in map(as_int, (*a.extents[-2:], *e.extents[-2:])) if n is not None]
    if None in turns or len(shape) < 4 or any(as_int(n) != 1 for n in (*a.extents[:-2], *e.extents[:-2])):
        return None
    return dense_sizes(a, e, shape, bool(turns[0]), bool(turns[1]))


def _runtime(a: Region, e: Region, context: CheckContext) -> Mistake | None:
    for name, region in (("A_sparse", a), ("E", e)):
        unknown = next((n for n in region.extents if context.runtime(n)), None)
        if unknown is not None:
            text = (
                f"the size {show(unknown)} of {region.buffer.name} must be known when the kernel is compiled"
            )
            return Mistake(name, text)
    return None


def _flag(record: OpRecord, name: str) -> bool:
    value = record.value(name, False)
    return not isinstance(value, Unknown) and bool(as_int(value))


GEMM_SP = TileOp("gemm_sp", verify, accesses, describe, build)
