"""Numbers that processors do not compute with: bfloat16 and floats of 8 bits and fewer, integers of 4 bits.

A value of such a float dtype is a float32 that holds exactly that number; it is rounded after every
operation, so that a store only takes the bits. TVM's own legalisation is not used: it overlooks loads in
bound scalars, rounds NaN to zero and wraps what is too large.

A 4-bit integer is held in 8 bits. Rounding is to the nearest, ties to even. What is too large for a format of
8 bits and fewer becomes its largest number (`satfinite` of PTX ISA 9.7.9.22, cvt), for bfloat16 infinity.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.arch.float_formats import FloatFormat, float_format
from tilelang.targets.cpu.exponential import NameValue, vectorisable

ROUNDED = (X.Add, X.Sub, X.Mul, X.Div)
_KEPT = (X.Min, X.Max, X.EQ, X.NE, X.LT, X.LE, X.GT, X.GE)
CHOICE = "prim.if_then_else"  # evaluates one of its arguments only
REINTERPRET = "tirx.reinterpret"
_SOURCE = "source"
_NAN = 0x7FC0
_INFINITY_BITS, _NAN_BITS, _MAGNITUDE = 0x7F800000, 0x7FC00000, 0x7FFFFFFF
_BIAS, _MANTISSA = 127, 23


def is_narrow(dtype: str) -> bool:
    """Whether values of `dtype` (or of a vector of it) are held in float32."""
    return dtype.startswith("bfloat16") or float_format(dtype) is not None


def is_packed(dtype: str) -> bool:
    """Whether two elements share a byte of memory, the first one in its low half."""
    return dtype in ("int4", "uint4", "float4_e2m1fn")


def storage_dtype(dtype: str) -> str:
    """What memory holds: booleans as bytes, narrow numbers as their bits, all others as they are."""
    if is_packed(dtype) or float_format(dtype) is not None:
        return "uint8"
    return {"bool": "int8", "bfloat16": "uint16"}.get(dtype, dtype)


def has_narrow(value: Any) -> bool:
    """Whether a narrow number is computed or read in an expression."""
    found: list[Any] = []
    if isinstance(value, ir.Expr):
        tvm_ffi.structural_walk(value, ((X.Cast, ir.TensorLoad, ir.Call, X.FloatImm), found.append))
    dtypes = (str(node.ty.dtype) for node in found if isinstance(node.ty, ir.PrimType))
    return any(held_in(dtype) != dtype for dtype in dtypes)


def marked(body: Any) -> Any:
    """`body` with the source dtype noted at every `T.reinterpret` of a narrow number: legalising loses it."""

    def mark(node: Any) -> Any:
        if not isinstance(node.op, ir.Op) or node.op.name != REINTERPRET:
            return node
        source = str(node.args[-1].ty.dtype)
        if held_in(source) == source:
            return node
        return ir.Call(node.op, list(node.args), attrs={_SOURCE: source}, ret_ty=node.ty, span=node.span)

    return tvm_ffi.structural_map(body, (ir.Call, mark))


def widened(bits: Any, dtype: str, name_value: NameValue | None = None) -> Any:
    """The float32 values of stored bits."""
    suffix = _suffix(bits)
    found = float_format(dtype)
    if found is None:
        return X.reinterpret(f"float32{suffix}", X.Cast(f"uint32{suffix}", bits) << _constant(16, suffix))
    return X.reinterpret(f"float32{suffix}", _decoded(bits, found, name_value or _as_it_is))


def narrowed(value: Any, dtype: str, name_value: NameValue | None = None) -> Any:
    """The bits to store of a float32 that holds a number of `dtype`."""
    suffix = _suffix(value)
    found = float_format(dtype)
    if found is None:
        return X.Cast(f"uint16{suffix}", X.reinterpret(f"uint32{suffix}", value) >> _constant(16, suffix))
    return X.Cast(f"uint8{suffix}", _encoded(value, found, name_value or _as_it_is, held=True))


def rounded(value: Any, dtype: str, name_value: NameValue | None) -> Any:
    """A float32 rounded to the nearest number of `dtype`; NaN stays NaN."""
    suffix = _suffix(value)
    found = float_format(dtype)
    name = name_value or _as_it_is
    if found is not None:
        code = name("code", _encoded(value, found, name))
        return X.reinterpret(f"float32{suffix}", _decoded(code, found, name))
    bits = name("bits", X.reinterpret(f"uint32{suffix}", value))
    odd = (bits >> _constant(16, suffix)) & _constant(1, suffix)
    nearest = (bits + odd + _constant(0x7FFF, suffix)) & _constant(0xFFFF0000, suffix)
    # Compared as integers: TVM simplifies `x == x` to true.
    is_nan = X.GT(bits & _constant(_MAGNITUDE, suffix), _constant(_INFINITY_BITS, suffix))
    kept = X.Select(is_nan, _constant(_NAN << 16, suffix), nearest)
    return X.reinterpret(f"float32{suffix}", kept)


def _as_it_is(_: str, value: Any) -> Any:
    """Where nothing can be named, a value that is used several times stands there several times."""
    return value


def _encoded(value: Any, f: FloatFormat, name: NameValue, held: bool = False) -> Any:
    """The bits (uint32) of the nearest number of the format.

    held: the value is one of the format, so that infinity is kept and not saturated.
    """
    largest = f.infinity_code if held and f.infinity_code is not None else f.largest_code
    suffix = _suffix(value)

    def c(number: int) -> Any:
        return _constant(number, suffix)

    bits = name("bits", X.reinterpret(f"uint32{suffix}", value))
    size = name("size", bits & c(_MAGNITUDE))
    is_nan = X.GT(size, c(_INFINITY_BITS))
    if not f.sign:
        return X.Select(is_nan, c(f.nan_code or 0), _nearest_power(size, f, name, c))
    shift = _MANTISSA - f.mantissa
    odd = (size >> c(shift)) & c(1)
    half = (1 << (shift - 1)) - 1
    normal = ((size + odd + c(half)) >> c(shift)) - c((_BIAS - f.bias) << f.mantissa)
    # Adding this number leaves a multiple of the smallest step in the low bits, rounded by the addition.
    aligner = 2.0 ** (1 - f.bias - f.mantissa + _MANTISSA)
    aligner_bits = int(np.float32(aligner).view(np.uint32))
    small = X.reinterpret(
        f"uint32{suffix}", X.reinterpret(f"float32{suffix}", size) + _float(aligner, suffix)
    ) - c(aligner_bits)
    is_small = X.LT(size, c((1 - f.bias + _BIAS) << _MANTISSA))
    code = name("magnitude", X.Min(X.Select(is_small, small, normal), c(largest)))
    sign = (bits >> c(31)) << c(f.exponent + f.mantissa)
    if f.specials == "fnuz":
        signed = X.Select(X.EQ(code, c(0)), c(0), code | sign)
    else:
        signed = code | sign
    return X.Select(is_nan, c(f.largest_code if f.nan_code is None else f.nan_code), signed)


def _nearest_power(size: Any, f: FloatFormat, name: NameValue, c: Any) -> Any:
    """Of a format without sign and mantissa: the exponent of the nearest power of two."""
    exponent = name("exponent", size >> c(_MANTISSA))
    rest = name("rest", size & c((1 << _MANTISSA) - 1))
    half = c(1 << (_MANTISSA - 1))
    up = X.Or(X.GT(rest, half), X.And(X.EQ(rest, half), X.GT(exponent, c(0))))
    return X.Min(exponent + X.Select(up, c(1), c(0)), c(f.largest_code))


def _decoded(code: Any, f: FloatFormat, name: NameValue) -> Any:
    """The float32 bits (uint32) of the number that `code` stands for."""
    suffix = _suffix(code)

    def c(number: int) -> Any:
        return _constant(number, suffix)

    wide = code if str(code.ty.dtype).startswith("uint32") else X.Cast(f"uint32{suffix}", code)
    whole = name("stored", wide)
    if not f.sign:
        power = X.Select(X.EQ(whole, c(0)), c(1 << (_MANTISSA - 1)), whole << c(_MANTISSA))
        return X.Select(X.EQ(whole, c(f.nan_code or 0)), c(_NAN_BITS), power)
    size = name("stored_size", whole & c(f.magnitude_mask))
    normal = (size << c(_MANTISSA - f.mantissa)) + c((_BIAS - f.bias) << _MANTISSA)
    step = 2.0 ** (1 - f.bias - f.mantissa)
    small = X.reinterpret(
        f"uint32{suffix}", X.Cast(f"float32{suffix}", X.Cast(f"int32{suffix}", size)) * _float(step, suffix)
    )
    magnitude = X.Select(X.LT(size, c(1 << f.mantissa)), small, normal)
    sign = ((whole >> c(f.exponent + f.mantissa)) & c(1)) << c(31)
    if f.specials == "fnuz":
        return X.Select(X.EQ(whole, c(f.sign_bit)), c(_NAN_BITS), magnitude | sign)
    if f.specials == "finite":
        return magnitude | sign
    if f.infinity_code is not None:
        special = X.Select(X.EQ(size, c(f.infinity_code)), c(_INFINITY_BITS), c(_NAN_BITS))
        return X.Select(X.GT(size, c(f.largest_code)), special, magnitude) | sign
    return X.Select(X.GT(size, c(f.largest_code)), c(_NAN_BITS), magnitude) | sign


def legalise(node: Any, name_value: NameValue | None) -> Any:
    """One expression node whose operands are legal: narrow floats as float32, exponentials as arithmetic.

    name_value: names a value of the expression, evaluated once before the statement; None where that is not
    possible, as under a condition.
    """
    if not isinstance(getattr(node, "ty", None), ir.PrimType):
        return node
    if isinstance(node, ir.Call):
        return _call(node, name_value)
    dtype = str(node.ty.dtype)
    here, wide = is_narrow(dtype), held_in(dtype)
    if isinstance(node, X.FloatImm):
        return X.const(_held(float(node.value), dtype), wide) if here else node
    if isinstance(node, X.IntImm):
        return node if wide == dtype else X.const(int(node.value), wide)
    if isinstance(node, X.Cast):
        if wide != dtype and not here:
            return _four_bits(node.value, dtype)
        value = node.value if str(node.value.ty.dtype) == wide else X.Cast(wide, node.value)
        return rounded(value, dtype, name_value) if here else value
    if isinstance(node, ROUNDED):
        made = type(node)(node.a, node.b)
        return rounded(made, dtype, name_value) if here else made
    if isinstance(node, _KEPT):
        return type(node)(node.a, node.b)
    if isinstance(node, X.Select):
        return X.Select(node.condition, node.true_value, node.false_value)
    if isinstance(node, X.Broadcast):
        return X.Broadcast(node.value, node.lanes)
    return node


def _call(node: Any, name_value: NameValue | None) -> Any:
    dtype = str(node.ty.dtype)
    if node.op.name == REINTERPRET:
        return _reinterpreted(node, dtype, name_value)
    wide = held_in(dtype)
    if wide == dtype:
        return node if name_value is None else vectorisable(node, name_value)
    made: Any = ir.Call(node.op, list(node.args), attrs=node.attrs, ret_ty=ir.PrimType(wide), span=node.span)
    if node.op.name == CHOICE or not is_narrow(dtype):
        return made
    return rounded(made if name_value is None else vectorisable(made, name_value), dtype, name_value)


def _reinterpreted(node: Any, target: str, name_value: NameValue | None) -> Any:
    """The bits of a legal operand as another dtype."""
    value = node.args[-1]
    source = str(node.attrs[_SOURCE]) if node.attrs is not None and _SOURCE in node.attrs else ""
    if is_narrow(source):
        value = narrowed(value, source, name_value)
    if is_narrow(target):
        stored = _with_lanes(storage_dtype(_scalar(target)), target)
        bits = value if str(value.ty.dtype) == stored else X.reinterpret(stored, value)
        return widened(bits, target, name_value)
    if held_in(target) != target:
        return _four_bits(value, target)
    if str(value.ty.dtype) == target:
        return value
    return X.reinterpret(target, value)


def _four_bits(value: Any, dtype: str) -> Any:
    """The low 4 bits of an integer (of a float without its fraction), held in 8."""
    suffix = _suffix(value)
    whole = value if "float" not in str(value.ty.dtype) else X.Cast(f"int32{suffix}", value)
    bits = X.Cast(f"uint32{suffix}", whole) << _constant(28, suffix)
    if dtype.startswith("uint"):
        return X.Cast(f"uint8{suffix}", bits >> _constant(28, suffix))
    signed = X.reinterpret(f"int32{suffix}", bits)
    return X.Cast(f"int8{suffix}", signed >> _broadcast(X.const(28, "int32"), suffix))


def unpacked(byte: Any, index: Any, dtype: str, name_value: NameValue | None) -> Any:
    """The legal value of element `index` (scalar or vector) from the byte that holds it."""
    suffix = _suffix(byte)
    nibble = (byte >> _odd(index, suffix)) & _broadcast(X.const(15, "uint8"), suffix)
    return widened(nibble, dtype, name_value) if is_narrow(dtype) else _four_bits(nibble, dtype)


def packed(byte: Any, index: Any, value: Any, dtype: str, name_value: NameValue | None) -> Any:
    """`byte` with element `index` in it replaced by a legal value."""
    code = narrowed(value, dtype, name_value) if is_narrow(dtype) else X.Cast("uint8", value)
    shift = _odd(index, "")
    kept = byte & ~(X.const(15, "uint8") << shift)
    return kept | ((code & X.const(15, "uint8")) << shift)


def _odd(index: Any, suffix: str) -> Any:
    """4 for the second element of a byte, 0 for the first."""
    dtype = str(index.ty.dtype).partition("x")[0]
    low = index & _broadcast(X.const(1, dtype), suffix)
    return X.Cast(f"uint8{suffix}", low << _broadcast(X.const(2, dtype), suffix))


def held_in(dtype: str) -> str:
    """What holds values of a narrow dtype, with its lanes; any other dtype as it is."""
    scalar = _scalar(dtype)
    if is_narrow(scalar):
        return _with_lanes("float32", dtype)
    held = {"int4": "int8", "uint4": "uint8"}.get(scalar)
    return dtype if held is None else _with_lanes(held, dtype)


def _scalar(dtype: str) -> str:
    return dtype.partition("x")[0]


def _with_lanes(scalar: str, like: str) -> str:
    _, lanes, count = like.partition("x")
    return scalar + lanes + count


def _held(value: float, dtype: str) -> float:
    """The number nearest to a constant that the dtype holds."""
    found = float_format(dtype)
    if found is not None:
        return found.nearest(value)
    with np.errstate(over="ignore"):
        return float(ml_dtypes.bfloat16(value))


def _suffix(value: Any) -> str:
    """`x8` for a vector of 8, nothing for a scalar."""
    _, lanes, count = str(value.ty.dtype).partition("x")
    return lanes + count


def _constant(number: int, suffix: str) -> Any:
    return _broadcast(X.const(number, "uint32"), suffix)


def _float(number: float, suffix: str) -> Any:
    return _broadcast(X.const(number, "float32"), suffix)


def _broadcast(scalar: Any, suffix: str) -> Any:
    return X.Broadcast(scalar, int(suffix[1:])) if suffix else scalar
