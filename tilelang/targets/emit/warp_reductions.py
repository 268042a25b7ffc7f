"""Helpers that reduce a value over the lanes of a warp, each lane getting the result."""

from __future__ import annotations

from tilelang.targets.emit.intrinsic import Intrinsic

# Of a number and NaN the number is the result, as in T.max and T.min.
_STEPS = {
    "sum": "x + y",
    "max": "x < y || x != x ? y : x",
    "min": "y < x || x != x ? y : x",
    "bitand": "x & y",
    "bitor": "x | y",
}


def warp_reductions(lanes: int, exchange: str, requires: tuple[str, ...] = ()) -> dict[str, Intrinsic]:
    """`warp_reduce_<kind>` for whole warps of `lanes`.

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


def part_warp_reductions(
    lanes: int, prepare: str, above: str, first: str, requires: tuple[str, ...] = ()
) -> dict[str, Intrinsic]:
    """`part_warp_reduce_<kind>(x, lane, count)` for warps of which the first `count` of `lanes` lanes exist.

    prepare: a line of source before all others. above: an expression, the value `x` of the lane `distance`
    above this one. first: the value `x` of lane 0. What `above` gives beyond the last lane is not used.
    """
    return {
        f"part_warp_reduce_{kind}": Intrinsic(
            f"""template <typename T> T part_warp_reduce_{kind}(T x, int lane, int count) {{
{prepare}  for (int distance = {lanes // 2}; distance; distance /= 2) {{
    T y = {above};
    if (lane + distance < count) x = {step};
  }}
  return {first};
}}""",
            requires=requires,
        )
        for kind, step in _STEPS.items()
    }
