"""Barriers in shared memory as arguments: the address of the one that is named."""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound, as_region
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, as_index, named_type
from tilelang.ir.values import Buffer, Region, Unknown


def place(buffer: Buffer, indices: list[Any]) -> Any:
    return X.address_of(X.BufferLoad(buffer.var, [as_index(i) for i in indices]))


def barrier_address(run: Run, call: Bound, name: str = "mbarrier") -> Any:
    """The address of the barrier that an argument names, by itself or by its number."""
    numbered = run.numbered_barriers
    given = call.value(name)
    if numbered is not None and isinstance(given, int | ir.Expr) and not isinstance(given, bool):
        return place(numbered, [given])
    value = as_region(run, call, name)
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, Region) or value.buffer.dtype != "uint64" or value.buffer.scope != "shared":
        kind = "another buffer" if isinstance(value, Region) else named_type(value)
        what = f"`{name}` must be a barrier made by T.alloc_barrier, not {kind}"
        if isinstance(value, int):
            what += "; T.create_barriers(count) makes barriers with numbers"
        return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    lost = any_unknown(list(value.starts))
    if lost is not None:
        run.complete = False
        return lost
    return place(value.buffer, list(value.starts))
