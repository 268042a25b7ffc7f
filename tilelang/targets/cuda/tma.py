"""The text of bulk copies: through descriptors of one to five dimensions, and between rows of plain memory.

PTX ISA 9.7.9.25 (cp.async.bulk) and 9.7.9.27 (cp.async.bulk.tensor).
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.intrinsic import Intrinsic

TENSOR_MAP = "TensorMap"
DECLARATION = "struct alignas(64) TensorMap { unsigned long long words[16]; };"
_DIMENSIONS = range(1, 6)


def _tensor_copy(rank: int, load: bool, hint: bool, several: bool = False) -> Intrinsic:
    """`several`: a load for the blocks of the cluster that a mask names."""
    corner = ", ".join(f"int c{k}" for k in range(rank))
    fixed = 3 if load else 2
    places = ", ".join(f"%{fixed + k}" for k in range(rank))
    given = ", ".join(f'"r"(c{k})' for k in range(rank))
    more, cache, extra = ("", "", "")
    if several:
        more, cache = ", unsigned short mask", ".multicast::cluster"
        extra = f", %{fixed + rank}"
        given += ', "h"(mask)'
    if hint:
        more, cache = more + ", unsigned long long policy", cache + ".L2::cache_hint"
        extra += f", %{fixed + rank + several}"
        given += ', "l"(policy)'
    suffix = "_hint" if hint else ""
    if load:
        source = f"""void tma_load_{"multicast_" if several else ""}{rank}d{suffix}(
    void* dst, unsigned long long* barrier, const TensorMap& map, {corner}{more}) {{
  asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{cache} "
               "[%0], [%1, {{{places}}}], [%2]{extra};"
               ::"r"(shared_address(dst)), "l"(&map), "r"(shared_address(barrier)), {given} : "memory");
}}"""
    else:
        source = f"""void tma_store_{rank}d{suffix}(const TensorMap& map, const void* src, {corner}{more}) {{
  asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group{cache} "
               "[%0, {{{places}}}], [%1]{extra};"
               ::"l"(&map), "r"(shared_address(src)), {given} : "memory");
}}"""
    return Intrinsic(source, requires=("shared_address",), types=(TENSOR_MAP,))


def _wait(read: bool) -> Intrinsic:
    name = "tma_store_wait" if read else "tma_store_wait_all"
    return Intrinsic(
        f"""template <int N> void {name}() {{
  asm volatile("cp.async.bulk.wait_group{".read" if read else ""} %0;" ::"n"(N) : "memory");
}}""",
        template_args=1,
    )


TMA: Mapping[str, Intrinsic] = {
    **{
        f"tma_{'load' if load else 'store'}_{rank}d{'_hint' if hint else ''}": _tensor_copy(rank, load, hint)
        for rank in _DIMENSIONS
        for load in (True, False)
        for hint in (False, True)
    },
    **{
        f"tma_load_multicast_{rank}d{'_hint' if hint else ''}": _tensor_copy(rank, True, hint, True)
        for rank in _DIMENSIONS
        for hint in (False, True)
    },
    # At the barrier of another block of the cluster, whose address is that of this block's.
    "cluster_arrive_expect_tx": Intrinsic(
        """void cluster_arrive_expect_tx(unsigned long long* barrier, unsigned rank, unsigned bytes) {
  asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
               "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [there], %2; }"
               ::"r"(shared_address(barrier)), "r"(rank), "r"(bytes) : "memory");
}""",
        requires=("shared_address",),
    ),
    "bulk_to_block": Intrinsic(
        """void bulk_to_block(
    void* dst, const void* src, unsigned bytes, unsigned rank, unsigned long long* barrier) {
  asm volatile("{ .reg .b32 there, full; mapa.shared::cluster.u32 there, %0, %3; "
               "mapa.shared::cluster.u32 full, %4, %3; "
               "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
               "[there], [%1], %2, [full]; }"
               ::"r"(shared_address(dst)), "r"(shared_address(src)), "r"(bytes), "r"(rank),
                 "r"(shared_address(barrier)) : "memory");
}""",
        requires=("shared_address",),
    ),
    # PTX ISA 9.7.9.25: neighbouring bytes, a multiple of 16.
    "bulk_load": Intrinsic(
        """void bulk_load(void* dst, const void* src, unsigned bytes, unsigned long long* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(shared_address(dst)), "l"(src), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}""",
        requires=("shared_address",),
    ),
    # CUDA C++ Programming Guide, distributed shared memory.
    "cluster_store": Intrinsic(
        """template <typename T> void cluster_store(T* place, unsigned rank, T value) {
  *static_cast<T*>(__cluster_map_shared_rank(place, rank)) = value;
}"""
    ),
    "tma_store_arrive": Intrinsic(
        """void tma_store_arrive() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}"""
    ),
    "tma_store_wait": _wait(True),
    "tma_store_wait_all": _wait(False),
}
