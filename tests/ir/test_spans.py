"""Spans survive the way to TVM and back; what has none has a place that stands for it."""

from __future__ import annotations

from tilelang.diagnostics.span import Span
from tilelang.ir.spans import NOWHERE, from_tvm, place_of, to_tvm

SPAN = Span("k.py", 3, 5, 4, 9)


def test_there_and_back():
    assert from_tvm(to_tvm(SPAN)) == SPAN == place_of(to_tvm(SPAN))


def test_no_span():
    assert to_tvm(None) is None and from_tvm(None) is None
    assert place_of(None) == NOWHERE
