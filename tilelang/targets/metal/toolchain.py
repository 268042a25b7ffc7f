"""Metal source as an artifact: the operating system compiles it when it is launched."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.runtime.artifact import Artifact
from tilelang.targets.lowered import LoweredKernel


def build(lowered: LoweredKernel, flags: Sequence[str] = ()) -> Artifact:
    """The artifact of `lowered`: its source, which `torch.mps.compile_shader` takes, and its plan.

    flags: of compilers that run here; the operating system's takes none.
    """
    return lowered.artifact()
