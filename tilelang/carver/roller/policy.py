"""Recommendations for a function of plain loops: by its operator, on matrix instructions or without."""

from __future__ import annotations

from typing import Any

from tilelang.carver.arch import TileDevice
from tilelang.carver.operators import template_of
from tilelang.carver.roller.hint import Hint
from tilelang.carver.roller.node import OutputNode, PrimFuncNode
from tilelang.carver.template.base import BaseTemplate


class DefaultPolicy:
    """Configurations of an operator, the one expected to be fastest first."""

    def __init__(self, template: BaseTemplate, arch: TileDevice, tags: dict[str, Any] | None = None) -> None:
        self.template, self.arch, self.tags = template, arch, dict(tags or {})

    @classmethod
    def from_prim_func(
        cls, func: Any, arch: TileDevice, tags: dict[str, Any] | None = None, name: str = "PrimFuncNode"
    ) -> DefaultPolicy:
        """Of a function that TVM's te made. Raises ValueError for one that is no such operator."""
        return cls(template_of(func), arch, tags)

    @classmethod
    def from_output_nodes(
        cls, nodes: list[OutputNode], arch: TileDevice, tags: dict[str, Any] | None = None
    ) -> DefaultPolicy:
        """Of a graph that ends in these nodes, by the operator of the first."""
        node: PrimFuncNode = nodes[0].node
        return cls(template_of(node.prim_func), arch, {**node.tags, **(tags or {})})

    def emit_config(self, topk: int) -> list[Hint]:
        """At most `topk` configurations."""
        return self.template.get_hardware_aware_configs(self.arch, topk)


class TensorCorePolicy(DefaultPolicy):
    """Configurations on matrix instructions alone; none for an operator that does not use them."""

    def emit_config(self, topk: int) -> list[Hint]:
        """At most `topk` configurations."""
        found = sorted(self.template.candidates(self.arch), key=lambda hint: hint.estimated_time)
        chosen = [hint for hint in found if hint.use_tc][:topk]
        for hint in chosen:
            hint.arch = self.arch
        return chosen
