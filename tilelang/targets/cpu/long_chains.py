"""Bound values that stand for very large expressions, hidden from TVM's analysis.

In:  a lowered function.
Out: the same, where a bound value (`Bind`) that would be an expression of more than `_LARGE` nodes, were the
     values that it names written out, is stored in a register of its own and loaded from it.
Why: passes on the way to LLVM, and its emission, put a bound value wherever it is named when they simplify. A
     value named twice in the next one, which is named twice again, takes a time of 2^n: twelve conversions of
     narrow floats in a chain were minutes. A load is not looked into; LLVM makes nothing of the register.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir.tile_ops import seq
from tilelang.passes.walk import index

from tvm_ffi import structural_map, structural_walk  # isort: skip

_LARGE = 100


def cut_chains(func: X.PrimFunc) -> X.PrimFunc:
    """`func` with such values in registers."""
    registers = {var: _register(var) for var in _large(func.body)}
    if not registers:
        return func

    def split(block: X.SeqStmt) -> Any:
        return seq([part for stmt in block.seq for part in _kept(stmt, registers)])

    allocations = [X.AllocBuffer(register) for register in registers.values()]
    return func.with_body(_behind_attributes(structural_map(func.body, (X.SeqStmt, split)), allocations))


def _behind_attributes(body: Any, allocations: list[Any]) -> Any:
    """`body` with the allocations at its beginning, but after what it says about the device."""
    if isinstance(body, X.AttrStmt):
        return X.AttrStmt(
            body.node, body.attr_key, body.value, _behind_attributes(body.body, allocations), body.span
        )
    return seq([*allocations, body])


def _register(var: ir.Var) -> Any:
    scalar, _, lanes = str(var.ty).partition("x")
    return X.decl_buffer((int(lanes or 1),), scalar, f"{var.name}_kept", scope="local")


def _kept(stmt: Any, registers: dict[ir.Var, Any]) -> list[Any]:
    """`stmt`, or what keeps its value in a register."""
    if not isinstance(stmt, X.Bind) or stmt.var not in registers:
        return [stmt]
    register = registers[stmt.var]
    lanes = int(register.shape[0])
    place = index(0) if lanes == 1 else X.Ramp(index(0), index(1), lanes)
    store = X.BufferStore(register, stmt.value, [place], stmt.span)
    return [store, X.Bind(stmt.var, X.BufferLoad(register, [place]), stmt.span)]


def _large(body: Any) -> Iterator[ir.Var]:
    """The variables of such values; what is named behind one counts its name only."""
    binds: list[X.Bind] = []
    structural_walk(body, (X.Bind, binds.append))
    sizes: dict[ir.Var, int] = {}
    for bind in binds:
        size = _written_out(bind.value, sizes)
        if size > _LARGE and not str(bind.var.ty).startswith("handle"):
            yield bind.var
        else:
            sizes[bind.var] = size


def _written_out(value: Any, sizes: dict[ir.Var, int]) -> int:
    """Nodes of `value` with the named values of `sizes` written out."""
    total = 0

    def count(node: Any) -> None:
        nonlocal total
        total += sizes.get(node, 1) if isinstance(node, ir.Var) else 1

    structural_walk(value, (ir.Expr, count))
    return total
