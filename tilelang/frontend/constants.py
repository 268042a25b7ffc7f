"""Sizes declared by T.const: numbers whenever the kernel is compiled, symbols while no call has given them.

Python may decide on them, so what a symbol of this kind decides is not known, and never a mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import ir
from tvm_ffi import structural_walk

from tilelang.frontend.run import Run
from tilelang.ir.values import Buffer, Unknown


def not_given(run: Run, value: Any) -> Unknown | None:
    """The Unknown that stands for a Python decision on `value`, if it is made of sizes without a number.

    None for everything that exists only when the kernel runs, and for plain Python values.
    """
    if not isinstance(value, ir.Expr) or isinstance(value, Buffer):
        return None
    constants = [s.var for s in run.symbols if s.kind == "const" and s.name not in run.signature.consts]
    if not constants:
        return None
    found: list[ir.Var] = []

    def visit(node: ir.Var) -> None:
        found.append(node)

    structural_walk(value, (ir.Var, visit))
    if not found or not all(any(v.same_as(c) for c in constants) for v in found):
        return None
    return Unknown(f"`{found[0].name}` is a T.const, whose number is not known here")


def any_not_given(run: Run, values: Any) -> Unknown | None:
    """`not_given` of the first such value in tuples, lists and dicts, if everything traced in them is one."""
    parts = list(values.values()) if isinstance(values, dict) else values
    if not isinstance(parts, tuple | list):
        return not_given(run, parts)
    lost: Unknown | None = None
    for part in parts:
        reason = any_not_given(run, part)
        if reason is None and isinstance(part, ir.Expr | Buffer):
            return None
        lost = reason if lost is None else lost
    return lost


def unknown_number(run: Run, values: Sequence[Any]) -> Unknown | None:
    """Of values that must be numbers, why the first is none yet: unknown, or a size without a number."""
    for value in values:
        lost = value if isinstance(value, Unknown) else not_given(run, value)
        if lost is not None:
            return lost
    return None
