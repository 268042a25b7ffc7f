"""Walking tile functions by the names that code around kernels uses: `tvm.tirx.stmt_functor`.

Stock tvm has these walks in `tvm_ffi`; `tilelang.jit.tvm_names` gives them their released names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

_NODES = (X.Stmt, ir.Expr)


def post_order_visit(stmt: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call `fvisit` on every statement and expression in `stmt`, the parts first, each object once."""
    seen: set[int] = set()

    def visit(node: Any) -> None:
        if node.__chandle__() not in seen:
            seen.add(node.__chandle__())
            fvisit(node)

    tvm_ffi.structural_walk(stmt, (_NODES, visit))


def pre_order_visit(stmt: Any, fvisit: Callable[[Any], bool]) -> None:
    """Call `fvisit` on statements and expressions in `stmt`, the whole first; False leaves the parts out."""

    def visit(node: Any) -> Any:
        return tvm_ffi.WalkResult.ADVANCE if fvisit(node) else tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(stmt, (_NODES, visit), order="pre")


def substitute(node: Any, vmap: Mapping[Any, Any]) -> Any:
    """`node` with expressions in the place of variables."""
    values = {variable.__chandle__(): value for variable, value in vmap.items()}
    return tvm_ffi.structural_map(node, (ir.Var, lambda v: values.get(v.__chandle__(), v)))


def ir_transform(
    stmt: Any,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Sequence[str] | None = None,
) -> Any:
    """`stmt` with nodes replaced: by what `preorder(node)` returns, whose parts are then left alone, else by
    what `postorder(node)` returns once its parts are done. None keeps a node.

    only_enable: names of classes ("tirx.For") that the functions are asked about; all if it is None.
    """

    def asked(node: Any) -> bool:
        return only_enable is None or f"tirx.{type(node).__name__}" in only_enable

    def change(node: Any, mutator: Any) -> Any:
        if preorder is not None and asked(node):
            replaced = preorder(node)
            if replaced is not None:
                return replaced
        done = mutator.default_mutate(node)
        replaced = postorder(done) if postorder is not None and asked(done) else None
        return done if replaced is None else replaced

    return tvm_ffi.structural_mutate(stmt, (_NODES, change))
