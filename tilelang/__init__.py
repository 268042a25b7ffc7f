"""TileLang: kernels written as tile programs in Python, compiled for CUDA, HIP, Metal and the CPU.

Importing this package costs milliseconds: the compiler and tvm are loaded when a kernel is first compiled,
torch when one is first launched.
"""

from __future__ import annotations

import importlib
import logging
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilelang.version import LANGUAGE_VERSION, PACKAGE_VERSION

if TYPE_CHECKING:
    from tvm import DataType

    from tilelang import (
        autotuner,
        cache,
        carver,
        contrib,
        dtypes,
        engine,
        language,
        layout,
        math,
        profiler,
        testing,
        tools,
        transform,
        utils,
    )
    from tilelang.autotuner import autotune
    from tilelang.env import env
    from tilelang.jit import (
        JITKernel,
        PassConfigKey,
        compile,
        disable_cache,
        enable_cache,
        is_cache_enabled,
        jit,
        load,
        lower,
        par_compile,
        register_c_postproc,
        register_cuda_postproc,
        register_hip_postproc,
    )
    from tilelang.layout import Fragment, Layout
    from tilelang.math import cdiv, next_power_of_2
    from tilelang.profiler import Profiler, TensorSupplyType

# Kernels in the wild compare `tilelang.__version__` with releases of the language, so it comes first.
__version__ = f"{LANGUAGE_VERSION}+lsp{PACKAGE_VERSION}"

__all__ = [
    "LANGUAGE_VERSION",
    "PACKAGE_VERSION",
    "DataType",
    "Fragment",
    "JITKernel",
    "Layout",
    "PassConfigKey",
    "Profiler",
    "TensorSupplyType",
    "autotune",
    "autotuner",
    "cache",
    "carver",
    "cdiv",
    "compile",
    "contrib",
    "disable_cache",
    "dtypes",
    "enable_cache",
    "engine",
    "env",
    "is_cache_enabled",
    "jit",
    "language",
    "layout",
    "load",
    "lower",
    "math",
    "next_power_of_2",
    "par_compile",
    "profiler",
    "register_c_postproc",
    "register_cuda_postproc",
    "register_hip_postproc",
    "set_log_level",
    "testing",
    "tools",
    "transform",
    "utils",
]

# Public name -> the module that defines it; loaded when the name is first used (PEP 562).
_HOME = {
    "DataType": "tvm",
    "Fragment": "tilelang.layout",
    "JITKernel": "tilelang.jit",
    "Layout": "tilelang.layout",
    "PassConfigKey": "tilelang.jit",
    "Profiler": "tilelang.profiler",
    "TensorSupplyType": "tilelang.profiler",
    "autotune": "tilelang.autotuner",
    "cdiv": "tilelang.math",
    "compile": "tilelang.jit",
    "disable_cache": "tilelang.jit",
    "enable_cache": "tilelang.jit",
    "is_cache_enabled": "tilelang.jit",
    "load": "tilelang.jit",
    "lower": "tilelang.jit",
    "next_power_of_2": "tilelang.math",
    "deprecated": "tilelang.utils.deprecated",
    "par_compile": "tilelang.jit",
    "register_c_postproc": "tilelang.jit",
    "register_cuda_postproc": "tilelang.jit",
    "register_hip_postproc": "tilelang.jit",
}
_SUBMODULES = (
    "analysis",
    "autotuner",
    "backend",
    "cache",
    "carver",
    "contrib",
    "dtypes",
    "engine",
    "ir",
    "language",
    "layout",
    "libinfo",
    "math",
    "profiler",
    "reference",
    "testing",
    "tileop",
    "tools",
    "transform",
    "utils",
)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"tilelang.{name}")
    elif name == "tvm":  # `from tilelang import tvm`, as kernels write it
        value = importlib.import_module("tvm")
        importlib.import_module("tilelang.jit.pass_contexts").accept_language_keys()
        importlib.import_module("tilelang.jit.tvm_names").add_released_names()
    else:
        raise AttributeError(f"module 'tilelang' has no attribute {name!r}")
    globals()[name] = value
    return value


logger = logging.getLogger("tilelang")


def set_log_level(level: int | str) -> None:
    """What the compiler says: `logging.INFO` or its name. Messages go to the logger `tilelang`.

    A name that logging does not know means INFO, and a warning says so.
    """
    found = logging.getLevelName(level.upper()) if isinstance(level, str) else level
    if isinstance(found, int):
        logger.setLevel(found)
    else:
        logger.setLevel(logging.INFO)
        logger.warning("no log level is called %r; INFO is taken", level)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """`tilelang.jit` is both the decorator and the package that implements it; users mean the decorator.
    So it is with `tilelang.env`, the object and its module.

    Importing `tilelang.jit.kernel` would put the package in the decorator's place, so the names are kept
    here.
    """

    @property
    def jit(self) -> Any:
        return importlib.import_module("tilelang.jit").jit

    @jit.setter
    def jit(self, package: ModuleType) -> None:
        """Called by the import system with the package; it stays reachable by import."""

    @property
    def env(self) -> Any:
        return importlib.import_module("tilelang.env").env

    @env.setter
    def env(self, module: ModuleType) -> None:
        """Called by the import system with the module; it stays reachable by import."""


sys.modules[__name__].__class__ = _Package


class _ReleasedModules:
    """Asked by the import system for modules of the released language that have no file here.

    first: before all others, for parts of `tilelang.cuda.language` and kin alone. That module is
    `tilelang.language` itself, whose files would be loaded a second time.
    """

    def __init__(self, first: bool) -> None:
        self._first = first

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        parts = fullname.split(".")
        if parts[0] not in ("tilelang", "tvm") or (
            self._first and (len(parts) < 4 or parts[2] != "language")
        ):
            return None
        return importlib.import_module("tilelang.released_modules").find_spec(fullname)


sys.meta_path.insert(0, _ReleasedModules(first=True))
sys.meta_path.append(_ReleasedModules(first=False))
