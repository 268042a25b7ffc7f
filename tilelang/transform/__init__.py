"""Pass configurations, by the names that kernels import them under. The passes themselves are in `passes`."""

from tilelang.transform.pass_config import PassConfigKey
from tilelang.transform.simplify import simplify_prim_func

__all__ = ["PassConfigKey", "simplify_prim_func"]
