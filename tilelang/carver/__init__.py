"""Which tile sizes to try first: templates of common operators rank their configurations by plain arguments
about shared memory, registers, bandwidth and full waves of blocks.
"""

from tilelang.carver.arch import CDNA, CPU, CUDA, METAL, TileDevice
from tilelang.carver.roller import Hint, NoRasterization, Rasterization2DColumn, Rasterization2DRow
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
    "ElementwiseTemplate",
    "FlashAttentionTemplate",
    "GEMVTemplate",
    "GeneralReductionTemplate",
    "Hint",
    "MatmulTemplate",
    "NoRasterization",
    "Rasterization2DColumn",
    "Rasterization2DRow",
    "TileDevice",
]
