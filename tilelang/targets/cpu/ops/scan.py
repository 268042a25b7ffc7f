"""T.cumsum and T.cummax on the CPU: one accumulator per line, from one end to the other."""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.ir.tile_ops import seq
from tilelang.ops.scan import Scan
from tilelang.targets.cpu.nests import REGISTERS, cast, index, parallel, plus, serial

_WIDE = {"float16": "float32", "bfloat16": "float32"}


def lower_scan(op: Scan) -> Any:
    """`dst = running fold of src` along `op.dim`."""
    extents = [r.extent for r in op.src.region]
    outer = [d for d in range(len(extents)) if d != op.dim]
    dtype = _WIDE.get(str(op.src.source.dtype), str(op.src.source.dtype))
    count = extents[op.dim]

    def line(loop_vars: list[Any]) -> Any:
        acc = X.decl_buffer((1,), dtype, "acc", scope=REGISTERS)
        total = X.BufferLoad(acc, [index(0)])

        def at(region: Any, k: Any) -> list[Any]:
            steps = {**dict(zip(outer, loop_vars, strict=True)), op.dim: k}
            return [plus(r.min, steps[d]) for d, r in enumerate(region.region)]

        def step(turn: Any) -> Any:
            k = count - 1 - turn if op.reverse else turn
            value = cast(X.BufferLoad(op.src.source, at(op.src, k)), dtype)
            both = X.Max(total, value) if op.kind == "max" else total + value
            new = X.if_then_else(X.EQ(turn, index(0)), value, both)
            target = op.dst.source
            return seq(
                [
                    X.BufferStore(acc, new, [index(0)], op.span),
                    X.BufferStore(target, cast(total, str(target.dtype)), at(op.dst, k), op.span),
                ]
            )

        return seq([X.AllocBuffer(acc, span=op.span), serial("turn", count, step, op.span)])

    return parallel([extents[d] for d in outer], line, op.span) if outer else line([])
