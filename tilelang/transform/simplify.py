"""`@simplify_prim_func`, which kernels put above the functions that make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def simplify_prim_func(func: Callable[P, R]) -> Callable[P, R]:
    """The same function: what it returns is simplified when it is compiled, as every kernel is."""
    return func
