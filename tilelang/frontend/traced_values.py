"""Problems with Python that needs a value at once and gets one that exists only when the kernel runs."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from typing import Any

from tvm import ir

import tilelang.language as declarations
from tilelang.diagnostics.problem import Edit, Fix
from tilelang.diagnostics.rules.python import PYTHON_BOOL, TRACED_TEXT
from tilelang.diagnostics.span import Span
from tilelang.frontend.constants import any_not_given
from tilelang.frontend.model import Late
from tilelang.frontend.run import Run
from tilelang.ir.values import Buffer, Region, Unknown

# What to write instead of a builtin's call.
_INSTEAD = {
    "bool": "write the comparison itself, as in `x != 0`",
    "int": "use `T.cast(x, 'int32')`",
    "float": "use `T.cast(x, 'float32')`",
    "min": "use `T.min`",
    "max": "use `T.max`",
    "abs": "use `T.abs`",
    "round": "use `T.round`",
    "pow": "use `T.pow` or `**`",
    "divmod": "use `//` and `%`",
    "len": "use `.shape[0]`",
    "sorted": "sort before the launch",
}
_CASTS = {"int": "int32", "float": "float32"}
_FOLDED = ("min", "max")  # two operands in the language, any number in Python
_MEMBERS_IN_A_FIX = 8
# What torch and numpy call otherwise, and the functions on elements that the language has under this name.
_OTHER_NAMES = {
    "absolute": "abs",
    "clip": "clamp",
    "fabs": "abs",
    "maximum": "max",
    "minimum": "min",
    "power": "pow",
    "where": "if_then_else",
}
# fmt: off
_ELEMENTWISE = frozenset((
    "abs", "ceil", "clamp", "cos", "cosh", "erf", "exp", "exp2", "floor", "fmod", "if_then_else",
    "isinf", "isnan", "log", "log10", "log1p", "log2", "max", "min", "pow", "round", "rsqrt", "sigmoid",
    "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
))
# fmt: on
# What takes in the elements of a tile, and what torch and numpy have that the language says in other words.
_REDUCTIONS = {
    "amax": "reduce_max",
    "amin": "reduce_min",
    "cumsum": "cumsum",
    "max": "reduce_max",
    "min": "reduce_min",
    "sum": "reduce_sum",
}
_OTHER_WORDS = {
    "gelu": "write it with `T.erf` or `T.tanh`",
    "relu": "use `T.max(x, 0)`",
    "silu": "write `x * T.sigmoid(x)`",
    "softmax": "write it with `T.reduce_max`, `T.exp` and `T.reduce_sum`",
    **dict.fromkeys(("bmm", "dot", "einsum", "matmul", "mm"), "use `T.gemm` on tiles"),
    **dict.fromkeys(("add", "subtract", "sub", "multiply", "mul", "divide", "div"), "use the operator"),
}
_OTHERWISE = "compute it with operators and functions of the language"
_LOGARITHMS = {2: "log2", 10: "log10"}


def builtin_needs_value(run: Run, node: ast.Call, name: str, at: Span, value: Any = None) -> Unknown:
    """`max(A[i], 0)`: the builtin `name` needs a Python value; `at` is the argument that is none."""
    alone = len(node.args) == 1 and name in _FOLDED and _is_tile(value)
    instead = _reduced(name) if alone else _INSTEAD.get(name, _OTHERWISE)
    if name in _FOLDED and len(node.args) > 1 and any(isinstance(a, ast.List | ast.Tuple) for a in node.args):
        instead = "compare the entries that decide in an `if`, and assign to variables of T.alloc_var there"
    return run.report(
        PYTHON_BOOL,
        at,
        fixes=_fixes(run, node, name),
        call=f"`{name}`",
        operand=f"`{run.text_of(at)}`",
        instead=instead,
    )


def _is_tile(value: Any) -> bool:
    return isinstance(value, Buffer) and value.scope != "local.var"


def _reduced(name: str) -> str:
    return f"use `T.{_REDUCTIONS[name]}`, which writes to another tile"


def _fixes(run: Run, node: ast.Call, name: str) -> tuple[Fix, ...]:
    if not isinstance(node.func, ast.Name) or node.keywords or not node.args:
        return ()
    if any(isinstance(a, ast.Starred) for a in node.args):
        return ()
    texts = [_text(run, a) for a in node.args]
    prefix = run.language_prefix()
    new = _replacement(node, name, texts, prefix)
    if new is None:
        return ()
    return (Fix(f"Write `{new}`", (Edit(run.span(node), new),)),)


def _replacement(node: ast.Call, name: str, texts: Sequence[str], prefix: str | None) -> str | None:
    first = node.args[0]
    if name == "len":
        return f"{texts[0]}.shape[0]" if isinstance(first, ast.Name | ast.Attribute) else None
    if name == "bool":
        condition = isinstance(first, ast.Compare | ast.BoolOp) or (
            isinstance(first, ast.UnaryOp) and isinstance(first.op, ast.Not)
        )
        return f"({texts[0]})" if condition else f"({texts[0]} != 0)"
    if prefix is None:
        return None
    if name in _CASTS and len(texts) == 1:
        return f'{prefix}.cast({texts[0]}, "{_CASTS[name]}")'
    if name in _FOLDED:
        if len(texts) == 1 and isinstance(first, ast.List | ast.Tuple) and len(first.elts) > 1:
            texts = [ast.unparse(e) for e in first.elts]
        if len(texts) == 1 or any(isinstance(a, ast.List | ast.Tuple) for a in node.args[1:]):
            return None  # pairs are compared entry by entry, which no function of the language does
        folded = texts[0]
        for text in texts[1:]:
            folded = f"{prefix}.{name}({folded}, {text})"
        return folded
    if name in ("abs", "round", "pow") and len(texts) == (2 if name == "pow" else 1):
        return f"{prefix}.{name}({', '.join(texts)})"
    return None


def _text(run: Run, node: ast.expr) -> str:
    return ast.get_source_segment(run.source.text, node) or ast.unparse(node)


def math_needs_value(run: Run, node: ast.Call, name: str, at: Span) -> Unknown:
    """`math.exp(x)` on a traced x: Python's math needs numbers."""
    prefix, base = run.language_prefix(), _base(node) if name == "log" else None
    if base is not None:
        twin, texts = _LOGARITHMS.get(base), [_text(run, node.args[0])]
        instead = f"use `T.{twin}`" if twin else "divide `T.log` of both"
        new = f"{prefix}.{twin}({texts[0]})" if twin and prefix is not None else None
        fixes = () if new is None else (Fix(f"Write `{new}`", (Edit(run.span(node), new),)),)
    else:
        instead, fixes = _twin(run, node, name if _in_language(name, node) else None)
    operand = f"`{run.text_of(at)}`"
    return run.report(PYTHON_BOOL, at, fixes=fixes, call=f"`math.{name}`", operand=operand, instead=instead)


def _base(node: ast.Call) -> Any:
    """The number that `math.log(x, 2)` names; 0 for another base, None where none is given."""
    if len(node.args) != 2:
        return None
    base = node.args[1]
    return base.value if isinstance(base, ast.Constant) else 0


def _in_language(name: str, node: ast.Call) -> bool:
    """Whether the language has a function of this name that takes as many arguments."""
    function = getattr(declarations, name, None)
    if function is None or any(isinstance(a, ast.Starred) for a in node.args):
        return False
    try:
        inspect.signature(function).bind(*node.args)
    except TypeError:
        return False
    return True


def _twin(run: Run, node: ast.Call, twin: str | None) -> tuple[str, tuple[Fix, ...]]:
    """What to write for a function that the language has as `twin`, and the edit that does it."""
    if twin is None:
        return _OTHERWISE, ()
    prefix = run.language_prefix()
    if prefix is None or node.keywords:
        return f"use `T.{twin}`", ()
    new = f"{prefix}.{twin}"
    return f"use `T.{twin}`", (Fix(f"Use {new}", (Edit(run.span(node.func), new),)),)


def needs_tensors(library: str, name: str, value: Any) -> bool:
    """Whether a function of torch or numpy surely fails on a traced value, as far as we know them. Those of
    numpy that are operators, such as `np.add`, do to elements what the operator does.
    """
    if _twin_of(name) is not None or (name in _REDUCTIONS and _is_tile(value)):
        return True
    return library != "numpy" and (name in _REDUCTIONS or name in _OTHER_WORDS)


def _twin_of(name: str) -> str | None:
    """The language's function for an elementwise one of torch or numpy, such as `max` for `maximum`."""
    twin = _OTHER_NAMES.get(name, name)
    return twin if twin in _ELEMENTWISE else None


def library_needs_value(run: Run, node: ast.Call, callee: str, at: Span, value: Any) -> Unknown:
    """`torch.sigmoid(x)`, `np.maximum(x, 0)` on a traced x: the library needs tensors or numbers."""
    name = callee.rpartition(".")[2]
    twin = _twin_of(name)
    fixes: tuple[Fix, ...] = ()
    if name in _REDUCTIONS and (_is_tile(value) or twin is None):
        instead = _reduced(name)
    elif name in _OTHER_WORDS and twin is None:
        instead = _OTHER_WORDS[name]
    else:
        instead, fixes = _twin(run, node, twin)
        fixes = fixes if twin is not None and _in_language(twin, node) else ()
    operand = f"`{run.text_of(at)}`"
    return run.report(PYTHON_BOOL, at, fixes=fixes, call=f"`{callee}`", operand=operand, instead=instead)


def membership_needs_value(
    run: Run, op: ast.cmpop, left: ast.expr, right: ast.expr, *, left_traced: bool, chained: bool
) -> Unknown:
    """`x in (1, 2)` on a traced x: Python compares while the kernel is traced, and always answers no."""
    negated = isinstance(op, ast.NotIn)
    new = None if chained else _spelled_out(run, left, right, negated)
    at = run.span(left if left_traced else right)
    fixes: tuple[Fix, ...] = ()
    if new is not None:
        start, end = run.span(left), run.span(right)
        whole = Span(start.path, start.line, start.column, end.end_line, end.end_column)
        fixes = (Fix(f"Write `{new}`", (Edit(whole, new),)),)
    instead = f"write `{new}`" if new else "compare with each of them, joined by `or`"
    word = "`not in`" if negated else "`in`"
    return run.report(
        PYTHON_BOOL, at, fixes=fixes, call=word, operand=f"`{run.text_of(at)}`", instead=instead
    )


def search_needs_value(run: Run, op: ast.cmpop, right: ast.expr) -> Unknown:
    """`x in tile`: the elements are known only when the kernel runs."""
    return run.report(
        PYTHON_BOOL,
        run.span(right),
        call="`not in`" if isinstance(op, ast.NotIn) else "`in`",
        operand=f"`{run.text_of(run.span(right))}`",
        instead="compare its elements in a loop, and keep what is found in a T.alloc_var",
    )


def _spelled_out(run: Run, left: ast.expr, right: ast.expr, negated: bool) -> str | None:
    """`(x == 1 or x == 2)`, `(0 <= x < n)`; None where the source does not show what is in the container."""
    name = _text(run, left)
    if not isinstance(left, ast.Name | ast.Subscript | ast.Attribute | ast.Constant):
        name = f"({name})"
    if isinstance(right, ast.Tuple | ast.List | ast.Set) and 1 <= len(right.elts) <= _MEMBERS_IN_A_FIX:
        if any(isinstance(e, ast.Starred) for e in right.elts):
            return None
        sign, word = ("!=", " and ") if negated else ("==", " or ")
        return "(" + word.join(f"{name} {sign} {_text(run, e)}" for e in right.elts) + ")"
    is_range = isinstance(right, ast.Call) and isinstance(right.func, ast.Name) and right.func.id == "range"
    if isinstance(right, ast.Call) and is_range and 1 <= len(right.args) <= 2 and not right.keywords:
        bounds = [_text(run, a) for a in right.args]
        low, high = bounds if len(bounds) == 2 else ["0", bounds[0]]
        return f"{'not ' if negated else ''}({low} <= {name} < {high})"
    return None


def traced_text(run: Run, what: str, node: ast.expr, fixes: tuple[Fix, ...] = ()) -> None:
    """An f-string, `str` or `print` of something that has no value while the kernel is traced."""
    if run.launch is None or run.quiet_text:
        return
    at = run.span(node)
    run.report(TRACED_TEXT, at, fixes=fixes, what=what, operand=f"`{run.text_of(at)}`")


def note_text(run: Run, written: Sequence[ast.expr], values: Sequence[Any]) -> None:
    """Values that `%` or `format` puts into a text: the first that is traced is told."""
    for node, value in zip(written, values, strict=False):
        tile = isinstance(value, Buffer) and value.scope != "local.var"
        if isinstance(value, ir.Expr | Buffer | Region | Late) and not tile:
            if any_not_given(run, value) is None:
                traced_text(run, "this text", node)
            return


def print_fix(run: Run, node: ast.Call) -> tuple[Fix, ...]:
    """`T.print(x, msg="...")` for a Python `print` that shows one traced value."""
    prefix = run.language_prefix()
    if prefix is None or node.keywords or not node.args:
        return ()
    *labels, shown = node.args
    words = [a.value for a in labels if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if len(words) != len(labels) or (labels and isinstance(shown, ast.JoinedStr | ast.Starred)):
        return ()
    message = " ".join(words).strip(" :=")
    if isinstance(shown, ast.JoinedStr):
        values = [v for v in shown.values if isinstance(v, ast.FormattedValue)]
        if len(values) != 1:
            return ()
        texts = [str(v.value) for v in shown.values if isinstance(v, ast.Constant)]
        message = "".join(texts).strip(" :=")
        shown = values[0].value
    new = f"{prefix}.print({_text(run, shown)}" + (f", msg={message!r})" if message else ")")
    return (Fix(f"Write `{new}`", (Edit(run.span(node), new),)),)
