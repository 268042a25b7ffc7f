"""Index formulas as text: a layout that the author wrote as a function, in a form that can be saved and
evaluated on integers, numpy arrays and TIRX expressions alike.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import ir
from tvm import tirx as X

_INFIX: dict[type, str] = {
    X.Add: "+",
    X.Sub: "-",
    X.Mul: "*",
    X.FloorDiv: "//",
    X.FloorMod: "%",
    X.BitwiseAnd: "&",
    X.BitwiseOr: "|",
    X.BitwiseXor: "^",
    X.LShift: "<<",
    X.RShift: ">>",
}
_CALLS = {
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}


def formula_text(value: Any, names: Mapping[int, str]) -> str:
    """`value` in Python syntax; `names`: handle of a variable -> how the text calls it.

    Raises ValueError for anything but integer arithmetic.
    """
    if isinstance(value, bool | int):
        return str(int(value))
    kind = type(value)
    if kind is X.IntImm:
        return str(int(value.value))
    if isinstance(value, ir.Var):
        return names.get(value.__chandle__(), str(value.name))
    if kind is X.Cast:
        return formula_text(value.value, names)
    if kind in _INFIX:
        return f"({formula_text(value.a, names)} {_INFIX[kind]} {formula_text(value.b, names)})"
    if isinstance(value, ir.Call) and isinstance(value.op, ir.Op):
        symbol = _CALLS.get(str(value.op.name).rpartition(".")[2])
        if symbol is not None:
            a, b = value.args
            return f"({formula_text(a, names)} {symbol} {formula_text(b, names)})"
    raise ValueError(f"`{value}` is more than + - * // % & | ^ << >> on integers")


def evaluate_formula(text: str, indices: Sequence[Any], sizes: Mapping[str, Any] | None = None) -> Any:
    """The formula with i0, i1, ... for `indices` and the sizes by name."""
    names = {f"i{k}": value for k, value in enumerate(indices)}
    return eval(_code(text), {"__builtins__": {}}, {**(sizes or {}), **names})


@functools.lru_cache(maxsize=512)
def _code(text: str) -> Any:
    return compile(text, "<layout>", "eval")
