"""The older way to fold a value over threads: T.tvm_thread_allreduce under T.attr, and what belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.language.dtypes import DType
from tilelang.language.values import OutsideKernelError, Scalar


def comm_reducer(combiner: Callable[[Any, Any], Any], identity: Any) -> Any:
    """How two values become one, `lambda x, y: x + y`, and what changes nothing, `[T.cast(0, "float32")]`."""
    raise OutsideKernelError("comm_reducer")


def attr(node: Any, attr_key: str, value: Any) -> Any:
    """`with T.attr(T.comm_reducer(...), "reduce_scope", handle):` gives an allreduce inside its reducer."""
    raise OutsideKernelError("attr")


def tvm_thread_allreduce(*freduce_args: Any, dtype: str = "handle") -> None:
    """Fold a value over threads: `T.tvm_thread_allreduce(T.uint32(1), acc[0], True, out[0], tx)`.

    freduce_args: how many values (1), the value of each thread, a condition (True), the element that gets the
    result in every thread, and the thread numbers from `T.get_thread_binding`.
    """
    raise OutsideKernelError("tvm_thread_allreduce")


def evaluate(value: Any) -> None:
    """Carry out a call for its effect."""
    raise OutsideKernelError("evaluate")


def Cast(dtype: Any, value: Any) -> Scalar:
    """`value` converted to `dtype`; `T.cast` with its arguments exchanged."""
    if isinstance(value, int | float):
        return DType(dtype)(value)
    raise OutsideKernelError("Cast")
