"""Subscripts: regions of buffers with counts, signs and types checked; plain indexing of Python values."""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.problem import Related
from tilelang.diagnostics.rules.python import (
    FLOAT_INDEX,
    INDEX_COUNT,
    PYTHON_ERROR,
    TRACED_INDEX,
    UNSUPPORTED_PYTHON,
)
from tilelang.frontend.constants import any_not_given, not_given
from tilelang.frontend.dtypes import is_float
from tilelang.frontend.model import ClassValue, Instance, Late
from tilelang.frontend.operators import binary, cast, fold
from tilelang.frontend.python.from_the_end import surely_negative
from tilelang.frontend.python.object_equality import compare_objects
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, dtype_of_expr, named_type, scalar
from tilelang.frontend.tensors import is_tensor_constructor, subscripted_tensor, whole_division
from tilelang.ir.prove import free_vars
from tilelang.ir.values import Buffer, Index, Region, Unknown, as_int, show
from tilelang.ops.operands import declared


def subscript(run: Run, node: ast.Subscript) -> Any:
    """`value[...]` where it is read."""
    owner: Any = run.eval(node.value)
    if isinstance(owner, Late):
        owner = owner.region
    if isinstance(owner, Buffer | Region):
        return region(run, owner, node)
    if is_tensor_constructor(owner):
        return subscripted_tensor(run, owner, node)
    index = run.eval(node.slice)
    if isinstance(owner, Unknown):
        return owner
    if isinstance(owner, int | float):
        return number_has_no_elements(run, node, owner)
    if id(owner) in run.tainted:
        return Unknown("the container is changed on a path that may not be taken")
    if isinstance(owner, dict) and isinstance(index, Buffer) and index in owner:  # a dict keyed by tiles
        return owner[index]
    if isinstance(index, Buffer | Region | Late):
        index = scalar(run, index, run.span(node.slice))
    unknown = any_unknown(index)
    if unknown is not None:
        return unknown
    index = fold(index)
    if isinstance(index, ir.Expr):
        return _traced_index(run, node, owner, index)
    if isinstance(index, slice):
        bounds = [index.start, index.stop, index.step]
        if any_not_given(run, bounds) is not None:
            return Unknown("a slice whose bounds are not known here")
        if any(isinstance(b, ir.Expr) for b in bounds):
            return _traced_index(run, node, owner, index)
    if isinstance(owner, Instance) and (parts := owner.items()) is not None:
        owner = parts
    if isinstance(owner, ClassValue | Instance):
        return enum_member(owner, index)
    if isinstance(owner, dict) and isinstance(index, Instance):
        return _entry_of_object(owner, index)
    if type(owner) in (list, tuple, dict, str, range, bytes) or not run.environment.static:
        try:
            value = owner[index]
            if isinstance(value, ir.Var):
                run.used_names.add(str(value.name))
            return value
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever the user's container raises is the user's to see)
            return run.report(PYTHON_ERROR, run.span(node), what=_failed(node, error))
    if isinstance(owner, type) or callable(owner):
        return Unknown("a subscripted type is not known to the compiler")
    return Unknown(f"indexing a {type(owner).__name__} is not known to the compiler")


def number_has_no_elements(run: Run, node: ast.Subscript, number: float) -> Unknown:
    """`acc[i]` where the name of a tile was bound to a number, which Python refuses."""
    what = f"`{ast.unparse(node.value)}` is the number {number} here, which has no elements"
    return run.report(PYTHON_ERROR, run.span(node), what=what)


def _failed(node: ast.Subscript, error: Exception) -> str:
    text = ast.unparse(node)
    if isinstance(error, KeyError):
        return f"`{text}`: the dict has no key {error}"
    return f"`{text}`: {error}"


def _entry_of_object(owner: dict[Any, Any], key: Instance) -> Any:
    """The entry of an interpreted object, whose class may say which objects are equal."""
    found: Any = Unknown("the dict's entry for this object is not known")
    for other, value in owner.items():
        same = compare_objects(ast.Eq, key, other)
        if isinstance(same, Unknown):
            return same
        if same:
            found = value  # the last one: equal keys are one key, and what was put in later holds
    return found


def enum_member(owner: ClassValue | Instance, index: Any) -> Any:
    if isinstance(owner, ClassValue) and owner.is_enum and isinstance(index, str):
        return owner.names.get(index, Unknown(f"{owner.name} has no member {index}"))
    return Unknown("subscripts of this object are not known to the compiler")


def _traced_index(run: Run, node: ast.Subscript, owner: Any, index: Any) -> Any:
    if not isinstance(owner, list | tuple | dict | str | range) or not_given(run, index) is not None:
        return Unknown("an index known only when the kernel runs")
    kind = type(owner).__name__
    return run.report(
        TRACED_INDEX,
        run.span(node.slice),
        container=f"`{ast.unparse(node.value)}`",
        kind=kind,
        index=run.text_of(run.span(node.slice)) if isinstance(index, slice) else show(index),
    )


def slice_value(run: Run, node: ast.Slice) -> Any:
    """A slice of a Python sequence."""
    parts = [None if p is None else run.eval(p) for p in (node.lower, node.upper, node.step)]
    unknown = any_unknown(parts)
    return unknown if unknown is not None else slice(*parts)


def region(run: Run, owner: Buffer | Region, node: ast.Subscript) -> Any:
    """`A[i, j]`, `A[i, 0:n]`, `A[...]` as a region; problems for wrong counts and indices that are no
    integers.
    """
    entries = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    buffer = owner if isinstance(owner, Buffer) else owner.buffer
    dims: list[Any] = list(buffer.shape)
    if isinstance(owner, Region) and not owner.whole:
        return _nested_region(run, owner, entries, node)
    entries = _expand_ellipsis(entries, len(dims))
    parsed = _entries(run, entries)
    if parsed is None:
        return Unknown("the number of subscripts is not known")
    if len(parsed) != len(dims):
        run.report(
            INDEX_COUNT,
            run.span(node),
            related=(Related(buffer.name_span, f"`{buffer.name}` is declared here"),),
            name=buffer.name,
            rank=len(dims),
            s="" if len(dims) == 1 else "s",
            shape="(" + ", ".join(map(show, dims)) + ("," if len(dims) == 1 else "") + ")",
            count=len(parsed),
        )
        return Unknown(f"`{buffer.name}` is subscripted with a wrong number of entries")
    indices = tuple(_index(run, entry, dim) for entry, dim in zip(parsed, dims, strict=True))
    return Region(buffer, indices, run.span(node))


Entry = ast.expr | tuple[Any, ast.expr]  # a syntax node, or a value that came out of a tuple with its place


def _expand_ellipsis(entries: list[ast.expr], rank: int) -> list[ast.expr]:
    """`...` as full slices."""
    for k, entry in enumerate(entries):
        if isinstance(entry, ast.Constant) and entry.value is Ellipsis:
            full = ast.copy_location(ast.Slice(None, None, None), entry)
            return entries[:k] + [full] * max(0, rank - len(entries) + 1) + entries[k + 1 :]
    return entries


def _entries(run: Run, entries: list[ast.expr]) -> list[Any] | None:
    """Subscript entries as values with their places: `A[idx]` with a tuple idx counts as its elements."""
    parsed: list[Any] = []
    for entry in entries:
        if isinstance(entry, ast.Slice):
            parsed.append(entry)
            continue
        node = entry.value if isinstance(entry, ast.Starred) else entry
        value = run.eval(node)
        if isinstance(value, tuple | list):
            parsed.extend((v, node) for v in value)
        elif isinstance(entry, ast.Starred):
            return None
        else:
            parsed.append((value, node))
    return parsed


def _index(run: Run, entry: Any, dim: Any) -> Index:
    if isinstance(entry, ast.Slice):
        return _slice(run, entry, dim)
    value, node = entry
    if isinstance(value, X.Ramp):
        return _ramp(run, value, node)
    if isinstance(value, slice):
        _refuse_step(run, fold(value.step), node)
        start = 0 if value.start is None else _integer(run, value.start, node, dim)
        stop = dim if value.stop is None else _integer(run, value.stop, node, dim)
        return Index(start, difference(run, stop, start), run.span(node))
    written = as_int(value)
    negative = written if written is not None and written < 0 else None
    return Index(_integer(run, value, node, dim), None, run.span(node), negative)


def _ramp(run: Run, value: Any, node: ast.expr) -> Index:
    """`A[T.Ramp(base, 1, lanes)]`, the slice of so many elements from `base` on."""
    if as_int(value.stride) != 1:
        what = f"a ramp that is an index has stride 1, not {show(value.stride)}: read its elements one by one"
        run.report(UNSUPPORTED_PYTHON, run.span(node), what=what)
    return Index(value.base, as_int(value.lanes), run.span(node), ramp=True)


def _slice(run: Run, node: ast.Slice, dim: Any) -> Index:
    if node.step is not None:
        _refuse_step(run, fold(run.eval(node.step)), node.step)
    start: Any = 0 if node.lower is None else _integer(run, run.eval(node.lower), node.lower, dim)
    stop: Any = dim if node.upper is None else _integer(run, run.eval(node.upper), node.upper, dim)
    return Index(start, difference(run, stop, start), _slice_span(run, node))


def _refuse_step(run: Run, step: Any, node: ast.expr) -> None:
    if not isinstance(step, Unknown) and step not in (None, 1):
        what = "a slice of a buffer cannot have a step other than 1"
        run.report(UNSUPPORTED_PYTHON, run.span(node), what=what)


def _slice_span(run: Run, node: ast.Slice) -> Any:
    try:
        return run.span(node)
    except AttributeError:
        return run.span(node.lower or node.upper)  # type: ignore[arg-type]


def _integer(run: Run, value: Any, node: ast.expr, dim: Any) -> Any:
    """One entry as an integer; what is surely negative counts from the end."""
    span = run.span(node)
    # an element of floats is no index either
    is_place = not (isinstance(value, Buffer) and is_float(str(value.dtype)))
    value = fold(scalar(run, value, span, fixable=is_place))
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, Unknown):
        run.complete = False
        return value
    if isinstance(value, int):
        if value < 0:
            return binary(ast.Add, dim, value)
        return value
    if isinstance(value, ir.Expr):
        dtype = dtype_of_expr(value)
        if dtype == "bool":
            return cast("int32", value)
        if is_float(dtype):
            return run.report(
                FLOAT_INDEX,
                span,
                related=_declared_where(run, value),
                fixes=whole_division(run, value, span),
                what="an index",
                text=f"`{ast.unparse(node)}`",
                dtype=dtype,
                hint="; convert it with T.cast(x, 'int32'), or use `//` instead of `/`",
            )
        if surely_negative(value, run.context.loops, run.launch):
            return fold(run.analyzer.simplify(binary(ast.Add, dim, value)))
        return value
    if isinstance(value, float):
        hint = "; use `//` instead of `/`" if isinstance(node, ast.BinOp) else ""
        return run.report(
            FLOAT_INDEX,
            span,
            fixes=whole_division(run, value, span),
            what="an index",
            text=f"`{ast.unparse(node)}`",
            dtype="a float",
            hint=hint,
        )
    return run.report(
        FLOAT_INDEX,
        span,
        what="an index",
        text=f"`{ast.unparse(node)}`",
        dtype=named_type(value),
        hint="",
    )


def difference(run: Run, stop: Any, start: Any) -> Any:
    """`stop - start`, simplified: the number of elements of a slice."""
    if as_int(start) == 0:
        return stop
    length = binary(ast.Sub, stop, start)
    return fold(run.analyzer.simplify(length)) if isinstance(length, ir.Expr) else length


def _nested_region(run: Run, owner: Region, entries: list[ast.expr], node: ast.Subscript) -> Any:
    """`view[i]` where `view = A[j, 0:n]`: entries index the sliced dimensions of the outer region."""
    free = [k for k, index in enumerate(owner.indices or ()) if index.extent is not None]
    parsed = _entries(run, _expand_ellipsis(entries, len(free)))
    if parsed is None:
        return Unknown("the number of subscripts is not known")
    if len(parsed) != len(free):
        shape = "(" + ", ".join(show(owner.extents[k]) for k in free) + ")"
        return run.report(
            INDEX_COUNT,
            run.span(node),
            name=owner.text(),
            rank=len(free),
            s="" if len(free) == 1 else "s",
            shape=shape,
            count=len(parsed),
        )
    indices = list(owner.indices or ())
    for k, entry in zip(free, parsed, strict=True):
        inner = _index(run, entry, owner.extents[k])
        start = binary(ast.Add, indices[k].start, inner.start)
        indices[k] = Index(start, inner.extent, inner.span)
    return Region(owner.buffer, tuple(indices), run.span(node))


def _declared_where(run: Run, value: ir.Expr) -> tuple[Related, ...]:
    """The tensors and tiles of floats that an index is made of."""
    names = free_vars(value)
    return declared(*(b for b in run.buffers if b.known and b.var in names and is_float(str(b.dtype))))
