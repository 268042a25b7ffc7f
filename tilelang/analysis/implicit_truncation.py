"""implicit-truncation: floats stored in integers, or in 8-bit floats that have no room for large ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.analysis.subject import Subject
from tilelang.arch.dtypes import DTYPES
from tilelang.arch.float_formats import FORMATS
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.dtype import IMPLICIT_SATURATION, IMPLICIT_TRUNCATION
from tilelang.diagnostics.span import Span
from tilelang.ir.tile_program import Do, Store, walk
from tilelang.ir.values import Buffer, dtype_of
from tilelang.ir.whole import is_whole
from tilelang.ops.operands import declared, dtype_name

_MOVES = {"copy": ("src", "dst"), "atomic": ("value", "dst"), "reduce": ("buffer", "out")}
# Formats whose infinities a saturating conversion loses although they have one.
_WITH_INFINITY = frozenset(name for name, form in FORMATS.items() if form.infinity_code is not None)


def check(subject: Subject) -> Iterator[Problem]:
    """Stores and copies that convert on their own. Who writes T.cast knows."""
    for node in walk(subject.program.body):
        if isinstance(node, Store):
            whole = node.buffer.known and is_whole(node.value, subject.definitions)
            problem = _problem(dtype_of(node.value), node.buffer, node.span, whole)
        elif isinstance(node, Do) and node.record.op in _MOVES:
            given, taken = _MOVES[node.record.op]
            src, dst = node.record.region(given), node.record.region(taken)
            if src is None or dst is None:
                continue
            problem = _problem(dtype_name(src.buffer), dst.buffer, node.record.span_of(taken))
        else:
            continue
        if problem is not None:
            yield problem


def _problem(value_dtype: str | None, buffer: Buffer, span: Span, whole: bool = False) -> Problem | None:
    """`whole`: the values have no fractions to lose."""
    value, dtype = DTYPES.get(value_dtype or ""), DTYPES.get(dtype_name(buffer) or "")
    if value is None or dtype is None or not value.is_float:
        return None
    fields: dict[str, Any] = {"value_dtype": value.name, "dtype": dtype.name, "buffer": buffer.name}
    if dtype.is_integer:
        return None if whole else IMPLICIT_TRUNCATION.at(span, related=declared(buffer), **fields)
    if dtype.name in _WITH_INFINITY and value.bits > dtype.bits:
        largest = f"{FORMATS[dtype.name].largest:g}"
        return IMPLICIT_SATURATION.at(span, related=declared(buffer), largest=largest, **fields)
    return None
