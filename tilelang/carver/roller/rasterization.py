"""In which order blocks take the tiles of the output."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class Rasterization:
    """An order; `panel_width` is what T.use_swizzle takes."""

    panel_width: int = 0

    @property
    def panel_width_(self) -> int:
        """The same, by the name that kernels read."""
        return self.panel_width

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}({self.panel_width})>" if self.panel_width else f"<{type(self).__name__}>"
        )


@dataclass(frozen=True, repr=False)
class NoRasterization(Rasterization):
    """Row by row, as blocks are numbered."""


@dataclass(frozen=True, repr=False)
class Rasterization2DRow(Rasterization):
    """Panels of rows: `T.use_swizzle(panel_width)`."""

    panel_width: int = 4


@dataclass(frozen=True, repr=False)
class Rasterization2DColumn(Rasterization):
    """Panels of columns: `T.use_swizzle(panel_width, order="column")`."""

    panel_width: int = 4
