"""The C++ compiler of this machine, for build scripts around kernels. Kernels themselves do not need one."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tilelang.targets.toolchain_error import ToolchainError

_COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")


def is_darwin() -> bool:
    """Whether this machine runs macOS."""
    return sys.platform == "darwin"


def get_cc() -> str | None:
    """The C++ compiler: what CXX or CC names, else g++, gcc, clang++, ..., whichever is there."""
    named = os.environ.get("CXX") or os.environ.get("CC")
    return named or next((found for name in _COMPILERS if (found := shutil.which(name))), None)


@functools.lru_cache(maxsize=1)
def get_cplus_compiler() -> str | None:
    """As `get_cc`, asked once."""
    return get_cc()


def create_shared(
    output: str,
    objects: str | Sequence[str],
    options: str | Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: Any = None,
) -> None:
    """Make a shared library of source or object files. Raises ToolchainError in the compiler's words.

    ccache_env: accepted; no cache of compilations is used.
    """
    how = ["-shared", "-fPIC", *(("-undefined", "dynamic_lookup") if is_darwin() else ())]
    _run([_compiler(cc), *how, "-o", output, *_list(objects), *_list(options)], cwd)


def create_executable(
    output: str,
    objects: str | Sequence[str],
    options: str | Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: Any = None,
) -> None:
    """Make a program of source or object files. Raises as `create_shared` does."""
    _run([_compiler(cc), "-o", output, *_list(objects), *_list(options)], cwd)


def create_staticlib(output: str, inputs: str | Sequence[str], ar: str | None = None) -> None:
    """Make an archive of object files. Raises as `create_shared` does."""
    _run([ar or "ar", "qcs", output, *_list(inputs)], None)


def get_target_by_dump_machine(compiler: str) -> Any:
    """A function that says which machine `compiler` compiles for, as "x86_64-linux-gnu", or None."""

    def triple() -> str | None:
        done = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    return triple


def _compiler(named: str | None) -> str:
    found = named or get_cc()
    if found is None:
        raise ToolchainError(f"there is no C++ compiler: none of {', '.join(_COMPILERS)} is on the PATH")
    return found


def _list(given: str | Sequence[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _run(command: Sequence[str], folder: str | None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise ToolchainError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
