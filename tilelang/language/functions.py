"""The decorators that mark a function as kernel code without compiling it: `@T.prim_func` and `@T.macro`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilelang.language.surroundings import keep_surroundings
from tilelang.language.values import OutsideKernelError


class PrimFunc:
    """A kernel written by hand, as a lazy factory returns it: `tilelang.compile` takes it.

    `function` is the undecorated Python function, whose source the compiler reads; it is never called.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        keep_surroundings(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.function.__name__
        raise TypeError(
            f"{name} is a kernel that is not compiled yet: call tilelang.compile({name}), "
            "or return it from a function decorated with @tilelang.jit"
        )


class Macro:
    """A function whose body is written into the kernel that calls it, parameters bound to its
    arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise OutsideKernelError(self.function.__name__)


if TYPE_CHECKING:
    # Checkers then leave the body alone: `A: T.Tensor((M, K), dtype)` is no type expression to them.
    from typing import no_type_check as macro
    from typing import no_type_check as prim_func
else:

    def prim_func(func: Callable[..., Any] | None = None) -> Any:
        """Mark a function as a kernel: parameters annotated with `T.Tensor`, the body a tile program.

        Returned by a lazy factory under `@tilelang.jit`, or compiled by `tilelang.compile`.
        """
        return PrimFunc if func is None else PrimFunc(func)

    def macro(func: Callable[..., Any] | None = None) -> Any:
        """Mark a function whose body is written into each kernel that calls it."""
        return Macro if func is None else Macro(func)
