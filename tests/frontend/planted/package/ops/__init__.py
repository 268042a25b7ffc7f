"""What kernels beside it import: ops."""

from .gemm import *
from .common import Config as Config

__all__ = ["matmul"]
