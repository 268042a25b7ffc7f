"""T.alloc_shared, alloc_fragment, alloc_local, alloc_var: memory of a block as buffers."""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm_ffi import structural_walk

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, Bound
from tilelang.frontend.dtypes import read_dtype
from tilelang.frontend.operators import representable
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import named_type, scalar
from tilelang.frontend.tensors import new_buffer, read_shape
from tilelang.frontend.unfit_constants import note_unfit
from tilelang.ir.tile_program import Alloc
from tilelang.ir.values import Buffer, Unknown, show

_REDUCERS = ("sum", "max", "min", "bitand", "bitor", "bitxor")
_OF_BOOL = {"max": "bitor", "min": "bitand"}  # what these folds of truth values are
_FALLBACK = {
    "local.reducer": "reducer",
    "shared": "shared_tile",
    "local.fragment": "fragment",
    "local": "local_tile",
    "local.var": "var",
}
# Scopes that an allocation may be asked for -> where the tile lies; its own if it is asked for none.
_SCOPES = {
    "shared.dyn": "shared",
    "shared": "shared",
    "local.fragment": "local.fragment",
    "local": "local",
}


def allocate(run: Run, scope: str, call: Bound) -> Any:
    """The buffer of an allocation call."""
    if scope == "local.var":
        return _variable(run, call)
    dims = read_shape(run, call.value("shape"), call.span_of("shape"))
    dtype = read_dtype(run, call.value("dtype"), call.span_of("dtype"))
    if isinstance(dims, Unknown):
        return dims
    wrong = next((d for d in dims if isinstance(d, int) and d < 0), None)
    if wrong is not None:
        what = f"no extent can be negative, but the shape is ({', '.join(map(show, dims))})"
        return run.report(BAD_ARGUMENTS, call.span_of("shape"), callee=call.callee, what=what)
    changing = next((name for d in dims for name in changing_parts(run, d)), None)
    if changing is not None:
        what = f"the shape depends on `{changing}`, which changes while the kernel runs; use a size"
        return run.report(BAD_ARGUMENTS, call.span_of("shape"), callee=call.callee, what=what)
    if scope == "global":
        return new_buffer(run, scope, dims, dtype, call.span, role="workspace", fallback="workspace")
    if scope != "local.reducer":
        asked = call.value("scope", scope)
        if isinstance(asked, Unknown):
            return run.unknown(asked.reason)
        if asked not in _SCOPES:
            what = f"`scope` is one of {', '.join(map(repr, _SCOPES))}, not {asked!r}"
            return run.report(BAD_ARGUMENTS, call.span_of("scope"), callee=call.callee, what=what)
        return _allocated(run, _SCOPES[asked], dims, dtype, call)
    op = call.value("op", "sum")
    if isinstance(op, Unknown):
        return run.unknown(op.reason)
    if op not in _REDUCERS:
        what = f"`op` is one of {', '.join(map(repr, _REDUCERS))}, not {op!r}"
        return run.report(BAD_ARGUMENTS, call.span_of("op"), callee=call.callee, what=what)
    copies = call.value("replication")
    if not isinstance(copies, Unknown) and copies not in _REPLICATIONS:
        what = f"`replication` is 'all', 'none' or not given, not {copies!r}"
        return run.report(BAD_ARGUMENTS, call.span_of("replication"), callee=call.callee, what=what)
    if not isinstance(dtype, Unknown) and (refused := _refused_fold(str(op), str(dtype))):
        return run.report(BAD_ARGUMENTS, call.span_of("op"), callee=call.callee, what=refused)
    made = _allocated(run, scope, dims, dtype, call)
    made.reducer = _OF_BOOL.get(str(op), str(op)) if str(dtype) == "bool" else str(op)
    return made


_REPLICATIONS = (None, "all", "none")


def _refused_fold(op: str, dtype: str) -> str:
    """Why a reducer cannot fold elements of that dtype in this way; empty if it can."""
    if op.startswith("bit") and "float" in dtype:
        return f"`op` {op!r} combines the bits of integers and bool, not {dtype}"
    if op == "sum" and dtype == "bool":
        return (
            "`op` 'sum' adds numbers, not bool: count in an integer dtype, or use 'max' for whether any holds"
        )
    return ""


def changing_parts(run: Run, dim: Any) -> list[str]:
    """What in an extent is no size of the kernel: block and loop variables, elements of memory."""
    if not isinstance(dim, ir.Expr):
        return []
    sizes = [s.var for s in run.symbols] + [
        p.scalar for p in run.signature.parameters.values() if p.scalar is not None
    ]
    found: list[str] = []

    def visit(node: ir.Var) -> None:
        if not any(node.same_as(s) for s in sizes):
            found.append(str(node.name))

    structural_walk(dim, (ir.Var, visit))
    return found


def _allocated(
    run: Run, scope: str, dims: tuple[Any, ...], dtype: Any, call: Bound, init: Any = None
) -> Buffer:
    buffer = new_buffer(run, scope, dims, dtype, call.span, fallback=_FALLBACK[scope], init=init)
    buffer.static = scope == "shared" and call.value("scope", None) == "shared"
    run.emit(Alloc(buffer, call.span))
    return buffer


def _variable(run: Run, call: Bound) -> Any:
    """`T.alloc_var(dtype, init=0)`; also `(dtype, init)`, `(dtype, scope)` and `(dtype, init, scope)` by
    position.
    """
    dtype = read_dtype(run, call.value("dtype"), call.span_of("dtype"))
    extra: list[Argument] = call.items.get("args", [])
    if len(extra) > 2:
        what = "takes a dtype, an initial value and a scope by position, no more"
        run.report(BAD_ARGUMENTS, extra[2].span, callee=call.callee, what=what)
    init = call.value("init")
    span = call.span_of("init")
    for argument in extra:
        if not (isinstance(argument.value, str) and argument.value.startswith("local")):
            init, span = argument.value, argument.span
            break
    start = None if init is None else scalar(run, init, span)
    if start is not None and not isinstance(start, Unknown | ir.Expr | bool | int | float):
        what = f"the initial value must be a number, not {named_type(start)}"
        start = run.report(BAD_ARGUMENTS, span, callee=call.callee, what=what)
    if isinstance(start, Unknown):
        run.complete = False
    buffer = _allocated(run, "local.var", (1,), dtype, call, start)
    note_unfit(run, start, buffer, span)
    buffer.init = representable(start, buffer)
    if isinstance(buffer.init, Unknown):
        run.complete = False
    return buffer
