"""Tensor arguments, symbolic sizes, outputs and views: T.Tensor, T.const, T.dynamic, T.empty, T.reshape,
T.view.
"""

from __future__ import annotations

import ast
import math
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import dtype_info
from tilelang.diagnostics.problem import Fix, Related
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS, FLOAT_INDEX
from tilelang.diagnostics.rules.shape import VIEW_SHAPE
from tilelang.diagnostics.span import Span
from tilelang.frontend.arguments import Bound
from tilelang.frontend.dtypes import dtype_name, is_float, read_dtype
from tilelang.frontend.model import BufferData, Instance, TensorType
from tilelang.frontend.operators import binary, fold
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import dtype_of_expr, named_type, scalar
from tilelang.ir.prove import Prover, operands_of, positive_symbols
from tilelang.ir.tile_program import Alloc, Symbol
from tilelang.ir.values import Buffer, Region, Unknown, as_int, show
from tilelang.language import StridedTensor, Tensor
from tilelang.language import dynamic as language_dynamic
from tilelang.language.externs import ptr
from tilelang.language.values import DynamicSize, SizeExpression
from tilelang.ops.operands import shape_text
from tilelang.ops.source_edits import whole_division_edits

SIZE_LIMIT = 2**31  # of extents: block, loop and element numbers are int32
STRIDE_LIMIT = 2**63  # offsets past 2**31 are computed in 64 bits


def is_tensor_constructor(value: Any) -> bool:
    return value is Tensor or value is StridedTensor


def subscripted_tensor(run: Run, owner: Any, node: ast.Subscript) -> Any:
    """`T.Tensor[[M, N], dtype]`, `T.Tensor[(M, N), dtype]` and `T.StridedTensor[(M, N), (s, 1), dtype]`."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    # `T.Tensor[(M, N), dtype]` parses as a tuple of two as well; a lone shape has no dtype.
    values = [run.eval(p) for p in parts]
    at = 1  # of the dtype
    strides = None
    if owner is StridedTensor:
        if len(parts) < 2:
            what = "needs a shape and strides: T.StridedTensor[(M, N), (s, 1), dtype]"
            return run.report(BAD_ARGUMENTS, run.span(node), callee="T.StridedTensor", what=what)
        at, strides = 2, values[1]
    dtype = values[at] if len(values) > at else "float32"
    dtype_span = run.span(parts[at]) if len(parts) > at else run.span(node)
    return _tensor_type(run, values[0], strides, dtype, run.span(node), run.span(parts[0]), dtype_span)


def tensor(run: Run, call: Bound) -> Any:
    """`T.Tensor(shape, dtype)`; with `data=A.data` the memory of A in another shape."""
    data = call.value("data")
    if isinstance(data, BufferData):
        return _same_memory(run, call, data)
    value = call.value("dtype", "float32")
    return _tensor_type(
        run, call.value("shape"), None, value, call.span, call.span_of("shape"), call.span_of("dtype")
    )


def _same_memory(run: Run, call: Bound, data: BufferData) -> Any:
    run.complete = data.was_complete
    source = data.buffer
    dims = read_shape(run, call.value("shape"), call.span_of("shape"))
    dtype = read_dtype(run, call.value("dtype", "float32"), call.span_of("dtype"))
    if isinstance(dims, Unknown):
        return dims
    old, new = _product(source.shape), _product(dims)
    known = isinstance(old, int) and isinstance(new, int)
    known = known and not isinstance(dtype, Unknown) and not isinstance(source.dtype, Unknown)
    if known and new * _bits(dtype) > old * _bits(source.dtype):  # less than all of it is fine
        _check_size(run, call, "T.Tensor", source, dims, dtype)
    made = new_buffer(run, source.scope, dims, dtype, call.span, fallback=source.name, view_of=source)
    run.emit(Alloc(made, call.span))
    return made


def strided_tensor(run: Run, call: Bound) -> Any:
    """`T.StridedTensor(shape, strides, dtype)`."""
    return _tensor_type(
        run,
        call.value("shape"),
        call.value("strides"),
        call.value("dtype", "float32"),
        call.span,
        call.span_of("shape"),
        call.span_of("dtype"),
    )


def native_tensor(run: Run, made: Any, node: ast.expr) -> Any:
    """An annotation that running Python has evaluated to `T.Tensor(...)` or `T.StridedTensor(...)`.

    node: what is written; problems stand at its shape and its dtype where it is that call.
    """
    strides = made.strides if isinstance(made, StridedTensor) else None
    span = run.span(node)
    shape = _given(node, 0, "shape")
    dtype = _given(node, 1 if strides is None else 2, "dtype")
    return _tensor_type(
        run, made.shape, strides, made.dtype, span, run.span(shape or node), run.span(dtype or node)
    )


def _given(node: ast.expr, position: int, name: str) -> ast.expr | None:
    """What a call gives for a parameter; None where it stands in no argument of its own."""
    if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    if position < len(node.args):
        return node.args[position]
    return next((k.value for k in node.keywords if k.arg == name), None)


def _tensor_type(
    run: Run, shape: Any, strides: Any, dtype: Any, span: Span, shape_span: Span, dtype_span: Span
) -> Any:
    dims = read_shape(run, shape, shape_span)
    # A table of addresses, each of which T.make_tensor makes a tensor of.
    addresses = dtype is ptr or (isinstance(dtype, TensorType) and dtype.pointer)
    name = "int64" if addresses else read_dtype(run, dtype, dtype_span)
    if isinstance(dims, Unknown):
        return dims
    if any(isinstance(d, int) and d < 0 for d in dims):
        what = f"no extent can be negative, but the shape is ({', '.join(map(show, dims))})"
        return run.report(BAD_ARGUMENTS, shape_span, callee="T.Tensor", what=what)
    steps = None
    if strides is not None:
        steps = read_shape(run, strides, span, STRIDE_LIMIT)
        if isinstance(steps, Unknown):
            return steps
        if len(steps) != len(dims):
            return run.report(
                BAD_ARGUMENTS,
                span,
                callee="T.StridedTensor",
                what=f"the shape has {len(dims)} dimensions but there are {len(steps)} strides",
            )
    return TensorType(dims, steps, name, "global", span)


def read_shape(run: Run, value: Any, span: Span, limit: int = SIZE_LIMIT) -> tuple[Any, ...] | Unknown:
    """A shape as a tuple of integers and expressions; an integer or an expression alone is a shape of
    rank 1.
    """
    if isinstance(value, Unknown):
        run.complete = False
        return value
    if isinstance(value, Instance):
        value = value.items() or value  # a named tuple of extents
    entries = list(value) if isinstance(value, tuple | list) else [value]
    if id(value) in run.tainted:
        return run.unknown("the shape is changed on a path that may not be taken")
    return tuple(read_size(run, v, span, limit=limit) for v in entries)


def read_size(run: Run, value: Any, span: Span, what: str = "a size", limit: int = SIZE_LIMIT) -> Any:
    """One extent: an integer below `limit`, an integer expression, or Unknown."""
    if run.is_unset(value):
        return run.unknown("a size without a value")
    value = fold(scalar(run, symbolic_size(run, value), span))
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if value < limit else _too_large(run, value, span, what, limit)
    if isinstance(value, Unknown):
        run.complete = False
        return value
    if isinstance(value, ir.Expr) and not is_float(dtype_of_expr(value)):
        return value
    dtype = dtype_of_expr(value) if isinstance(value, ir.Expr) else named_type(value)
    text = show(value) if isinstance(value, ir.Expr) else repr(value)
    fixes = whole_division(run, value, span)
    advice = "; use `//` instead of `/`" if fixes or ("float" in dtype and "/" in run.text_of(span)) else ""
    if not advice and isinstance(value, ir.Expr):
        advice = "; convert it with T.cast(x, 'int32')"
    elif not advice and isinstance(value, float) and value.is_integer():
        advice = f"; write {int(value)}" if text in run.text_of(span) else "; convert it with int(...)"
    return run.report(FLOAT_INDEX, span, fixes=fixes, what=what, text=f"`{text}`", dtype=dtype, hint=advice)


def whole_division(run: Run, value: Any, span: Span) -> tuple[Fix, ...]:
    """The fix that writes `//` for `/`, where the result is an integer then."""
    if isinstance(value, ir.Expr) and _has_float_leaf(value):
        return ()
    edits = whole_division_edits(span, run.source.text)
    return (Fix("Divide with `//`", edits),) if edits else ()


def _has_float_leaf(value: ir.Expr) -> bool:
    """Whether a variable or an element that the value is made of is a float."""
    if isinstance(value, ir.Var | ir.TensorLoad):
        return is_float(dtype_of_expr(value))
    return any(_has_float_leaf(part) for part in operands_of(value) if isinstance(part, ir.Expr))


def _too_large(run: Run, value: int, span: Span, what: str, limit: int) -> Unknown:
    name = next((f"`{n}` is " for n, number in run.signature.consts.items() if number == value), "")
    bits = limit.bit_length()
    more = "; give a larger tensor more dimensions" if what == "a size" else ""
    said = f"{name}{value}, but this compiler counts in {bits}-bit integers here, up to {limit - 1}{more}"
    return run.report(BAD_ARGUMENTS, span, callee=what, what=said)


def symbolic_size(run: Run, value: Any) -> Any:
    """A size that running Python made with `T.dynamic` outside a kernel, as the expression it stands for."""
    if isinstance(value, DynamicSize):
        for size, var in run.dynamic_sizes:
            if size is value:
                return var
        var = _run_time_size(run, value.name, value.dtype, run.kernel_span)
        run.dynamic_sizes.append((value, var))
        return var
    if isinstance(value, SizeExpression):
        if value.operator in ("max", "min"):
            left, right = symbolic_size(run, value.left), symbolic_size(run, value.right)
            return (X.max if value.operator == "max" else X.min)(left, right)
        kinds = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "//": ast.FloorDiv, "%": ast.Mod}
        left, right = symbolic_size(run, value.left), symbolic_size(run, value.right)
        return binary(kinds[value.operator], left, right)
    return value


def _run_time_size(run: Run, name: str, dtype: str, span: Span) -> Any:
    """A size of its own: two that are written with one name are solved apart, and the second is `n_1`."""
    taken = {s.name for s in run.symbols}
    names = (name, *(f"{name}_{k}" for k in range(1, len(taken) + 1)))
    own = next(n for n in names if n not in taken)
    var = run.fresh(own, dtype)
    run.symbols.append(Symbol(own, var, "dynamic", span))
    return var


def dynamic(run: Run, call: Bound) -> Any:
    """`T.dynamic("m, n")`: sizes solved at each launch."""
    return _symbols(run, call, "dynamic")


def const(run: Run, call: Bound) -> Any:
    """`T.const("M, N")`: sizes fixed per call; numbers where the caller has given them."""
    return _symbols(run, call, "const")


def _symbols(run: Run, call: Bound, kind: Any) -> Any:
    text = call.value("name")
    if isinstance(text, Unknown):
        return text
    names = str(text).replace(",", " ").split() if isinstance(text, str) else []
    if not names:
        return run.report(
            BAD_ARGUMENTS,
            call.span_of("name"),
            callee=f"T.{kind}",
            what=f'a string with one or more names is expected, as in T.{kind}("M, N")',
        )
    dtype = read_dtype(run, call.value("dtype", "int32"), call.span_of("dtype"))
    if run.signature.node_scope is None and kind == "dynamic":
        # At module level, where no kernel is interpreted yet: what running Python would make of it.
        return language_dynamic(text, dtype if isinstance(dtype, str) else "int32")
    made = []
    known, where = dtype if isinstance(dtype, str) else "int32", call.span_of("name")
    for name in names:
        if kind == "dynamic":
            made.append(_run_time_size(run, name, known, where))
            continue
        var = run.fresh(name, known)
        run.symbols.append(Symbol(name, var, kind, where))
        made.append(run.signature.consts.get(name, var))
    return made[0] if len(made) == 1 else tuple(made)


def unnamed_size(run: Run, dtype: str, span: Span) -> Any:
    """`m = T.int32()` before the launch: a size as T.dynamic makes it, named by what it is bound to."""
    if run.launch is not None or run.signature.node_scope is None or not dtype.startswith(("int", "uint")):
        return Unknown("a dtype called without a value")
    name, where = run.binding_name or ("size", span)
    return _run_time_size(run, name, dtype, where)


def empty(run: Run, call: Bound) -> Any:
    """`T.empty((M, N), dtype)`, also `T.empty(M, N, dtype=...)`: an output of the kernel."""
    given = list(call.value("shape", ()))
    if given and isinstance(given[0], Unknown) and all(_no_size(g) for g in given):
        return run.unknown(given[0].reason)  # it may be a whole shape
    dtype: Any = call.value("dtype", "float32")
    dtype_span = call.span_of("dtype")
    if given and isinstance(given[0], tuple | list):
        if len(given) > 1:
            dtype, dtype_span = given[1], call.item_span("shape", 1)
        shape: Any = given[0]
    else:
        if given and dtype_name(given[-1]) is not None:
            dtype, dtype_span = given[-1], call.item_span("shape", len(given) - 1)
            given = given[:-1]
        shape = tuple(given)
    dims = read_shape(run, shape, call.item_span("shape", 0))
    name = read_dtype(run, dtype, dtype_span)
    if isinstance(dims, Unknown):
        return dims
    return new_buffer(run, "global", dims, name, call.span, role="output", fallback="output")


def _no_size(value: Any) -> bool:
    return isinstance(value, Unknown) or dtype_name(value) is not None


def new_buffer(
    run: Run,
    scope: str,
    shape: tuple[Any, ...],
    dtype: Any,
    span: Span,
    *,
    role: Any = None,
    fallback: str = "tile",
    view_of: Buffer | None = None,
    init: Any = None,
    strides: tuple[Any, ...] | None = None,
) -> Buffer:
    """A buffer named after the name it is bound to, listed in the program. Structure is incomplete if it
    is not known.
    """
    name, name_span = run.binding_name or (fallback, span)
    buffer = Buffer(
        unique_name(run, name),
        scope,
        shape,
        dtype,
        span,
        name_span,
        strides,
        role=role,
        view_of=view_of,
        init=init,
    )
    if not buffer.known:
        run.complete = False
    run.buffers.append(buffer)
    return buffer


def unique_name(run: Run, name: str) -> str:
    """`name`, or `name_1` ... if another buffer has it: names in generated code must differ."""
    taken = {b.name for b in run.buffers}
    if name not in taken:
        return name
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def reshape(run: Run, call: Bound) -> Any:
    """`T.reshape(buffer, shape)`."""
    return _view(run, call, "T.reshape", None, None)


def view(run: Run, call: Bound) -> Any:
    """`T.view(buffer, shape, dtype, strides)`."""
    dtype = call.value("dtype")
    name = None if dtype is None else read_dtype(run, dtype, call.span_of("dtype"))
    return _view(run, call, "T.view", name, call.value("strides"))


def _view(run: Run, call: Bound, callee: str, dtype: Any, strides: Any) -> Any:
    source = call.value("src")
    if isinstance(source, Unknown):
        return source
    if isinstance(source, Region) and source.whole:
        source = source.buffer
    if not isinstance(source, Buffer):
        what = (
            f"`{source.text()}` is a part of a buffer" if isinstance(source, Region) else "this is no buffer"
        )
        return run.report(
            BAD_ARGUMENTS,
            call.span_of("src"),
            callee=callee,
            what=f"{what}; only a whole buffer can be viewed",
        )
    shape = call.value("shape")
    dims = source.shape if shape is None else read_shape(run, shape, call.span_of("shape"))
    if isinstance(dims, Unknown):
        return dims
    kind = source.dtype if dtype is None else dtype
    dims = _infer_one(run, source, dims, kind)
    steps = None if strides is None else read_shape(run, strides, call.span_of("strides"), STRIDE_LIMIT)
    if isinstance(steps, Unknown):
        return steps
    if steps is not None and any((as_int(step) or 0) < 0 for step in steps):
        what = f"no stride of a view can be negative, but they are {shape_text(steps)}"
        return run.report(BAD_ARGUMENTS, call.span_of("strides"), callee=callee, what=what)
    _check_size(run, call, callee, source, dims, kind)
    made = new_buffer(
        run,
        source.scope,
        dims,
        kind,
        call.span,
        fallback=f"{source.name}_view",
        view_of=source,
        strides=steps,
    )
    run.emit(Alloc(made, call.span))
    return made


def _infer_one(run: Run, source: Buffer, dims: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """A single -1 in a new shape is what is left, as in numpy; it stays where nothing fits."""
    written = [as_int(d) for d in dims]
    if written.count(-1) != 1 or any(isinstance(d, Unknown) for d in (*dims, *source.shape, dtype)):
        return dims
    total = math.prod(source.shape, start=_bits(source.dtype))
    rest = math.prod((d for d, n in zip(dims, written, strict=True) if n != -1), start=_bits(dtype))
    if isinstance(total, int) and isinstance(rest, int):
        if rest <= 0 or total % rest:
            return dims
        left: Any = total // rest
    else:
        prover = Prover(positive_symbols([source.shape, dims]))
        left = fold(prover.simplify(binary(ast.FloorDiv, total, rest)))
    return tuple(left if n == -1 else d for d, n in zip(dims, written, strict=True))


def _bits(dtype: Any) -> int:
    """Bits of one element, which may be a vector."""
    info = dtype_info(str(dtype))
    return info.bits * info.lanes


def _product(shape: tuple[Any, ...]) -> Any:
    numbers = [as_int(d) for d in shape]
    return math.prod(n for n in numbers if n is not None) if None not in numbers else None


def _check_size(
    run: Run, call: Bound, callee: str, source: Buffer, dims: tuple[Any, ...], dtype: Any
) -> None:
    """view-shape: the view must hold as many bits as the buffer; said only where that is proven."""
    if any(isinstance(v, Unknown) for v in (dtype, source.dtype, *source.shape, *dims)):
        return
    old = math.prod(source.shape, start=_bits(source.dtype))
    written = [as_int(d) for d in dims]
    if written.count(-1) > 1:
        what = f"only one extent can be -1, but the shape is {shape_text(dims)}"
        run.report(BAD_ARGUMENTS, call.span_of("shape"), callee=callee, what=what)
        return
    new: Any = math.prod(dims, start=_bits(dtype))
    if -1 in written:
        new = Unknown("no number in the place of -1 fits")
    elif Prover(positive_symbols([source.shape, dims])).equal(old, new) is not False:
        return
    run.report(
        VIEW_SHAPE,
        call.span_of("shape"),
        related=(Related(source.name_span, f"`{source.name}` is declared here"),),
        callee=callee,
        source=source.name,
        source_shape=shape_text(source.shape),
        source_dtype=source.dtype,
        source_bits=_bits_text(old),
        shape=shape_text(dims),
        dtype=dtype,
        bits=_bits_text(new),
    )


def _bits_text(count: Any) -> str:
    """`4096 bits`; nothing where the sizes are symbols."""
    number = as_int(count)
    return "" if number is None else f" ({number} bits)"
