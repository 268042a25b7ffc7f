"""`@tilelang.jit`, `tilelang.compile` and `tilelang.par_compile`: the public ways to compile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, Protocol, overload

from tilelang.jit.functions import JITFunction, compile_kernel
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import CompileOptions
from tilelang.language.functions import KernelFunction
from tilelang.language.values import Tile

_log = logging.getLogger(__name__)

P = ParamSpec("P")
Outputs = Tile | tuple[Tile, ...] | None  # what the body of an eager kernel returns; a call returns tensors
PrimFunction = Callable[..., Any]  # what a factory of lazy kernels returns; a call returns the kernel


class Jit(Protocol):
    """`tilelang.jit(...)` with options, still to be applied to a function."""

    @overload
    def __call__(self, func: Callable[P, Outputs], /) -> JITFunction[P, Any]: ...
    @overload
    def __call__(self, func: Callable[P, PrimFunction], /) -> JITFunction[P, JITKernel]: ...


@overload
def jit(func: Callable[P, Outputs], /) -> JITFunction[P, Any]: ...
@overload
def jit(func: Callable[P, PrimFunction], /) -> JITFunction[P, JITKernel]: ...
@overload
def jit(
    func: None = None,
    *,
    out_idx: int | Sequence[int] | None = None,
    target: Any = None,
    target_host: Any = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    debug_root_path: str | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> Jit: ...
def jit(
    func: Callable[..., Any] | None = None,
    *,
    out_idx: int | Sequence[int] | None = None,
    target: Any = None,
    target_host: Any = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    debug_root_path: str | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> Any:
    """Compile a kernel function (or the kernels that a factory returns) when it is called.

    out_idx: which parameters of a lazy kernel are outputs, allocated and returned by the call; negative from
    the end.
    target: `cuda`, `cuda:sm_80`, `hip:gfx942`, `metal`, `cpu`, a mapping or a tvm target; default: the GPU
    that torch sees, else the CPU. pass_configs: see PassConfigKey. verbose: log compilations.
    debug_root_path: a folder that receives the generated sources. target_host and execution_backend are
    accepted and change nothing: no host code is generated. A function that is under `@T.prim_func` already is
    compiled where it stands, and what is returned is its kernel.
    """
    options = CompileOptions.read(
        target=target,
        out_idx=out_idx,
        pass_configs=pass_configs,
        compile_flags=compile_flags,
        verbose=verbose,
        debug_root_path=debug_root_path,
        execution_backend=execution_backend,
        target_host=target_host,
    )
    if func is None:
        return lambda function: _jitted(function, options)
    return _jitted(func, options)


def _jitted(func: Any, options: CompileOptions) -> Any:
    return compile_kernel(func, options) if isinstance(func, KernelFunction) else JITFunction(func, options)


def compile(
    func: Any,
    out_idx: int | Sequence[int] | None = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> JITKernel:
    """The kernel of a function under `@T.prim_func`. Arguments as in `jit`.

    Raises KernelError with every problem of the kernel, the toolchain's error where nothing can compile it.
    """
    options = CompileOptions.read(
        target=target,
        out_idx=out_idx,
        pass_configs=pass_configs,
        compile_flags=compile_flags,
        verbose=verbose,
        execution_backend=execution_backend,
        target_host=target_host,
    )
    return compile_kernel(func, options)


def par_compile(
    funcs: Iterable[Any],
    out_idx: int | Sequence[int] | None = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    num_workers: int | None = None,
    ignore_error: bool = False,
) -> list[JITKernel | None]:
    """The kernels of several functions, compiled side by side. Options as in `compile`.

    ignore_error: None in the place of a kernel that does not compile, with a warning in the log.
    """

    def one(func: Any) -> JITKernel | None:
        try:
            return compile(
                func,
                out_idx,
                execution_backend,
                target,
                target_host,
                verbose,
                pass_configs,
                compile_flags,
            )
        except Exception as error:
            if not ignore_error:
                raise
            _log.warning("passed over a kernel that does not compile: %s", error)
            return None

    with ThreadPoolExecutor(num_workers) as pool:
        return list(pool.map(one, funcs))
