"""Device helpers for code that deals with threads by itself, from clang's AMDGPU builtins.

A wavefront has 64 lanes. `shuffle` reads the value of a lane by its number; `passes.warp_lanes` turns the
other shuffles into it. Masks of lanes that take part are not needed: a wavefront runs in step.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.intrinsic import Intrinsic
from tilelang.targets.emit.warp_reductions import part_warp_reductions, warp_reductions


def _block_vote(kind: str, result: str) -> Intrinsic:
    """All threads add up their votes in LDS between barriers."""
    return Intrinsic(
        f"""int syncthreads_{kind}(bool vote) {{
  __attribute__((shared)) static int votes;
  sync_threads();
  int x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
  if (x + y + __builtin_amdgcn_workitem_id_z() == 0) votes = 0;
  sync_threads();
  if (vote{" == false" if kind == "and" else ""})
    __hip_atomic_fetch_add(&votes, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  sync_threads();
  return {result};
}}""",
        requires=("sync",),
    )


THREAD_OPS: Mapping[str, Intrinsic] = {
    "shuffle": Intrinsic(
        """template <typename T> T shuffle(T value, int lane) {
  int words[(sizeof(T) + 3) / 4] = {};
  __builtin_memcpy(words, &value, sizeof(T));
  for (int& word : words) word = __builtin_amdgcn_ds_bpermute(lane * 4, word);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}"""
    ),
    "any_sync": Intrinsic(inline="(__builtin_amdgcn_ballot_w64({0}) != 0 ? 1 : 0)"),
    "all_sync": Intrinsic(inline="(__builtin_amdgcn_ballot_w64(!({0})) == 0 ? 1 : 0)"),
    "ballot_sync": Intrinsic(inline="__builtin_amdgcn_ballot_w64({0})"),
    "ballot": Intrinsic(inline="__builtin_amdgcn_ballot_w64({0})"),
    "activemask": Intrinsic(inline="__builtin_amdgcn_ballot_w64(true)"),
    "syncthreads_count": _block_vote("count", "votes"),
    "syncthreads_and": _block_vote("and", "votes == 0"),
    "syncthreads_or": _block_vote("or", "votes != 0"),
    "sync_warp": Intrinsic(inline="__builtin_amdgcn_wave_barrier()"),
    **warp_reductions(64, "shuffle(x, lane_id() ^ distance)", requires=("shuffle", "lane_id")),
    **part_warp_reductions(64, "", "shuffle(x, lane + distance)", "shuffle(x, 0)", requires=("shuffle",)),
}
