"""Assignment targets: names, tuples, elements of buffers, entries of Python containers."""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS, PYTHON_ERROR, TRACED_INDEX, UNSUPPORTED_PYTHON
from tilelang.diagnostics.span import Span
from tilelang.frontend.model import Instance, Late, NamedSlice
from tilelang.frontend.names import bind_name, bound_value, store_variable
from tilelang.frontend.operations.packed_pairs import store_vector, stores_vector, vector_lanes
from tilelang.frontend.operations.slice_moves import as_element, as_slice_move, move_slice, reads_now
from tilelang.frontend.operators import cast, fold, representable
from tilelang.frontend.python.kernel_objects import is_kernel_object
from tilelang.frontend.python.plain_functions import note_kernel_statement
from tilelang.frontend.python.subscripts import number_has_no_elements, region
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, dtype_of_expr, kept, named_type, scalar
from tilelang.frontend.unfit_constants import note_unfit
from tilelang.ir.tile_program import Access, Store
from tilelang.ir.values import Buffer, Region, Unknown, show


def assign(
    run: Run,
    target: ast.expr,
    value: Any,
    *,
    fresh_buffer: bool = False,
    of_loop: bool = False,
    value_span: Span | None = None,
) -> None:
    """`target = value`, or what a loop binds (`of_loop`). `value_span`: where the value stands, for problems
    with it.
    """
    if isinstance(target, ast.Name):
        bind_name(run, target.id, value, run.span(target), fresh_buffer=fresh_buffer, of_loop=of_loop)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(run, target, value, fresh_buffer, of_loop)
    elif isinstance(target, ast.Subscript):
        _store_item(run, target, value, value_span or run.span(target))
    elif isinstance(target, ast.Attribute):
        _set_attribute(run, target, value, fresh_buffer)
    elif isinstance(target, ast.Starred):
        assign(run, target.value, value, of_loop=of_loop)


def _unpack(
    run: Run, target: ast.Tuple | ast.List, value: Any, fresh_buffer: bool, of_loop: bool = False
) -> None:
    names = target.elts
    if isinstance(value, Instance):
        value = value.items() or Unknown("the value cannot be unpacked")
    if isinstance(value, Unknown):
        for element in names:
            assign(run, element, value, of_loop=of_loop)
        return
    try:
        values = (
            list(value)
            if isinstance(value, tuple | list | range | str | dict | zip | map | enumerate)
            else None
        )
    except TypeError:
        values = None
    star = next((k for k, n in enumerate(names) if isinstance(n, ast.Starred)), None)
    if values is None:
        _cannot_unpack(run, target, value)
        return
    if star is not None and len(values) >= len(names) - 1:
        end = len(values) - (len(names) - star - 1)
        values = [*values[:star], values[star:end], *values[end:]]
    if len(values) != len(names):
        what = f"{len(names)} names are bound to {len(values)} value{'' if len(values) == 1 else 's'}"
        run.report(BAD_ARGUMENTS, run.span(target), callee="unpacking", what=what)
        values = [Unknown(what)] * len(names)
    for element, item in zip(names, values, strict=True):
        assign(run, element, item, fresh_buffer=fresh_buffer, of_loop=of_loop)


def _cannot_unpack(run: Run, target: ast.Tuple | ast.List, value: Any) -> None:
    lost = Unknown("the value cannot be unpacked")
    if isinstance(value, ir.Expr | int | float | Buffer | Region):
        count = len(target.elts)
        shown = value.text() if isinstance(value, Region) else show(value)
        if isinstance(value, Buffer):
            shown = value.name
        what = f"{count} name{' is' if count == 1 else 's are'} bound to one value, `{shown}`"
        lost = run.report(BAD_ARGUMENTS, run.span(target), callee="unpacking", what=what)
    for element in target.elts:
        assign(run, element, lost)


def _store_item(run: Run, target: ast.Subscript, value: Any, value_span: Span) -> None:
    owner = run.eval(target.value)
    if isinstance(owner, Late):
        owner = owner.region
    if isinstance(owner, Buffer | Region):
        place, value = as_element(region(run, owner, target)), as_element(value)
        if isinstance(place, Region) and (moved := as_slice_move(place, value)) is not None:
            if isinstance(moved, NamedSlice) and not reads_now(run, moved):
                store_vector(run, place, scalar(run, moved, value_span))
            else:
                move_slice(run, place, moved)
            return
        if isinstance(place, Region) and stores_vector(place, value):
            store_vector(run, place, value)
            return
        if isinstance(place, Region):
            number = scalar(run, value, value_span)
            note_unfit(run, number, place.buffer, value_span)
            store(run, place, number)
        return
    index = run.eval(target.slice)
    if not isinstance(index, Buffer) or not isinstance(owner, dict | Unknown):  # a dict may be keyed by tiles
        index = fold(scalar(run, index, run.span(target.slice)))
    if (
        isinstance(index, ir.Expr)
        and not isinstance(index, Buffer)
        and isinstance(owner, list | tuple | dict)
    ):
        run.report(
            TRACED_INDEX,
            run.span(target.slice),
            container=f"`{ast.unparse(target.value)}`",
            kind=type(owner).__name__,
            index=show(index),
        )
        return
    if isinstance(owner, Unknown) or any_unknown(index) is not None:
        taint(run, owner)
        return
    if isinstance(owner, int | float):
        number_has_no_elements(run, target, owner)
        return
    if run.context.maybe:
        taint(run, owner)
    if type(owner) in (list, dict) or not run.environment.static:
        try:
            owner[index] = kept(run, value, "element")
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 (the user's container decides what it raises)
            run.report(PYTHON_ERROR, run.span(target), what=f"`{ast.unparse(target)} = ...`: {error}")


def taint(run: Run, container: Any) -> None:
    """Forget what a container holds: it is changed on a path that may not be taken, or in an unknown
    place.
    """
    if isinstance(container, list | dict | set):
        run.tainted.add(id(container))
        run.kept.append(container)


def store(run: Run, place: Region, value: Any) -> None:
    """`A[i, j] = value`."""
    if not place.is_point:
        text = f"`{place.text()}` is a tile"
        what = f"{text}: assign its elements in T.Parallel, or use T.copy or T.fill for whole tiles"
        run.report(UNSUPPORTED_PYTHON, place.span, what=what)
        return
    note_kernel_statement(run, place.span, f"the store to `{place.buffer.name}`")
    if place.buffer.scope == "local.var":
        store_variable(run, place.buffer, value, place.span)
        return
    run.accesses.append(Access(place.buffer, place.indices or (), "write", place.span, run.context))
    if any_unknown([*place.starts, value]) is not None or not place.buffer.known:
        run.complete = False
    elif run.is_unset(value):
        run.complete = False
        value = Unknown("a value that is not given")
    elif not isinstance(value, ir.Expr | bool | int | float):
        what = f"{named_type(value)} cannot be stored in `{place.buffer.name}`"
        run.report(UNSUPPORTED_PYTHON, place.span, what=what)
        return
    value = representable(value, place.buffer)
    if (lanes := vector_lanes(value)) > 1 and vector_lanes(place.buffer) == 1:
        name = place.buffer.name
        what = (
            f"a {dtype_of_expr(value)} cannot be stored in one element of `{name}`; "
            f"write {name}[i : i + {lanes}]"
        )
        run.report(UNSUPPORTED_PYTHON, place.span, what=what)
        return
    if lanes == 1 and vector_lanes(place.buffer) > 1 and isinstance(value, ir.Expr):
        value = cast(str(place.buffer.dtype), value)
    run.emit(Store(place.buffer, place.starts, value, place.span, run.context))


def _variable_attribute(owner: Any, name: str) -> Buffer | None:
    """The `alloc_var` that an attribute holds."""
    held = owner.attributes if isinstance(owner, Instance) else getattr(owner, "__dict__", None)
    found = held.get(name) if isinstance(held, dict) else None
    return found if isinstance(found, Buffer) and found.scope == "local.var" else None


def _read_variable(run: Run, value: Any, span: Span) -> Any:
    """The value of a variable is read when it is assigned to an attribute, as it is for a name."""
    return scalar(run, value, span) if isinstance(value, Buffer) and value.scope == "local.var" else value


def _set_attribute(run: Run, target: ast.Attribute, value: Any, fresh_buffer: bool) -> None:
    owner = run.eval(target.value)
    span: Span = run.span(target)
    variable = _variable_attribute(owner, target.attr)
    if variable is not None and not fresh_buffer:
        store_variable(run, variable, scalar(run, value, span), span)
        return
    value = value if fresh_buffer else bound_value(run, target.attr, _read_variable(run, value, span), span)
    if isinstance(owner, Instance):
        owner.attributes[target.attr] = value
        return
    if isinstance(owner, Unknown):
        return
    settable = not run.environment.static or is_kernel_object(owner)
    if settable and not isinstance(owner, Buffer | Region | ir.Expr | Late):
        try:
            setattr(owner, target.attr, value)
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 (the user's object decides what it raises)
            run.report(PYTHON_ERROR, span, what=f"`{ast.unparse(target)} = ...`: {error}")
        return
    if isinstance(owner, Buffer | Region | ir.Expr | Late):
        run.report(
            UNSUPPORTED_PYTHON, span, what=f"attributes of `{ast.unparse(target.value)}` cannot be assigned"
        )
