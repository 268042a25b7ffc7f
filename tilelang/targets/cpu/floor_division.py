"""Floor divisions by what is no constant, for values that get a name.

In:  the lowered value of a `Bind`.
Out: the same, without a floor division or remainder of integers whose divisor is no constant.
Why: TVM writes one whose signs it cannot prove with two names of its own (`Let`), and its simplifier comes by
     the value of a `Bind` twice: where the numerator has become a constant by then, the names clash with
     themselves ("Binding of variable rmod conflicts") and compiling ends there.
"""

from __future__ import annotations

from typing import Any

from tvm import sym
from tvm import tirx as X
from tvm_ffi import structural_map

from tilelang.ir.values import as_int


def without_floors(value: Any, analyzer: sym.Analyzer) -> Any:
    """`value` with such divisions and remainders as those that round towards zero, corrected where needed."""

    def rewritten(node: Any) -> Any:
        if as_int(node.b) is not None or "x" in str(node.ty.dtype):
            return node
        return _floored(node, analyzer)

    return structural_map(value, ((X.FloorDiv, X.FloorMod), rewritten))


def _floored(node: Any, analyzer: sym.Analyzer) -> Any:
    a, b = node.a, node.b
    zero = X.const(0, str(node.ty.dtype))
    quotient, rest = X.truncdiv(a, b), X.truncmod(a, b)
    divides = isinstance(node, X.FloorDiv)
    if analyzer.can_prove(a >= zero) and analyzer.can_prove(b >= zero):
        return quotient if divides else rest
    # Rounded towards zero, a quotient below zero that has a rest is one too large.
    too_large = X.And(X.NE(rest, zero), X.NE(X.LT(rest, zero), X.LT(b, zero)))
    if divides:
        return quotient - X.Select(too_large, X.const(1, zero.ty.dtype), zero)
    return rest + X.Select(too_large, b, zero)
