"""All tile operations by name, the one table through which the frontend, rules and hovers find them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.ops.atomic import ATOMIC
from tilelang.ops.copy import COPY
from tilelang.ops.fill import FILL
from tilelang.ops.gemm import GEMM
from tilelang.ops.reduce import REDUCE
from tilelang.ops.tile_op import TileOp

TILE_OPS: Mapping[str, TileOp] = MappingProxyType({op.name: op for op in (ATOMIC, COPY, FILL, GEMM, REDUCE)})
