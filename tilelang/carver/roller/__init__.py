"""What a template recommends, and the same for functions of plain loops."""

from tilelang.carver.roller.hint import Hint
from tilelang.carver.roller.node import OutputNode, PrimFuncNode
from tilelang.carver.roller.policy import DefaultPolicy, TensorCorePolicy
from tilelang.carver.roller.rasterization import (
    NoRasterization,
    Rasterization,
    Rasterization2DColumn,
    Rasterization2DRow,
)

__all__ = [
    "DefaultPolicy",
    "Hint",
    "NoRasterization",
    "OutputNode",
    "PrimFuncNode",
    "Rasterization",
    "Rasterization2DColumn",
    "Rasterization2DRow",
    "TensorCorePolicy",
]
