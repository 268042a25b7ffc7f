"""Marks functions that another one replaces: each call warns."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def deprecated_warning(method_name: str, new_method_name: str, phaseout_version: str | None = None) -> None:
    """Warn that `method_name` gives way to `new_method_name`, in `phaseout_version` if that is known."""
    when = f" in version {phaseout_version}" if phaseout_version else ""
    text = f"{method_name} is deprecated and goes{when}: use {new_method_name} instead"
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def deprecated(
    method_name: str, new_method_name: str, phaseout_version: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for a function that `new_method_name` replaces."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def warning(*args: P.args, **kwargs: P.kwargs) -> Any:
            deprecated_warning(method_name, new_method_name, phaseout_version)
            return function(*args, **kwargs)

        return warning

    return decorate
