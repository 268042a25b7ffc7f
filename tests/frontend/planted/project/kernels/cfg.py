"""What kernels beside it import: cfg."""

import os
from typing import NamedTuple


class Tile(NamedTuple):
    m: int
    n: int

    def half(self):
        return Tile(self.m // 2, self.n // 2)


BIG = Tile(128, int(os.environ.get("N", "128")))
SMALL = BIG.half()
