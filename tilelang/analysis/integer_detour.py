"""integer-detour: floats are stored in a tile of integers, cut off there, and used as floats again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilelang.analysis.contents import History, Touch, histories
from tilelang.analysis.read_before_write import place_of
from tilelang.analysis.subject import Subject
from tilelang.arch.dtypes import DTYPES
from tilelang.diagnostics.problem import Fix, Problem, Related
from tilelang.diagnostics.rules.dtype import INTEGER_DETOUR
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import operands_of
from tilelang.ir.tile_program import Store, walk
from tilelang.ir.values import Buffer, Value, dtype_of
from tilelang.ir.whole import is_whole
from tilelang.ops.operands import declared, dtype_name
from tilelang.ops.source_edits import dtype_edit

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_DATA = {"copy": ("src", "dst"), "reduce": ("buffer", "out"), "transpose": ("src", "dst")}


def check(subject: Subject) -> Iterator[Problem]:
    """Silent where the values are whole or the conversion is written out, where the tile is also used as
    integers, and where the kernel does nothing but convert.
    """
    for history in subject.shared(histories):
        tile = history.buffer
        info = DTYPES.get(dtype_name(tile) or "")
        if history.escaped or tile.role is not None or info is None or not info.is_integer:
            continue
        cut = _first_cut(subject, history)
        if cut is None:
            continue
        write, dtype = cut
        used = _first_use_as_float(subject, history)
        if used is None:
            continue
        edit = dtype_edit(tile.span, subject.text, str(tile.dtype), dtype)
        yield INTEGER_DETOUR.at(
            write.span,
            related=(
                Related(place_of(subject, tile, used), f"{tile.name} is used as {dtype} again"),
                *declared(tile),
            ),
            fixes=() if edit is None else (Fix(f"Make {tile.name} {dtype}", (edit,)),),
            buffer=tile.name,
            dtype=tile.dtype,
            value_dtype=dtype,
            line=used.span.line,
        )


def _first_cut(subject: Subject, history: History) -> tuple[Touch, str] | None:
    """The first write of floats, if nothing but floats and constants is written."""
    found: tuple[Touch, str] | None = None
    for write in history.writes:
        if write.record is not None and write.record.op in ("fill", "scan"):
            continue  # a scan in place adds up what was cut off before
        dtype = _written_dtype(subject, write)
        if dtype is None or not DTYPES[dtype].is_float:
            return None
        found = found or (write, dtype)
    return found


def _written_dtype(subject: Subject, write: Touch) -> str | None:
    """The dtype of what is converted without a word; None where nothing is."""
    if write.record is not None:
        names = _DATA.get(write.record.op)
        region = write.record.region(names[0]) if names else None
        return None if region is None else dtype_name(region.buffer)
    for store in subject.shared(_stores).get(write.span, ()):
        dtype = dtype_of(store.value)
        whole = is_whole(store.value, subject.definitions)
        return None if whole or dtype not in DTYPES else dtype
    return None


def _first_use_as_float(subject: Subject, history: History) -> Touch | None:
    """The first read that computes with the widened values, if none needs them as integers. A copy to a float
    tensor alone may be what the kernel is for, unless a scan goes before it.
    """
    found: Touch | None = None
    scanned: Touch | None = None
    out = False
    for read in history.reads:
        if read.record is not None and read.record.op == "scan":
            scanned = scanned or read
            continue
        if read.record is not None:
            kind = _moved_to(read)
        else:
            kind = _stored_as(subject, read, history.buffer)
        if kind == "other":
            return None
        out = out or kind == "out"
        if kind == "float":
            found = found or read
    return found or (scanned if out else None)


def _stored_as(subject: Subject, read: Touch, tile: Buffer) -> str:
    stores = subject.shared(_stores).get(read.span, ())
    if stores and all(_moves_out(s, tile) for s in stores):
        return "out"
    uses = [u for s in stores for u in _uses(s.value, tile)]
    if not uses or not all(uses) or any(_in_index(s, tile) for s in stores):
        return "other"
    return "other" if _written_out(subject, read, tile.name) else "float"


def _moves_out(store: Store, tile: Buffer) -> bool:
    """Whether an element goes to a tensor of floats as it is."""
    info = DTYPES.get(dtype_name(store.buffer) or "")
    value = store.value
    plain = value.value if isinstance(value, X.Cast) else value
    to_floats = info is not None and info.is_float and store.buffer.scope == "global"
    return to_floats and _is_load_of(plain, tile)


def _written_out(subject: Subject, read: Touch, name: str) -> bool:
    """Whether the author converts the integers in so many words, and so knows what they are."""
    lines = subject.text.split("\n")[read.span.line - 1 : read.span.end_line]
    return re.search(rf"\b(cast|b?float\w*)\(\s*{re.escape(name)}\b", "\n".join(lines)) is not None


def _moved_to(read: Touch) -> str:
    """Where a tile operation moves the values: to "float"s to compute with, "out" to a float tensor."""
    record = read.record
    names = _DATA.get(record.op) if record is not None else None
    dst = record.region(names[1]) if record is not None and names else None
    info = None if dst is None else DTYPES.get(dtype_name(dst.buffer) or "")
    if record is None or dst is None or info is None or not info.is_float:
        return "other"
    return "float" if record.op == "reduce" or dst.buffer.scope != "global" else "out"


def _uses(value: Value, tile: Buffer) -> Iterator[bool]:
    """For each load of the tile in a value, whether it is converted to a float at once."""
    if isinstance(value, X.Cast) and _is_load_of(value.value, tile):
        info = DTYPES.get(str(value.ty))
        yield info is not None and info.is_float
    elif _is_load_of(value, tile):
        yield False
    elif isinstance(value, ir.Expr) and not isinstance(value, ir.Var):
        for part in operands_of(value):
            yield from _uses(part, tile)


def _is_load_of(value: Value, tile: Buffer) -> bool:
    return isinstance(value, ir.TensorLoad) and tile.known and value.source.same_as(tile.var)


def _in_index(store: Store, tile: Buffer) -> bool:
    return any(_loads(i, tile) for i in store.indices)


def _loads(value: Value, tile: Buffer) -> bool:
    if _is_load_of(value, tile):
        return True
    if not isinstance(value, ir.Expr) or isinstance(value, ir.Var):
        return False
    return any(_loads(part, tile) for part in operands_of(value))


def _stores(subject: Subject) -> dict[Span, list[Store]]:
    found: dict[Span, list[Store]] = {}
    for node in walk(subject.program.body):
        if isinstance(node, Store):
            found.setdefault(node.span, []).append(node)
    return found
