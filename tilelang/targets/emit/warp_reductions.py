"""Helpers that reduce a value over the lanes of a warp, each lane getting the result."""

from __future__ import annotations

from tilelang.targets.emit.intrinsic import Intrinsic

_STEPS = {
    "sum": "x + y",
    "max": "x < y ? y : x",
    "min": "y < x ? y : x",
    "bitand": "x & y",
    "bitor": "x | y",
}


def warp_reductions(lanes: int, exchange: str, requires: tuple[str, ...] = ()) -> dict[str, Intrinsic]:
    """`warp_reduce_<kind>` for warps of `lanes`.

    exchange: an expression, the value `x` of the lane whose number differs in the bit `distance`.
    requires: helpers that it calls.
    """
    return {
        f"warp_reduce_{kind}": Intrinsic(
            f"""template <typename T> T warp_reduce_{kind}(T x) {{
  for (int distance = {lanes // 2}; distance; distance /= 2) {{
    T y = {exchange};
    x = {step};
  }}
  return x;
}}""",
            requires=requires,
        )
        for kind, step in _STEPS.items()
    }
