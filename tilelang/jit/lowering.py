"""`tilelang.lower`: the generated source and the parameters of a kernel, without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import IRModule

from tilelang.jit.functions import compile_kernel
from tilelang.jit.kernel import JITKernel
from tilelang.jit.kernel_param import KernelParam
from tilelang.jit.options import CompileOptions
from tilelang.jit.pass_contexts import around
from tilelang.targets import driver

LOWERED = "tl.lowered"  # attribute of the functions in `device_mod`


@dataclass(frozen=True)
class CompiledArtifact:
    """What `tilelang.lower` returns.

    rt_mod: the kernel, which can be called. device_mod: the thread-level function that `kernel_source` was
    printed from, as a module of tvm. host_mod is an empty one: no host code is generated.
    """

    host_mod: IRModule
    device_mod: IRModule
    params: list[KernelParam]
    kernel_source: str
    rt_mod: JITKernel | None = None
    target: Any = None
    target_host: Any = None


def lower(
    func_or_mod: Any,
    target: Any = "auto",
    target_host: Any = None,
    runtime_only: bool = False,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
) -> CompiledArtifact:
    """Compile a function under `@T.prim_func` (or a tile function) and show what was generated.

    The pass configurations of a `tvm.transform.PassContext` around the call hold. The other arguments are
    accepted and change nothing: no host code is generated, and the device code is always compiled. Raises
    what `tilelang.compile` does.
    """
    options = CompileOptions.read(target=target, pass_configs=around()).resolved()
    assert options.target is not None
    kernel = compile_kernel(func_or_mod, options)
    lowered = driver.lower(kernel.prim_func, options.target)
    device = IRModule({lowered.name: lowered.func.with_attr(LOWERED, True)})
    return CompiledArtifact(
        IRModule(), device, kernel.params, kernel.get_kernel_source(), kernel, kernel.target, target_host
    )
