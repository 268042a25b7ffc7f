"""Arithmetic on numbers of 8 bits and fewer, computed in float32 or int32 and rounded after every operation.

In:  a tile function.
Out: the same, where values of narrow floats and of 4-bit integers are only loaded, stored, chosen,
     reinterpreted and converted: no target has to add two of them.
Not: float16 and bfloat16, which targets compute with; how a conversion is carried out.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.arch.float_formats import float_format

_FOUR_BITS = ("int4", "uint4")
_ARITHMETIC = (X.Add, X.Sub, X.Mul, X.Div, X.Mod, X.FloorDiv, X.FloorMod, X.Min, X.Max)
_COMPARISONS = (X.EQ, X.NE, X.LT, X.LE, X.GT, X.GE)
# Calls that pass values on, or look at their bits.
_MOVES = frozenset({"if_then_else", "reinterpret", "likely", "address_of", "buffer_data"})


def widen_narrow(func: X.PrimFunc) -> X.PrimFunc:
    """The function with arithmetic on narrow numbers in a wider dtype."""
    if not _has_narrow(func.body):
        return func
    kinds = (*_ARITHMETIC, *_COMPARISONS, ir.Call)
    body = tvm_ffi.structural_map(func.body, (kinds, _widened))
    return func.with_body(body)


def wider(dtype: str) -> str | None:
    """What numbers of a narrow dtype are computed in; None for a dtype that is not narrow."""
    if dtype.partition("x")[0] in _FOUR_BITS:
        return dtype.replace("uint4", "int32").replace("int4", "int32")
    found = float_format(dtype)
    return None if found is None else dtype.replace(found.name, "float32")


def _has_narrow(body: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(body, ((X.Cast, ir.TensorLoad, ir.Call), found.append))
    return any(_dtype(node) is not None and wider(str(node.ty.dtype)) is not None for node in found)


def _dtype(node: Any) -> str | None:
    return str(node.ty.dtype) if isinstance(getattr(node, "ty", None), ir.PrimType) else None


def _widened(node: Any) -> Any:
    if isinstance(node, ir.Call):
        return _call(node)
    wide = wider(_dtype(node.a) or "")
    if wide is None:
        return node
    made = type(node)(X.Cast(wide, node.a), X.Cast(wide, node.b), node.span)
    return made if isinstance(node, _COMPARISONS) else X.Cast(_dtype(node.a), made)


def _call(node: ir.Call) -> Any:
    name = node.op.name if isinstance(node.op, ir.Op) else ""
    kind = name.partition(".")[2]
    if name.startswith("tl.") or kind in _MOVES or kind.startswith("call_"):
        return node
    result = _dtype(node)
    wide = wider(result) if result is not None else None
    args = [_wide_argument(a) for a in node.args]
    if all(a.same_as(b) for a, b in zip(args, node.args, strict=True)):
        return node
    made = ir.Call(
        node.op, args, attrs=node.attrs, ret_ty=node.ty if wide is None else ir.PrimType(wide), span=node.span
    )
    return made if wide is None else X.Cast(result, made)


def _wide_argument(value: Any) -> Any:
    wide = wider(_dtype(value) or "")
    return value if wide is None else X.Cast(wide, value)
