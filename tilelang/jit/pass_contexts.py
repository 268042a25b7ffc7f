"""`with tvm.transform.PassContext(config={"tl.enable_fast_math": True})`, as kernels write it around `lower`.

The stock PassContext refuses every key that no pass of its own has registered, and offers no way to register
one from Python. So tvm's name is given to a context of its kind that keeps the language's keys to itself and
hands on the others; `around` says which of them surround a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import tvm
from tvm.ir import transform

from tilelang.jit.pass_configs import PassConfigKey, key_name

_STOCK = transform.PassContext
_NONE: Mapping[str, Any] = MappingProxyType({})
_entered: ContextVar[tuple[Mapping[str, Any], ...]] = ContextVar("pass_contexts", default=())


class PassContext(_STOCK):
    """tvm's pass context, which also takes the pass configurations of the language (`PassConfigKey`)."""

    __slots__ = ("_language",)
    _language: Mapping[str, Any]

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Any = None,
        disabled_pass: Any = None,
        instruments: Any = None,
        config: Mapping[Any, Any] | None = None,
    ) -> None:
        given = {key_name(key): value for key, value in (config or {}).items()}
        stock = _STOCK.list_configs()
        own = {key.value for key in PassConfigKey}
        for_tvm = {name: value for name, value in given.items() if name in stock or name not in own}
        super().__init__(opt_level, required_pass, disabled_pass, instruments, for_tvm)
        self._language = MappingProxyType({n: value for n, value in given.items() if n in own})

    def __enter__(self) -> PassContext:
        super().__enter__()
        _entered.set((*_entered.get(), self._language))
        return self

    def __exit__(self, ptype: Any, value: Any, trace: Any) -> None:
        _entered.set(_entered.get()[:-1])
        super().__exit__(ptype, value, trace)


def around() -> Mapping[str, Any]:
    """The language's pass configurations of the innermost `with PassContext(...)`."""
    entered = _entered.get()
    return entered[-1] if entered else _NONE


def accept_language_keys() -> None:
    """Give tvm's name to the context that takes the language's keys; done where it is already."""
    for module in (transform, tvm.transform):
        module.PassContext = PassContext
