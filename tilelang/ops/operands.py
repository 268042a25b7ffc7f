"""How messages and hovers name an operand, and where it was allocated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilelang.diagnostics.problem import Related
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import SCOPE_NAMES, Buffer, Region, Unknown, Value, as_int, show


def shape_text(extents: Sequence[Value]) -> str:
    """`(128, 32)`, `(64,)`."""
    inside = ", ".join(show(e) for e in extents)
    return f"({inside},)" if len(extents) == 1 else f"({inside})"


def type_text(buffer: Buffer) -> str:
    """`float16[128, 32] shared`."""
    dtype = "unknown" if isinstance(buffer.dtype, Unknown) else str(buffer.dtype)
    return f"{dtype}[{', '.join(show(d) for d in buffer.shape)}] {scope_name(buffer)}"


def scope_name(buffer: Buffer) -> str:
    """`shared`, `fragment`, `global`, as messages say it."""
    return SCOPE_NAMES.get(buffer.scope, buffer.scope)


def declared(*buffers: Buffer) -> tuple[Related, ...]:
    """Where each buffer comes from, for the related places of a problem."""
    unique = dict.fromkeys(buffers)
    return tuple(Related(b.name_span, f"{b.name} is {type_text(b)}") for b in unique)


def regions(record: OpRecord, names: Iterable[str]) -> list[Region] | None:
    """The operands as regions, None if one is not known."""
    found = [record.region(name) for name in names]
    return None if any(r is None for r in found) else [r for r in found if r is not None]


def dtype_name(buffer: Buffer) -> str | None:
    """The dtype as text, None if unknown."""
    return None if isinstance(buffer.dtype, Unknown) else str(buffer.dtype)


def bytes_text(count: int) -> str:
    """`8 KiB`, `1.5 KiB`, `40 B`."""
    if count < 1024:
        return f"{count} B"
    value = count / 1024
    return f"{value:.0f} KiB" if value == int(value) else f"{value:.1f} KiB"


def tile_bytes(extents: Sequence[Value], dtype: str | None) -> int | None:
    """Bytes of a tile, None where a size or the dtype is not known."""
    bits = dtype_bits(dtype)
    count = 1
    for extent in extents:
        number = as_int(extent)
        if number is None:
            return None
        count *= number
    return None if bits is None else (count * bits + 7) // 8


def dtype_bits(dtype: str | None) -> int | None:
    """Bits of one element; vector dtypes (`float16x4`) count all lanes."""
    if dtype is None:
        return None
    base, _, lanes = dtype.partition("x")
    if base == "bool":
        return 8
    if base.startswith("bfloat16"):
        bits = 16
    else:
        digits = "".join(c for c in base.partition("_")[0] if c.isdigit())
        if not digits:
            return None
        bits = int(digits)
    return bits * int(lanes) if lanes.isdigit() else bits


def times(extents: Sequence[Value]) -> str:
    """`128×32`."""
    return "×".join(show(e) for e in extents)
