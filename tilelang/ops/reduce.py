"""T.reduce_sum, T.reduce_max, T.reduce_min and relatives: fold one dimension of a tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.arch.dtypes import DTYPES
from tilelang.diagnostics.problem import Fix, Problem
from tilelang.diagnostics.rules.dtype import REDUCE_DTYPE
from tilelang.diagnostics.rules.scope import REDUCE_SCOPE
from tilelang.diagnostics.rules.shape import REDUCE_DIM, REDUCE_OTHER_DIM, REDUCE_PERHAPS, REDUCE_SHAPE
from tilelang.ir import tile_ops
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, Value, as_int, show
from tilelang.ops.build import attributes, operand_region, option
from tilelang.ops.operands import declared, dtype_name, scope_name, shape_text, times
from tilelang.ops.source_edits import append_argument, replace_argument
from tilelang.ops.tile_op import CheckContext, Mode, OpDescription, RegionAccess, TileOp

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip


@dataclass(frozen=True, eq=False)
class Reduce:
    """`dst = kind over dimension dim of src`; `dim` counts from 0. `clear` False combines with dst's old
    contents once.

    `kind` is sum, max, min, abssum, absmax, bitand, bitor or bitxor. dst has src's shape without `dim`, or
    with 1 there. `nan_propagate`: a NaN among the operands of a maximum or minimum is the result; else it
    never is.
    """

    src: Any  # TensorRegion
    dst: Any
    kind: str
    dim: int
    clear: bool = True
    span: Any = None
    nan_propagate: bool = False

    def call(self) -> Any:
        """The statement `tl.reduce(src, dst)`."""
        attrs = {"kind": self.kind, "dim": self.dim, "clear": self.clear}
        if self.nan_propagate:
            attrs["nan_propagate"] = True
        return X.Evaluate(
            tile_ops.call(tile_ops.REDUCE, [self.src, self.dst], attrs, span=self.span), self.span
        )

    @staticmethod
    def read(call: ir.Call) -> Reduce:
        """The operation a `tl.reduce` call stands for."""
        return Reduce(call.args[0], call.args[1], **attributes(call), span=call.span)


def reduced_dim(record: OpRecord) -> int | None:
    """The dimension that is folded, counted from 0; None if it is unknown or out of range."""
    region, dim = record.region("buffer"), as_int(record.value("dim", -1))
    if region is None or dim is None:
        return None
    rank = len(region.extents)
    return dim % rank if -rank <= dim < rank else None


def accesses(record: OpRecord) -> Sequence[RegionAccess]:
    """The source is read; the destination is written, or updated with `clear=False`."""
    mode: Mode = "update" if as_int(record.value("clear", True)) == 0 else "write"
    modes: tuple[tuple[str, Mode], ...] = (("buffer", "read"), ("out", mode))
    return [
        RegionAccess(name, region, how, region.extents)
        for name, how in modes
        if (region := record.region(name)) is not None
    ]


def build(record: OpRecord) -> Any:
    """`tl.reduce` over both regions."""
    src, dst, dim = record.region("buffer"), record.region("out"), reduced_dim(record)
    if src is None or dst is None or dim is None:
        raise ValueError("the operands of a reduction must be known")
    kind = str(option(record.value("kind", "sum")))
    if str(dst.buffer.dtype) == "bool":
        kind = _OF_BOOL.get(kind, kind)
    return Reduce(
        operand_region(src, src.extents),
        operand_region(dst, dst.extents),
        kind=kind,
        dim=dim,
        clear=bool(as_int(record.value("clear", True))),
        span=to_tvm(record.span),
        nan_propagate=bool(record.value("nan_propagate", False)) and "float" in str(dst.buffer.dtype),
    ).call()


_TILES = frozenset({"local.fragment", "shared"})
_SUMS = ("sum", "abssum")
# What the folds of numbers are of truth values.
_OF_BOOL = {"max": "bitor", "absmax": "bitor", "min": "bitand"}
_PRIVATE = frozenset({"local", "local.var"})


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """reduce-shape, reduce-dtype, reduce-scope."""
    src, dst = record.region("buffer"), record.region("out")
    if src is None or dst is None:
        return
    yield from _check_shape(record, src, dst, context)
    kind, info = str(option(record.value("kind", "sum"))), DTYPES.get(dtype_name(src.buffer) or "")
    if kind.startswith("bit") and info is not None and info.is_float:
        yield REDUCE_DTYPE.at(
            record.span_of("buffer"),
            related=declared(src.buffer),
            buffer=src.buffer.name,
            dtype=info.name,
            kind=f"T.reduce_{kind}",
            works="works on the bits of integers and bool: view it as integers with T.view",
        )
    if kind in _SUMS and dtype_name(dst.buffer) == "bool":
        yield REDUCE_DTYPE.at(
            record.span_of("out"),
            related=declared(dst.buffer),
            buffer=dst.buffer.name,
            dtype="bool",
            kind=f"T.reduce_{kind}",
            works="adds numbers: count into an integer tile, or ask with T.reduce_max whether any holds",
        )
    a, b = src.buffer.scope, dst.buffer.scope
    if not ({a, b} <= _TILES or (a == "local" and b in _PRIVATE)):
        yield REDUCE_SCOPE.at(
            record.span_of("out" if a in _TILES else "buffer"),
            related=declared(src.buffer, dst.buffer),
            buffer=src.buffer.name,
            scope=scope_name(src.buffer),
            out=dst.buffer.name,
            out_scope=scope_name(dst.buffer),
        )


def _check_shape(record: OpRecord, src: Region, dst: Region, context: CheckContext) -> Iterator[Problem]:
    asked, dim = as_int(record.value("dim", -1)), reduced_dim(record)
    rank = len(src.extents)
    if asked is not None and dim is None:
        yield REDUCE_DIM.at(
            record.span_of("dim"),
            related=declared(src.buffer),
            buffer=src.text(),
            shape=shape_text(src.extents),
            fixes=() if (cure := _fitting_dim(src, dst, context)) is None else _dim_fix(record, cure),
            dim=asked,
            rank=f"{rank} dimension" + "s" * (rank != 1),
            last=rank - 1,
        )
    if dim is None or src.is_point or dst.is_point:
        return
    folded = src.extents[:dim] + src.extents[dim + 1 :]
    kept = (*src.extents[:dim], 1, *src.extents[dim + 1 :])
    cure = _fitting_dim(src, dst, context)
    differs = all(_differ(dst.extents, shape, context) for shape in (folded, kept))
    if differs or cure not in (None, dim):
        rule = REDUCE_PERHAPS if not differs else REDUCE_SHAPE if cure is None else REDUCE_OTHER_DIM
        yield rule.at(
            record.span_of("out"),
            related=declared(src.buffer, dst.buffer),
            fixes=() if cure is None else _dim_fix(record, cure),
            out=dst.text(),
            out_shape=shape_text(dst.extents),
            dim=dim,
            buffer=src.text(),
            shape=shape_text(src.extents),
            expected=shape_text(folded or (1,)),
            cure=cure,
        )


def _fitting_dim(src: Region, dst: Region, context: CheckContext) -> int | None:
    """The one dimension whose reduction surely gives the destination's shape; None if none or several do."""
    fitting = []
    for dim in range(len(src.extents)):
        before, after = src.extents[:dim], src.extents[dim + 1 :]
        for shape in ((*before, *after), (*before, 1, *after)):
            if len(shape) == len(dst.extents) and all(
                context.prover.equal(a, b) for a, b in zip(shape, dst.extents, strict=True)
            ):
                fitting.append(dim)
    return fitting[0] if len(fitting) == 1 else None


def _dim_fix(record: OpRecord, dim: int) -> tuple[Fix, ...]:
    edit = replace_argument(record, "dim", str(dim)) or append_argument(record, f"dim={dim}")
    return () if edit is None else (Fix(f"Use dim={dim}", (edit,)),)


def _differ(found: Sequence[Value], expected: Sequence[Value], context: CheckContext) -> bool:
    """Whether two shapes are proven different."""
    return len(found) != len(expected) or any(
        context.prover.equal(a, b) is False for a, b in zip(found, expected, strict=True)
    )


def describe(record: OpRecord, context: CheckContext) -> OpDescription:
    """`sum over dimension 1 (128) of 64×128 float32, fragment s → fragment r`."""
    src, dst, dim = record.region("buffer"), record.region("out"), reduced_dim(record)
    kind = str(option(record.value("kind", "sum")))
    if src is None or dst is None or dim is None:
        return OpDescription(f"{kind} over one dimension", "")
    tile = f"{times(src.extents)} {dtype_name(src.buffer) or 'unknown'}"
    way = f"{scope_name(src.buffer)} {src.text()} → {scope_name(dst.buffer)} {dst.text()}"
    notes = () if as_int(record.value("clear", True)) != 0 else (f"combined with the old {dst.buffer.name}",)
    size = show(src.extents[dim])
    return OpDescription(
        f"{kind} over dimension {dim} ({size}) of {tile}, {way}", f"{kind} of {size}", notes=notes
    )


REDUCE = TileOp("reduce", verify, accesses, describe, build)
