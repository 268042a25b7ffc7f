"""What kernels beside it import: common."""

from dataclasses import dataclass
import tilelang.language as T

__all__ = ["Config", "load_tile", "BLOCK"]
BLOCK = 64


@dataclass(frozen=True)
class Config:
    bm: int = BLOCK
    bn: int = BLOCK * 2
    bk: int = 32


@T.macro
def load_tile(src, dst, r, c):
    T.copy(src[r, c], dst)
