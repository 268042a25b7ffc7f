"""From the operands of a record to what `tl.*` calls hold: TIRX regions, scalars, plain option values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from tilelang.ir import tile_ops
from tilelang.ir.values import Region, Value, as_int

from tvm import tirx as X  # isort: skip


def operand_region(region: Region, extents: Sequence[Value]) -> Any:
    """The TIRX region of an operand that covers `extents` from its start."""
    return tile_ops.region(
        region.buffer.var, [_index(v) for v in region.starts], [_index(v) for v in extents]
    )


def convert(value: Value, dtype: str) -> Any:
    """A scalar as an expression of `dtype`: a constant, or a cast where the dtypes differ."""
    if isinstance(value, bool | int | float):
        return X.const(bool(value) if dtype == "bool" else value, dtype)
    return value if str(value.ty) == dtype else X.Cast(dtype, value)


def attributes(call: Any) -> dict[str, Any]:
    """The attributes of a `tl.*` call; empty where it has none."""
    return dict(call.attrs.items()) if call.attrs else {}


def option(value: Any) -> Any:
    """An option as a plain value: the name of an enum member, a Python number, the string itself."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool | float):
        return value
    number = as_int(value)
    return str(value) if number is None else number


def _index(value: Value) -> Any:
    number = as_int(value)
    return value if number is None else X.const(number, "int32")


def written_as(call: Any) -> str:
    """What the author of a tile operation called: `T.reduce_max`, `T.cumsum`, `T.clear`."""
    name, given = str(call.op.name).removeprefix("tl."), attributes(call)
    kind = given.get("kind")
    match name:
        case "reduce":
            return f"T.reduce_{kind}"
        case "scan":
            return f"T.cum{kind}"
        case "fill" if given.get("clears"):
            return "T.clear"
        case "atomic" | "atomic_tile":
            return f"T.atomic_{kind}"
    return f"T.{name}"
