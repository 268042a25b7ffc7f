"""Evaluates the size expressions of a launch plan: checked once, compiled once, no access to anything but the
symbols.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilelang.parsing import parse
from tilelang.runtime.plan import SizeExpr

_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Call,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Mod,
    ast.USub,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.Eq,
    ast.NotEq,
)
_FUNCTIONS = {"min": min, "max": max}


@dataclass(frozen=True)
class Size:
    """A compiled size: its text, the symbols in it, and how to compute it."""

    text: str
    symbols: tuple[str, ...]
    evaluate: Callable[[Mapping[str, int]], int]

    @property
    def is_number(self) -> bool:
        return not self.symbols

    def is_linear(self, symbol: str, known: Mapping[str, int]) -> bool:
        """Whether each step of `symbol` changes this size by the same amount, not 0, as far as tried."""
        steps = [self.evaluate({**known, symbol: x}) for x in range(4)]
        slopes = {b - a for a, b in itertools.pairwise(steps)}
        return len(slopes) == 1 and 0 not in slopes

    def solve(self, symbol: str, value: int, known: Mapping[str, int]) -> int | None:
        """The integer for `symbol` that makes this size `value`; None if there is none, or it is not linear
        in it.
        """
        zero, one, two = (self.evaluate({**known, symbol: x}) for x in (0, 1, 2))
        slope = one - zero
        if slope == 0 or two - one != slope or (value - zero) % slope:
            return None
        found = (value - zero) // slope
        return found if self.evaluate({**known, symbol: found}) == value else None


@functools.lru_cache(maxsize=4096)
def compile_size(expr: SizeExpr) -> Size:
    """The size written as `expr`.

    Raises ValueError for anything but integers, symbols, + - * // %, min, max and comparisons.
    """
    if isinstance(expr, int):
        return Size(str(expr), (), lambda _, number=expr: number)
    tree = parse(expr, mode="eval")
    symbols: list[str] = []
    for node in ast.walk(tree):
        if not isinstance(node, _NODES) or (isinstance(node, ast.Constant) and type(node.value) is not int):
            raise ValueError(f"a launch plan cannot contain {ast.unparse(node)!r} in the size {expr!r}")
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        ):
            raise ValueError(f"a launch plan cannot call {ast.unparse(node.func)!r} in the size {expr!r}")
        if isinstance(node, ast.Name) and node.id not in _FUNCTIONS and node.id not in symbols:
            symbols.append(node.id)
    if isinstance(tree.body, ast.Name):
        name = tree.body.id
        return Size(expr, (name,), lambda values: values[name])
    code = compile(tree, f"<size {expr}>", "eval")
    scope = {"__builtins__": {}, **_FUNCTIONS}
    return Size(expr, tuple(symbols), lambda values: int(eval(code, scope, dict(values))))
