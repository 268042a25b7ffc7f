"""How the warps of a block share a gemm, by the name that kernels import it under."""

from tilelang.tileop.base import GemmWarpPolicy

__all__ = ["GemmWarpPolicy"]
