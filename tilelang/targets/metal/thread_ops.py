"""Device helpers for code that deals with threads by itself, in the Metal Shading Language.

Metal Shading Language Specification 6.9.2, SIMD-group functions. `shuffle` reads the value of a lane by its
number; `passes.warp_lanes` turns the other shuffles into it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.intrinsic import Intrinsic

THREAD_OPS: Mapping[str, Intrinsic] = {
    "shuffle": Intrinsic(inline="simd_shuffle({0}, ushort({1}))"),
    "any_sync": Intrinsic(inline="int(simd_any({0}))"),
    "all_sync": Intrinsic(inline="int(simd_all({0}))"),
    "ballot_sync": Intrinsic(inline="ulong(simd_vote::vote_t(simd_ballot({0})))"),
    "ballot": Intrinsic(inline="ulong(simd_vote::vote_t(simd_ballot({0})))"),
    "activemask": Intrinsic(inline="ulong(simd_vote::vote_t(simd_active_threads_mask()))"),
    "sync_warp": Intrinsic(inline="simdgroup_barrier(mem_flags::mem_threadgroup)"),
    "warp_reduce_sum": Intrinsic(inline="simd_sum({0})"),
    "warp_reduce_max": Intrinsic(inline="simd_max({0})"),
    "warp_reduce_min": Intrinsic(inline="simd_min({0})"),
    "warp_reduce_bitand": Intrinsic(inline="simd_and({0})"),
    "warp_reduce_bitor": Intrinsic(inline="simd_or({0})"),
}
