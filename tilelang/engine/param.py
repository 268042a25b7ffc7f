"""Parameters of kernels and what `tilelang.lower` returns."""

from tilelang.jit.kernel_param import KernelParam
from tilelang.jit.lowering import CompiledArtifact

__all__ = ["CompiledArtifact", "KernelParam"]
