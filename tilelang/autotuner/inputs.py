"""The tensors to tune with, given around the call: `with set_autotune_inputs(a, b): matmul(M, N, K)`."""

from __future__ import annotations

import contextvars
from types import TracebackType
from typing import Any

_GIVEN: contextvars.ContextVar[tuple[Any, ...] | None] = contextvars.ContextVar("inputs", default=None)


class AutotuneInputsCapture:
    """A context in which tuning takes these tensors as the kernel's inputs."""

    def __init__(self, tensors: tuple[Any, ...]) -> None:
        self.tensors = tensors
        self._tokens: list[contextvars.Token[tuple[Any, ...] | None]] = []

    def __enter__(self) -> AutotuneInputsCapture:
        self._tokens.append(_GIVEN.set(self.tensors))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _GIVEN.reset(self._tokens.pop())


def set_autotune_inputs(*tensors: Any) -> AutotuneInputsCapture:
    """Use `tensors` (or the one list of them) as the kernel's inputs while tuning inside the `with` block."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    return AutotuneInputsCapture(tensors)


def get_autotune_inputs() -> list[Any] | None:
    """The tensors of the innermost `set_autotune_inputs` around this call, or None."""
    given = _GIVEN.get()
    return None if given is None else list(given)
