"""One recommendation: sizes of tiles and how a block works on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilelang.carver.roller.rasterization import NoRasterization, Rasterization


@dataclass
class IntrinInfo:
    """What a matrix instruction multiplies: the dtype of the operands, that of the sums, and whether the
    second operand lies transposed.
    """

    in_dtype: str = "float16"
    out_dtype: str = "float16"
    trans_b: bool = True


@dataclass
class Hint:
    """One configuration.

    block: extents of a block's tile. warp: of a warp's (matrix instructions only). thread: threads along
    each dimension of the tile. rstep: extents of one step of the reduction. reduce_thread: threads along each
    dimension of the reduction. vectorize: elements that one access moves, by operand. arch: the device it is
    for. estimated_time: seconds, by the template's argument.
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
    intrin_info: IntrinInfo = field(default_factory=IntrinInfo)
    shared_scope: str = "shared"
    arch: Any = None
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
        """What it decides, as plain data: the tile, the warps of matrix instructions or the threads of
        others, the step of the reduction, and what differs from the plain way.
        """
        found: dict[str, Any] = {"block": self.block}
        if self.use_tc:
            found["warp"] = self.warp
        else:
            found["thread"] = self.thread
        found["rstep"] = self.rstep
        if any(count > 1 for count in self.reduce_thread):
            found["reduce_thread"] = self.reduce_thread
        if self.use_tc:
            found["use_tc"] = self.use_tc
        if self.vectorize:
            found["vectorize"] = self.vectorize
        for name in ("pipeline_stage", "split_k_factor"):
            if getattr(self, name) != 1:
                found[name] = getattr(self, name)
        return found

    @classmethod
    def from_dict(cls, dic: Mapping[str, Any]) -> Hint:
        """What `to_dict` gave; unknown keys are ignored, the order of blocks is the plain one."""
        names = set(cls.__dataclass_fields__) - {"rasterization_plan"}
        return cls(**{k: v for k, v in dic.items() if k in names})

    def __repr__(self) -> str:
        return str(self.to_dict())
