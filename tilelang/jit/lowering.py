"""`tilelang.lower`: the generated source and the parameters of a kernel, without compiling it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tvm import IRModule

from tilelang.jit.compiling import lower_func
from tilelang.jit.functions import compile_kernel, tile_function
from tilelang.jit.kernel import JITKernel
from tilelang.jit.kernel_param import KernelParam, kernel_params
from tilelang.jit.kernel_target import KernelTarget
from tilelang.jit.options import CompileOptions
from tilelang.jit.pass_contexts import around
from tilelang.jit.postprocess import edited_c
from tilelang.jit.tile_function import TileFunction
from tilelang.targets.cpu.c_source import c_source

LOWERED = "tl.lowered"  # attribute of the functions in `device_mod`


@dataclass(frozen=True)
class CompiledArtifact:
    """What `tilelang.lower` returns.

    device_mod: the thread-level functions, one for each launch, that `kernel_source` was printed from, as a
    module of tvm. host_mod is an empty one: no host code is generated.
    """

    host_mod: IRModule
    device_mod: IRModule
    params: list[KernelParam]
    kernel_source: str
    target: Any = None
    target_host: Any = None
    build: Callable[[], JITKernel] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def rt_mod(self) -> JITKernel | None:
        """The kernel, which can be called; compiled when it is first asked for."""
        return None if self.build is None else self.build()


def lower(
    func_or_mod: Any,
    target: Any = "auto",
    target_host: Any = None,
    runtime_only: bool = False,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
) -> CompiledArtifact:
    """The generated source of a function under `@T.prim_func` (or of a tile function).

    The pass configurations of a `tvm.transform.PassContext` around the call hold. No host code is generated,
    and no toolchain reads the source before `rt_mod` is asked for, or at once with `enable_device_compile`.
    target_host, runtime_only and enable_host_codegen are accepted and change nothing. Raises NoKernelError
    and KernelError as `tilelang.compile` does.
    """
    options = CompileOptions.read(target=target, pass_configs=around()).resolved()
    assert options.target is not None
    func = tile_function(func_or_mod, options)
    lowered = lower_func(func, options)
    shown = c_source(lowered) if options.asks_for_c else None  # None too for what C has no words for
    source = lowered.source.text if shown is None else edited_c(shown)
    artifact = CompiledArtifact(
        IRModule(),
        IRModule({p.plan.entry: p.func.with_attr(LOWERED, True) for p in lowered.parts or (lowered,)}),
        kernel_params(lowered.plan, TileFunction.of(func)),
        source,
        KernelTarget(options.target.name, options.asks_for_c),
        target_host,
        lambda: compile_kernel(func, options),
    )
    if enable_device_compile:
        artifact.rt_mod  # noqa: B018 - a toolchain's refusal is raised here
    return artifact
