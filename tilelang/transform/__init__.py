"""Pass configurations, by the names that kernels import them under. The passes themselves are in `passes`."""

from typing import NoReturn

from tilelang.jit.pass_contexts import PassContext
from tilelang.transform.pass_config import PassConfigKey
from tilelang.transform.simplify import simplify_prim_func

__all__ = ["PassConfigKey", "PassContext", "get_pass_context", "simplify_prim_func"]


def get_pass_context() -> PassContext:
    """tvm's pass context around the call; its keys of the language hold for kernels compiled in it."""
    return PassContext.current()


def __getattr__(name: str) -> NoReturn:
    if not name.isidentifier() or not name[:1].isupper():
        raise AttributeError(f"module 'tilelang.transform' has no attribute {name!r}")
    raise AttributeError(
        f"tilelang.transform.{name} is a pass of another compiler: here the passes are functions in "
        "tilelang.passes, and tilelang.compile runs them; tilelang.lower(...).device_mod shows their result"
    )
