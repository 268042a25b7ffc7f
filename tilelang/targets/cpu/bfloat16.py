"""bfloat16 on processors without it: stored as 16 bits, computed in float32, rounded after every operation.

Every value of dtype bfloat16 becomes a float32 that holds exactly that value, so that stores only drop zero
bits. TVM's own legalisation is not used: it overlooks loads in bound scalars and rounds NaN to zero.
"""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.targets.cpu.exponential import NameValue, vectorisable

_ROUNDED = (X.Add, X.Sub, X.Mul, X.Div)
_KEPT = (X.Min, X.Max, X.EQ, X.NE, X.LT, X.LE, X.GT, X.GE)
CHOICE = "prim.if_then_else"  # evaluates one of its arguments only
_NAN = 0x7FC0


def is_bfloat16(dtype: str) -> bool:
    """Whether `dtype` is bfloat16 or a vector of it."""
    return dtype.startswith("bfloat16")


def widened(bits: Any) -> Any:
    """The float32 values of stored bits (uint16)."""
    suffix = _suffix(bits)
    return X.reinterpret(f"float32{suffix}", X.Cast(f"uint32{suffix}", bits) << _constant(16, suffix))


def narrowed(value: Any) -> Any:
    """The bits to store of a float32 that holds a bfloat16."""
    suffix = _suffix(value)
    return X.Cast(f"uint16{suffix}", X.reinterpret(f"uint32{suffix}", value) >> _constant(16, suffix))


def rounded(value: Any, name_value: NameValue | None) -> Any:
    """A float32 rounded to the nearest bfloat16, ties to even; NaN stays NaN."""
    suffix = _suffix(value)
    bits = X.reinterpret(f"uint32{suffix}", value)
    if name_value is not None:
        bits = name_value("bits", bits)
    odd = (bits >> _constant(16, suffix)) & _constant(1, suffix)
    nearest = (bits + odd + _constant(0x7FFF, suffix)) & _constant(0xFFFF0000, suffix)
    # Compared as integers: TVM simplifies `x == x` to true.
    is_nan = X.GT(bits & _constant(0x7FFFFFFF, suffix), _constant(0x7F800000, suffix))
    kept = X.Select(is_nan, _constant(_NAN << 16, suffix), nearest)
    return X.reinterpret(f"float32{suffix}", kept)


def legalise(node: Any, name_value: NameValue | None) -> Any:
    """One expression node whose operands are legal: bfloat16 as float32, exponentials as arithmetic.

    name_value: names a value of the expression, evaluated once before the statement; None where that is not
    possible, as under a condition.
    """
    if not isinstance(getattr(node, "ty", None), ir.PrimType):
        return node
    if isinstance(node, ir.Call):
        return _call(node, name_value)
    dtype = str(node.ty.dtype)
    here = is_bfloat16(dtype)
    wide = dtype.replace("bfloat16", "float32")
    if isinstance(node, X.FloatImm):
        return X.const(float(node.value), wide) if here else node
    if isinstance(node, X.Cast):
        value = node.value if str(node.value.ty.dtype) == wide else X.Cast(wide, node.value)
        return rounded(value, name_value) if here else value
    if isinstance(node, _ROUNDED):
        made = type(node)(node.a, node.b)
        return rounded(made, name_value) if here else made
    if isinstance(node, _KEPT):
        return type(node)(node.a, node.b)
    if isinstance(node, X.Select):
        return X.Select(node.condition, node.true_value, node.false_value)
    if isinstance(node, X.Broadcast):
        return X.Broadcast(node.value, node.lanes)
    return node


def _call(node: Any, name_value: NameValue | None) -> Any:
    dtype = str(node.ty.dtype)
    if not is_bfloat16(dtype):
        return node if name_value is None else vectorisable(node, name_value)
    wide = ir.PrimType(dtype.replace("bfloat16", "float32"))
    made: Any = ir.Call(node.op, list(node.args), attrs=node.attrs, ret_ty=wide, span=node.span)
    if node.op.name == CHOICE:
        return made
    return rounded(made if name_value is None else vectorisable(made, name_value), name_value)


def _suffix(value: Any) -> str:
    """`x8` for a vector of 8, nothing for a scalar."""
    _, lanes, count = str(value.ty.dtype).partition("x")
    return lanes + count


def _constant(number: int, suffix: str) -> Any:
    scalar = X.const(number, "uint32")
    return X.Broadcast(scalar, int(suffix[1:])) if suffix else scalar
