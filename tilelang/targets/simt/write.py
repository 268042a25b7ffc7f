"""The code of one thread -> its source text, and all that is told of a lowered kernel."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir
from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.facts.reports import GeneratedSource
from tilelang.runtime.plan import LaunchPlan
from tilelang.targets.c_printer import print_kernel
from tilelang.targets.emit.dialect import Dialect
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.simt.place import Placed


def write(
    func: X.PrimFunc,
    placed: Placed,
    offsets: Mapping[ir.Var, int],
    plan: LaunchPlan,
    target: Target,
    dialect: Dialect,
    min_blocks: int | None = None,
) -> LoweredKernel:
    """Print `func`, the final form of `placed`, whose shared buffers lie at `offsets` of the arena.

    min_blocks: see `print_kernel`.
    """
    printed = print_kernel(
        func,
        dialect,
        shared_offsets=offsets,
        shared_bytes=plan.shared_bytes,
        arguments=(*plan.arguments, *(d.name for d in plan.descriptors)),
        min_blocks=min_blocks,
    )
    return LoweredKernel(
        name=plan.name,
        target=target,
        func=func,
        plan=plan,
        source=GeneratedSource(plan.name, target.name, dialect.name, printed.text, printed.line_map),
        shared_offsets=offsets,
        layouts=placed.layouts.describe(),
        registers=placed.layouts.registers(),
        instructions=dict(placed.thread.instructions),
    )
