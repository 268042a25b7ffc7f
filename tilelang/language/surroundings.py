"""The local names where a kernel is defined, kept for annotations that Python leaves as text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

_ATTRIBUTE = "__tilelang_surroundings__"


def keep_surroundings(function: Callable[..., Any]) -> None:
    """Note the local names of the code that decorates `function`.

    Under `from __future__ import annotations` Python evaluates no annotation and keeps no closure cell for a
    name that stands only in one, so `A: T.Tensor(shape, dtype)` in a factory would lose its `shape`. Other
    functions, and those of a module's top level, need nothing.
    """
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & annotations.compiler_flag:
        return
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tilelang."):
        frame = frame.f_back
    if frame.f_locals is not frame.f_globals:
        setattr(function, _ATTRIBUTE, dict(frame.f_locals))


def surroundings(function: Callable[..., Any]) -> Mapping[str, Any]:
    """What `keep_surroundings` noted."""
    return getattr(function, _ATTRIBUTE, {})
