"""The door to the compiler: the four functions that the analysis process calls, and how they are imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.span import Span
from tilelang.facts.reports import GeneratedSource, KernelReport


class Kernel(Protocol):
    """A kernel that the static frontend found. `key` does not depend on where in the file it stands."""

    @property
    def name(self) -> str: ...
    @property
    def qualified_name(self) -> str: ...
    @property
    def span(self) -> Span: ...
    @property
    def key(self) -> str: ...


class Module(Protocol):
    """One text, read by the static frontend."""

    @property
    def kernels(self) -> Sequence[Kernel]: ...
    @property
    def problems(self) -> Sequence[Problem]: ...


class Compiler(Protocol):
    """What the analysis process needs of the compiler."""

    def module(self, path: str, text: str) -> Module: ...

    def check_kernel(
        self, module: Any, kernel: Any, target: str, choice: Mapping[str, str]
    ) -> KernelReport: ...

    def generate_source(
        self, path: str, text: str, kernel: str, target: str, choice: Mapping[str, str]
    ) -> GeneratedSource: ...


class TileLangCompiler:
    """The compiler of this distribution. Making one imports it, and with it tvm."""

    def __init__(self) -> None:
        keep_torch_out()
        from tilelang.analysis.check import check_kernel
        from tilelang.frontend.static_module import StaticModule
        from tilelang.jit.static import generate_source

        self._module = StaticModule
        self._check_kernel = check_kernel
        self._generate_source = generate_source

    def module(self, path: str, text: str) -> Module:
        return self._module(path, text)

    def check_kernel(self, module: Any, kernel: Any, target: str, choice: Mapping[str, str]) -> KernelReport:
        return self._check_kernel(module, kernel, target, choice)

    def generate_source(
        self, path: str, text: str, kernel: str, target: str, choice: Mapping[str, str]
    ) -> GeneratedSource:
        return self._generate_source(path, text, kernel, target, choice)


def keep_torch_out() -> None:
    """Make `import torch` fail in this process: tvm_ffi would import it, for two seconds and 200 MB."""
    if "torch" not in sys.modules:
        sys.modules["torch"] = None  # type: ignore[assignment]
    os.environ.setdefault("TVM_COMPILE_FORCE_FALLBACK", "1")  # never call nvcc from an editor
