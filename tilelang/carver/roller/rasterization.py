"""In which order blocks take the tiles of the output."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rasterization:
    """An order; `panel_width` is what T.use_swizzle takes."""

    panel_width: int = 0


@dataclass(frozen=True)
class NoRasterization(Rasterization):
    """Row by row, as blocks are numbered."""


@dataclass(frozen=True)
class Rasterization2DRow(Rasterization):
    """Panels of rows: `T.use_swizzle(panel_width)`."""

    panel_width: int = 4


@dataclass(frozen=True)
class Rasterization2DColumn(Rasterization):
    """Panels of columns: `T.use_swizzle(panel_width, order="column")`."""

    panel_width: int = 4
