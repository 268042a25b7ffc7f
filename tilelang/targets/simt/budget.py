"""The limits of a block on a target, checked when the sizes are final."""

from __future__ import annotations

from tvm import tirx as X

from tilelang.arch.tables import limits
from tilelang.arch.target import Target
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules import resource as rules
from tilelang.ir.spans import place_of
from tilelang.passes.plan_shared import Arena


def fits(arena: Arena, target: Target) -> bool:
    """Whether the target's blocks have that much shared memory, as far as its limit is known."""
    limit = limits(target).shared_bytes
    return limit is None or arena.bytes <= limit


def check_shared(func: X.PrimFunc, arena: Arena, target: Target) -> None:
    """Raises KernelError that lists the tiles if they do not fit into the target's shared memory."""
    limit = limits(target).shared_bytes
    if fits(arena, target):
        return
    parts = ", ".join(f"{name} {size} B" for name, size in arena.sizes)
    span = place_of(func.span)
    problem = rules.SHARED_MEMORY_BUDGET.at(
        span, least="", total=f"{arena.bytes} B", target=target, limit=f"{limit} B", parts=parts
    )
    raise KernelError([problem])
