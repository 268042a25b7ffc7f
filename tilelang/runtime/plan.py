"""The launch plan: how a call with tensors becomes a launch, as data that is saved with the binary.

Sizes are integers or expressions over symbols in Python syntax (`"(M + 127) // 128"`; + - * // % min max and
comparisons only), evaluated without any compiler.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

PLAN_VERSION = 1

SizeExpr = int | str


@dataclass(frozen=True)
class TensorParam:
    """A tensor parameter. `strides` None means contiguous, row-major.

    alignment: bytes that its address must be a multiple of, where the kernel moves several elements at once.
    """

    name: str
    dtype: str
    shape: tuple[SizeExpr, ...]
    strides: tuple[SizeExpr, ...] | None = None
    alignment: int = 1
    unchecked: bool = False  # a pointer: any tensor of the device or an address, nothing else is looked at
    unused: bool = False  # no launch touches it: the caller may pass None
    written: bool = False  # a launch may write it


@dataclass(frozen=True)
class ScalarParam:
    """A scalar that the caller passes."""

    name: str
    dtype: str


@dataclass(frozen=True)
class TensorMap:
    """A descriptor for bulk tensor copies (TMA), made at each launch by the driver's cuTensorMapEncodeTiled.

    It describes the parameter `tensor` from its first element on: `shape` innermost dimension first,
    `strides` in bytes of the others, the `box` of elements that one copy moves, the `swizzle` in shared
    memory (bytes of an atom's row, 0 for none). What lies outside the tensor reads as zero, or as NaN where
    `fill` is 1. `promotion`: CUtensorMapL2promotion.
    """

    name: str  # of the argument of the device function, 128 bytes by value
    tensor: str
    dtype: str
    shape: tuple[SizeExpr, ...]
    strides: tuple[SizeExpr, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    promotion: int = 2
    fill: int = 0


@dataclass(frozen=True)
class LaunchPlan:
    """Everything a launch needs besides the binary.

    `params` are in call order; `outputs` are indices of params that the runtime allocates and returns.
    `symbols` are solved from the shapes and strides of the arguments. `arguments` names what the device
    function takes, in order: each a parameter or a symbol. On the CPU there follow one scratch buffer per
    entry of `workspace` (bytes, one set per worker thread) and the range of blocks to run.
    """

    entry: str
    params: tuple[TensorParam | ScalarParam, ...]
    outputs: tuple[int, ...]
    symbols: tuple[str, ...]
    grid: tuple[SizeExpr, ...]  # up to 3, x first
    threads: tuple[int, ...]  # up to 3; (1,) on the CPU
    shared_bytes: int  # dynamic shared memory of a block
    arguments: tuple[str, ...]
    kind: Literal["cuda", "hip", "metal", "cpu"] = "cuda"
    workspace: tuple[SizeExpr, ...] = ()
    hidden: int = 0  # how many of the last params are workspaces: allocated by the runtime, not returned
    serial_blocks: bool = False  # on the CPU: blocks update elements that others update too, so one at a time
    cooperative: bool = False  # all blocks must be on the device at once: they wait for each other
    descriptors: tuple[TensorMap, ...] = ()  # further arguments of the device function, after `arguments`
    wide: tuple[str, ...] = ()  # symbols that the device function takes with 64 bits, the others with 32
    following: tuple[LaunchPlan, ...] = ()  # launches after this one, on the same params
    kernel: str = ""  # what its author calls it, where `entry` differs
    version: int = PLAN_VERSION

    @property
    def name(self) -> str:
        """The kernel as its author calls it, for messages."""
        return self.kernel or self.entry

    @property
    def allocated(self) -> tuple[int, ...]:
        """Params that the runtime allocates: the outputs, then the workspaces."""
        count = len(self.params)
        return (*self.outputs, *range(count - self.hidden, count))

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> LaunchPlan:
        """Rebuild from `to_json`. Raises ValueError for another PLAN_VERSION."""
        if data.get("version") != PLAN_VERSION:
            raise ValueError(f"launch plan of version {data.get('version')}, expected {PLAN_VERSION}")
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        fields["params"] = tuple(_param(p) for p in data["params"])
        fields["descriptors"] = tuple(_descriptor(d) for d in data.get("descriptors", ()))
        fields["following"] = tuple(LaunchPlan.from_json(p) for p in data.get("following", ()))
        return LaunchPlan(**fields)


def _descriptor(data: dict[str, Any]) -> TensorMap:
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return TensorMap(**fields)


def _param(data: dict[str, Any]) -> TensorParam | ScalarParam:
    if "shape" not in data:
        return ScalarParam(**data)
    strides = data["strides"]
    return TensorParam(
        data["name"],
        data["dtype"],
        tuple(data["shape"]),
        tuple(strides) if strides else None,
        data.get("alignment", 1),  # artifacts saved before it was noted do not have it
        data.get("unchecked", False),
        data.get("unused", False),
        data.get("written", False),
    )
