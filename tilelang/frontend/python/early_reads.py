"""Tensor parameters that a kernel reads before it declares them: `dtype = A.dtype` above `A: T.Tensor(...)`.

Python has the caller's tensor there, so its dtype and shape are those of the call. Without a call the dtype
is known if the declaration below names one, since no call with another is accepted.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilelang.frontend.dtypes import dtype_name
from tilelang.frontend.python.modelled_modules import HostTensor
from tilelang.frontend.run import Run
from tilelang.language.dtypes import DType

_ATTRIBUTES = frozenset({"dtype", "shape", "ndim"})


def early_reads(node: ast.FunctionDef) -> Mapping[str, frozenset[str]]:
    """Parameter -> the attributes that are read above its declaration in the body; only those that have such
    reads.
    """
    declared = _declarations(node)
    found: dict[str, frozenset[str]] = {}
    last = max((d.lineno for d in declared.values()), default=0)
    above = [s for s in node.body if s.lineno <= last]
    for part in (p for s in (node.args, *node.decorator_list, *above) for p in ast.walk(s)):
        if not isinstance(part, ast.Attribute) or part.attr not in _ATTRIBUTES:
            continue
        name = part.value.id if isinstance(part.value, ast.Name) else ""
        if name in declared and part.end_lineno is not None and part.end_lineno <= declared[name].lineno:
            found[name] = found.get(name, frozenset()) | {part.attr}
    return found


def given_tensor(dtype: Any, shape: tuple[int, ...] | None, attributes: frozenset[str]) -> HostTensor:
    """What a kernel may know of a caller's tensor by these reads: a shape only if it asks for it, since each
    answer makes a kernel of its own.
    """
    return HostTensor(shape if attributes - {"dtype"} else None, dtype if "dtype" in attributes else None)


def declared_dtype(run: Run, name: str) -> DType | None:
    """`name.dtype` of a parameter that is declared further below, if the declaration says it by itself."""
    scope = run.signature.node_scope
    if scope is None or scope is not run.scope or scope.function is None or name in run.signature.parameters:
        return None
    function = scope.function.node
    declared = _declarations(function) if isinstance(function, ast.FunctionDef) else {}
    node = _dtype_of(declared.get(name))
    if node is None:
        return None
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    if names & declared.keys() or any(n in scope.locals and n not in run.signature.names for n in names):
        return None  # made of what stands between here and there
    found = dtype_name(run.eval(node))
    return None if found is None else DType(found)


def _dtype_of(annotation: ast.expr | None) -> ast.expr | None:
    """The dtype in `T.Tensor(shape, dtype)`."""
    if not isinstance(annotation, ast.Call):
        return None
    named = (k.value for k in annotation.keywords if k.arg == "dtype")
    return next(named, annotation.args[-1] if len(annotation.args) >= 2 else None)


def _declarations(node: ast.FunctionDef) -> dict[str, ast.expr]:
    """The annotation of each parameter that a statement of the body declares."""
    names = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    return {
        part.target.id: part.annotation
        for part in node.body
        if isinstance(part, ast.AnnAssign)
        and part.value is None
        and isinstance(part.target, ast.Name)
        and part.target.id in names
    }
