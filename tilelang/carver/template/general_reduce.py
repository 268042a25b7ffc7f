"""A sum over some dimensions, bound by the bytes it reads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilelang.carver.arch import TileDevice
from tilelang.carver.costs import memory_time
from tilelang.carver.roller.hint import Hint
from tilelang.carver.template.base import BaseTemplate, dtype_bytes, powers_of_two
from tilelang.carver.template.elementwise import tile_of


@dataclass
class GeneralReductionTemplate(BaseTemplate):
    """structure: one letter per dimension of `shape`, "S" for those that stay, "R" for those summed over:
    "SSR" sums over the last of three.
    """

    structure: str | list[str]
    shape: list[int]
    dtype: str = "float16"

    def __post_init__(self) -> None:
        letters = [str(letter).upper() for letter in self.structure]
        if len(letters) != len(self.shape) or set(letters) - {"S", "R"}:
            raise ValueError(f"structure is one S or R for each of {len(self.shape)} dimensions")
        if not self.kept or not self.summed:
            raise ValueError("structure needs at least one S and one R")

    @property
    def kept(self) -> list[int]:
        """Dimensions that stay."""
        return [k for k, letter in enumerate(self.structure) if str(letter).upper() == "S"]

    @property
    def summed(self) -> list[int]:
        """Dimensions summed over."""
        return [k for k, letter in enumerate(self.structure) if str(letter).upper() == "R"]

    def candidates(self, arch: TileDevice) -> list[Hint]:
        size = dtype_bytes(self.dtype)
        stay, gone = [self.shape[k] for k in self.kept], [self.shape[k] for k in self.summed]
        inner = self.summed[-1] == len(self.shape) - 1  # the contiguous dimension is summed over
        found = []
        for threads in (64, 128, 256, 512):
            for along in powers_of_two(1, min(threads, math.prod(gone))):
                for vector in powers_of_two(1, 16 // size):
                    if self.shape[-1] % vector:
                        continue
                    rows = threads // along * (1 if inner else vector)
                    block, step = tile_of(stay, rows), tile_of(gone, along * (vector if inner else 1))
                    count = math.prod(math.ceil(n / b) for n, b in zip(stay, block, strict=True))
                    bytes_each = math.prod(block) * math.prod(gone) * size
                    line = vector * size if not inner or along >= 4 else max(1, vector * size // 4)
                    thread = list(block)
                    thread[-1] = max(1, thread[-1] // (1 if inner else vector))
                    found.append(
                        Hint(
                            block=block,
                            thread=thread,
                            rstep=step,
                            reduce_thread=[1] * (len(step) - 1) + [along],
                            vectorize={"A": vector},
                            estimated_time=memory_time(count, threads, bytes_each, line, arch),
                        )
                    )
        return found

    def equivalent_function(self) -> Any:
        from tvm import te

        A = te.placeholder(self.shape, self.dtype, "A")
        axes = {k: te.reduce_axis((0, self.shape[k]), f"k{k}") for k in self.summed}

        def total(*at: Any) -> Any:
            kept = dict(zip(self.kept, at, strict=True))
            return te.sum(A(*(axes.get(k, kept.get(k)) for k in range(len(self.shape)))), list(axes.values()))

        return te.create_prim_func([A, te.compute([self.shape[k] for k in self.kept], total, "C")])
