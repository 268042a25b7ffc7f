"""One recommendation: sizes of tiles and how a block works on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tilelang.carver.roller.rasterization import NoRasterization, Rasterization


@dataclass
class Hint:
    """One configuration.

    block: extents of a block's tile. warp: of a warp's (matrix instructions only). thread: threads along
    each dimension of the tile. rstep: extents of one step of the reduction. reduce_thread: threads along each
    dimension of the reduction. vectorize: elements that one access moves, by operand. estimated_time:
    seconds, by the template's argument.
    """

    block: list[int] = field(default_factory=list)
    warp: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    rstep: list[int] = field(default_factory=list)
    reduce_thread: list[int] = field(default_factory=list)
    pipeline_stage: int = 1
    use_async: bool = False
    use_tc: bool = False
    vectorize: dict[str, int] = field(default_factory=dict)
    rasterization_plan: Rasterization = field(default_factory=NoRasterization)
    split_k_factor: int = 1
    estimated_time: float = 0.0

    @property
    def step(self) -> list[int]:
        """Elements along each dimension that one thread takes side by side."""
        return [1] * len(self.block)

    @property
    def raxis_order(self) -> list[int]:
        """The order in which the dimensions of the reduction are walked."""
        return list(range(len(self.rstep)))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        found = asdict(self)
        found["rasterization_plan"] = type(self.rasterization_plan).__name__
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Hint:
        """What `to_dict` gave; unknown keys are ignored, the order of blocks is the plain one."""
        names = set(cls.__dataclass_fields__) - {"rasterization_plan"}
        return cls(**{k: v for k, v in data.items() if k in names})
