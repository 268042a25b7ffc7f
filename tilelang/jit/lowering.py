"""`tilelang.lower`: the generated source and the parameters of a kernel, without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.jit.functions import compile_kernel
from tilelang.jit.kernel import JITKernel
from tilelang.jit.kernel_param import KernelParam
from tilelang.jit.options import CompileOptions


@dataclass(frozen=True)
class CompiledArtifact:
    """What `tilelang.lower` returns.

    rt_mod: the kernel, which can be called. device_mod and host_mod are None: the device code is in
    `kernel_source`, and no host code is generated.
    """

    kernel_source: str
    params: list[KernelParam]
    target: str
    rt_mod: JITKernel
    host_mod: None = None
    device_mod: None = None
    target_host: None = None


def lower(
    func_or_mod: Any,
    target: Any = "auto",
    target_host: Any = None,
    runtime_only: bool = False,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
) -> CompiledArtifact:
    """Compile a function under `@T.prim_func` (or a tile function) and show what was generated.

    The other arguments are accepted and change nothing: no host code is generated, and the device code is
    always compiled. Raises what `tilelang.compile` does.
    """
    kernel = compile_kernel(func_or_mod, CompileOptions.read(target=target))
    return CompiledArtifact(kernel.get_kernel_source(), kernel.params, kernel.target, kernel)
