"""Warp specialisation as a schedule that the author writes: which warps run which statements.

A schedule changes no result. This compiler reads it and specialises warps, if at all, by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tilelang.language.values import OutsideKernelError

WSID = "tl.ws_op_id"


class WSSyncKind(Enum):
    """What a step of a pipeline does."""

    PRODUCER_ACQUIRE = "producer_acquire"
    PRODUCER_COMMIT = "producer_commit"
    CONSUMER_WAIT = "consumer_wait"
    CONSUMER_RELEASE = "consumer_release"


class WSInstr:
    """A step of a role: `WSOpRef` or `WSSync`."""


@dataclass(frozen=True)
class WSOpRef(WSInstr):
    """The statements that `with T.ws_op(id):` marks."""

    id: str


@dataclass(frozen=True)
class WSSync(WSInstr):
    """A step of the pipeline of this name."""

    kind: WSSyncKind
    pipeline: str
    stage: int = 0


@dataclass(frozen=True)
class WSRole:
    """Warps `warps_lo` to `warps_hi` (exclusive) and the registers of their threads, 0 for no change."""

    name: str
    warps_lo: int = field(kw_only=True)
    warps_hi: int = field(kw_only=True)
    max_nreg: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class WSPipeline:
    """Tiles that are kept `depth` times."""

    name: str
    buffers: Sequence[Any]
    depth: int


@dataclass(frozen=True)
class WSScope:
    """What each role does in one part of the kernel."""

    id: str
    bodies: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class WSSchedule:
    """Roles, pipelines and parts of a kernel."""

    num_warps: int
    roles: Sequence[WSRole]
    pipelines: Sequence[WSPipeline]
    scopes: Sequence[WSScope]


def annotate_ws_schedule(schedule: Any) -> None:
    """Give the kernel a schedule; it changes no result, and this compiler does not follow it."""
    raise OutsideKernelError("annotate_ws_schedule")


def annotate_ws_pipeline_depth(depth_map: Mapping[Any, int]) -> None:
    """How often tiles are kept; it changes no result, and this compiler decides by itself."""
    raise OutsideKernelError("annotate_ws_pipeline_depth")


def ws_op(op_id: str) -> Any:
    """`with T.ws_op("load"):` marks statements for a schedule."""
    raise OutsideKernelError("ws_op")
