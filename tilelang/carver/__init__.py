"""Which tile sizes to try first: templates of common operators rank their configurations by plain arguments
about shared memory, registers, bandwidth and full waves of blocks.
"""

from tilelang.carver.arch import CDNA, CPU, CUDA, METAL, TileDevice
from tilelang.carver.roller import (
    DefaultPolicy,
    Hint,
    NoRasterization,
    OutputNode,
    PrimFuncNode,
    Rasterization2DColumn,
    Rasterization2DRow,
    TensorCorePolicy,
)
from tilelang.carver.template import (
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)

__all__ = [
    "CDNA",
    "CPU",
    "CUDA",
    "METAL",
    "ConvTemplate",
    "DefaultPolicy",
    "ElementwiseTemplate",
    "FlashAttentionTemplate",
    "GEMVTemplate",
    "GeneralReductionTemplate",
    "Hint",
    "MatmulTemplate",
    "NoRasterization",
    "OutputNode",
    "PrimFuncNode",
    "Rasterization2DColumn",
    "Rasterization2DRow",
    "TensorCorePolicy",
    "TileDevice",
]
