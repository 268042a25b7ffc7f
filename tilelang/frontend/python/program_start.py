"""What a module finds when its program starts: environment variables that nobody has set."""

from __future__ import annotations

import os
from typing import Any

from tilelang.frontend.arguments import Argument
from tilelang.frontend.model import ClassValue, Instance, ModuleValue, NativeMethod
from tilelang.frontend.run import Run


def _get(run: Run, owner: Any, args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    """`os.environ.get(name, default)`: the default, as the value of an option that is not given."""
    if len(args) > 1:
        return args[1].value
    return kwargs["default"].value if "default" in kwargs else None


_ENVIRON_CLASS = ClassValue("environ", {"get": NativeMethod(_get), "setdefault": NativeMethod(_get)}, ())
ENVIRON = Instance(_ENVIRON_CLASS, {})


def call_getenv(args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    """`os.getenv(name, default)`."""
    return _get(None, ENVIRON, args, kwargs)  # type: ignore[arg-type]


def os_module() -> ModuleValue:
    """`os`, of which only the environment is known."""
    return ModuleValue("os", {"environ": ENVIRON, "getenv": os.getenv}, open=True)
