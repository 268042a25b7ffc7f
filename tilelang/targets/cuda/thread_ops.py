"""Device helpers for code that deals with threads by itself: shuffles, votes, barriers of part of a block.

CUDA C++ Programming Guide, warp vote, match and shuffle functions and `__syncthreads_*`; PTX ISA, barrier.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.intrinsic import Intrinsic

_SHUFFLES = {name: f"__{name}{'' if name.endswith('_sync') else '_sync'}" for name in
             ("shfl_sync", "shfl_xor", "shfl_up", "shfl_down")}  # fmt: skip


def _warp_reduction(kind: str, step: str) -> Intrinsic:
    return Intrinsic(
        f"""template <typename T> T warp_reduce_{kind}(T x) {{
  for (int distance = 16; distance; distance /= 2) {{
    T y = __shfl_xor_sync(0xffffffffu, x, distance);
    x = {step};
  }}
  return x;
}}"""
    )


THREAD_OPS: Mapping[str, Intrinsic] = {
    **{name: Intrinsic(inline=f"{call}({{3}}, {{0}}, {{1}}, {{2}})") for name, call in _SHUFFLES.items()},
    "any_sync": Intrinsic(inline="__any_sync({1}, {0})"),
    "all_sync": Intrinsic(inline="__all_sync({1}, {0})"),
    "ballot_sync": Intrinsic(inline="static_cast<unsigned long long>(__ballot_sync({1}, {0}))"),
    "ballot": Intrinsic(inline="static_cast<unsigned long long>(__ballot_sync(0xffffffffu, {0}))"),
    "activemask": Intrinsic(inline="static_cast<unsigned long long>(__activemask())"),
    "match_any_sync": Intrinsic(inline="__match_any_sync({1}, {0})"),
    "match_all_sync": Intrinsic(
        """template <typename T> unsigned match_all(T value, unsigned mask) {
  int same;
  return __match_all_sync(mask, value, &same);
}"""
    ),
    "syncthreads_count": Intrinsic(inline="__syncthreads_count({0})"),
    "syncthreads_and": Intrinsic(inline="(__syncthreads_and({0}) != 0 ? 1 : 0)"),
    "syncthreads_or": Intrinsic(inline="(__syncthreads_or({0}) != 0 ? 1 : 0)"),
    "sync_warp": Intrinsic(inline="__syncwarp({0})"),
    "sync_grid": Intrinsic(
        inline="cooperative_groups::this_grid().sync()", includes=("cooperative_groups.h",)
    ),
    "named_sync": Intrinsic(
        """void named_sync(int barrier, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}"""
    ),
    "named_arrive": Intrinsic(
        """void named_arrive(int barrier, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}"""
    ),
    "warp_reduce_sum": _warp_reduction("sum", "x + y"),
    "warp_reduce_max": _warp_reduction("max", "x < y ? y : x"),
    "warp_reduce_min": _warp_reduction("min", "y < x ? y : x"),
    "warp_reduce_bitand": _warp_reduction("bitand", "x & y"),
    "warp_reduce_bitor": _warp_reduction("bitor", "x | y"),
}
