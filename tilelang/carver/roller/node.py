"""A function of plain loops as an operator whose configurations can be asked for."""

from __future__ import annotations

from typing import Any


class PrimFuncNode:
    """A TIRX function with its sizes: `name`, `args` (its parameters), `tags`."""

    def __init__(
        self, prim_func: Any, tags: dict[str, Any] | None = None, name: str = "PrimFuncNode"
    ) -> None:
        from tilelang.carver.operators import blocks_of

        self.prim_func, self.name = prim_func, name
        self.tags = dict(tags or {})
        self.args = list(prim_func.params)
        self.blocks = blocks_of(prim_func)
        if not self.blocks:
            raise ValueError(
                "expected a function of loops over blocks, as tvm.te.create_prim_func makes them"
            )

    def get_space_dim(self) -> list[int]:
        """The extents of the output."""
        return list(self.blocks[-1].stays.values())

    def get_shape(self, id: int = 0) -> list[int]:
        """As `get_space_dim`: these functions have one output."""
        return self.get_space_dim()

    def get_dtype(self, id: int = 0) -> str:
        """The dtype of the output."""
        return self.blocks[-1].writes[1]

    @property
    def raxis(self) -> list[int]:
        """The extents that are summed over."""
        return next((list(b.summed.values()) for b in self.blocks if b.summed), [])

    def get_tag(self, name: str) -> Any:
        """What was noted under a name; None if nothing was."""
        return self.tags.get(name)

    def add_tag(self, name: str, value: Any = True) -> None:
        """Note something about it."""
        self.tags[name] = value

    def is_output(self) -> bool:
        return False

    def is_placeholder(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<Node, {self.name}>"


class OutputNode:
    """The end of a graph of operators: `node` computes what leaves it."""

    def __init__(self, node: PrimFuncNode, id: int = 0) -> None:
        self.node, self.id = node, id

    def is_output(self) -> bool:
        return True

    def is_placeholder(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "<Node, Output>"
