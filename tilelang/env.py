"""The environment variables that steer the package, as attributes that can be read and set.

`env.TILELANG_CACHE_DIR` is what the variable says now, or its default; assigning to it sets the variable for
this process.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass
class EnvVar:
    """One variable as an attribute of `Environment`. key: its name, which may differ from the attribute's."""

    key: str
    default: str | None

    def get(self) -> str | None:
        """What the variable says now, or the default."""
        return os.environ.get(self.key, self.default)

    def __get__(self, owner: Any, cls: type | None = None) -> str | None:
        return self.get()

    def __set__(self, owner: Any, value: Any) -> None:
        if value is None:
            os.environ.pop(self.key, None)
        else:
            os.environ[self.key] = str(value)


class CacheState:
    """Whether this process uses the disk cache, as `enable_cache()` and `disable_cache()` left it."""

    _enabled = True  # of the process: there is no object of this class

    @classmethod
    def enable(cls) -> None:
        """Use the disk cache."""
        cls._enabled = True

    @classmethod
    def disable(cls) -> None:
        """Neither read nor write the disk cache in this process."""
        cls._enabled = False

    @classmethod
    def is_enabled(cls) -> bool:
        """Whether the process uses it; the environment may still turn it off."""
        return cls._enabled


class Environment:
    """What the environment says; the methods read it as truth values and numbers."""

    TILELANG_CACHE_DIR = EnvVar("TILELANG_CACHE_DIR", str(Path.home() / ".tilelang" / "cache"))
    TILELANG_TMP_DIR = EnvVar("TILELANG_TMP_DIR", str(Path.home() / ".tilelang" / "cache" / "tmp"))
    TILELANG_DISABLE_CACHE = EnvVar("TILELANG_DISABLE_CACHE", "0")
    TILELANG_PRINT_ON_COMPILATION = EnvVar("TILELANG_PRINT_ON_COMPILATION", "1")
    TILELANG_DEFAULT_TARGET = EnvVar("TILELANG_DEFAULT_TARGET", "auto")
    TILELANG_DEFAULT_EXECUTION_BACKEND = EnvVar("TILELANG_EXECUTION_BACKEND", "auto")
    TILELANG_DEFAULT_VERBOSE = EnvVar("TILELANG_VERBOSE", "0")
    TILELANG_ENABLE_IR_SPAN = EnvVar("TILELANG_ENABLE_IR_SPAN", "1")
    TILELANG_CLEANUP_TEMP_FILES = EnvVar("TILELANG_CLEANUP_TEMP_FILES", "1")
    TILELANG_COMPILE_TIMEOUT_SECONDS = EnvVar("TILELANG_COMPILE_TIMEOUT_SECONDS", "")
    TILELANG_JIT_DIAGNOSTICS = EnvVar("TILELANG_JIT_DIAGNOSTICS", "0")
    TILELANG_LAYOUT_COST_MODEL = EnvVar("TILELANG_LAYOUT_COST_MODEL", None)
    TILELANG_KERNEL_CACHE_USE_LIB_STAMP = EnvVar("TILELANG_KERNEL_CACHE_USE_LIB_STAMP", "0")
    TILELANG_AUTO_TUNING_DISABLE_CACHE = EnvVar("TILELANG_AUTO_TUNING_DISABLE_CACHE", "0")
    TILELANG_AUTO_TUNING_CPU_UTILITIES = EnvVar("TILELANG_AUTO_TUNING_CPU_UTILITIES", "0.9")
    TILELANG_AUTO_TUNING_CPU_COUNTS = EnvVar("TILELANG_AUTO_TUNING_CPU_COUNTS", "-1")
    TILELANG_AUTO_TUNING_MAX_CPU_COUNT = EnvVar("TILELANG_AUTO_TUNING_MAX_CPU_COUNT", "-1")

    TILELANG_PASS_DIFF = EnvVar("TILELANG_PASS_DIFF", "0")
    TILELANG_PASS_PROFILE = EnvVar("TILELANG_PASS_PROFILE", "0")
    TILELANG_PASS_PROFILE_THRESHOLD_MS = EnvVar("TILELANG_PASS_PROFILE_THRESHOLD_MS", "0")
    TILELANG_PASS_DIFF_OUTPUT = EnvVar("TILELANG_PASS_DIFF_OUTPUT", "tmp/pass_diff_output")
    TILELANG_HIP_SAVE_TEMP_FILES = EnvVar("TILELANG_HIP_SAVE_TEMP_FILES", "0")
    TL_LOWER_TRACE = EnvVar("TL_LOWER_TRACE", "0")
    TL_LOWER_TRACE_DIR = EnvVar("TL_LOWER_TRACE_DIR", "./tmp/lower_trace_dir")
    # Nothing is compiled against templates: these name folders of the author's, and change nothing.
    TILELANG_TEMPLATE_PATH = EnvVar("TL_TEMPLATE_PATH", None)
    CUTLASS_INCLUDE_DIR = EnvVar("TL_CUTLASS_PATH", None)
    CUDA_HOME = EnvVar("CUDA_HOME", "")
    ROCM_HOME = EnvVar("ROCM_HOME", "")
    TILELANG_PACKAGE_PATH = Path(__file__).parent

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"tilelang.env has no variable {name!r}")

    def is_cache_enabled(self) -> bool:
        """Whether compiled kernels are looked for and kept on disk."""
        return CacheState.is_enabled() and not self.is_cache_globally_disabled()

    def enable_cache(self) -> None:
        """Use the disk cache."""
        CacheState.enable()

    def disable_cache(self) -> None:
        """Neither read nor write the disk cache in this process."""
        CacheState.disable()

    def is_cache_globally_disabled(self) -> bool:
        """Whether the environment turns the disk cache off."""
        return _true(self.TILELANG_DISABLE_CACHE)

    def is_autotune_cache_disabled(self) -> bool:
        """Whether results of tuning are not kept on disk."""
        return _true(self.TILELANG_AUTO_TUNING_DISABLE_CACHE)

    def is_print_on_compilation_enabled(self) -> bool:
        """Whether compilations are to be announced; here `verbose` does that, in the log."""
        return _true(self.TILELANG_PRINT_ON_COMPILATION)

    def is_jit_diagnostics_enabled(self) -> bool:
        """Whether compilations report on themselves."""
        return _true(self.TILELANG_JIT_DIAGNOSTICS)

    def is_span_enable(self) -> bool:
        """Whether statements know their places in the source; here they always do."""
        return _true(self.TILELANG_ENABLE_IR_SPAN)

    def should_cleanup_temp_files(self) -> bool:
        """Whether temporary files go when they are no longer needed."""
        return _true(self.TILELANG_CLEANUP_TEMP_FILES)

    def should_use_kernel_cache_lib_stamp(self) -> bool:
        """Whether the cache asks when the compiler was built; here it always knows the compiler's files."""
        return _true(self.TILELANG_KERNEL_CACHE_USE_LIB_STAMP)

    def get_default_target(self) -> str | dict[str, Any]:
        """The target of kernels that name none; "auto" takes the GPU that torch sees, else the CPU. One that
        is written as JSON is the mapping it describes.
        """
        named = str(self.TILELANG_DEFAULT_TARGET or "auto")
        return json.loads(named) if named.startswith("{") else named

    def get_default_execution_backend(self) -> str:
        """The backend of kernels that name none; all names mean the one runtime there is."""
        return self.TILELANG_DEFAULT_EXECUTION_BACKEND or "auto"

    def get_default_verbose(self) -> bool:
        """Whether compilations are logged where a kernel does not say."""
        return _true(self.TILELANG_DEFAULT_VERBOSE)

    def get_default_layout_cost_model(self) -> str | None:
        """The cost model named for layouts."""
        return self.TILELANG_LAYOUT_COST_MODEL

    def get_compile_timeout_seconds(self) -> float | None:
        """How long a compilation may take; None for as long as it needs.

        Raises ValueError for a text that is no positive number.
        """
        text = self.TILELANG_COMPILE_TIMEOUT_SECONDS
        seconds = float(text) if text else 0.0
        if seconds < 0:
            raise ValueError(f"TILELANG_COMPILE_TIMEOUT_SECONDS is {text}, expected a positive number")
        return seconds or None

    def is_pass_profile_enabled(self) -> bool:
        """Whether the time of passes is asked for; here `tilelang.jit` does not report it."""
        return _true(self.TILELANG_PASS_PROFILE)

    def get_pass_profile_threshold_ms(self) -> float:
        """The time in milliseconds from which a pass is reported."""
        return float(self.TILELANG_PASS_PROFILE_THRESHOLD_MS or 0)

    def get_lower_trace_mode(self) -> str | None:
        """The mode in which lowering is traced; None: `tilelang.lower` shows its result, no trace is made."""
        return None

    def get_lower_trace_dir(self) -> str:
        """The folder that traces of lowering were to be left in."""
        return self.TL_LOWER_TRACE_DIR or ""

    def get_pass_diff_mode(self) -> str | None:
        """The mode in which passes are compared; None: they are not."""
        return None

    def is_running_autodd(self) -> bool:
        """Whether `tilelang.autodd` runs this process; it starts processes of its own, this is none."""
        return False

    def is_light_import(self) -> bool:
        """Whether the compiler is left out of the import; it is loaded when it is first needed."""
        return False


def _true(text: str | None) -> bool:
    return (text or "").strip().lower() in _TRUE


env = Environment()
_PATHS = ("CUDA_HOME", "ROCM_HOME", "TILELANG_TEMPLATE_PATH", "CUTLASS_INCLUDE_DIR")


def __getattr__(name: str) -> Any:
    """`from tilelang.env import CUDA_HOME`: what the variable says then, else what this machine has."""
    if name not in _PATHS:
        raise AttributeError(f"module 'tilelang.env' has no attribute {name!r}")
    return getattr(env, name) or (_find_cuda_home() if name == "CUDA_HOME" else "")


def _find_cuda_home() -> str:
    """The folder of the CUDA toolkit that is on the PATH or in its usual place; "" without one."""
    compiler = shutil.which("nvcc")
    usual = Path("/usr/local/cuda")
    if compiler is not None:
        return str(Path(compiler).resolve().parent.parent)
    return str(usual) if usual.is_dir() else ""


def enable_cache() -> None:
    """Use the disk cache (the default)."""
    env.enable_cache()


def disable_cache() -> None:
    """Neither read nor write the disk cache in this process."""
    env.disable_cache()


def is_cache_enabled() -> bool:
    """Whether compiled kernels are looked for and kept on disk."""
    return env.is_cache_enabled()
