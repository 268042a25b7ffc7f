"""Tile function -> one function that LLVM compiles: a range of blocks, run one after the other.

In:  a PrimFunc as `ir.build` makes it.
Out: `LoweredKernel.func` takes raw pointers to the tensors, the scalars and sizes, one scratch pointer per
     tile, and the range of blocks to run; all buffers are flat, every access that may leave a global tensor
     is guarded.
Not: vector instructions outside T.gemm (LLVM's loop vectoriser does them, masked where guards stand),
     pipelining and barriers (a block is one thread here), packed arguments and dtype legalisation
     (`toolchain`).

Scratch comes from the caller, so that the function needs no run-time library and each worker thread reuses
its own.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.facts.reports import GeneratedSource
from tilelang.ir.build import UNNAMED_THREADS
from tilelang.ir.safe_values import safe_values
from tilelang.ir.tile_ops import seq
from tilelang.ir.values import as_int
from tilelang.layout.annotated import annotations_of
from tilelang.passes.expand_sparse import expand_sparse
from tilelang.passes.guard_bounds import is_unguarded
from tilelang.passes.plain_math import plain_math
from tilelang.passes.widen_narrow import widen_narrow
from tilelang.targets.cpu.blocks import BlockLowering
from tilelang.targets.cpu.half_functions import widen_half_functions
from tilelang.targets.cpu.jumps import without_jumps
from tilelang.targets.cpu.memory import Memory
from tilelang.targets.cpu.narrow_floats import marked
from tilelang.targets.cpu.ops.atomic import has_atomics
from tilelang.targets.cpu.threads import block_loops, thread_loops
from tilelang.targets.emit.names import entry_name
from tilelang.targets.launch_plan import free_sizes, launch_extents, launch_plan, size_expr
from tilelang.targets.lowered import LoweredKernel

# Function attribute: fill every allocation with NaN (integers: a large odd value) so that unwritten reads
# show up.
POISON = "tl.cpu_poison_allocations"

_CPU = 1  # DLPack's device type


def lower(func: X.PrimFunc, target: Target) -> LoweredKernel:
    """Lower a tile function to the code of a range of blocks."""
    func = expand_sparse(func)
    sizes = free_sizes(func)
    annotated = annotations_of(func)
    stored = {name: a.place for name, a in annotated.items() if a.kind == "formula"}
    named = {str(v.name): v for v in (*sizes, *(p for p in func.params if not X.is_buffer_var(p)))}
    memory = Memory(bool(func.attrs.get(POISON, False)) if func.attrs else False, stored, named)
    scalars, bindings = _wide_scalars(func)
    params = [memory.parameter(p) if X.is_buffer_var(p) else scalars.get(p, p) for p in func.params]
    first, last = X.Var("block_begin", "int32"), X.Var("block_end", "int32")
    tiles = plain_math(widen_half_functions(widen_narrow(func.with_body(seq([*bindings, func.body])))))
    unnamed = bool(func.attrs.get(UNNAMED_THREADS, False)) if func.attrs else False
    tiles = block_loops(thread_loops(tiles.with_body(without_jumps(marked(tiles.body))), unnamed))
    grid, _ = launch_extents(tiles)
    # No block runs where an extent is 0; block numbers are divided by them all the same.
    whole_grid = tuple(1 if as_int(e) == 0 else e for e in grid)
    blocks = BlockLowering(memory, whole_grid, safe=safe_values(func), unguarded=is_unguarded(func))
    body = blocks.lower(tiles.body)
    loop = X.For(blocks.block, first, last - first, X.ForKind.SERIAL, body)
    stmts = _on_cpu(seq([*memory.declarations(), loop]))
    lowered = X.PrimFunc([*params, *sizes, *memory.pointers, first, last], stmts, span=func.span)
    lowered = lowered.with_attrs({"global_symbol": entry_name(func)})
    plan = dataclasses.replace(
        launch_plan(func, "cpu"),
        grid=tuple(size_expr(e) for e in grid),
        workspace=tuple(size_expr(b) for b in memory.bytes),
        serial_blocks=has_atomics(func.body),
    )
    text = lowered.script()
    source = GeneratedSource(plan.name, target.name, "tirx", text, (0,) * len(text.splitlines()))
    return LoweredKernel(plan.name, target, lowered, plan, source, instructions=blocks.instructions)


def _wide_scalars(func: X.PrimFunc) -> tuple[dict[X.Var, X.Var], list[Any]]:
    """Scalars that TVM's calling convention cannot pass, as float32, and their values in their own dtype."""
    narrow = [p for p in func.params if not X.is_buffer_var(p) and str(p.ty) == "bfloat16"]
    passed = {p: X.Var(str(p.name), "float32") for p in narrow}
    return passed, [X.Bind(p, X.Cast(str(p.ty.dtype), wide)) for p, wide in passed.items()]


def _on_cpu(body: Any) -> Any:
    """`body` on a named device, so that TVM puts register arrays on the stack."""
    zero = X.const(0, "int32")
    return X.AttrStmt(zero, "device_id", zero, X.AttrStmt(zero, "device_type", X.const(_CPU, "int32"), body))
