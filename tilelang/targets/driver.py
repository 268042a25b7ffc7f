"""From a tile function to target code, whatever the target: which folder does it, and what it answers.

`lower` needs no toolchain and no device; `build` needs the target's toolchain. Target folders are imported
when first asked for, so that a check for CUDA never loads the CPU's.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.ir import tile_ops
from tilelang.passes.split_launches import split_launches
from tilelang.passes.split_vectors import split_vectors
from tilelang.passes.walk import remake
from tilelang.passes.warp_lanes import warp_lanes
from tilelang.targets.empty_tiles import drop_empty
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.merge import merge

if TYPE_CHECKING:
    from tilelang.runtime.artifact import Artifact

_SHUFFLES_BY_NUMBER = frozenset({"hip", "metal"})  # one kind of shuffle does for all
_REDUCES_WHOLE_WARPS = frozenset({"cuda", "hip"})  # by shuffles, which read lanes that may not be there


def lower(func: X.PrimFunc, target: Target) -> LoweredKernel:
    """Lower a tile function (see `ir.build`) to thread-level code and source text for `target`.

    Raises KernelError, with every problem found, for a kernel that this target cannot run.
    """
    func = split_vectors(drop_empty(func))
    if target.kind != "cuda":
        func = func.with_body(_without_waits(func.body))
    by_number = target.kind in _SHUFFLES_BY_NUMBER
    parts = target.kind in _REDUCES_WHOLE_WARPS
    launches = [warp_lanes(part, target.warp_size, by_number, parts) for part in split_launches(func)]
    lowered = [_room(target, "lower").lower(part, target) for part in launches]
    return lowered[0] if len(lowered) == 1 else merge(lowered)


def _without_waits(stmt: Any) -> Any:
    """Without waits for asynchronous products, which only CUDA has."""
    if isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.WGMMA_WAIT):
        return None
    return remake(stmt, _without_waits)


def build(lowered: LoweredKernel, flags: Sequence[str] = ()) -> Artifact:
    """Compile the source of `lowered` with its target's toolchain, which gets the author's `flags`.

    Raises the toolchain's error, which says what is missing, where this machine cannot build for the target.
    """
    return _room(lowered.target, "toolchain").build(lowered, flags)


def _room(target: Target, module: str) -> ModuleType:
    return importlib.import_module(f"tilelang.targets.{target.kind}.{module}")
