"""An operator on each element, bound by the bytes it moves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilelang.carver.arch import TileDevice
from tilelang.carver.costs import memory_time
from tilelang.carver.roller.hint import Hint
from tilelang.carver.template.base import BaseTemplate, dtype_bytes, powers_of_two


@dataclass
class ElementwiseTemplate(BaseTemplate):
    """B = f(A), both of `shape`."""

    shape: list[int]
    dtype: str = "float16"

    def candidates(self, arch: TileDevice) -> list[Hint]:
        size = dtype_bytes(self.dtype)
        found = []
        for threads in (64, 128, 256, 512, 1024):
            for vector in powers_of_two(1, 16 // size):
                if self.shape[-1] % vector:
                    continue
                block = tile_of(self.shape, threads * vector)
                count = math.prod(math.ceil(n / b) for n, b in zip(self.shape, block, strict=True))
                bytes_each = 2 * math.prod(block) * size
                found.append(
                    Hint(
                        block=block,
                        thread=[*block[:-1], max(1, block[-1] // vector)],
                        vectorize={"A": vector, "B": vector},
                        estimated_time=memory_time(count, threads, bytes_each, vector * size, arch),
                    )
                )
        return found

    def equivalent_function(self) -> Any:
        from tvm import te
        from tvm import tirx as X

        A = te.placeholder(self.shape, self.dtype, "A")
        B = te.compute(self.shape, lambda *at: A(*at) + X.const(1, self.dtype), "B")
        return te.create_prim_func([A, B])


def tile_of(shape: list[int], elements: int) -> list[int]:
    """A tile of about `elements`, filled from the last dimension on."""
    found = []
    for extent in reversed(shape):
        part = min(elements, 1 << (extent - 1).bit_length())
        found.append(max(1, part))
        elements = max(1, elements // part)
    return found[::-1]
