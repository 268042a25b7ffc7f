"""missing-dtype: a dtype that no code for the target can compute with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilelang.analysis.subject import Subject
from tilelang.arch.features import PACKED_DTYPES
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.dtype import MISSING_DTYPE, MISSING_DTYPE_PACKED, MISSING_DTYPE_VALUE
from tilelang.diagnostics.span import Span
from tilelang.ir.spans import from_tvm
from tilelang.ir.tile_program import Bind, Evaluate, If, Store, walk
from tilelang.ir.values import dtype_of
from tilelang.ops.operands import dtype_name

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip
from tvm_ffi import structural_walk  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """Once for each buffer and scalar parameter, and at what is converted to such a dtype."""
    lacks = features(subject.target).lacks
    if not lacks:
        return
    for buffer in subject.program.buffers:
        dtype = dtype_name(buffer)
        if dtype in lacks:
            rule = MISSING_DTYPE_PACKED if dtype in PACKED_DTYPES else MISSING_DTYPE
            yield rule.at(buffer.span, buffer=buffer.name, dtype=dtype, target=subject.target)
    for param in subject.program.params:
        if param.scalar is not None and (dtype := dtype_of(param.scalar)) in lacks:
            yield MISSING_DTYPE.at(param.span, buffer=param.name, dtype=dtype, target=subject.target)
    reads = {a.load.__chandle__(): a.span for a in subject.program.accesses if a.load is not None}
    for node in walk(subject.program.body):
        match node:
            case Store() | Bind() | Evaluate():
                values: tuple[Any, ...] = (node.value,)
            case If():
                values = (node.condition,)
            case _:
                continue
        for cast in (c for v in values for c in _casts(v)):
            dtype = dtype_of(cast)
            if dtype in lacks:
                span = from_tvm(cast.span) or _operand(cast, reads) or node.span
                yield MISSING_DTYPE_VALUE.at(span, dtype=dtype, target=subject.target)


def _operand(cast: Any, reads: Mapping[int, Span]) -> Span | None:
    """The place of the first element that is read for what is converted."""
    loads: list[Any] = []
    structural_walk(cast.value, (ir.TensorLoad, loads.append))
    places = [reads[load.__chandle__()] for load in loads if load.__chandle__() in reads]
    return min(places, key=lambda s: (s.line, s.column), default=None)


def _casts(value: Any) -> list[Any]:
    found: list[Any] = []
    if isinstance(value, ir.Expr):
        structural_walk(value, (X.Cast, found.append))
    return found
