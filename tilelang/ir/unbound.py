"""Variables of a tile function that nothing gives a value, as `T.dynamic("n")` that is in no shape."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X


def unbound_variable(func: X.PrimFunc) -> tuple[ir.Var, Any] | None:
    """The first such variable and the statement that uses it; None if there is none."""
    return _Search(func).statement(func.body)


class _Search:
    def __init__(self, func: X.PrimFunc) -> None:
        self._bound = {p.__chandle__() for p in func.params}
        for param in filter(X.is_buffer_var, func.params):
            for size in (*param.shape, *param.strides):
                self._bound |= {v.__chandle__() for v in _variables(size)}

    def statement(self, stmt: Any) -> tuple[ir.Var, Any] | None:
        for value in self._values(stmt):
            for var in _variables(value):
                if var.__chandle__() not in self._bound and not X.is_buffer_var(var):
                    return var, stmt
        for child in self._inside(stmt):
            found = self.statement(child)
            if found is not None:
                return found
        return None

    def _values(self, stmt: Any) -> list[Any]:
        """What the statement itself computes with, before it gives names a value."""
        match stmt:
            case X.BufferStore():
                return [stmt.value, *stmt.indices]
            case X.Evaluate():
                return [stmt.value]
            case X.Bind():
                return [stmt.value]
            case X.For():
                return [stmt.min, stmt.extent]
            case X.While() | X.IfThenElse():
                return [stmt.condition]
            case X.AttrStmt():
                return [stmt.value]
            case X.AllocBuffer() | X.DeclBuffer():
                return [*stmt.buffer.shape, *stmt.buffer.strides]
            case _:
                return []

    def _inside(self, stmt: Any) -> list[Any]:
        """The statements in `stmt`, for which the names that it gives a value have one."""
        match stmt:
            case X.Bind():
                self._bound.add(stmt.var.__chandle__())
                return []
            case X.For():
                self._bound.add(stmt.loop_var.__chandle__())
                return [stmt.body]
            case X.AttrStmt():
                if isinstance(stmt.node, X.IterVar):
                    self._bound.add(stmt.node.var.__chandle__())
                return [stmt.body]
            case X.While():
                return [stmt.body]
            case X.IfThenElse():
                return [stmt.then_case, *([] if stmt.else_case is None else [stmt.else_case])]
            case X.SeqStmt():
                return list(stmt.seq)
            case _:
                return []


def _variables(value: Any) -> list[ir.Var]:
    found: list[ir.Var] = []
    tvm_ffi.structural_walk(value, (ir.Var, found.append))
    return found
