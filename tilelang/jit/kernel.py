"""A compiled kernel as users hold it: call it, read its source, measure it, save it.

One that was saved is loaded and launched where there is neither tvm nor a compiler, so what needs them is
imported where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tilelang.arch.target import parse_target
from tilelang.jit.call_options import on_stream, take_options
from tilelang.jit.options import CompileOptions
from tilelang.runtime.artifact import Artifact
from tilelang.runtime.bind import in_order
from tilelang.runtime.launch import LoadedKernel

if TYPE_CHECKING:
    from tilelang.jit.adapter.base import BaseKernelAdapter
    from tilelang.jit.kernel_param import KernelParam
    from tilelang.jit.kernel_target import KernelTarget
    from tilelang.jit.tile_function import TileFunction
    from tilelang.profiler import Profiler, TensorSupplyType
    from tilelang.targets.cuda.inspect_binary import ResourceUsage

Which = Literal["kernel", "host", "both"]


class JITKernel:
    """One kernel for one target. Call it with its input tensors; it returns its outputs.

    `JITKernel(func, ...)` compiles, with the arguments of `tilelang.compile`.

    artifact: the compiled form, with plan, source and binary. prim_func: the tile function, None for a loaded
    kernel.
    latency, config, ref_latency: set by autotuning.
    """

    artifact: Artifact
    prim_func: TileFunction | None
    options: CompileOptions
    latency: float | None
    ref_latency: float | None
    config: dict[str, Any] | None

    def __init__(
        self,
        func: Any,
        out_idx: int | Sequence[int] | None = None,
        execution_backend: str | None = None,
        target: Any = None,
        target_host: Any = None,
        verbose: bool | None = None,
        pass_configs: Mapping[Any, Any] | None = None,
        compile_flags: str | Sequence[str] | None = None,
    ) -> None:
        from tilelang.jit.functions import compile_kernel  # which makes kernels by `of`

        options = CompileOptions.read(
            target=target,
            out_idx=out_idx,
            pass_configs=pass_configs,
            compile_flags=compile_flags,
            verbose=verbose,
            execution_backend=execution_backend,
            target_host=target_host,
        )
        made = compile_kernel(func, options)
        self._hold(made.artifact, made.prim_func, made.options)

    @classmethod
    def of(
        cls, artifact: Artifact, prim_func: Any = None, options: CompileOptions | None = None
    ) -> JITKernel:
        """The kernel of a compiled form; prim_func: the tile function that it comes from, if there is one."""
        kernel = cls.__new__(cls)
        kernel._hold(artifact, prim_func, options)
        return kernel

    def _hold(self, artifact: Artifact, prim_func: Any, options: CompileOptions | None) -> None:
        self.artifact = artifact
        self.prim_func = None if prim_func is None else _tile_function(prim_func)
        self.options = options or CompileOptions.read(target=artifact.target)
        self.latency = None
        self.ref_latency = None
        self.config = None
        self._loaded = LoadedKernel(artifact)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Launch on torch tensors (numpy arrays on the CPU). Returns the output, a list of several, or None.

        named: inputs by their parameters' names, after those by position; `stream` launches on another stream
        than torch's current one. Raises ArgumentError before anything is written if shapes, dtypes, strides
        or devices do not fit.
        """
        if not named:
            return self._loaded(*args)
        plan = self.artifact.plan
        options = take_options(plan, named)
        if named:
            args = (*args, *in_order(plan, len(args), named))
        with on_stream(options.get("stream"), args):
            return self._loaded(*args)

    def load(self) -> None:
        """Load the binary now; the first call does it by itself."""
        self._loaded.load()

    @cached_property
    def params(self) -> list[KernelParam]:
        """All parameters in call order, outputs included."""
        from tilelang.jit.kernel_param import kernel_params

        return kernel_params(self.artifact.plan, self.prim_func)

    @property
    def out_idx(self) -> list[int]:
        """Which parameters the call allocates and returns."""
        return list(self.artifact.plan.outputs)

    @property
    def execution_backend(self) -> str:
        """The backend by name; every name means the one runtime there is."""
        return self.options.backend

    @property
    def target_host(self) -> Any:
        """The host's target as it was asked for; no host code is generated."""
        return self.options.target_host

    @property
    def pass_configs(self) -> dict[str, Any]:
        """The pass configurations it was compiled under, by their texts."""
        return dict(self.options.pass_configs)

    @property
    def compile_flags(self) -> list[str] | None:
        """The author's flags for the device compiler; None if there were none."""
        return list(self.options.compile_flags) or None

    @property
    def verbose(self) -> bool:
        """Whether its compilation was logged."""
        return self.options.verbose

    @property
    def adapter(self) -> BaseKernelAdapter:
        """What carries out the launches, as an object of its own."""
        from tilelang.jit.adapter.base import adapter_of

        return adapter_of(self, self._loaded)

    @property
    def torch_function(self) -> Callable[..., Any]:
        """The call without the kernel object around it."""
        return self._loaded

    @property
    def target(self) -> KernelTarget:
        """The target it was compiled for: tvm's object, which prints as ours does (`cuda:sm_90`)."""
        from tilelang.jit.kernel_target import KernelTarget

        return KernelTarget(self.artifact.target, self.options.asks_for_c)

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The generated source: CUDA, HIP or Metal; for the CPU the loops that LLVM compiles, for the target
        `c` written as C where that has words for them.
        """
        source = self.artifact.source if self._c_source is None else self._edited_c
        return source if kernel_only else f"{source}\n{self.get_host_source()}"

    @cached_property
    def _c_source(self) -> str | None:
        if self.prim_func is None or not self.options.asks_for_c or self.artifact.plan.kind != "cpu":
            return None
        from tilelang.targets import driver
        from tilelang.targets.cpu.c_source import c_source

        return c_source(driver.lower(self.prim_func, parse_target(self.artifact.target)))

    @property
    def _edited_c(self) -> str:
        from tilelang.jit.postprocess import edited_c

        assert self._c_source is not None
        return edited_c(self._c_source)

    def get_host_source(self) -> str:
        """The launch as text: no host code is generated, the runtime carries out this plan."""
        plan = self.artifact.plan
        lines = [f"# launch plan of {plan.name}", f"grid = {plan.grid}", f"threads = {plan.threads}"]
        lines += [f"shared_bytes = {plan.shared_bytes}", f"arguments = {plan.arguments}"]
        return "\n".join(lines)

    @property
    def kernel_source(self) -> str:
        """The generated source, as `get_kernel_source()`."""
        return self.get_kernel_source()

    @property
    def source_extension(self) -> str:
        """What files of `kernel_source` end with, without the dot."""
        return self.artifact.extension if self._c_source is None else "c"

    @property
    def host_source(self) -> str:
        """The launch as text, as `get_host_source()`."""
        return self.get_host_source()

    def print_source_code(self, which: Which = "kernel", file: str | os.PathLike[str] | None = None) -> None:
        """Print the generated source (`kernel`), the launch (`host`) or `both`; or write them to `file`."""
        text = self._sources(which)
        if file is None:
            print(text)
        else:
            Path(file).write_text(text, encoding="utf-8")

    def show_source(self, which: Which = "kernel") -> None:
        """Print the generated source (`kernel`), the launch (`host`) or `both`."""
        print(self._sources(which))

    def _sources(self, which: Which) -> str:
        texts = {
            "kernel": [self.get_kernel_source()],
            "host": [self.get_host_source()],
            "both": [self.get_kernel_source(), self.get_host_source()],
        }
        if which not in texts:
            raise ValueError(f"no source called {which!r}: write kernel, host or both")
        return "\n".join(texts[which])

    def export_sources(
        self,
        kernel_path: str | os.PathLike[str] | None = None,
        host_path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the generated source and the launch plan's text to files. Raises ValueError without one."""
        if kernel_path is None and host_path is None:
            raise ValueError("At least one of kernel_path or host_path must be provided")
        for path, text in ((kernel_path, self.get_kernel_source()), (host_path, self.get_host_source())):
            if path is not None:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(text, encoding="utf-8")

    def get_profiler(self, tensor_supply_type: TensorSupplyType | None = None) -> Profiler:
        """Measures this kernel and compares it with a reference, on inputs made for its parameters."""
        from tilelang.profiler import Profiler, TensorSupplyType

        return Profiler(self.params, self.out_idx, tensor_supply_type or TensorSupplyType.Auto, self)

    def reference(self, *args: Any) -> Any:
        """What a call with these arguments should return, computed from the tile program's own meaning.

        Slow: meant for small tensors and tests. See `tilelang.reference.run`, also for what it raises.
        """
        from tilelang.reference import run

        return run(self, *args)

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """What one call of the kernel (or of `func`) on inputs made for its parameters returns."""
        return self.get_profiler().run_once(func)

    def update_tuner_result(
        self, latency: float, config: dict[str, Any], ref_latency: float | None
    ) -> JITKernel:
        """Note what tuning found, in milliseconds. Returns the kernel."""
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def get_tuner_result(self) -> dict[str, Any]:
        """`latency`, `config` and `ref_latency`. Raises ValueError for a kernel that was not tuned."""
        if self.latency is None:
            raise ValueError(
                f"Tuning results are not available: {self.artifact.name} was not tuned, "
                "@tilelang.autotune above it would"
            )
        return {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}

    @property
    def resource_usage(self) -> ResourceUsage:
        """What a CUDA kernel takes on the device. Raises ValueError for another target."""
        from tilelang.targets.cuda.inspect_binary import resource_usage

        return resource_usage(self.artifact)

    @property
    def n_regs(self) -> int | None:
        """Registers per thread of a CUDA kernel; None for another target."""
        return self.resource_usage.registers if self._is_cubin else None

    @property
    def n_spills(self) -> int | None:
        """Bytes per thread that a CUDA kernel keeps in memory for want of registers, or by indexing; None for
        another target.
        """
        return self.resource_usage.local_bytes if self._is_cubin else None

    @property
    def n_max_threads(self) -> int | None:
        """Threads that a block of a CUDA kernel may have with its registers; None for another target."""
        return self.resource_usage.max_threads if self._is_cubin else None

    @property
    def _is_cubin(self) -> bool:
        return self.artifact.binary_format == "cubin"

    def export_ptx(self, path: str | os.PathLike[str]) -> None:
        """Write the PTX of a CUDA kernel. Raises ValueError for another target."""
        Path(path).write_text(self._ptx, encoding="utf-8")

    def show_ptx(self) -> None:
        """Print the PTX of a CUDA kernel. Raises ValueError for another target."""
        print(self._ptx)

    def export_sass(self, path: str | os.PathLike[str]) -> None:
        """Write the machine code of a CUDA kernel as text. Raises ToolchainError without the CUDA toolkit."""
        Path(path).write_text(self._sass, encoding="utf-8")

    def show_sass(self) -> None:
        """Print the machine code of a CUDA kernel."""
        print(self._sass)

    @property
    def _ptx(self) -> str:
        from tilelang.targets.cuda.inspect_binary import ptx

        return ptx(self.artifact)

    @property
    def _sass(self) -> str:
        from tilelang.targets.cuda.inspect_binary import sass

        return sass(self.artifact)

    def export_library(self, kernel_file: str | os.PathLike[str]) -> None:
        """Write the binary alone: a cubin, or the object code of the CPU. `save` also writes the plan."""
        if not self.artifact.binary:
            raise ValueError(f"{self.artifact.name} for {self.artifact.target} has source but no binary")
        Path(kernel_file).write_bytes(self.artifact.binary)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder that `tilelang.load` (or `tilelang.runtime`, without a compiler) reads."""
        return self.artifact.save(path)

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to launch it: all but the tile function, which cannot be pickled."""
        kept = {k: v for k, v in vars(self).items() if k not in ("prim_func", "_loaded", "params")}
        return kept | {"options": replace(self.options, named_target=self.artifact.target, target_host=None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, prim_func=None, _loaded=LoadedKernel(state["artifact"]))

    def __repr__(self) -> str:
        return f"<JITKernel {self.artifact.name} for {self.artifact.target}>"


def _tile_function(func: Any) -> TileFunction:
    from tilelang.jit.tile_function import TileFunction

    return TileFunction.of(func)


def load(path: str | os.PathLike[str]) -> JITKernel:
    """A kernel saved with `JITKernel.save`.

    Raises FileNotFoundError if there is none, ValueError if it is damaged or of another version.
    """
    return JITKernel.of(Artifact.load(path))
