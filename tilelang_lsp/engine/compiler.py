"""The door to the compiler: the functions that the analysis process calls, and how they are imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
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

    def warm_up(self) -> Iterator[None]:
        """Do once, in steps, what would otherwise make the first answers slow."""
        ...

    def check_kernel(
        self, module: Any, kernel: Any, target: str, choice: Mapping[str, str]
    ) -> KernelReport: ...

    def detail_steps(
        self, module: Any, kernel: Any, target: str, choice: Mapping[str, str]
    ) -> Generator[None, None, KernelReport]:
        """The report of `check_kernel` with what lowering adds, in steps."""
        ...

    def generate_source(
        self, path: str, text: str, kernel: str, target: str, choice: Mapping[str, str]
    ) -> GeneratedSource: ...


class TileLangCompiler:
    """The compiler of this distribution. Making one imports it, and with it tvm."""

    def __init__(self) -> None:
        keep_torch_out()
        from tilelang.analysis.check import check_kernel
        from tilelang.frontend.environments.incremental_parse import IncrementalParser
        from tilelang.frontend.environments.static_module import StaticModule
        from tilelang.jit.details import detail_steps
        from tilelang.jit.static import generate_from_module

        self._read = StaticModule
        self._parser = IncrementalParser()
        self._latest: StaticModule | None = None
        self._check_kernel = check_kernel
        self._detail_steps = detail_steps
        self._generate_from_module = generate_from_module

    def module(self, path: str, text: str) -> Module:
        self._latest = self._read(path, text, parse=self._parser.parse)
        return self._latest

    def warm_up(self) -> Iterator[None]:
        module = self._read("warm_up.py", _WARM_UP)
        yield
        for kernel in module.kernels:
            self._check_kernel(module, kernel, "cuda:sm_90", {})
            yield
            for target in ("cuda", "hip", "metal"):
                self._generate_from_module(module, kernel.qualified_name, target, {})
                yield

    def check_kernel(self, module: Any, kernel: Any, target: str, choice: Mapping[str, str]) -> KernelReport:
        return self._check_kernel(module, kernel, target, choice)

    def detail_steps(
        self, module: Any, kernel: Any, target: str, choice: Mapping[str, str]
    ) -> Generator[None, None, KernelReport]:
        return self._detail_steps(module, kernel, target, choice)

    def generate_source(
        self, path: str, text: str, kernel: str, target: str, choice: Mapping[str, str]
    ) -> GeneratedSource:
        latest = self._latest  # the worker has just read this text, to see what it takes from other files
        if latest is None or (latest.path, latest.text) != (path, text):
            latest = self._read(path, text, parse=self._parser.parse)
        return self._generate_from_module(latest, kernel, target, choice)


# Small, and touches most of the compiler: its modules are imported and its tables built before anybody waits.
_WARM_UP = """
import tilelang
import tilelang.language as T


@tilelang.jit
def warm_up(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], a)
            T.copy(B[k * 32, bx * 64], b)
            T.gemm(a, b, c)
        for i, j in T.Parallel(64, 64):
            c[i, j] = T.max(c[i, j], 0)
        T.copy(c, C[by * 64, bx * 64])
    return C
"""


def keep_torch_out() -> None:
    """Make `import torch` fail in this process: tvm_ffi would import it, for two seconds and 200 MB."""
    if "torch" not in sys.modules:
        sys.modules["torch"] = None  # type: ignore[assignment]
    os.environ.setdefault("TVM_COMPILE_FORCE_FALLBACK", "1")  # never call nvcc from an editor
