"""T.cumsum and T.cummax by doubling: after step s every element holds the fold of the 2 s elements up to it.

The tile goes to shared memory, where the steps alternate between two copies; the barriers between them are
placed like all others (`insert_sync`).
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.shape import SCAN_RUNTIME_EXTENT
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.ops.scan import Scan
from tilelang.passes.parallel_loop import nested_parallel
from tilelang.passes.walk import constant
from tilelang.targets.simt.ops.copy import OP, loop_names

_WIDE = {"float16": "float32", "bfloat16": "float32"}


def scan_loops(op: Scan) -> Any:
    """The allocations and Parallel loops of a scan."""
    extents = [constant(r.extent) for r in op.src.region]
    if None in extents:
        name = str(op.src.source.name)
        raise KernelError([SCAN_RUNTIME_EXTENT.at(place_of(op.span), buffer=name, op=f"T.cum{op.kind}")])
    shape = tuple(n for n in extents if n is not None)
    dtype = _WIDE.get(str(op.src.source.dtype), str(op.src.source.dtype))
    name = str(op.dst.source.name)
    count = 1 if shape[op.dim] == 1 else 2  # there is a step to another space only where there are neighbours
    spaces = [X.decl_buffer(shape, dtype, f"{name}_scan{k}", scope="shared") for k in range(count)]

    def loop(make: Any) -> Any:
        loop_vars = [X.Var(n, "int32") for n in loop_names(len(shape))]
        return nested_parallel(loop_vars, list(shape), make(loop_vars), {OP: f"cum{op.kind}"}, op.span)

    def inside(region: Any, at: list[Any]) -> list[Any]:
        return [v if constant(r.min) == 0 else r.min + v for r, v in zip(region.region, at, strict=True)]

    def store(buffer: Any, value: Any, at: list[Any]) -> Any:
        value = value if str(value.ty) == str(buffer.dtype) else X.Cast(str(buffer.dtype), value)
        return X.BufferStore(buffer, value, at, op.span)

    parts = [X.AllocBuffer(s, span=op.span) for s in spaces]
    parts.append(loop(lambda v: store(spaces[0], X.BufferLoad(op.src.source, inside(op.src, v)), v)))
    n, step, now = shape[op.dim], 1, 0
    while step < n:
        source, target = spaces[now], spaces[1 - now]

        def fold(v: list[Any], source: Any = source, target: Any = target, step: int = step) -> Any:
            k = v[op.dim]
            other = list(v)
            other[op.dim] = k + step if op.reverse else k - step
            has = k + step < n if op.reverse else k >= step
            own, before = X.BufferLoad(source, v), X.BufferLoad(source, other)
            both = X.Max(before, own) if op.kind == "max" else X.Add(before, own)
            return store(target, X.if_then_else(has, both, own), v)

        parts.append(loop(fold))
        step, now = step * 2, 1 - now
    last = spaces[now]
    parts.append(loop(lambda v: store(op.dst.source, X.BufferLoad(last, v), inside(op.dst, v))))
    return seq(parts)
