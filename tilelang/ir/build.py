"""Tile program -> TIRX function with `tl.*` calls: what is lowered, hashed and printed.

In:  a complete TileProgram without problems of error level.
Out: a PrimFunc whose parameters are the buffers and scalars in order. Block variables are bound by
     `thread_extent` attributes `blockIdx.x/y/z`, threads by `threadIdx.x/y/z`; loops carry `tl.kind` and
     their annotations; allocations are AllocBuffer, views DeclBuffer; attributes of the program (block
     swizzle) are attributes of the function.
Not: any decision. Nothing is simplified, placed or lowered here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.skipped_rest import SHARED_LOOPS, without_continue
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_ops import seq
from tilelang.ir.tile_program import (
    Alloc,
    Bind,
    Do,
    Evaluate,
    For,
    If,
    Jump,
    Launch,
    Loop,
    Node,
    OpRecord,
    Store,
    TileProgram,
)
from tilelang.ir.values import as_int

UNROLL = "pragma_unroll"  # annotation of a loop: how many iterations the device's compiler unrolls
LOOP_KIND = "tl.kind"  # annotation: Parallel, Pipelined, serial, unroll, vectorized
# Attribute of the function: indices of the parameters that the runtime allocates and returns.
OUTPUTS = "tl.outputs"
# Attribute of the function: no launch says how many threads a block has. A GPU gets 128; on the CPU, where
# the language has no threads, a statement is then done once.
UNNAMED_THREADS = "tl.unnamed_threads"
POINTERS = "tl.pointers"  # names of parameters that are addresses, separated by blanks: nothing is checked
# Attribute of the function: how many of the last parameters the runtime allocates and keeps to itself.
WORKSPACES = "tl.workspaces"
_TVM_KIND = {
    "Parallel": X.ForKind.PARALLEL,
    "vectorized": X.ForKind.VECTORIZED,
    "unroll": X.ForKind.UNROLLED,
}

BuildOp = Callable[[OpRecord], Any]


def build_prim_func(program: TileProgram, build_op: Mapping[str, BuildOp]) -> X.PrimFunc:
    """The TIRX function of `program`. `build_op` makes the statement of a tile operation from its record.

    Raises ValueError if the program is incomplete.
    """
    if not program.complete:
        raise ValueError(f"{program.name} has parts that are not known")
    params = [p.buffer.var if p.buffer is not None else p.scalar for p in program.params]
    workspaces = [b.var for b in program.buffers if b.role == "workspace"]
    params += workspaces
    body = _Builder(build_op).block(program.body)
    func = X.PrimFunc(params, body, span=to_tvm(program.span))
    outputs = list(program.outputs)
    attrs = {"global_symbol": program.name, OUTPUTS: outputs, **program.attrs}
    return func.with_attrs(attrs | {WORKSPACES: len(workspaces)} if workspaces else attrs)


class _Builder:
    def __init__(self, build_op: Mapping[str, BuildOp]) -> None:
        self._build_op = build_op

    def block(self, nodes: list[Node]) -> Any:
        return seq([self.node(n) for n in nodes])

    def node(self, node: Node) -> Any:
        match node:
            case Alloc():
                return self._alloc(node)
            case Do():
                return self._build_op[node.record.op](node.record)
            case Store():
                value = node.value
                if not any(isinstance(i, X.Ramp) for i in node.indices):
                    value = _convert(value, str(node.buffer.dtype))
                return X.BufferStore(node.buffer.var, value, list(node.indices), to_tvm(node.span))
            case Bind():
                return X.Bind(node.var, node.value, to_tvm(node.span))
            case Evaluate():
                return X.Evaluate(node.value, to_tvm(node.span))
            case For():
                return self._loop(node)
            case If():
                orelse = self.block(node.orelse) if node.orelse else None
                return X.IfThenElse(node.condition, self.block(node.body), orelse, to_tvm(node.span))
            case Jump():
                return X.Break(to_tvm(node.span)) if node.kind == "break" else X.Continue(to_tvm(node.span))
            case Launch():
                return self._launch(node)

    def _alloc(self, node: Alloc) -> Any:
        buffer, at = node.buffer, to_tvm(node.span)
        if buffer.view_of is not None:
            return X.DeclBuffer(buffer.var, data=buffer.view_of.var.data, span=at)
        if buffer.address is not None:
            return X.DeclBuffer(
                buffer.var, data=tile_ops.memory_at(buffer.address, str(buffer.dtype)), span=at
            )
        alloc = X.AllocBuffer(buffer.var, span=at)
        if buffer.scope != "local.var":
            return alloc
        init = 0 if buffer.init is None else buffer.init
        return seq([alloc, X.BufferStore(buffer.var, _convert(init, str(buffer.dtype)), [0], at)])

    def _loop(self, node: For) -> Any:
        loop, at = node.loop, to_tvm(node.span)
        body = self.block(without_continue(node.body) if loop.kind in SHARED_LOOPS else node.body)
        if loop.kind == "while":
            return X.While(node.condition, body, at)
        kind = _TVM_KIND.get(loop.kind, X.ForKind.SERIAL)
        # Nested one-variable loops from inside out; the outermost carries the annotations of the whole.
        for k in reversed(range(len(loop.vars))):
            notes = {LOOP_KIND: loop.kind} | (dict(loop.annotations) if k == 0 else {})
            notes = {key: value for key, value in notes.items() if value is not None} | _unrolled(loop)
            step = None if loop.step == 1 else _index(loop.step)
            body = X.For(
                loop.vars[k],
                _index(loop.mins[k]),
                _index(loop.extents[k]),
                kind,
                body,
                annotations=notes,
                step=step,
                span=at,
            )
        return body

    def _launch(self, node: Launch) -> Any:
        if node.threads is None:
            raise ValueError("the number of threads is not known")
        body, at = self.block(node.body), to_tvm(node.span)
        axes = [("threadIdx", v, e) for v, e in zip(node.thread_vars, node.threads, strict=True)]
        tagged = [("blockIdx", v, e) for v, e in zip(node.block_vars, node.grid, strict=True)]
        for prefix, group in (("threadIdx", axes), ("blockIdx", tagged)):
            for k, (_, var, extent) in reversed(list(enumerate(group))):
                iter_var = X.IterVar(None, var, X.IterVar.ThreadIndex, f"{prefix}.{'xyz'[k]}")
                body = X.AttrStmt(iter_var, "thread_extent", _index(extent), body, at)
        return body


def _index(value: Any) -> Any:
    return X.const(value, "int32") if isinstance(value, int) else value


def _convert(value: Any, dtype: str) -> Any:
    """`value` in `dtype`: a constant, or a cast where the dtypes differ."""
    if isinstance(value, bool | int | float):
        return X.const(value, dtype)
    return value if str(value.ty) == dtype else X.Cast(dtype, value)


def _unrolled(loop: Loop) -> dict[str, int]:
    """The annotation of a loop under `T.unroll(n, unroll_factor=4)`, or with tvm's name for it."""
    if loop.kind != "unroll":
        return {}
    names = ("unroll_factor", "pragma_unroll_factor")
    given = [f for f in (as_int(loop.annotations.get(name)) for name in names) if f is not None and f > 0]
    return {UNROLL: given[0]} if given else {}
