"""What carries out the launches of a kernel, as an object that says what it was made from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tvm import IRModule

from tilelang.runtime.artifact import Artifact
from tilelang.runtime.launch import LoadedKernel
from tilelang.runtime.plan import ScalarParam

if TYPE_CHECKING:
    from tilelang.jit.kernel import JITKernel
    from tilelang.jit.kernel_param import KernelParam
    from tilelang.jit.kernel_target import KernelTarget

# What adapters of other releases hold, and why there is nothing of the kind here.
_ABSENT = {
    **dict.fromkeys(("lib", "libpath", "srcpath", "lib_generator"), "no library is compiled for a launch"),
    **dict.fromkeys(("mod", "rt_mod", "host_mod", "wrapper"), "no host code is generated"),
}


class BaseKernelAdapter:
    """`kernel.adapter`: call it to launch, as the kernel itself.

    All backends are carried out by one runtime, so their adapters differ by name alone.
    """

    def __init__(self, kernel: JITKernel, loaded: LoadedKernel) -> None:
        self._kernel = kernel
        self._loaded = loaded

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Launch, as the kernel's own call does."""
        return self._kernel(*args, **named)

    def __getattr__(self, name: str) -> Any:
        why = f": {_ABSENT[name]}, the runtime carries out a plan" if name in _ABSENT else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{why}")

    @property
    def artifact(self) -> Artifact:
        """The compiled form: plan, source and binary."""
        return self._kernel.artifact

    @property
    def func(self) -> Callable[..., Any]:
        """The launch without the objects around it."""
        return self._loaded

    @cached_property
    def executable(self) -> Callable[..., None]:
        """The launch for callers that allocate: it takes all tensors in call order, outputs included."""
        return self._loaded.on_given_outputs()

    @property
    def dynamic_symbolic_map(self) -> dict[str, tuple[int, int, int, int]]:
        """What gives each run-time size its value: 0 and the parameter and axis of an extent, or 1 and those
        of a stride, or 2 and the parameter of a scalar (axis -1); then 1, the factor to it.
        """
        plan = self.artifact.plan
        found: dict[str, tuple[int, int, int, int]] = {}
        for index, param in enumerate(plan.params):
            if isinstance(param, ScalarParam):
                found.setdefault(param.name, (2, index, -1, 1))
            elif index not in plan.allocated:
                for kind, sizes in enumerate((param.shape, param.strides or ())):
                    for axis, size in enumerate(sizes):
                        if size in plan.symbols:
                            found.setdefault(str(size), (kind, index, axis, 1))
        return found

    @property
    def params(self) -> list[KernelParam]:
        """All parameters in call order, outputs included."""
        return self._kernel.params

    @property
    def result_idx(self) -> list[int]:
        """Which parameters the call allocates and returns."""
        return self._kernel.out_idx

    def _legalize_result_idx(self, result_idx: int | list[int] | None) -> list[int]:
        """Outputs counted from the front. Packages wrap it under this name when they are imported; nothing
        here calls it, for the plan has counted so.
        """
        count = len(self.params)
        given = [] if result_idx is None else [result_idx] if isinstance(result_idx, int) else result_idx
        if any(not -count <= index < count for index in given):
            raise ValueError(f"result_idx {result_idx} is out of range: there are {count} parameters")
        return [index % count for index in given]

    @property
    def target(self) -> KernelTarget:
        """The target it was compiled for."""
        return self._kernel.target

    @property
    def verbose(self) -> bool:
        """Whether its compilation was logged."""
        return self._kernel.verbose

    @property
    def pass_configs(self) -> dict[str, Any]:
        """The pass configurations it was compiled under."""
        return self._kernel.pass_configs

    @property
    def compile_flags(self) -> list[str] | None:
        """The author's flags for the device compiler."""
        return self._kernel.compile_flags

    @property
    def prim_func(self) -> Any:
        """The tile function; None for a loaded kernel."""
        return self._kernel.prim_func

    @property
    def ir_module(self) -> IRModule:
        """The tile function in a module of its own; an empty module for a loaded kernel."""
        func = self._kernel.prim_func
        return IRModule() if func is None else IRModule({self.artifact.name: func})

    @property
    def device_kernel_source(self) -> str:
        """The generated source."""
        return self._kernel.get_kernel_source()

    @property
    def kernel_global_source(self) -> str:
        """The generated source, by its older name."""
        return self._kernel.get_kernel_source()

    @property
    def lib_code(self) -> str:
        """What the device compiler is given: the generated source."""
        return self._kernel.get_kernel_source()

    @property
    def host_kernel_source(self) -> str:
        """The launch as text."""
        return self._kernel.get_host_source()

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The generated source, as `kernel.get_kernel_source()`."""
        return self._kernel.get_kernel_source(kernel_only)

    def get_device_source(self) -> str:
        """The generated source."""
        return self._kernel.get_kernel_source()

    def get_host_source(self) -> str:
        """The launch as text, as `kernel.get_host_source()`."""
        return self._kernel.get_host_source()


class TVMFFIKernelAdapter(BaseKernelAdapter):
    """The adapter of the backend `tvm_ffi`."""


class CythonKernelAdapter(BaseKernelAdapter):
    """The adapter of the backend `cython`."""


class NVRTCKernelAdapter(BaseKernelAdapter):
    """The adapter of the backend `nvrtc`."""


class MetalKernelAdapter(BaseKernelAdapter):
    """The adapter of the backend `torch`, which is Metal's."""


_OF_BACKEND: dict[str, type[BaseKernelAdapter]] = {
    "tvm_ffi": TVMFFIKernelAdapter,
    "cython": CythonKernelAdapter,
    "nvrtc": NVRTCKernelAdapter,
    "torch": MetalKernelAdapter,
}


def adapter_of(kernel: JITKernel, loaded: LoadedKernel) -> BaseKernelAdapter:
    """The adapter of a kernel, of the class that its backend names."""
    return _OF_BACKEND.get(kernel.execution_backend, BaseKernelAdapter)(kernel, loaded)
