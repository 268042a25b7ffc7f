"""T.atomic_add and relatives: indivisible updates of elements in memory, alone or tile by tile.

An element: `tl.atomic(address, value, ...)`, a call that is the old value. A tile: `tl.atomic_tile(dst,
src)`, which every target expands into one element update per iteration of a Parallel loop. `kind` is add,
max, min, or, load or store. Extents of tiles follow the rules of T.copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.arch.atomics import atomic_dtypes, atomic_orders
from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.rules.dtype import ATOMIC_DTYPE, ATOMIC_ORDER
from tilelang.diagnostics.rules.scope import ATOMIC_SCOPE
from tilelang.diagnostics.rules.shape import ATOMIC_PART, ATOMIC_SHAPE
from tilelang.diagnostics.span import lines_of
from tilelang.ir import tile_ops
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, as_int
from tilelang.ops.build import attributes, convert, operand_region
from tilelang.ops.extents import copy_extents, side_that_iterates
from tilelang.ops.operands import declared, dtype_name, scope_name, shape_text, times
from tilelang.ops.slices import slice_text
from tilelang.ops.source_edits import span_text
from tilelang.ops.tile_op import CheckContext, Mode, OpDescription, RegionAccess, TileOp

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_WORDS = {
    "add": "adds to",
    "max": "raises",
    "min": "lowers",
    "or": "sets bits of",
    "load": "reads",
    "store": "writes",
}
RELAXED = "relaxed"


@dataclass(frozen=True, eq=False)
class Atomic:
    """One element: `dst op= value`; the call is the old value (the value itself for load).

    `values` holds one value of the element's dtype for each of `lanes` neighbouring elements, none for load.
    """

    dst: Any  # TensorLoad of the first element
    values: tuple[Any, ...]
    kind: str
    order: str = RELAXED
    span: Any = None

    def call(self) -> Any:
        """The call; of type void where several elements are updated or nothing comes back."""
        attrs = {"kind": self.kind, "order": self.order}
        dtype = str(self.dst.source.dtype) if len(self.values) <= 1 and self.kind != "store" else "void"
        args = [X.address_of(self.dst), *self.values]
        return tile_ops.call(tile_ops.ATOMIC, args, attrs, dtype, self.span)

    @staticmethod
    def read(call: ir.Call) -> Atomic:
        """The operation a `tl.atomic` call stands for."""
        return Atomic(call.args[0].args[0], tuple(call.args[1:]), **attributes(call), span=call.span)


@dataclass(frozen=True, eq=False)
class AtomicTile:
    """A tile: `dst[...] op= src[...]`; both regions hold the same extents other than 1, in order."""

    dst: Any  # TensorRegion
    src: Any
    kind: str
    order: str = RELAXED
    span: Any = None

    def call(self) -> Any:
        """The statement `tl.atomic_tile(dst, src)`."""
        attrs = {"kind": self.kind, "order": self.order}
        made = tile_ops.call(tile_ops.ATOMIC_TILE, [self.dst, self.src], attrs, span=self.span)
        return X.Evaluate(made, self.span)

    @staticmethod
    def read(call: ir.Call) -> AtomicTile:
        """The operation a `tl.atomic_tile` call stands for."""
        return AtomicTile(call.args[0], call.args[1], **attributes(call), span=call.span)


def _source(record: OpRecord) -> Region | None:
    """The tile that is added, None for an update of elements by numbers or of a few neighbours."""
    return None if _lanes(record) > 1 else record.region("value")


def _lanes(record: OpRecord) -> int:
    """How many neighbouring elements T.atomic_addx2 and its kin update; 1 for the others."""
    return int(record.value("lanes", 1))


def accesses(record: OpRecord) -> Sequence[RegionAccess]:
    """The destination is updated; what a tile form adds is read."""
    dst, src = record.region("dst"), _source(record)
    if dst is None:
        return []
    kind = record.value("kind")
    mode: Mode = "read" if kind == "load" else "write" if kind == "store" else "update"
    if src is None:
        found = [RegionAccess("dst", dst, mode, _neighbours(dst, _lanes(record)))]
        value = record.region("value")
        if value is not None:
            found.insert(0, RegionAccess("value", value, "read", _neighbours(value, _lanes(record))))
        return found
    extents = copy_extents(src, dst)
    return [RegionAccess("value", src, "read", extents.src), RegionAccess("dst", dst, mode, extents.dst)]


def _neighbours(region: Region, lanes: int) -> tuple[int, ...]:
    return (*(1 for _ in region.starts[:-1]), lanes)


def build(record: OpRecord) -> Any:
    """The statement: a tile update, an element update, or a scalar bound to the element's value."""
    dst, src, span = record.region("dst"), _source(record), to_tvm(record.span)
    if dst is None:
        raise ValueError("the destination of an atomic must be known")
    kind, order = str(record.value("kind")), str(record.value("order", RELAXED))
    if src is not None:
        extents = copy_extents(src, dst)
        regions = operand_region(dst, extents.dst), operand_region(src, extents.src)
        return AtomicTile(*regions, kind, order, span).call()
    dtype = str(dst.buffer.dtype)
    given = record.value("values", ())
    first = record.region("value")
    if first is not None:
        *outer, last = first.starts
        steps = [[*outer, last + lane if lane else last] for lane in range(_lanes(record))]
        given = [X.BufferLoad(first.buffer.var, [_index(i) for i in at]) for at in steps]
    values = tuple(convert(v, dtype) for v in given)
    call = Atomic(
        X.BufferLoad(dst.buffer.var, [_index(i) for i in dst.starts]), values, kind, order, span
    ).call()
    result = record.value("result")
    return X.Evaluate(call, span) if result is None else X.Bind(result, call, span)


def _index(value: Any) -> Any:
    return X.const(value, "int32") if isinstance(value, int) else value


def _ordinary(kind: str, place: str, value: str, call: str) -> str:
    """What does the same as an atomic where one thread alone reaches the element; `call` is the atomic's."""
    if kind in ("max", "min"):
        prefix = call.rpartition("atomic_")[0]
        return f"{place} = {prefix}{kind}({place}, {value})"
    operator = {"add": "+=", "or": "|=", "store": "="}.get(kind)
    return place if operator is None else f"{place} {operator} {value}"


def _plain_update(record: OpRecord, dst: Region, source: str) -> tuple[Fix, ...]:
    """`T.atomic_add(f[i], x)` as `f[i] += x`, where the call is a statement of its own."""
    place, value = (span_text(record.span_of(name), source) for name in ("dst", "values"))
    before = lines_of(record.span, source)[record.span.line - 1][: record.span.column - 1] if place else "?"
    single = len(record.value("values", ())) == 1 and _lanes(record) == 1
    call = span_text(record.callee_span, source)
    shared_text = record.span.via is not None  # of a macro, whose other callers may pass a tensor
    if shared_text or not single or not dst.is_point or before.strip() or not value or "atomic_" not in call:
        return ()
    new = _ordinary(str(record.value("kind")), place, value, call)
    return (Fix(f"Write `{new}`", (Edit(record.span, new),)),)


def _unneeded(record: OpRecord, dst: Region, kind: str, source: str) -> Problem:
    """An atomic on what one thread alone reaches, with the ordinary statement for it."""
    where = f"in {scope_name(dst.buffer)} memory, where every element belongs to one thread"
    place = dst.text() if dst.is_point else f"{dst.buffer.name}[...]"
    if dst.buffer.scope == "local.var":
        where, place = "a variable, which every thread has for itself", dst.buffer.name
    instead = f"`{_ordinary(kind, place, '...', 'T.atomic_')}`"
    return ATOMIC_SCOPE.at(
        record.span_of("dst"),
        related=declared(dst.buffer),
        fixes=_plain_update(record, dst, source),
        buffer=dst.buffer.name,
        where=where,
        instead=instead if "[...]" not in place else f"{instead} in a T.Parallel loop",
    )


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """atomic-scope, atomic-dtype, atomic-order, atomic-shape."""
    dst, src, kind = record.region("dst"), _source(record), str(record.value("kind"))
    if dst is None or not dst.fits_rank:
        return
    if dst.buffer.scope not in ("global", "shared"):
        yield _unneeded(record, dst, kind, context.text)
    dtype, legal = dtype_name(dst.buffer), atomic_dtypes(context.target, kind)
    if dtype is not None and legal is not None and dtype not in legal:
        yield ATOMIC_DTYPE.at(
            record.span_of("dst"),
            related=declared(dst.buffer),
            op=record.value("callee", f"T.atomic_{kind}"),
            verb={"load": "read", "store": "write"}.get(kind, "update"),
            buffer=dst.buffer.name,
            dtype=dtype,
            target=context.target.name,
            legal=", ".join(legal),
        )
    order, orders = record.value("order", RELAXED), atomic_orders(context.target)
    if orders is not None and isinstance(order, str) and order not in orders:
        yield ATOMIC_ORDER.at(
            record.span_of("order"), order=order, target=context.target.name, legal=", ".join(orders)
        )
    if src is not None and src.fits_rank:
        yield from _extents(record, src, dst, context)


def _extents(record: OpRecord, src: Region, dst: Region, context: CheckContext) -> Iterator[Problem]:
    """atomic-shape: extents that do not fit are an error; a part of what is named is a warning, as the
    update is made for what the side that decides covers.
    """
    kinds = {m.kind for m in copy_extents(src, dst, context.prover).mismatches}
    if not kinds:
        return
    shapes = {"src_shape": shape_text(src.extents), "dst_shape": shape_text(dst.extents)}
    places = {"related": declared(src.buffer, dst.buffer), "src": src.text(), "dst": dst.text(), **shapes}
    if kinds != {"source-smaller"}:
        yield ATOMIC_SHAPE.at(record.span_of("value"), **places)
    elif side_that_iterates(src, dst) is src:
        what = f"the update covers {shapes['src_shape']} only"
        text = slice_text(dst, copy_extents(src, dst, context.prover).dst, context.text)
        fixes = () if text is None else (Fix(f"Use the slice {text}", (Edit(record.span_of("dst"), text),)),)
        yield ATOMIC_PART.at(record.span_of("dst"), what=what, fixes=fixes, **places)
    else:
        what = f"the update reads past the end of {src.text()}"
        yield ATOMIC_PART.at(record.span_of("value"), what=what, **places)


def describe(record: OpRecord, context: CheckContext) -> OpDescription:
    """`adds 64×64 float32 to global C, element by element`."""
    dst, src, kind = record.region("dst"), _source(record), str(record.value("kind"))
    if dst is None:
        return OpDescription("updates memory indivisibly", "")
    where = f"{scope_name(dst.buffer)} {dst.text()}"
    order = str(record.value("order", RELAXED))
    notes = () if order == RELAXED else (f"memory order {order}",)
    if src is None:
        lanes = _lanes(record)
        many = f"{lanes} elements at " if lanes > 1 else ""
        around = not record.context.parallel_vars() and kind not in ("load", "store")
        if around and context.threads is not None and context.threads > 1 and not record.context.guards:
            notes += (f"outside T.Parallel each of the {context.threads} threads does it",)
        return OpDescription(f"{_WORDS[kind]} {many}{where} indivisibly", f"atomic {kind}", notes=notes)
    extents = [e for e in copy_extents(src, dst, context.prover).src if as_int(e) != 1]
    tile = f"{times(extents)} {dtype_name(src.buffer) or 'unknown'}"
    return OpDescription(
        f"{_WORDS[kind]} {where} indivisibly, element by element, {tile}", f"atomic {kind}", notes=notes
    )


ATOMIC = TileOp("atomic", verify, accesses, describe, build)
