"""What parts of the language need hardware that not every target has, by their names in the language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.arch.mma import mma_names
from tilelang.arch.target import Target


@dataclass(frozen=True)
class Requirement:
    """Targets that have it: some kinds, and on NVIDIA GPUs an architecture from `sm` on, `before` another."""

    kinds: frozenset[str]
    sm: int = 0
    before: int = 10_000

    def met_by(self, target: Target) -> bool:
        return target.kind in self.kinds and (target.kind != "cuda" or self.sm <= target.sm < self.before)

    def words(self) -> str:
        """`an NVIDIA GPU from sm_90 on`."""
        end = f" and before sm_{self.before}" if self.before < 10_000 else ""
        names = {
            "cuda": "an NVIDIA GPU" + (f" from sm_{self.sm} on{end}" if self.sm else ""),
            "hip": "an AMD GPU",
            "metal": "an Apple GPU",
            "cpu": "the CPU",
        }
        return " or ".join(words for kind, words in names.items() if kind in self.kinds)


def _kinds(*kinds: str, sm: int = 0, before: int = 10_000) -> Requirement:
    return Requirement(frozenset(kinds), sm, before)


_NVIDIA = _kinds("cuda")
_PRINTS = _kinds("cuda", "cpu")  # a way to get text off the device without a vendor's library
_AMPERE = _kinds("cuda", sm=80)
_ADA = _kinds("cuda", sm=89)  # the first with 8-bit floats
_HOPPER = _kinds("cuda", sm=90)
_PDL = _kinds("cuda", "cpu", sm=90)  # on the CPU launches follow each other anyway

# Operation without its `tl.` -> (name in the language, requirement).
REQUIREMENTS: Mapping[str, tuple[str, Requirement]] = {
    "match_any_sync": ("match_any_sync", _kinds("cuda", "cpu", sm=70)),
    "match_all_sync": ("match_all_sync", _kinds("cuda", "cpu", sm=70)),
    "syncthreads_count": ("syncthreads_count", _kinds("cuda", "hip", "cpu")),
    "syncthreads_and": ("syncthreads_and", _kinds("cuda", "hip", "cpu")),
    "syncthreads_or": ("syncthreads_or", _kinds("cuda", "hip", "cpu")),
    "named_sync": ("sync_threads with a barrier_id", _NVIDIA),
    "named_arrive": ("named_barrier_arrive", _NVIDIA),
    "print_value": ("print", _PRINTS),
    "print_once": ("print", _PRINTS),
    "check": ("device_assert", _PRINTS),
    "mbarrier_init": ("alloc_barrier", _HOPPER),
    "tma_store_arrive": ("tma_store_arrive", _HOPPER),
    "tma_store_wait": ("tma_store_wait", _HOPPER),
    "tma_store_wait_all": ("tma_store_wait", _HOPPER),
    "tma_copy": ("tma_copy", _HOPPER),
    "tma_descriptor": ("create_tma_descriptor", _HOPPER),
    "bulk_load": ("tma_load", _HOPPER),
    "cp_async_arrive": ("cp_async_barrier_noinc", _HOPPER),
    "fence_proxy_async": ("fence_proxy_async", _HOPPER),
    "cluster_arrive": ("cluster_arrive", _HOPPER),
    "cluster_arrive_relaxed": ("cluster_arrive_relaxed", _HOPPER),
    "cluster_wait": ("cluster_wait", _HOPPER),
    "cluster_sync": ("cluster_sync", _HOPPER),
    "cluster_rank": ("block_rank_in_cluster", _HOPPER),
    "cluster_dims": ("Kernel with cluster_dims", _HOPPER),
    "pdl_trigger": ("pdl_trigger", _PDL),
    "pdl_sync": ("pdl_sync", _PDL),
    "setmaxnreg_inc": ("set_max_nreg", _HOPPER),
    "setmaxnreg_dec": ("set_max_nreg", _HOPPER),
    "async_commit": ("async_copy", _kinds("cuda", "cpu", sm=80)),
    "async_wait": ("ptx_wait_group", _kinds("cuda", "cpu", sm=80)),
    **{f"cp_async_{n}{g}": ("ptx_cp_async", _AMPERE) for n in (4, 8, 16) for g in ("", "_guarded")},
    **{
        f"ldmatrix_x{n}{t}": ("ptx_ldmatrix", _kinds("cuda", sm=75))
        for n in (1, 2, 4)
        for t in ("", "_trans")
    },
    **{f"stmatrix_x{n}{t}": ("ptx_stmatrix", _HOPPER) for n in (1, 2, 4) for t in ("", "_trans")},
    **{
        name: (
            "ptx_mma_sp" if "_sp_" in name else "ptx_mma",
            _ADA if "_e4m3" in name or "_e5m2" in name else _AMPERE,
        )
        for name in mma_names()
    },
    "memory_at": ("make_tensor_from_addr", _kinds("cuda", "hip", "cpu")),
    "import_source": ("import_source", _kinds("cuda", "hip", "metal")),
    "source_kernel": ("CUDASourceCodeKernel", _NVIDIA),
    "sync_grid": ("sync_grid", _kinds("cuda", "cpu", sm=60)),
}

# Names of the language that this compiler does not implement, by how they begin: what they need is known all
# the same. Instructions as the PTX ISA has them: wgmma (9.7.15) is of sm_90a alone, tcgen05 and tensor memory
# (9.7.16) of sm_100 to sm_110, clusterlaunchcontrol and the gathers of TMA of sm_100 and later, block-scaled
# mma of sm_120.
_WGMMA = _kinds("cuda", sm=90, before=100)
_TCGEN05 = _kinds("cuda", sm=100, before=120)
_BLACKWELL = _kinds("cuda", sm=100)
_BEGINNINGS: tuple[tuple[str, Requirement], ...] = (
    ("tcgen05_", _TCGEN05),
    ("ptx_tcgen05_", _TCGEN05),
    ("alloc_tcgen05_", _TCGEN05),
    ("initialize_tcgen05_", _TCGEN05),
    ("alloc_tmem", _TCGEN05),
    ("deallocate_tmem", _TCGEN05),
    ("tma_load_2sm", _TCGEN05),
    ("ptx_wgmma_", _WGMMA),
    ("alloc_wgmma_", _WGMMA),
    ("initialize_wgmma_", _WGMMA),
    ("wgmma_", _WGMMA),
    ("clc_", _BLACKWELL),
    ("tma_gather4", _BLACKWELL),
    ("tma_scatter4", _BLACKWELL),
    ("mma_gemm_blockscaled", _kinds("cuda", sm=120)),
    ("ptx_mma_block_scale", _kinds("cuda", sm=120)),
    ("ptx_", _NVIDIA),
)


def requirement_of_call(name: str) -> tuple[str, Requirement] | None:
    """(Name in the language, what it needs) of an operation without its `tl.`; None if it needs nothing."""
    if (single := re.match(r"wgmma(_sp)?_(ss|rs)(?=_)", name)) is not None:
        return f"ptx_{single[0]}", _WGMMA
    if re.fullmatch(r"tma_(load|store)_\dd(_hint)?", name):
        return "_".join(name.split("_")[:2]), _HOPPER
    return REQUIREMENTS.get(name)


def requirement_of(name: str) -> Requirement | None:
    """What a name of the language needs that this compiler does not implement; None if that is not known."""
    return next((needs for start, needs in _BEGINNINGS if name.startswith(start)), None)
