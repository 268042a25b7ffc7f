"""`from tilelang.tileop.base import GemmWarpPolicy`: what `T.GemmWarpPolicy` is."""

from tilelang.language import GemmWarpPolicy

__all__ = ["GemmWarpPolicy"]
