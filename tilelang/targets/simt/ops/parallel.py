"""A Parallel loop on the threads of a block: each thread runs its iterations, unrolled, with wide memory
accesses where neighbouring iterations touch neighbours (`lanes`).
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules import layout as rules
from tilelang.ir.evaluate import NotEvaluable
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.layout.fragment import Fragment
from tilelang.passes.parallel_loop import ParallelLoop, nested_parallel, parallel_loop
from tilelang.passes.walk import index
from tilelang.targets.simt.block import Block, local
from tilelang.targets.simt.ops.held_reads import Key, held_reads, in_two
from tilelang.targets.simt.ops.lanes import Lanes, choose_lanes


def lower_parallel(loop: ParallelLoop, block: Block) -> Any:
    """The statement that each thread of the block runs for its part of `loop`."""
    if loop.shape is None:
        return by_turns(loop, block)
    try:
        if loop.stmt.__chandle__() in block.layouts.exchanges:
            return _exchange(loop, block)
        return _run(loop, block, block.layouts.loops[loop.stmt.__chandle__()])
    except NotEvaluable as problem:
        span = place_of(loop.span)
        raise KernelError([rules.FRAGMENT_LAYOUT.at(span, buffer=problem.args[0])]) from problem


def _run(loop: ParallelLoop, block: Block, layout: Fragment) -> Any:
    """The loop in one, or in two where threads that share an iteration would miss what one has stored."""
    try:
        return ParallelLowering(loop, block, layout).run()
    except NotEvaluable:
        parts = in_two(loop) if layout.replicas > 1 else None
        if parts is None:
            raise
        return seq([_run(part, block, layout) for part in parts])


def _exchange(loop: ParallelLoop, block: Block) -> Any:
    """A copy between fragments whose elements lie in different threads: through shared memory."""
    store = loop.body
    source, target = block.layouts.exchanges[loop.stmt.__chandle__()]
    shape = loop.shape or ()
    space = X.decl_buffer(shape, str(store.buffer.dtype), f"{store.buffer.name}_shared", scope="shared")
    block.workspaces.append(space)
    halves = (
        (source, X.BufferStore(space, store.value, list(loop.vars), store.span)),
        (
            target,
            X.BufferStore(
                store.buffer, X.BufferLoad(space, list(loop.vars)), list(store.indices), store.span
            ),
        ),
    )
    parts = []
    for layout, body in halves:
        half = parallel_loop(nested_parallel(list(loop.vars), list(shape), body, {}, loop.span))
        parts.append(ParallelLowering(half, block, layout).run())
    return seq(parts)


def by_turns(loop: ParallelLoop, block: Block) -> Any:
    """Extents known only at run time, or only a range of the threads at work: they take turns, one element
    each. Such a loop touches memory only.
    """
    total: Any = index(1)
    for extent in loop.extents:
        total = total * index(extent)
    total = block.simplify(total)
    turn = X.Var("turn", "int32")
    flat = turn * block.threads + block.thread
    values: dict[int, Any] = {}
    rest = flat
    for var, extent in reversed(list(zip(loop.vars, loop.extents, strict=True))):
        values[var.__chandle__()] = rest % index(extent) if var is not loop.vars[0] else rest
        rest = rest // index(extent)
    body = tvm_ffi.structural_map(loop.body, (ir.Var, lambda v: values.get(v.__chandle__(), v)))
    guarded = X.IfThenElse(flat < total, body, None, loop.span)
    count = (total + (block.threads - 1)) // block.threads
    return X.For(turn, index(0), block.simplify(count), X.ForKind.SERIAL, guarded, span=loop.span)


class ParallelLowering(Lanes):
    """One loop, in whatever way it can be run."""

    def __init__(self, loop: ParallelLoop, block: Block, layout: Fragment | None = None) -> None:
        layout = layout or block.layouts.loops[loop.stmt.__chandle__()]
        self._reads = held_reads(loop.body) if layout.replicas > 1 else {}
        super().__init__(loop, block, layout, 1 if self._reads else choose_lanes(loop, block, layout))

    def run(self) -> Any:
        """The statement that does it."""
        if self._reads:
            return self._read_first()
        return self.unroll(self.scalar(self.loop.body, None) if self.lanes == 1 else self.together())

    def _read_first(self) -> Any:
        """All threads read what the loop overwrites, then they run it: one of those that share an iteration
        stores.
        """
        arrays: dict[Key, ir.Var] = {}
        steps = []
        for key, read in self._reads.items():
            buffer = read.load.source
            array = local(f"{buffer.name}_held", str(buffer.dtype), self.layout.registers)
            store = X.BufferStore(array, self.expression(read.load, None), [self.position], self.loop.span)
            if read.condition is not None:
                store = X.IfThenElse(self.expression(read.condition, None), store, None, self.loop.span)
            steps.append(store)
            arrays[key] = array
        first = self.unroll(seq(steps))
        self._held = arrays
        rest = self.unroll(self.scalar(self.loop.body, None))
        return seq([*(X.AllocBuffer(a, span=self.loop.span) for a in arrays.values()), first, rest])
