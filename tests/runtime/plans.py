"""Launch plans for tests of the runtime."""

from __future__ import annotations

from typing import Any

from tilelang.runtime.plan import LaunchPlan, ScalarParam, TensorParam


def tensor(name: str, *shape: Any, dtype: str = "float32", strides: tuple | None = None) -> TensorParam:
    return TensorParam(name, dtype, tuple(shape), strides)


def plan(*params: TensorParam | ScalarParam, outputs: tuple[int, ...] = (), **fields: Any) -> LaunchPlan:
    """A CPU plan whose symbols are the names in the shapes that are plain identifiers."""
    names = [p.name for p in params]
    sizes = [s for p in params if isinstance(p, TensorParam) for s in (*p.shape, *(p.strides or ()))]
    symbols = tuple(dict.fromkeys(s for s in sizes if isinstance(s, str) and s.isidentifier()))
    settings = {
        "entry": "kernel",
        "grid": (1,),
        "threads": (1,),
        "shared_bytes": 0,
        "kind": "cpu",
        "symbols": symbols,
        "arguments": (*names, *symbols),
    }
    return LaunchPlan(params=params, outputs=outputs, **(settings | fields))
