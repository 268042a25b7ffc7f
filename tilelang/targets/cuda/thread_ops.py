"""Device helpers for code that deals with threads by itself: shuffles, votes, barriers of part of a block.

CUDA C++ Programming Guide, warp vote, match and shuffle functions and `__syncthreads_*`; PTX ISA, barrier.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.intrinsic import Intrinsic
from tilelang.targets.emit.warp_reductions import part_warp_reductions, warp_reductions

_SHUFFLES = {
    "shfl_sync": "__shfl_sync",
    "shfl_xor": "__shfl_xor_sync",
    "shfl_up": "__shfl_up_sync",
    "shfl_down": "__shfl_down_sync",
}

_NVRTC = "__CUDACC_RTC__"  # knows no function of the device runtime without headers that are not its own


def _on_barrier(name: str, instruction: str, more: str = "") -> Intrinsic:
    """PTX ISA, mbarrier: `instruction` with the barrier's address as %0 and a number as %1."""
    parameter, operand = (f", unsigned {more}", f', "r"({more})') if more else ("", "")
    return Intrinsic(
        f"""void {name}(unsigned long long* barrier{parameter}) {{
  asm volatile("{instruction}" ::"r"(shared_address(barrier)){operand} : "memory");
}}""",
        requires=("shared_address",),
    )


def _registers(name: str) -> Intrinsic:
    """PTX ISA, setmaxnreg: by all warps of a warp group."""
    return Intrinsic(
        f"""template <int N> void setmaxnreg_{name}() {{
  asm volatile("setmaxnreg.{name}.sync.aligned.u32 %0;" ::"n"(N));
}}""",
        template_args=1,
    )


THREAD_OPS: Mapping[str, Intrinsic] = {
    "mbarrier_init": _on_barrier("mbarrier_init", "mbarrier.init.shared.b64 [%0], %1;", "count"),
    "mbarrier_arrive": _on_barrier("mbarrier_arrive", "mbarrier.arrive.shared.b64 _, [%0];"),
    # When the cp.async of this thread so far are complete; the arrival is one of those that are counted.
    "cp_async_arrive": _on_barrier("cp_async_arrive", "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];"),
    # One arrival for each warp of those that come: what its lanes did before is done.
    "mbarrier_arrive_warp": Intrinsic(
        """void mbarrier_arrive_warp(unsigned long long* barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    mbarrier_arrive(barrier);
  }
}""",
        requires=("mbarrier_arrive",),
    ),
    "mbarrier_arrive_remote": Intrinsic(
        """void mbarrier_arrive_remote(unsigned long long* barrier, unsigned rank) {
  asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
               "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
               ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}""",
        requires=("shared_address",),
    ),
    "mbarrier_expect_tx": _on_barrier(
        "mbarrier_expect_tx", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;", "bytes"
    ),
    "mbarrier_arrive_expect_tx": _on_barrier(
        "mbarrier_arrive_expect_tx", "mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;", "bytes"
    ),
    "mbarrier_wait": Intrinsic(
        """void mbarrier_wait(unsigned long long* barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
  } while (!done);
}""",
        requires=("shared_address",),
    ),
    "fence_barrier_init": Intrinsic(
        """void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}"""
    ),
    "fence_proxy_async": Intrinsic(
        """void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}"""
    ),
    "cluster_arrive": Intrinsic(
        """void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}"""
    ),
    "cluster_arrive_relaxed": Intrinsic(
        """void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;");
}"""
    ),
    "cluster_wait": Intrinsic(
        """void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}"""
    ),
    "cluster_sync": Intrinsic(
        """void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}""",
        requires=("cluster_arrive", "cluster_wait"),
    ),
    "cluster_rank": Intrinsic(
        """int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}"""
    ),
    "pdl_trigger": Intrinsic(
        """void cudaTriggerProgrammaticLaunchCompletion() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}""",
        unless_known=_NVRTC,
    ),
    "pdl_sync": Intrinsic(
        """void cudaGridDependencySynchronize() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}""",
        unless_known=_NVRTC,
    ),
    "setmaxnreg_inc": _registers("inc"),
    "setmaxnreg_dec": _registers("dec"),
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
    **warp_reductions(32, "__shfl_xor_sync(0xffffffffu, x, distance)"),
    **part_warp_reductions(
        32,
        "  unsigned lanes = 0xffffffffu >> (32 - count);\n",
        "__shfl_down_sync(lanes, x, distance)",
        "__shfl_sync(lanes, x, 0)",
    ),
}
