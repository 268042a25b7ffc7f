"""Reading and binding names: what a name means here, what it may not mean after a loop or branch,
misspellings.
"""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.problem import Fix, Related
from tilelang.diagnostics.rules.python import (
    MUTABLE_REBOUND,
    REBINDING_ESCAPES,
    STEP_LIMIT,
    UNBOUND_NAME,
    UNKNOWN_NAME,
    UNSUPPORTED_PYTHON,
)
from tilelang.diagnostics.span import Span
from tilelang.frontend.model import (
    NO_VALUE,
    ClassValue,
    Escaped,
    Function,
    Late,
    Missing,
    ModuleValue,
    TooLong,
)
from tilelang.frontend.operators import fold, representable
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import (
    any_traced,
    dtype_of_expr,
    is_index_arithmetic,
    named_slice,
    named_type,
    scalar,
)
from tilelang.frontend.scope import Scope, TracedRegion
from tilelang.frontend.suggest import hint, nearest, replacement
from tilelang.frontend.tensors import symbolic_size
from tilelang.frontend.unfit_constants import note_unfit
from tilelang.frontend.variable_fix import variable_fix
from tilelang.ir.tile_program import Access, Bind, Store
from tilelang.ir.values import Buffer, Index, Region, Unknown
from tilelang.language.typed_numbers import TypedFloat, TypedInt
from tilelang.language.values import DynamicSize, SizeExpression


def read_name(run: Run, node: ast.Name) -> Any:
    """The value of a name where it is read."""
    name = node.id
    scope, value = run.scope.find(name)
    if scope is None:
        return _unbound(run, node, name)
    if scope is not run.scope and name in run.scope.locals and name not in run.scope.outer:
        # Python makes a name local to the whole function if it is assigned anywhere in it.
        return _unassigned(run, node, name, run.scope.locals[name])
    if run.regions:
        key = (scope, name)
        for region in reversed(run.regions):
            if key in region.bound:
                break
            if region.kind == "loop" and key not in region.reads:
                region.reads[key] = run.span(node)
    if isinstance(value, DynamicSize | SizeExpression):
        return known_size(run, value)
    if isinstance(value, Buffer):
        span = run.span(node)
        run.uses.setdefault((span, id(value)), value)
        return value
    if type(value).__name__ == "Var" and isinstance(value, ir.Var):  # the name first: it costs less
        return _used(run, value)
    if isinstance(value, TypedFloat | TypedInt):
        return _typed(value)
    if isinstance(value, Escaped):
        scope.names[name] = _escaped(run, node, value)
        return scope.names[name]
    if isinstance(value, TooLong) and run.signature.node_scope is not None:
        run.report(STEP_LIMIT, run.span(node), what=value.reason)
        return value
    if isinstance(value, Missing):
        scope.names[name] = _unassigned(run, node, name, value.bound_at)
        return scope.names[name]
    return value


def known_size(run: Run, size: Any) -> Any:
    """A run-time size that running Python made: a symbol inside the kernel, itself while there is no
    signature to solve it from. Any other value is itself.
    """
    if not isinstance(size, DynamicSize | SizeExpression):
        return size
    value = symbolic_size(run, size) if run.signature.node_scope is not None else size
    return _used(run, value) if isinstance(value, ir.Var) else value


def _typed(number: TypedFloat | TypedInt) -> Any:
    """A number of a dtype as a constant of it, which meets others as such; one of Python's own kind, where
    lengths and conditions are told by Python, stays what it is.
    """
    plain = isinstance(number, TypedInt) and number.dtype in ("int32", "bool")
    return number if plain else X.const(number.value, str(number.dtype))


def _used(run: Run, variable: ir.Var) -> ir.Var:
    run.used_names.add(str(variable.name))
    return variable


def _unbound(run: Run, node: ast.Name, name: str) -> Any:
    scope: Scope | None = run.scope
    while scope is not None:  # also of an enclosing function, which binds it only later
        if name in scope.locals:
            return _unassigned(run, node, name, scope.locals[name])
        scope = scope.parent
    value = run.environment.global_name(run, run.scope, name)
    if value is not NO_VALUE:
        return value
    known = [n for n in run.scope.visible() if n.isidentifier()]
    near = nearest(name, [*known, *run.environment.global_names(run.scope)])
    span = run.span(node)
    result = run.report(UNKNOWN_NAME, span, fixes=replacement(near, span), name=name, hint=hint(near))
    run.scope.names.setdefault(name, result)  # say it once
    return result


def _unassigned(run: Run, node: ast.Name, name: str, bound_at: Span) -> Unknown:
    related = (Related(bound_at, f"`{name}` is bound here"),)
    return run.report(UNBOUND_NAME, run.span(node), related=related, name=name, line=bound_at.line)


def _escaped(run: Run, node: ast.Name, value: Escaped) -> Unknown:
    related = (Related(value.bound_at, f"`{value.name}` is bound here"),)
    scope = run.scope.find(value.name)[0]
    fixes: tuple[Fix, ...] = ()
    if value.changed and scope is not None and not value.parallel:
        fixes = variable_fix(run, scope, value.name, value.before)
    return run.report(
        REBINDING_ESCAPES,
        run.span(node),
        related=related,
        fixes=fixes,
        name=value.name,
        what=value.explanation(),
    )


def bind_name(
    run: Run, name: str, value: Any, span: Span, *, fresh_buffer: bool = False, of_loop: bool = False
) -> None:
    """`name = value`: an immutable binding, or a store if the name is an `alloc_var`.

    `fresh_buffer`: the value comes from a call, so that a buffer in it is a new one and no variable to read.
    `of_loop`: the target of a loop, which is always bound anew.
    """
    scope = run.scope.outer.get(name, run.scope)
    before = scope.names.get(name, NO_VALUE)
    if isinstance(before, Buffer) and before.scope == "local.var":
        what = _rebinds(value, of_loop, fresh_buffer)
        if what is not None:
            _report_rebound(run, before, span, what)
            set_name(run, scope, name, bound_value(run, name, value, span), before, span)
            return
    if name in scope.references and isinstance(before, Region):
        store_element(run, before, scalar(run, value, span), span)
        return
    if isinstance(value, Buffer) and fresh_buffer:
        set_name(run, scope, name, value, before, span)
        return
    if isinstance(before, Buffer) and before.scope == "local.var" and not isinstance(value, Buffer):
        store_variable(run, before, scalar(run, value, span), span)
        return
    if isinstance(value, Buffer) and value.scope == "local.var":
        value = scalar(run, value, span)
        if isinstance(before, Buffer) and before.scope == "local.var":
            store_variable(run, before, value, span)
            return
    set_name(run, scope, name, bound_value(run, name, value, span), before, span)


def _rebinds(value: Any, of_loop: bool, fresh: bool) -> str | None:
    """What binding a variable's name to `value` makes of the name; None if it stores."""
    if of_loop:
        return "this loop binds the name to its own variable"
    if isinstance(value, Buffer) and value.scope != "local.var":
        return (
            "this binds the name to a new tile"
            if fresh
            else f"this binds the name to the tile `{value.name}`"
        )
    if isinstance(value, Region) and not value.is_point:
        return "this binds the name to a tile"
    if value is None or isinstance(
        value, str | tuple | list | dict | set | Function | ModuleValue | ClassValue
    ):
        return f"this binds the name to {named_type(value)}, which no variable holds"
    return None


def _report_rebound(run: Run, variable: Buffer, span: Span, what: str) -> None:
    declared = variable.name_span
    related = (Related(declared, f"`{variable.name}` is made here"),)
    run.report(MUTABLE_REBOUND, span, related=related, name=variable.name, line=declared.line, what=what)


def bound_value(run: Run, name: str, value: Any, span: Span) -> Any:
    """What a name stands for after `name = value`: values that read memory are evaluated here, once."""
    if isinstance(value, Late) or (isinstance(value, Region) and value.is_point):
        value = scalar(run, value, span)
        if isinstance(value, ir.Var):
            return value
    if isinstance(value, Region):
        return named_slice(run, value, name)
    if isinstance(value, ir.Var) and value in run.unbound:
        return value
    if isinstance(value, ir.Expr) and not isinstance(value, Buffer):
        value = fold(value)
        if not isinstance(value, ir.Expr) or is_index_arithmetic(value):
            return value
        dtype = dtype_of_expr(value)
        if dtype == "handle" or not isinstance(value.ty, ir.PrimType):  # addresses, descriptors
            return value
        var = run.fresh(name, dtype)
        run.emit(Bind(var, value, span))
        return var
    return value


def set_name(run: Run, scope: Scope, name: str, value: Any, before: Any, span: Span) -> None:
    """Bind in a scope, and tell the traced regions around."""
    for region in run.regions:
        key = (scope, name)
        if key in region.bound:
            continue
        own = any(region is outer for outer in scope.around)
        if own and region.kind == "branch":  # of a call in there: a kernel that it returns reads them later
            continue
        region.bound[key] = (before, span)
        # A tile stays what it is: no iteration could expect another one under its name. Names of a function
        # that is called in the loop do not outlive the iteration.
        carried = before is not NO_VALUE and not isinstance(before, Buffer) and not own
        if region.kind == "loop" and key in region.reads and carried:
            _loop_carried(run, region, scope, name, before, region.reads[key], span)
            value = Unknown(f"`{name}` changes in {region.describe()}")
    scope.names[name] = value


def _loop_carried(
    run: Run, region: TracedRegion, scope: Scope, name: str, before: Any, read_at: Span, span: Span
) -> None:
    if isinstance(before, Unknown | Escaped | Missing):
        return
    # In T.Parallel a variable would hold what the iterations of one thread make.
    parallel = any(r.parallel for r in run.regions[run.regions.index(region) :])
    instead = (
        "put the values of all iterations into a tile and use T.reduce_sum, or use T.alloc_reducer"
        if parallel
        else f"keep a value that changes in `{name} = T.alloc_var(dtype, init=...)`"
    )
    run.report(
        REBINDING_ESCAPES,
        span,
        related=(Related(read_at, f"`{name}` is read here, before it is rebound"),),
        fixes=() if parallel else variable_fix(run, scope, name, before),
        name=name,
        what=f"is read and then rebound in {region.describe()}, whose body is traced once: every "
        f"iteration would start from the same value; {instead}",
    )


def store_element(run: Run, place: Region, value: Any, span: Span) -> None:
    """`x = value` where x is a parameter `T.Ref` that stands for one element."""
    run.accesses.append(Access(place.buffer, place.indices or (), "write", span, run.context))
    lost = any(isinstance(v, Unknown) for v in (value, *place.starts))
    if lost or not place.buffer.known:
        run.complete = False
    elif not isinstance(value, ir.Expr | bool | int | float):
        what = f"{named_type(value)} cannot be stored in `{place.text()}`"
        value = run.report(UNSUPPORTED_PYTHON, span, what=what)
    value = representable(value, place.buffer)
    run.emit(Store(place.buffer, place.starts, value, span, run.context))


def store_variable(run: Run, buffer: Buffer, value: Any, span: Span) -> None:
    """`x = value` where x is an `alloc_var`."""
    index = Index(0, None, span)
    run.accesses.append(Access(buffer, (index,), "write", span, run.context))
    if isinstance(value, Unknown) or not buffer.known:
        run.complete = False
    elif not isinstance(value, ir.Expr | bool | int | float):
        what = f"{named_type(value)} cannot be stored in the variable `{buffer.name}`"
        value = run.report(UNSUPPORTED_PYTHON, span, what=what)
    note_unfit(run, value, buffer, span)
    value = representable(value, buffer)
    run.emit(Store(buffer, (0,), value, span, run.context))


def same(a: Any, b: Any) -> bool:
    """Whether two values of a name are the same for what follows."""
    if a is b:
        return True
    if isinstance(a, ir.Expr) and isinstance(b, ir.Expr):
        return a.same_as(b)
    if any_traced(a) or any_traced(b) or isinstance(a, Unknown) or isinstance(b, Unknown):
        return False
    plain = (bool, int, float, str, type(None), tuple)
    return type(a) is type(b) and isinstance(a, plain) and _equal(a, b)


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except (TypeError, ValueError):
        return False
