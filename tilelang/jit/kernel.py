"""A compiled kernel as users hold it: call it, read its source, measure it, save it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.runtime.artifact import Artifact
from tilelang.runtime.launch import LoadedKernel

if TYPE_CHECKING:
    from tilelang.profiler import Profiler, TensorSupplyType


class JITKernel:
    """One kernel for one target. Call it with its input tensors; it returns its outputs.

    artifact: the compiled form, with plan, source and binary. prim_func: the tile function, None for a loaded
    kernel.
    latency, config, ref_latency: set by autotuning.
    """

    def __init__(self, artifact: Artifact, prim_func: Any = None) -> None:
        self.artifact = artifact
        self.prim_func = prim_func
        self.latency: float | None = None
        self.ref_latency: float | None = None
        self.config: dict[str, Any] | None = None
        self._loaded = LoadedKernel(artifact)

    def __call__(self, *args: Any) -> Any:
        """Launch on torch tensors (numpy arrays on the CPU). Returns the output, a tuple of several, or None.

        Raises ArgumentError before anything is written if shapes, dtypes, strides or devices do not fit.
        """
        return self._loaded(*args)

    def load(self) -> None:
        """Load the binary now; the first call does it by itself."""
        self._loaded.load()

    @property
    def params(self) -> tuple[Any, ...]:
        """All parameters in call order, outputs included: `TensorParam` and `ScalarParam` records."""
        return self.artifact.plan.params

    @property
    def out_idx(self) -> list[int]:
        """Which parameters the call allocates and returns."""
        return list(self.artifact.plan.outputs)

    @property
    def target(self) -> str:
        """The target it was compiled for, such as `cuda:sm_90`."""
        return self.artifact.target

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The generated source: CUDA, HIP or Metal; for the CPU the loops that LLVM compiles."""
        return self.artifact.source if kernel_only else f"{self.artifact.source}\n{self.get_host_source()}"

    def get_host_source(self) -> str:
        """The launch as text: no host code is generated, the runtime carries out this plan."""
        plan = self.artifact.plan
        lines = [f"# launch plan of {plan.entry}", f"grid = {plan.grid}", f"threads = {plan.threads}"]
        lines += [f"shared_bytes = {plan.shared_bytes}", f"arguments = {plan.arguments}"]
        return "\n".join(lines)

    def print_source_code(self) -> None:
        """Print the generated source."""
        print(self.get_kernel_source())

    def show_source(self, which: str = "kernel") -> None:
        """Print the generated source: `kernel`, `host` or `both`."""
        texts = {"kernel": self.get_kernel_source, "host": self.get_host_source}
        for name, text in texts.items():
            if which in (name, "both"):
                print(text())

    def export_sources(
        self,
        kernel_path: str | os.PathLike[str] | None = None,
        host_path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the generated source and the launch plan's text to files."""
        for path, text in ((kernel_path, self.get_kernel_source()), (host_path, self.get_host_source())):
            if path is not None:
                Path(path).write_text(text, encoding="utf-8")

    def get_profiler(self, tensor_supply_type: TensorSupplyType | None = None) -> Profiler:
        """Measures this kernel and compares it with a reference, on inputs made for its parameters."""
        from tilelang.profiler import Profiler, TensorSupplyType

        return Profiler(self, tensor_supply_type or TensorSupplyType.Auto)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder that `tilelang.load` (or `tilelang.runtime`, without a compiler) reads."""
        return self.artifact.save(path)

    def __repr__(self) -> str:
        return f"<kernel {self.artifact.name} for {self.target}>"


def load(path: str | os.PathLike[str]) -> JITKernel:
    """A kernel saved with `JITKernel.save`.

    Raises FileNotFoundError if there is none, ValueError if it is damaged or of another version.
    """
    return JITKernel(Artifact.load(path))
