"""`map`, `filter`, `functools.reduce`: one call per element, interpreted at once, so that what it does to the
kernel happens in order.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

from tvm import ir

from tilelang.frontend.arguments import Argument
from tilelang.frontend.python.loops import python_items, truth
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown
from tilelang.ir.values import Unknown

REPEATING = (map, filter, functools.reduce)

CallKnown = Callable[[Run, ast.Call, Any, list[Argument], dict[str, Argument]], Any]


def call_repeatedly(run: Run, node: ast.Call, function: Any, args: list[Argument], call: CallKnown) -> Any:
    """The list or value that `function`, one of `REPEATING`, makes; `call` calls a known value."""
    if len(args) < 2:
        return Unknown(f"`{function.__name__}` of nothing")
    if isinstance(args[0].value, Unknown):
        return args[0].value
    iterated = args[1:2] if function is functools.reduce else args[1:]
    columns = [python_items(run, a.value, a.span) for a in iterated]
    for items in columns:
        if isinstance(items, Unknown):
            return items
    if function is functools.reduce:
        return _reduce(run, node, args, columns[0], call)
    at = [a.span for a in args[1:]]
    rows = list(zip(*columns, strict=False))
    if function is filter and args[0].value is None:
        results = [row[0] for row in rows]
    else:
        results = [
            call(run, node, args[0].value, [Argument(v, s) for v, s in zip(row, at, strict=True)], {})
            for row in rows
        ]
    return results if function is map else _filtered([row[0] for row in rows], results)


def _filtered(items: list[Any], results: list[Any]) -> Any:
    known = [
        truth(r) if not isinstance(r, Unknown | ir.Expr) else Unknown("the filter is not known")
        for r in results
    ]
    unknown = any_unknown(known)
    return unknown if unknown is not None else [i for i, k in zip(items, known, strict=True) if k]


def _reduce(run: Run, node: ast.Call, args: list[Argument], items: Any, call: CallKnown) -> Any:
    at = args[1].span
    pending = [*(a.value for a in args[2:]), *items]
    if not pending:
        return run.guarded_native(node, functools.reduce, [max, []], {})  # says what Python says
    if len(pending) > run.limits.chain and run.launch is not None:
        return run.too_long(node, len(pending))
    result = pending[0]
    for item in pending[1:]:
        result = call(run, node, args[0].value, [Argument(result, at), Argument(item, at)], {})
        if isinstance(result, Unknown):
            return result
    return result
