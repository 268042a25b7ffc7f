"""Marks and helpers for tests of kernels with pytest: what a test requires, seeds, comparisons."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import operator
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest

from tilelang.cuda.target import target_is_cuda
from tilelang.rocm.target import target_is_cdna, target_is_gfx950
from tilelang.utils.tensor import torch_assert_close

__path__: list[str] = []  # modules inside it by their released paths: tilelang/released_modules.py
__all__ = [
    "PerfResult",
    "Requirement",
    "main",
    "process_func",
    "regression",
    "requires_cdna",
    "requires_cuda",
    "requires_cuda_compute_version",
    "requires_cuda_compute_version_eq",
    "requires_cuda_compute_version_ge",
    "requires_cuda_compute_version_gt",
    "requires_cuda_compute_version_le",
    "requires_cuda_compute_version_lt",
    "requires_cuda_or_cdna",
    "requires_gfx950",
    "requires_llvm",
    "requires_metal",
    "requires_package",
    "requires_rocm",
    "set_random_seed",
    "target_is_cdna",
    "target_is_cuda",
    "target_is_gfx950",
    "torch_assert_close",
]

Test = Callable[..., Any]
_SUPPORT = ("compile-only", "compile-and-run", "optional")
_COMPARE = {
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "eq": operator.eq,
}


def main() -> None:
    """Run the tests of the calling file; `tilelang.testing.main()` stands at its end under `__main__`."""
    caller = inspect.stack()[1].filename
    sys.exit(pytest.main([caller, *sys.argv[1:]]))


def set_random_seed(seed: int = 42) -> None:
    """Seed Python's, numpy's and torch's generators, those of the GPU included."""
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@dataclass(frozen=True)
class PerfResult:
    """One measured function: its name, its time (in whatever unit it returns) and its arguments as text."""

    name: str
    latency: float
    case: str | None = None


_MEASURED: ContextVar[list[PerfResult] | None] = ContextVar("measured", default=None)


def process_func(func: Callable[..., float], name: str | None = None, /, **kwargs: Any) -> None:
    """Run a function that measures something and note what it returns, for the table of `regression`.

    Raises ValueError for a time that is not positive.
    """
    latency = float(func(**kwargs))
    if latency <= 0:
        raise ValueError(f"{func.__name__} returned {latency}, expected a positive time")
    case = ", ".join(f"{k}={v}" for k, v in kwargs.items()) or None
    result = PerfResult(name or func.__name__, latency, case)
    measured = _MEASURED.get()
    if measured is None:
        print(f"{result.name}: {result.latency}")
    else:
        measured.append(result)


def regression(prefixes: Sequence[str] = ("regression_",), verbose: bool = True) -> None:
    """Run the functions of the calling module whose names begin with a prefix, and print what they measured
    by `process_func`; verbose: say first which function is running.
    """
    names = inspect.stack()[1].frame.f_globals
    chosen = sorted(n for n in names if n.startswith(tuple(prefixes)) and callable(names[n]))
    measured: list[PerfResult] = []
    token = _MEASURED.set(measured)
    try:
        for number, name in enumerate(chosen, 1):
            if verbose:
                print(f"[{number}/{len(chosen)}] {name}")
            names[name]()
    finally:
        _MEASURED.reset(token)
    for result in measured:
        print(f"{result.name}: {result.latency}")


class Requirement:
    """What a test needs: a decorator that skips it where that is missing, or the marks for a parameter."""

    def __init__(self, what: str, there: Callable[[], bool], *names: str) -> None:
        """names: marks by which `pytest -m` chooses such tests."""
        self.what, self._there, self._names = what, there, names

    def __call__(self, function: Test | None = None, *, support_required: str = "compile-and-run") -> Any:
        """`@requires_cuda`, also with brackets; support_required as in `marks`."""
        if function is None:
            return functools.partial(self, support_required=support_required)
        for mark in self.marks(support_required):
            function = mark(function)
        return function

    def marks(self, support_required: str = "compile-and-run") -> list[Any]:
        """The marks, as `pytest.param(..., marks=requires_cuda.marks())` takes them.

        support_required: `compile-and-run` needs the device. `compile-only` and `optional` need none, for
        sources are written on any machine. Raises ValueError for another word.
        """
        if support_required not in _SUPPORT:
            raise ValueError(
                f"Unknown feature support type: {support_required}; it is one of {', '.join(_SUPPORT)}"
            )
        names = [getattr(pytest.mark, name) for name in self._names]
        if support_required != "compile-and-run":
            return names
        return [pytest.mark.skipif(not self._there(), reason=f"needs {self.what}"), *names]


requires_cuda = Requirement("an NVIDIA GPU", lambda: _has("cuda"), "gpu", "cuda")
requires_rocm = Requirement("an AMD GPU", lambda: _has("rocm"), "gpu", "rocm")
requires_metal = Requirement("an Apple GPU", lambda: _has("metal"), "gpu", "metal")
requires_llvm = Requirement("the CPU target", lambda: True, "llvm")  # it is always there


def requires_cdna(function: Test) -> Test:
    """Skip a test where there is no AMD data-centre GPU (gfx9)."""
    return pytest.mark.skipif(not _architecture().startswith("gfx9"), reason="needs an AMD CDNA GPU")(
        pytest.mark.gpu(pytest.mark.rocm(function))
    )


def requires_gfx950(function: Test) -> Test:
    """Skip a test where there is no AMD gfx950."""
    return pytest.mark.skipif(not _architecture().startswith("gfx950"), reason="needs a gfx950")(
        pytest.mark.gpu(pytest.mark.rocm(function))
    )


def requires_cuda_or_cdna(function: Test) -> Test:
    """Skip a test where there is neither an NVIDIA GPU nor an AMD CDNA one."""
    there = _has("cuda") or _architecture().startswith("gfx9")
    return pytest.mark.skipif(not there, reason="needs an NVIDIA or AMD CDNA GPU")(function)


def requires_package(*names: str) -> Callable[[Test], Test]:
    """Skip a test where one of these packages is not installed."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return lambda function: pytest.mark.skipif(
        bool(missing), reason=f"needs {', '.join(missing)}, not installed"
    )(function)


def requires_cuda_compute_version(
    major_version: int, minor_version: int = 0, mode: str = "ge"
) -> Callable[[Test], Test]:
    """Skip a test unless the GPU's compute capability is `ge`, `gt`, `le`, `lt` or `eq` this version."""
    asked = (major_version, minor_version)
    capability = _capability()
    there = capability is not None and _COMPARE[mode](capability, asked)
    reason = f"needs an NVIDIA GPU of compute capability {mode} {major_version}.{minor_version}"
    return lambda function: pytest.mark.skipif(not there, reason=reason)(
        pytest.mark.gpu(pytest.mark.cuda(function))
    )


def requires_cuda_compute_version_ge(major_version: int, minor_version: int = 0) -> Callable[[Test], Test]:
    """Skip a test below this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "ge")


def requires_cuda_compute_version_gt(major_version: int, minor_version: int = 0) -> Callable[[Test], Test]:
    """Skip a test at or below this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "gt")


def requires_cuda_compute_version_le(major_version: int, minor_version: int = 0) -> Callable[[Test], Test]:
    """Skip a test above this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "le")


def requires_cuda_compute_version_lt(major_version: int, minor_version: int = 0) -> Callable[[Test], Test]:
    """Skip a test at or above this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "lt")


def requires_cuda_compute_version_eq(major_version: int, minor_version: int = 0) -> Callable[[Test], Test]:
    """Skip a test on any other compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "eq")


@functools.cache
def _has(kind: str) -> bool:
    import torch

    if kind == "metal":
        return torch.backends.mps.is_available()
    version = torch.version.cuda if kind == "cuda" else torch.version.hip
    return version is not None and torch.cuda.is_available()


@functools.cache
def _capability() -> tuple[int, int] | None:
    """The compute capability of torch's current NVIDIA GPU, if there is one."""
    import torch

    return torch.cuda.get_device_capability() if _has("cuda") else None


@functools.cache
def _architecture() -> str:
    """The architecture name of an AMD GPU, such as gfx942; empty if there is none."""
    import torch

    return str(torch.cuda.get_device_properties(0).gcnArchName) if _has("rocm") else ""
