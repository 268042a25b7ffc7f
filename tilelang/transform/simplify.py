"""Simplifying tile functions by the names that kernels use; compiling one always does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

__all__ = ["apply_simplify", "simplify_prim_func"]

P = ParamSpec("P")
R = TypeVar("R")


def simplify_prim_func(func: Callable[P, R]) -> Callable[P, R]:
    """The same function: what it returns is simplified when it is compiled, as every kernel is."""
    return func


def apply_simplify(stmt: Any, inline_let: bool = False) -> Any:
    """A tile function or a module of some as it is: it is simplified when it is compiled.

    inline_let: accepted; names in a kernel are read through where that helps.
    """
    return stmt
