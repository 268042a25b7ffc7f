"""What a tile operation sees of the block that runs it: regions of memory, values that all agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilelang.reference.errors import ReferenceFailure
from tilelang.reference.expressions import Expressions
from tilelang.reference.memory import Tensor


@dataclass(frozen=True)
class WholeBlock:
    """A tile operation's view of the block: all lanes take part in it once, together; or one lane does it
    alone, and `tensors` has that lane's copies of private arrays.
    """

    tensors: Mapping[int, Tensor]
    expressions: Expressions
    active: np.ndarray
    span: Any

    def read(self, region: Any, needed: Any = True) -> np.ndarray:
        """The elements of a region, with all its dimensions; any numbers where they are not needed."""
        tensor, places = self._places(region)
        return tensor.load(places, np.asarray(needed), self.span)

    def exists(self, region: Any) -> np.ndarray:
        """Which elements of a region are there: outside of a global tensor none are."""
        tensor, places = self._places(region)
        if tensor.scope != "global":
            return np.broadcast_to(np.asarray(True), tuple(int(self.scalar(r.extent)) for r in region.region))
        return tensor.address(places, np.asarray(True), self.span)[1]

    def write(self, region: Any, values: np.ndarray) -> None:
        """Store values shaped like the region."""
        tensor, places = self._places(region)
        tensor.store(places, values, np.asarray(True), self.span)

    def scalar(self, expr: Any) -> Any:
        """A value that is the same for the whole block. Raises ReferenceFailure where threads differ."""
        value = np.asarray(self.expressions.value(expr, self.active))
        chosen = value if value.ndim == 0 else np.unique(value[self.active])
        if np.size(chosen) != 1:
            raise ReferenceFailure(f"{expr} differs between threads inside a tile operation", self.span)
        return np.asarray(chosen).reshape(())

    def _places(self, region: Any) -> tuple[Tensor, list[np.ndarray]]:
        """The memory, and the index along every dimension, broadcast to the region's shape."""
        tensor = self.tensors[region.source.__chandle__()]
        ranges = [(int(self.scalar(r.min)), int(self.scalar(r.extent))) for r in region.region]
        rank = len(ranges)
        places = [
            (start + np.arange(extent)).reshape(*[1] * d, -1, *[1] * (rank - d - 1))
            for d, (start, extent) in enumerate(ranges)
        ]
        return tensor, places
