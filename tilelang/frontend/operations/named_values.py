"""TVM's own `Let(var, value, body)` in functions of kernels: a value gets a name for one expression."""

from __future__ import annotations

import ast
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.dtypes import is_float
from tilelang.frontend.operators import cast, literal
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, dtype_of_expr, named_type, scalar
from tilelang.ir.prove import substitute
from tilelang.ir.tile_program import Bind

_PARTS = ("var", "value", "body")
# What may fail or cost where a condition around the expression keeps it from being evaluated.
_GUARDED = (ir.TensorLoad, X.FloorDiv, X.FloorMod, X.Mod)


def fits_let(node: ast.Call) -> bool:
    """Whether the three parts can be told apart without evaluating them."""
    named = [k.arg for k in node.keywords]
    given = [*_PARTS[: len(node.args)], *(n for n in named if n != "span")]
    return given == list(_PARTS) and not any(isinstance(a, ast.Starred) for a in node.args)


def named_value(run: Run, node: ast.Call) -> Any:
    """The body, whose variable has its value: by a statement before what the body itself has put there
    (functions that it calls name values too), or, where there is none, written in its place. Unknown after a
    report or with an unknown part.
    """
    parts = [*node.args, *(k.value for k in node.keywords if k.arg != "span")]
    var, value = (scalar(run, run.eval(p), run.span(p)) for p in parts[:2])
    block, place = run.block, len(run.block)
    body = scalar(run, run.eval(parts[2]), run.span(parts[2]))
    lost = any_unknown([var, value, body])
    if lost is not None:
        return lost
    for name, found, kinds in (("var", var, ir.Var), ("value", value, _NUMBER), ("body", body, _NUMBER)):
        if not isinstance(found, kinds):
            what = f"`{name}` must be a {'variable' if name == 'var' else 'number'}, not {named_type(found)}"
            return run.report(BAD_ARGUMENTS, run.span(node), callee="tirx.Let", what=what)
    dtype = dtype_of_expr(var)
    value = cast(dtype, value if isinstance(value, ir.Expr) else literal(value))
    if len(block) > place:
        block.insert(place, Bind(var, value, run.span(node)))
        return body
    if not isinstance(body, ir.Expr):
        return body
    if isinstance(value, ir.Var | X.FloatImm | X.IntImm) or not is_float(dtype) or _is_guarded(value):
        return substitute(body, {var: value})
    once = run.fresh(str(var.name), dtype)
    run.emit(Bind(once, value, run.span(node)))
    return substitute(body, {var: once})


_NUMBER = ir.Expr | bool | int | float


def _is_guarded(value: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (_GUARDED, found.append))
    return bool(found)
