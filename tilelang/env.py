"""The compiler's environment variables as attributes, read when asked for: `tilelang.env.TILELANG_CACHE_DIR`.

Variables of the reference release that this compiler has no use for are here with their values, so that
programs that read them run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

# Attribute -> (variable, value where it is not set).
_VARIABLES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "TILELANG_CACHE_DIR": ("TILELANG_CACHE_DIR", str(Path.home() / ".tilelang" / "cache")),
        "TILELANG_DISABLE_CACHE": ("TILELANG_DISABLE_CACHE", "0"),
        "TILELANG_DEFAULT_TARGET": ("TILELANG_DEFAULT_TARGET", "auto"),
        "TILELANG_DEFAULT_EXECUTION_BACKEND": ("TILELANG_EXECUTION_BACKEND", "auto"),
        "TILELANG_DEFAULT_VERBOSE": ("TILELANG_VERBOSE", "0"),
        "TILELANG_PRINT_ON_COMPILATION": ("TILELANG_PRINT_ON_COMPILATION", "1"),
        "TILELANG_ENABLE_IR_SPAN": ("TILELANG_ENABLE_IR_SPAN", "1"),
        "TILELANG_CLEANUP_TEMP_FILES": ("TILELANG_CLEANUP_TEMP_FILES", "1"),
        "TILELANG_COMPILE_TIMEOUT_SECONDS": ("TILELANG_COMPILE_TIMEOUT_SECONDS", ""),
        "TILELANG_JIT_DIAGNOSTICS": ("TILELANG_JIT_DIAGNOSTICS", "0"),
        "TILELANG_AUTO_TUNING_DISABLE_CACHE": ("TILELANG_AUTO_TUNING_DISABLE_CACHE", "0"),
        "TILELANG_AUTO_TUNING_CPU_UTILITIES": ("TILELANG_AUTO_TUNING_CPU_UTILITIES", "0.9"),
        "TILELANG_AUTO_TUNING_CPU_COUNTS": ("TILELANG_AUTO_TUNING_CPU_COUNTS", "-1"),
        "TILELANG_AUTO_TUNING_MAX_CPU_COUNT": ("TILELANG_AUTO_TUNING_MAX_CPU_COUNT", "-1"),
        "TILELANG_KERNEL_CACHE_USE_LIB_STAMP": ("TILELANG_KERNEL_CACHE_USE_LIB_STAMP", "0"),
        "TILELANG_PASS_DIFF": ("TILELANG_PASS_DIFF", "0"),
        "TILELANG_PASS_PROFILE": ("TILELANG_PASS_PROFILE", "0"),
        "TILELANG_PASS_PROFILE_THRESHOLD_MS": ("TILELANG_PASS_PROFILE_THRESHOLD_MS", "0"),
        "CUDA_HOME": ("CUDA_HOME", ""),
        "ROCM_HOME": ("ROCM_HOME", ""),
    }
)
TILELANG_PACKAGE_PATH = Path(__file__).parent


def __getattr__(name: str) -> Any:
    if name not in _VARIABLES:
        raise AttributeError(f"tilelang.env has no variable {name!r}")
    variable, default = _VARIABLES[name]
    return os.environ.get(variable, default)


def __dir__() -> list[str]:
    return sorted({*globals(), *_VARIABLES})


def enable_cache() -> None:
    """As `tilelang.enable_cache`."""
    from tilelang.jit import cache

    cache.enable_cache()


def disable_cache() -> None:
    """As `tilelang.disable_cache`."""
    from tilelang.jit import cache

    cache.disable_cache()


def is_cache_enabled() -> bool:
    """As `tilelang.is_cache_enabled`: neither switched off by a call nor by TILELANG_DISABLE_CACHE."""
    from tilelang.jit import cache

    return cache.is_cache_enabled()


def is_cache_globally_disabled() -> bool:
    """Whether TILELANG_DISABLE_CACHE switches the disk cache off."""
    return _is_on("TILELANG_DISABLE_CACHE")


def is_autotune_cache_disabled() -> bool:
    """Whether TILELANG_AUTO_TUNING_DISABLE_CACHE switches the autotuner's cache off."""
    return _is_on("TILELANG_AUTO_TUNING_DISABLE_CACHE")


def is_print_on_compilation_enabled() -> bool:
    """Whether TILELANG_PRINT_ON_COMPILATION is on."""
    return _is_on("TILELANG_PRINT_ON_COMPILATION")


def get_default_target() -> str:
    """TILELANG_DEFAULT_TARGET."""
    return str(__getattr__("TILELANG_DEFAULT_TARGET"))


def get_default_execution_backend() -> str:
    """TILELANG_EXECUTION_BACKEND."""
    return str(__getattr__("TILELANG_DEFAULT_EXECUTION_BACKEND"))


def get_default_verbose() -> bool:
    """Whether TILELANG_VERBOSE is on."""
    return _is_on("TILELANG_DEFAULT_VERBOSE")


def get_compile_timeout_seconds() -> float | None:
    """TILELANG_COMPILE_TIMEOUT_SECONDS; None where it is not set."""
    text = str(__getattr__("TILELANG_COMPILE_TIMEOUT_SECONDS"))
    return float(text) if text else None


def _is_on(name: str) -> bool:
    return str(__getattr__(name)).strip().lower() in ("1", "true", "yes", "on")
