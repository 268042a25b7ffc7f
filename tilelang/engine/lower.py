"""`from tilelang.engine.lower import lower`: the code lives in `tilelang.jit`."""

from tilelang.jit.lowering import lower

__all__ = ["lower"]
