"""What annotates a parameter: `A: T.Tensor(...)`, or `A: Annotated[torch.Tensor, T.Tensor(...)]`, which type
checkers understand too.
"""

from __future__ import annotations

import ast
from typing import Any

from tilelang.frontend.dtypes import dtype_name, looks_like_dtype
from tilelang.frontend.model import TensorType
from tilelang.frontend.run import Run
from tilelang.language.tensors import StridedTensor, Tensor


def evaluated_annotation(run: Run, node: ast.expr) -> Any:
    """The value of an annotation; of `Annotated[...]` the first part behind the type that says what a kernel
    takes, a tensor or a dtype.
    """
    parts = _metadata(node)
    if not parts:
        return run.eval(node)
    values = [run.eval(part) for part in parts]
    return next((v for v in values if _says_what(v)), values[0])


def native_annotation(made: Any) -> Any:
    """The same for an annotation that Python has evaluated (`typing.Annotated` keeps its parts)."""
    parts = getattr(made, "__metadata__", ())
    return next((p for p in parts if isinstance(p, Tensor | StridedTensor)), made)


def is_scalar_type(value: Any) -> bool:
    """Whether an annotation says that a parameter is a number: `x: T.float16`."""
    return isinstance(value, str) and not isinstance(value, type)


def _metadata(node: ast.expr) -> list[ast.expr]:
    """`m, n` of `Annotated[type, m, n]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return []
    name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    return node.slice.elts[1:] if name == "Annotated" else []


def _says_what(value: Any) -> bool:
    if isinstance(value, TensorType):
        return True
    return looks_like_dtype(value) and bool(dtype_name(value)) and not isinstance(value, type)
