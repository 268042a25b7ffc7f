"""Integers are simplified, floats are left to the machine's rounding."""

from __future__ import annotations

import pytest
from tvm import sym
from tvm import tirx as X

from tilelang.ir.simplify import simplify

i, x = X.Var("i", "int32"), X.Var("x", "float32")
big, zero = X.const(1e8, "float32"), X.const(0.0, "float32")
A = X.decl_buffer((4,), "float16", "A")


@pytest.mark.parametrize(
    "value",
    [
        X.Sub(X.Add(x, big), big),
        X.Mul(x, zero),
        X.GT(X.Mul(x, zero), big),
        X.Cast("int32", X.Mul(A[i], X.const(0.0, "float16"))),
    ],
)
def test_floats_stay_as_written(value):
    assert simplify(sym.Analyzer(), value).same_as(value)


def test_integers_beside_floats_are_simplified():
    assert str(simplify(sym.Analyzer(), i * 32 // 8 - i * 4)) == str(X.const(0, "int32"))
    both = simplify(sym.Analyzer(), X.And(X.LT(i, i + 1), X.GT(x, big)))
    assert str(both.a) == str(X.const(True, "bool")) and str(both.b) == str(X.GT(x, big))


def test_unsigned_sums_stay_as_written():
    """They may wrap: 2**32 // 4 * 4 + 4 is 0."""
    u = X.Var("u", "uint32")
    for value in (u * X.const(4, "uint32") // X.const(4, "uint32"), X.LT(u - X.const(5, "uint32"), u)):
        assert simplify(sym.Analyzer(), value).same_as(value)
