"""What can be proven about sizes and indices: three-valued answers, plain integers first, TVM's analyzer
for the rest.

True and False are proofs, None is "not known" and must keep every rule silent. Symbols are never assumed to
be related; that one is positive is known only if it was declared with `positive`, from its use as an
extent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from tilelang.ir.values import Unknown, Value, as_int

# Must follow ir.values, which sets TVM's environment before its compiler library is loaded.
from tvm import ir, sym  # isort: skip
from tvm_ffi import structural_map, structural_walk  # isort: skip
from tvm import tirx as X  # isort: skip

Interval = tuple[Value, Value]  # inclusive bounds


class Prover:
    """Proofs under what is known of some variables.

    `positive`: symbols that are at least 1. `ranges`: variable -> (min, extent), as loops and launches give
    them. `assumed`: conditions that the author promises. Making one costs about 10 µs; a question about
    integers is free, one about symbols costs 5 to 150 µs.
    """

    def __init__(
        self,
        positive: Iterable[ir.Var] = (),
        ranges: Mapping[ir.Var, tuple[Value, Value]] | None = None,
        assumed: Iterable[ir.Expr] = (),
    ) -> None:
        self._positive = tuple(positive)
        self._ranges = dict(ranges or {})
        self._assumed = tuple(assumed)
        self._scopes: list[Any] = []  # of the assumptions, which hold as long as this lives
        self._multiples = dict(m for c in self._assumed for m in _multiples(c))
        self._made: sym.Analyzer | None = None

    @property
    def _analyzer(self) -> sym.Analyzer:
        if self._made is None:
            self._made = made = sym.Analyzer()
            at_least_one = sym.ConstIntBound(1, sym.ConstIntBound.POS_INF)
            for var in self._positive:
                made.update(var, at_least_one)
                for count in free_vars(self._multiples.get(var)):
                    made.update(count, at_least_one)
            for var, (low, extent) in self._ranges.items():
                if not isinstance(low, Unknown) and not isinstance(extent, Unknown):
                    ends = [self._in_multiples(v) for v in (low, extent)]
                    if self._multiples:
                        ends = [made.simplify(v) if isinstance(v, ir.Expr) else v for v in ends]
                    made.bind(var, ir.Range.from_min_extent(*ends))
            for condition in self._assumed:
                scope = made.constraint_scope(self._in_multiples(condition))
                scope.__enter__()
                self._scopes.append(scope)
        return self._made

    def _in_multiples(self, value: Any) -> Any:
        """The value with M written as 64 * (M / 64) where M is promised to be a multiple of 64: the analyzer
        knows what a tile of 64 rows does to that, and not what it does to a remainder that is 0.
        """
        return substitute(value, self._multiples) if self._multiples else value

    def _comparable(self, a: Value, b: Value) -> tuple[Any, Any]:
        return same_dtype(self._in_multiples(a), self._in_multiples(b))

    def equal(self, a: Value, b: Value) -> bool | None:
        """True or False if proven for all values of the symbols, else None."""
        left, right = as_int(a), as_int(b)
        if left is not None and right is not None:
            return left == right
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            return None
        if a is b or (isinstance(a, ir.Expr) and isinstance(b, ir.Expr) and a.same_as(b)):
            return True
        x, y = self._comparable(a, b)
        if self._analyzer.can_prove_equal(x, y):
            return True
        if self._analyzer.can_prove(X.NE(x, y)):
            return False
        return self._difference_is_zero(x, y)

    def _difference_is_zero(self, x: Any, y: Any) -> bool | None:
        """For products of symbols, which the analyzer compares only once they are multiplied out."""
        if not isinstance(x, X.Mul) and not isinstance(y, X.Mul):
            return None
        low, high = self.bounds(self.simplify(x - y))
        if low == high == 0:
            return True
        return False if (low or 0) > 0 or (high or 0) < 0 else None

    def less(self, a: Value, b: Value) -> bool | None:
        """Whether a < b: True or False if proven, else None."""
        left, right = as_int(a), as_int(b)
        if left is not None and right is not None:
            return left < right
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            return None
        x, y = self._comparable(a, b)
        if self._analyzer.can_prove(X.LT(x, y)):
            return True
        return False if self._analyzer.can_prove(X.GE(x, y)) else None

    def surely_at_most(self, a: Value, b: Value) -> bool:
        """Whether a <= b is proven; at half the price of asking `less` for either answer."""
        left, right = as_int(a), as_int(b)
        if left is not None and right is not None:
            return left <= right
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            return False
        x, y = self._comparable(a, b)
        return bool(self._analyzer.can_prove(X.LE(x, y)))

    def at_least(self, a: Value, b: Value) -> bool | None:
        """Whether a >= b: True or False if proven, else None."""
        less = self.less(a, b)
        return None if less is None else not less

    def extremes(self, value: Value, varying: Mapping[ir.Var, tuple[Value, Value]]) -> list[Value]:
        """Values that `value` really takes: with each variable of `varying` (min, extent) at its first or
        last.

        The variables must be independent of each other and their extents positive; then the smallest and
        the largest value of an affine expression are among the results, and any result is a value of some
        iteration.
        """
        if not isinstance(value, ir.Expr):
            return [value]
        inside = [v for v in varying if v in free_vars(value)]
        if len(inside) > _MAX_CORNERS:
            return []
        ends = [(varying[v][0], _last(*varying[v])) for v in inside]
        found = []
        for corner in product(*ends):
            at = dict(zip(inside, corner, strict=True))
            found.append(self.simplify(substitute(value, at)))
        return found

    def at_first(self, value: Value, ranges: Mapping[ir.Var, tuple[Value, Value]]) -> Value:
        """The value with every variable of `ranges` at its first value."""
        if not isinstance(value, ir.Expr):
            return value
        return self.simplify(substitute(value, {v: ranges[v][0] for v in free_vars(value) if v in ranges}))

    def at_second(self, value: Value) -> tuple[ir.Var, int] | None:
        """The variable that a value depends on alone, and the value in that variable's second iteration.

        None for values of another kind, and where the variable is known to have one iteration at most.
        """
        variables = free_vars(value)
        if len(variables) != 1:
            return None
        (var,) = variables
        low, extent = self._ranges.get(var, (None, 1))
        first, count = as_int(low), as_int(extent)
        if first is None or isinstance(extent, Unknown) or (count is not None and count < 2):
            return None
        number = as_int(self.simplify(substitute(value, {var: first + 1})))
        return None if number is None else (var, number)

    def bounds(self, value: Value) -> tuple[int | None, int | None]:
        """Constant bounds of an integer expression, None where there is none. They need not be attained."""
        number = as_int(value)
        if number is not None:
            return number, number
        if not isinstance(value, ir.Expr):
            return None, None
        bound: Any = self._analyzer.const_int_bound(self._in_multiples(value))
        low, high = int(bound.min_value), int(bound.max_value)
        # TVM clamps an int32 expression to its dtype; such a bound says nothing.
        limit = 2**31 - 1
        return (low if low > -limit else None), (high if high < limit - 1 else None)

    def simplify(self, value: Value) -> Value:
        """The value in simplest form; integers and Unknown stay as they are."""
        if not isinstance(value, ir.Expr):
            return value
        simple = self._analyzer.simplify(value)
        number = as_int(simple)
        return simple if number is None else number


def positive_symbols(shapes: Iterable[Iterable[Value]]) -> list[ir.Var]:
    """Variables that stand alone as an extent in one of `shapes` and are therefore at least 1."""
    found: dict[ir.Var, None] = {}
    for shape in shapes:
        for dim in shape:
            if isinstance(dim, ir.Var):
                found[dim] = None
    return list(found)


def _multiples(condition: ir.Expr) -> Iterator[tuple[ir.Var, ir.Expr]]:
    """(M, 64 * m) for each part `M % 64 == 0` of a condition, with a new variable m."""
    if isinstance(condition, X.And):
        yield from _multiples(condition.a)
        yield from _multiples(condition.b)
    elif isinstance(condition, X.EQ) and as_int(condition.b) == 0:
        rest = condition.a
        if isinstance(rest, X.FloorMod | X.Mod) and isinstance(rest.a, ir.Var):
            divisor = as_int(rest.b)
            if divisor is not None and divisor > 1:
                count = X.Var(f"{rest.a.name}_over_{divisor}", str(rest.a.ty))
                yield rest.a, X.const(divisor, str(rest.a.ty)) * count


_MAX_CORNERS = 4


def _last(low: Value, extent: Value) -> Value:
    a, n = as_int(low), as_int(extent)
    return a + n - 1 if a is not None and n is not None else low + extent - 1


def substitute(value: Value, at: Mapping[ir.Var, Value]) -> Value:
    """The expression with variables replaced."""
    if not isinstance(value, ir.Expr) or not at:
        return value

    def replace(var: ir.Var) -> Any:
        new = at.get(var)
        return var if new is None else _as_expr(new, str(var.ty))

    return structural_map(value, (ir.Var, replace))


def free_vars(value: Value) -> set[ir.Var]:
    """The variables in a scalar expression, among them the buffers it reads."""
    found: set[ir.Var] = set()
    kind = type(value)
    if kind is not int and isinstance(value, ir.Expr):
        _collect(value, found)
    return found


_LEAVES = frozenset({"IntImm", "FloatImm", "StringImm"})
_BINARY = frozenset(
    {"Add", "Sub", "Mul", "Div", "FloorDiv", "FloorMod", "Min", "Max"}
    | {"LT", "LE", "GT", "GE", "EQ", "NE", "And", "Or"}
)


def _collect(value: Any, found: set[ir.Var]) -> None:
    """By hand for what nearly all expressions are made of: a general walk costs 50 times more, and
    `isinstance` on nodes a microsecond each.
    """
    kind = type(value).__name__
    if kind == "Var":
        found.add(value)
    elif kind in _BINARY:
        _collect(value.a, found)
        _collect(value.b, found)
    elif kind == "TensorLoad":
        found.add(value.source)
        for index in value.indices:
            _collect(index, found)
    elif kind == "Cast":
        _collect(value.value, found)
    elif kind not in _LEAVES:
        inside: list[ir.Var] = []
        structural_walk(value, (ir.Var, inside.append))
        found.update(inside)


def operands_of(value: ir.Expr) -> list[Any]:
    """The direct operands of a scalar expression; the indices of a load are not among them."""
    if isinstance(value, ir.Call):
        return list(value.args)
    names = ("a", "b", "value", "condition", "true_value", "false_value", "base")
    return [getattr(value, n) for n in names if hasattr(value, n)]


def same_dtype(a: Value, b: Value) -> tuple[Any, Any]:
    """Both as expressions of one integer dtype (the wider)."""
    types = [str(v.ty) for v in (a, b) if isinstance(v, ir.Expr)]
    dtype = "int64" if "int64" in types else types[0]
    return _as_expr(a, dtype), _as_expr(b, dtype)


def _as_expr(value: Value, dtype: str) -> Any:
    if isinstance(value, bool | int):
        return X.const(int(value), dtype)
    return value if str(value.ty) == dtype else X.Cast(dtype, value)
