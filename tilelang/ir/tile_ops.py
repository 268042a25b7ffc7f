"""Our own TIRX operations: their names, in one place, and their registration with TVM.

`tl.<op>` with lower-case op are tile operations over regions (one file each in `ops/`). `tl.<target>.<name>`
are instructions that a target's lowering puts in their place and its emission prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import ir
from tvm import tirx as X
from tvm.ir.op import register_op_attr
from tvm.tirx.expr import CallEffectKind

from tilelang.diagnostics.span import Span
from tilelang.ir.spans import to_tvm

COPY = "tl.copy"
TMA_COPY = "tl.tma_copy"  # (source, destination, address of the barrier of a load)
# (address of a tensor, extents, distances in bytes but the innermost): stands where a parameter will
TMA_DESCRIPTOR = "tl.tma_descriptor"
GEMM = "tl.gemm"
GEMM_SP = "tl.gemm_sp"  # of a stored half of A, which a fifth operand places
WGMMA_WAIT = "tl.wgmma_wait"  # (groups that may be in flight): nothing where no gemm is asynchronous
WGMMA_ARRIVE, WGMMA_COMMIT = "tl.wgmma_arrive", "tl.wgmma_commit"  # around single instructions
MATRIX_DESCRIPTOR = "tl.matrix_descriptor"  # (mode, leading, stride offset, address): 64 bits for wgmma
SINGLE_PRODUCTS = "tl.single_wgmma"  # attribute of the function: it has single wgmma instructions
FILL = "tl.fill"
REDUCE = "tl.reduce"
SCAN = "tl.scan"
ATOMIC = "tl.atomic"  # (address of an element, values): an expression, the old value
ATOMIC_TILE = "tl.atomic_tile"
# (format, numbers...): printed by every thread that comes here, or by the first thread of the block
PRINT = "tl.print_value"
PRINT_ONCE = "tl.print_once"
CHECK = "tl.check"  # (condition, text): the kernel stops where it does not hold
ASSUME = "tl.assume"  # (condition): the author says that it holds from here on
SOURCE_KERNEL = "tl.source_kernel"  # (text, addresses of what it may touch): the launch is this source
MEMORY_AT = "tl.memory_at"  # (address of 64 bits): the pointer to a tensor that begins there
# Barrier among all threads of a block, and the asynchronous-copy group marks that pipelining places.
SYNC = "tl.sync"
ASYNC_COMMIT = "tl.async_commit"
ASYNC_WAIT = "tl.async_wait"  # argument: how many of the newest groups may still be in flight
# They stand where TVM's printer warns about a call without a name to print.
_PRINTED = (MEMORY_AT, "tl.max_nan", "tl.min_nan")


def op(name: str) -> ir.Op:
    """The operation called `name`, registered as opaque on first use (27 µs)."""
    try:
        return ir.Op.get(name)
    except AttributeError:
        register_op_attr(name, "TCallEffectKind", CallEffectKind.Opaque.value)
        if name in _PRINTED:
            register_op_attr(name, "TScriptPrinterName", name)
        return ir.Op.get(name)


def call(
    name: str,
    args: list[Any],
    attrs: Mapping[str, Any] | None = None,
    dtype: str = "void",
    span: Span | ir.Span | None = None,
) -> ir.Call:
    """A call of one of our operations. Attribute values are bool, int, float or str; None is left out."""
    kept = {k: v for k, v in (attrs or {}).items() if v is not None}
    at = to_tvm(span) if isinstance(span, Span) else span
    return ir.Call(op(name), args, attrs=kept, ret_ty=dtype, span=at)


def memory_at(address: ir.Expr, dtype: str) -> ir.Call:
    """The pointer to elements of `dtype` in global memory from `address` on."""
    return ir.Call(op(MEMORY_AT), [address], ret_ty=ir.PointerType(ir.PrimType(dtype), "global"))


def is_call(node: Any, name: str) -> bool:
    """Whether `node` is a call of the operation `name`."""
    return isinstance(node, ir.Call) and isinstance(node.op, ir.Op) and node.op.name == name


def is_ours(node: Any) -> bool:
    """Whether `node` is a call of one of our operations, which may have an effect."""
    return isinstance(node, ir.Call) and isinstance(node.op, ir.Op) and str(node.op.name).startswith("tl.")


def region(buffer: ir.Var, mins: list[Any], extents: list[Any]) -> Any:
    """The TIRX region `buffer[min : min + extent, ...]`."""
    return X.BufferRegion(
        buffer, [ir.Range.from_min_extent(m, e) for m, e in zip(mins, extents, strict=True)]
    )


def seq(stmts: list[Any]) -> Any:
    """One statement from many; a one-element SeqStmt is refused by TVM, an empty one is a no-op."""
    kept = [s for s in stmts if s is not None]
    if not kept:
        return X.Evaluate(X.const(0, "int32"))
    return kept[0] if len(kept) == 1 else X.SeqStmt(kept)
