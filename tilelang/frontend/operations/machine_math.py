"""Scalar functions that stand for instructions: fast approximations, chosen rounding, bit counts, dp4a."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import element_bits
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.dtypes import is_float
from tilelang.frontend.operators import binary, cast, fold, literal
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import dtype_of_expr, named_type, read_element, scalar
from tilelang.ir import math_ops, tile_ops
from tilelang.ir.tile_program import Access, Store
from tilelang.ir.values import Buffer, Index, Region, Unknown, add

_ON_NUMBERS: dict[str, Callable[..., float]] = {
    "__exp": math.exp,
    "__exp10": lambda x: 10.0**x,
    "__log": math.log,
    "__log2": math.log2,
    "__log10": math.log10,
    "__sin": math.sin,
    "__cos": math.cos,
    "__tan": math.tan,
    "fast_rcp": lambda x: 1.0 / x,
}
for _name in math_ops.NAN_KEEPING:  # kernels find them by their name, `Op.get("tl.max_nan")`
    tile_ops.op(_name)
_TOGETHER = ("Parallel", "vectorized")  # loops whose iterations share instructions
_COUNTED = ("popcount", "clz", "__ffs")


def is_machine_math(op: str) -> bool:
    """Whether `machine_math` knows the function."""
    own = (*_COUNTED, "likely", "__ldg", "dp4a", "align_up", "index_to_coordinates")
    return op in math_ops.FAST or op in math_ops.IEEE or op in own


def machine_math(run: Run, op: str, call: Bound) -> Any:
    """The value of such a function on bound arguments; `dp4a` is a statement and has none."""
    if op == "__ldg":
        return _read_only(run, call)
    if op == "dp4a":
        return _dot_of_four(run, call)
    if op == "index_to_coordinates":
        return _coordinates(run, call)
    rounding = call.value("rounding_mode", "rn") if op in math_ops.IEEE else "rn"
    names = [n for n in call.arguments if n != "rounding_mode"]
    values = [scalar(run, call.value(n), call.span_of(n)) for n in names]
    for name, value in zip(names, values, strict=True):
        if isinstance(value, Unknown):
            return value
        if not isinstance(value, ir.Expr | bool | int | float):
            what = f"`{name}` must be a number, not {named_type(value)}"
            return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    if isinstance(rounding, Unknown):
        return rounding
    if rounding not in math_ops.ROUNDINGS:
        what = f'rounding_mode is one of "rn", "rz", "ru", "rd", not {rounding!r}'
        return run.report(BAD_ARGUMENTS, call.span_of("rounding_mode"), callee=call.callee, what=what)
    try:
        return fold(_compute(op, values, rounding))
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=str(error))


def _compute(op: str, values: list[Any], rounding: str) -> Any:
    if op == "likely":
        return values[0]
    if op == "align_up":
        x, y = values
        ups = binary(ast.Sub, binary(ast.Add, x, y), 1)
        return binary(ast.Mult, binary(ast.FloorDiv, ups, y), y)
    if op in _COUNTED:
        return _count(op, values[0])
    if op in math_ops.FAST:
        if not isinstance(values[0], ir.Expr):
            return _ON_NUMBERS[op](values[0])
        if dtype_of_expr(values[0]) == "float64":  # no unit approximates it: the function itself
            return math_ops.EXACT[op](values[0])
        return _in_float(math_ops.FAST[op], values, values[0])
    traced = next((v for v in values if isinstance(v, ir.Expr)), None)
    if traced is None:
        traced = X.const(float(values[0]), "float32")
    wide = any(isinstance(v, ir.Expr) and dtype_of_expr(v) == "float64" for v in values)
    name = math_ops.ieee_name(op, rounding, "float64" if wide else "float32")
    return _in_float(name, values, traced, "float64" if wide else "float32")


def _in_float(name: str, values: list[Any], like: Any, dtype: str = "float32") -> Any:
    """The call in `dtype`, its result in the dtype of `like` if that is a float."""
    result = tile_ops.call(name, [cast(dtype, v) for v in values], dtype=dtype)
    wanted = dtype_of_expr(like)
    return cast(wanted, result) if is_float(wanted) else result


def _count(op: str, value: Any) -> Any:
    value = value if isinstance(value, ir.Expr) else literal(int(value))
    dtype = dtype_of_expr(value)
    if isinstance(value, X.IntImm):
        number = int(value.value) & ((1 << element_bits(dtype)) - 1)
        if op == "__ffs":
            return (number & -number).bit_length()
        return number.bit_count() if op == "popcount" else element_bits(dtype) - number.bit_length()
    if is_float(dtype):
        raise TypeError(f"bits are counted in integers, not in a {dtype}")
    width = element_bits(dtype)
    if op == "__ffs":
        wide = cast("uint32", value) if width < 32 else value
        return tile_ops.call(math_ops.FFS[max(width, 32)], [wide], dtype="int32")
    wide = value
    if width < 32:  # of the number's own bits, not of copies of its sign
        wide = cast("uint32", value)
        wide = X.bitwise_and(wide, X.const((1 << width) - 1, "uint32"))
    if op == "popcount":
        return cast(dtype if width >= 32 else "int32", X.popcount(wide))
    counted = cast("int32", X.clz(wide))
    return counted if width >= 32 else binary(ast.Sub, counted, 32 - width)


def _coordinates(run: Run, call: Bound) -> Any:
    """Quotients and remainders of a flat row-major number, a list with the outermost first."""
    index, shape = scalar(run, call.value("index"), call.span_of("index")), call.value("shape")
    if isinstance(index, Unknown) or isinstance(shape, Unknown):
        return index if isinstance(index, Unknown) else shape
    if not isinstance(shape, list | tuple) or not shape:
        what = "`shape` must be a list or tuple of at least one extent"
        return run.report(BAD_ARGUMENTS, call.span_of("shape"), callee=call.callee, what=what)
    found: list[Any] = []
    for extent in reversed(shape):
        size = scalar(run, extent, call.span_of("shape"))
        if isinstance(size, Unknown):
            return size
        found.append(fold(binary(ast.Mod, index, size)))
        index = fold(binary(ast.FloorDiv, index, size))
    return found[::-1]


def _read_only(run: Run, call: Bound) -> Any:
    """The element; that nothing writes the tensor is what the author says. In thread code it stays a read of
    its own; elements of tiles are read together, as any others.
    """
    value, index = call.value("load_or_buf"), call.value("index", None)
    if isinstance(value, Buffer) and index is not None:
        span = call.span_of("index")
        places = [scalar(run, i, span) for i in (index if isinstance(index, list | tuple) else [index])]
        unknown = next((i for i in places if isinstance(i, Unknown)), None)
        if unknown is not None:
            return unknown
        if value.known and len(places) != len(value.shape):
            what = f"`{value.name}` has {len(value.shape)} dimensions, but `index` has {len(places)}"
            return run.report(BAD_ARGUMENTS, span, callee=call.callee, what=what)
        value = Region(value, tuple(Index(i, None, span) for i in places), call.span)
    if isinstance(value, Buffer) or (isinstance(value, Region) and not value.is_point):
        what = "one element is read: x[i], or x and an index"
        return run.report(BAD_ARGUMENTS, call.span_of("load_or_buf"), callee=call.callee, what=what)
    element = scalar(run, value, call.span_of("load_or_buf"))
    if not isinstance(value, Region) or value.buffer.scope != "global" or not isinstance(element, ir.Expr):
        return element
    dtype = dtype_of_expr(element)
    if dtype not in math_ops.READ_ONLY or any(c.kind in _TOGETHER for c in run.context.loops):
        return element
    return tile_ops.call(math_ops.LDG, [element], dtype=dtype)


def _dot_of_four(run: Run, call: Bound) -> Any:
    """`C += A[0] * B[0] + ... + A[3] * B[3]` as a store."""
    places: dict[str, Region] = {}
    for name, dtype in (("A", "int8"), ("B", "int8"), ("C", "int32")):
        value = call.value(name)
        if isinstance(value, Unknown):
            return value
        if isinstance(value, Buffer):
            zeros = tuple(Index(0, None, call.span_of(name)) for _ in value.shape)
            value = Region(value, zeros, call.span_of(name))
        if not isinstance(value, Region) or not value.is_point:
            what = f"`{name}` must be a tile of private memory or its first element, as in {name}[i, 0]"
            return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
        if not isinstance(value.buffer.dtype, Unknown) and value.buffer.dtype != dtype:
            what = f"`{name}` must hold {dtype}, not {value.buffer.dtype}"
            return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
        places[name] = value
    total = read_element(run, places["C"])
    for k in range(4):
        left, right = (_element(run, places[name], k) for name in ("A", "B"))
        for value in (left, right, total):
            if isinstance(value, Unknown):
                return value
        total = binary(ast.Add, total, binary(ast.Mult, cast("int32", left), cast("int32", right)))
    target = places["C"]
    run.accesses.append(Access(target.buffer, target.indices or (), "write", target.span, run.context))
    run.emit(Store(target.buffer, target.starts, total, call.span, run.context))
    return None


def _element(run: Run, first: Region, k: int) -> Any:
    """The element `k` places after `first` in the last dimension."""
    assert first.indices is not None  # of an element
    *outer, last = first.indices
    return read_element(
        run, Region(first.buffer, (*outer, Index(add(last.start, k), None, last.span)), first.span)
    )
