"""All tile operations by name, the one table through which the frontend, rules and hovers find them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.ops.atomic import ATOMIC
from tilelang.ops.copy import COPY
from tilelang.ops.fill import FILL
from tilelang.ops.gemm import GEMM
from tilelang.ops.gemm_sp import GEMM_SP
from tilelang.ops.im2col import IM2COL
from tilelang.ops.reduce import REDUCE
from tilelang.ops.scan import SCAN
from tilelang.ops.tile_op import TileOp
from tilelang.ops.transpose import TRANSPOSE

_ALL = (ATOMIC, COPY, FILL, GEMM, GEMM_SP, IM2COL, REDUCE, SCAN, TRANSPOSE)
# Those that add products of tiles to a tile.
PRODUCTS = ("gemm", "gemm_sp")
TILE_OPS: Mapping[str, TileOp] = MappingProxyType({op.name: op for op in _ALL})
