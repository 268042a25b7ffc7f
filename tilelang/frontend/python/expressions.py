"""Expressions: constants, operators, comparisons, displays, f-strings, comprehensions, lambdas."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tvm import ir

from tilelang.diagnostics.rules.python import PYTHON_ERROR, UNSUPPORTED_PYTHON
from tilelang.frontend.constants import any_not_given, not_given
from tilelang.frontend.local_names import assigned_names
from tilelang.frontend.model import ClassValue, Function, Instance, Late, ModuleValue
from tilelang.frontend.names import bind_name
from tilelang.frontend.operations.intrinsics import condition_guard
from tilelang.frontend.operators import (
    SYMBOLS,
    as_bool,
    binary,
    compare,
    conjunction,
    disjunction,
    fold,
    negate,
    unary,
)
from tilelang.frontend.precedence import note_precedence
from tilelang.frontend.python.functions import make_lambda
from tilelang.frontend.python.generators import Suspended, hand_on
from tilelang.frontend.python.large_values import WIDE, too_large
from tilelang.frontend.python.loops import python_items, truth
from tilelang.frontend.python.object_equality import all_plain, compare_objects
from tilelang.frontend.python.targets import assign
from tilelang.frontend.run import Run
from tilelang.frontend.same_operands import note_same_operands
from tilelang.frontend.scalars import any_traced, any_unknown, is_traced, kept, scalar
from tilelang.frontend.scope import Scope
from tilelang.frontend.traced_values import (
    membership_needs_value,
    note_text,
    print_fix,
    search_needs_value,
    traced_text,
)
from tilelang.ir.values import Buffer, Region, Unknown


def constant(run: Run, node: ast.Constant) -> Any:
    return node.value


def binary_expression(run: Run, node: ast.BinOp) -> Any:
    """`a op b`; a long chain `a + b + c + ...` is walked without recursion."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    left_node: ast.expr = chain[-1].left
    left = run.eval(left_node)
    if len(chain) > run.limits.chain and run.launch is not None:
        return run.too_long(node, len(chain))
    for step in reversed(chain):
        right = run.eval(step.right)
        left = apply_binary(run, step, type(step.op), left, left_node, right, step.right)
        left_node = step
    return left


def apply_binary(
    run: Run,
    node: ast.AST,
    kind: type[ast.operator],
    left: Any,
    left_node: ast.expr,
    right: Any,
    right_node: ast.expr,
) -> Any:
    """`left op right` with elements read and errors reported at the expression."""
    if kind is ast.Mod and isinstance(left, str) and any_traced(right) and any_unknown(right) is None:
        return _percent_text(run, node, left, right, right_node)
    if isinstance(left, Buffer | Region | Late):
        left = scalar(run, left, run.span(left_node))
    if isinstance(right, Buffer | Region | Late):
        right = scalar(run, right, run.span(right_node))
    if run.environment.static and too_large(kind, left, right):
        return Unknown("the value is too large to be computed here")
    if id(left) in run.tainted or id(right) in run.tainted:
        return Unknown("a container is changed on a path that may not be taken")
    note_same_operands(run, kind, left, left_node, right_node)
    try:
        return binary(kind, left, right)
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 (untraced operands are the user's objects)
        if run.environment.static and not all_plain(left, right):
            return Unknown(f"`{SYMBOLS[kind]}` on these objects is not known to the compiler")
        return _operator_error(run, node, kind, left, right, error)


def _percent_text(run: Run, node: ast.AST, template: str, value: Any, written: ast.expr) -> Any:
    """`"%s" % x` with traced values, which print as their expression."""
    values = value if isinstance(value, tuple) else (value,)
    nodes = written.elts if isinstance(value, tuple) and isinstance(written, ast.Tuple) else []
    nodes = nodes if len(nodes) == len(values) else [written] * len(values)
    if any_not_given(run, value) is not None:
        return Unknown("the text depends on a size that is not known here")
    known = [v for v in values if not is_traced(v)]
    if run.environment.static and (WIDE.search(template) or not all_plain(*known)):
        return Unknown("the text is not known to the compiler")
    texts = tuple(run.text_of(run.span(n)) if is_traced(v) else v for n, v in zip(nodes, values, strict=True))
    try:
        text = template % texts
    except (TypeError, ValueError) as error:
        return run.report(PYTHON_ERROR, run.span(node), what=f"{type(error).__name__}: {error}")
    note_text(run, nodes, values)
    return text


def _operator_error(
    run: Run, node: ast.AST, kind: type[ast.operator], left: Any, right: Any, error: Exception
) -> Unknown:
    if run.is_unset(left) or run.is_unset(right):
        return run.unknown("a parameter without a value")
    if isinstance(error, ZeroDivisionError):
        return run.report(PYTHON_ERROR, run.span(node), what="ZeroDivisionError: division by zero")
    if isinstance(left, ir.Expr) or isinstance(right, ir.Expr):
        return run.report(UNSUPPORTED_PYTHON, run.span(node), what=f"`{SYMBOLS[kind]}`: {error}")
    return run.report(PYTHON_ERROR, run.span(node), what=f"{type(error).__name__}: {error}")


def unary_expression(run: Run, node: ast.UnaryOp) -> Any:
    return apply_unary(run, node, type(node.op), run.eval(node.operand), node.operand)


def apply_unary(run: Run, node: ast.AST, kind: type[ast.unaryop], value: Any, value_node: ast.expr) -> Any:
    """`op value` with an element read and errors reported at the expression."""
    if isinstance(value, Buffer | Region | Late):
        value = scalar(run, value, run.span(value_node))
    if kind is ast.Not and not isinstance(value, ir.Expr | Unknown):
        known = truth(value)
        return known if isinstance(known, Unknown) else not known
    try:
        return fold(unary(kind, value)) if isinstance(value, ir.Expr) else unary(kind, value)
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 (an untraced operand is the user's object)
        if run.environment.static and not all_plain(value):
            return Unknown("this operator on this object is not known to the compiler")
        return run.report(PYTHON_ERROR, run.span(node), what=f"{type(error).__name__}: {error}")


def boolean_expression(run: Run, node: ast.BoolOp) -> Any:
    """`a and b`, `a or b`: operands after one that decides are not evaluated; later ones stand under the
    earlier.
    """
    is_and = isinstance(node.op, ast.And)
    combine = conjunction if is_and else disjunction
    if len(node.values) > run.limits.chain and run.launch is not None:
        return run.too_long(node, len(node.values))
    result = _condition_operand(run, node.values[0])
    for operand in node.values[1:]:
        if isinstance(result, Unknown):
            with run.guarded(maybe=True):
                run.eval(operand)
            continue
        if not isinstance(result, ir.Expr):
            decided = truth(result)
            if isinstance(decided, Unknown):
                result = decided
                continue
            if decided != is_and:
                return result
            result = _condition_operand(run, operand)
            continue
        with condition_guard(run, as_bool(result), not is_and, run.span(node.values[0])):
            right = _condition_operand(run, operand)
        if not isinstance(right, ir.Expr | Unknown):
            known = truth(right)
            right = known
        result = combine(result, right)
    return result


def _condition_operand(run: Run, node: ast.expr) -> Any:
    value = run.eval(node)
    return scalar(run, value, run.span(node)) if isinstance(value, Buffer | Region | Late) else value


def comparison(run: Run, node: ast.Compare) -> Any:
    """`a < b < c`: the middle operands are evaluated once."""
    note_precedence(run, node)
    left, left_node = run.eval(node.left), node.left
    if len(node.ops) > run.limits.chain and run.launch is not None:
        return run.too_long(node, len(node.ops))
    result: Any = True
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = run.eval(right_node)
        chained = len(node.ops) > 1
        answer = compare_values(run, node, op, left, left_node, right, right_node, chained=chained)
        result = conjunction(result, answer)
        if result is False:
            return False
        left, left_node = right, right_node
    return result


def compare_values(
    run: Run,
    node: ast.AST,
    op: ast.cmpop,
    left: Any,
    left_node: ast.expr,
    right: Any,
    right_node: ast.expr,
    *,
    chained: bool,
) -> Any:
    """`left op right` with elements read and errors reported at the expression; `chained`: as part of
    `a < b < c`.
    """
    kind = type(op)
    if kind in (ast.Is, ast.IsNot):
        unknown = any_unknown([left, right])
        return unknown if unknown is not None else compare(kind, left, right)
    if kind in (ast.In, ast.NotIn) and isinstance(right, Buffer | Region):
        return search_needs_value(run, op, right_node)
    if isinstance(left, Buffer | Region | Late) and not (kind in (ast.Eq, ast.NotEq) and right is None):
        left = scalar(run, left, run.span(left_node))
    if isinstance(right, Buffer | Region | Late) and not (kind in (ast.Eq, ast.NotEq) and left is None):
        right = scalar(run, right, run.span(right_node))
    unknown = any_unknown([left, right])
    if unknown is not None:
        return unknown
    if id(right) in run.tainted:
        return Unknown("a container is changed on a path that may not be taken")
    if kind in (ast.In, ast.NotIn):
        if isinstance(right, ModuleValue):
            return Unknown("this comparison is not known to the compiler")
        members = list(right) if isinstance(right, set | frozenset | dict) else right
        if any_traced([left, members]):
            lost = any_not_given(run, [left, members])
            if lost is not None:
                return lost
            lost = membership_needs_value(
                run, op, left_node, right_node, left_traced=is_traced(left), chained=chained
            )
            return _among(kind, left, members, lost)
    if isinstance(left, Instance | ClassValue | Function) or isinstance(
        right, Instance | ClassValue | Function
    ):
        return compare_objects(kind, left, right)
    note_same_operands(run, kind, left, left_node, right_node)
    try:
        return fold(compare(kind, left, right))
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 (untraced operands are the user's objects)
        if run.is_unset(left) or run.is_unset(right):
            return run.unknown("a parameter without a value")
        if run.environment.static and not all_plain(left, right):
            return Unknown("a comparison of these objects is not known to the compiler")
        return run.report(PYTHON_ERROR, run.span(node), what=f"{type(error).__name__}: {error}")


def _among(kind: type[ast.cmpop], left: Any, members: Any, lost: Unknown) -> Any:
    """What was meant by `x in (1, 2)`: what it guards is checked as such."""
    numbers = isinstance(members, tuple | list) and all(isinstance(m, bool | int | float) for m in members)
    if not isinstance(left, ir.Expr) or not numbers:
        return lost
    found: Any = False
    for member in members:
        found = disjunction(found, compare(ast.Eq, left, member))
    return found if kind is ast.In else negate(found)


# -- displays


def _elements(run: Run, nodes: list[ast.expr]) -> list[Any] | Unknown:
    values: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            items = python_items(run, run.eval(node.value), run.span(node.value))
            if isinstance(items, Unknown):
                return items
            values.extend(items)
        else:
            values.append(kept(run, run.eval(node), "element"))
    return values


def tuple_display(run: Run, node: ast.Tuple) -> Any:
    values = _elements(run, node.elts)
    return values if isinstance(values, Unknown) else tuple(values)


def list_display(run: Run, node: ast.List) -> Any:
    return _elements(run, node.elts)


def set_display(run: Run, node: ast.Set) -> Any:
    values = _elements(run, node.elts)
    unknown = any_unknown(values)
    if isinstance(values, Unknown) or unknown is not None:
        return unknown
    try:
        return set(values)
    except TypeError as error:
        return run.report(PYTHON_ERROR, run.span(node), what=f"TypeError: {error}")


def dict_display(run: Run, node: ast.Dict) -> Any:
    result: dict[Any, Any] = {}
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = run.eval(value_node)
        if key_node is None:
            if not isinstance(value, dict):
                return Unknown("a part of the dict is not known")
            result.update(value)
            continue
        key = run.eval(key_node)
        if isinstance(key, Unknown):
            return key
        try:
            result[key] = kept(run, value, "element")
        except TypeError as error:
            return run.report(PYTHON_ERROR, run.span(key_node), what=f"TypeError: {error}")
    return result


def formatted_string(run: Run, node: ast.JoinedStr) -> Any:
    """An f-string; traced values print as their expression."""
    parts = []
    for part in node.values:
        value = run.eval(part)
        if isinstance(value, Unknown):
            return value
        parts.append(str(value))
    return "".join(parts)


def formatted_value(run: Run, node: ast.FormattedValue) -> Any:
    value = run.eval(node.value)
    if is_traced(value) and not (isinstance(value, Buffer) and value.scope != "local.var"):
        if not_given(run, value) is not None:
            return Unknown("the text depends on a size that is not known here")
        fixes = () if run.printing is None else print_fix(run, run.printing)
        traced_text(run, "this text", node.value, fixes)
        return run.text_of(run.span(node.value))
    if isinstance(value, Buffer):
        value = value.name
    unknown = any_unknown(value)
    if unknown is not None:
        return unknown
    spec = "" if node.format_spec is None else run.eval(node.format_spec)
    if isinstance(spec, Unknown) or sum(c.isdigit() for c in str(spec)) > 4:
        return Unknown("the format is not known")
    convert: Callable[[Any], Any] = {114: repr, 115: str, 97: ascii}.get(node.conversion, lambda v: v)
    if run.environment.static and not all_plain(value):
        return str(value) if isinstance(value, str) else Unknown("how this object prints is not known")
    try:
        return format(convert(value), spec)
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 (the user's object prints itself)
        return run.report(PYTHON_ERROR, run.span(node), what=f"{type(error).__name__}: {error}")


# -- comprehensions


def _comprehend(run: Run, generators: list[ast.comprehension], add: Callable[[], None]) -> Unknown | None:
    """Run `add` for every combination of the generators' targets, in a scope of their own."""
    if not generators:
        add()
        return None
    first, rest = generators[0], generators[1:]
    items = python_items(run, run.eval(first.iter), run.span(first.iter))
    if isinstance(items, Unknown):
        return items
    for item in items:
        run.steps += 1
        assign(run, first.target, item)
        conditions = [run.eval(c) for c in first.ifs]
        known = [c if isinstance(c, Unknown) else truth(c) for c in conditions]
        unknown = next((k for k in known if isinstance(k, Unknown)), None)
        if unknown is not None:
            return unknown
        if all(known):
            lost = _comprehend(run, rest, add)
            if lost is not None:
                return lost
    return None


def _in_own_scope(run: Run, generators: list[ast.comprehension], add: Callable[[], None]) -> Unknown | None:
    saved = run.scope
    run.scope = Scope(saved, assigned_names(run.source, [g.target for g in generators]))
    try:
        return _comprehend(run, generators, add)
    finally:
        run.scope = saved


def list_comprehension(run: Run, node: ast.ListComp | ast.GeneratorExp) -> Any:
    values: list[Any] = []
    lost = _in_own_scope(
        run, node.generators, lambda: values.append(kept(run, run.eval(node.elt), "element"))
    )
    return values if lost is None else lost


def set_comprehension(run: Run, node: ast.SetComp) -> Any:
    values: list[Any] = []
    lost = _in_own_scope(run, node.generators, lambda: values.append(run.eval(node.elt)))
    unknown = lost if lost is not None else any_unknown(values)
    if unknown is not None:
        return unknown
    return set(values)


def dict_comprehension(run: Run, node: ast.DictComp) -> Any:
    pairs: list[tuple[Any, Any]] = []

    def add() -> None:
        pairs.append((run.eval(node.key), kept(run, run.eval(node.value), "element")))

    lost = _in_own_scope(run, node.generators, add)
    unknown = lost if lost is not None else any_unknown([k for k, _ in pairs])
    return dict(pairs) if unknown is None else unknown


# -- the rest


def lambda_expression(run: Run, node: ast.Lambda) -> Any:
    made = make_lambda(run, node)
    if run.on_lambda is not None:
        run.on_lambda(made)
    return made


def named_expression(run: Run, node: ast.NamedExpr) -> Any:
    value = run.eval(node.value)
    fresh = isinstance(node.value, ast.Call)
    bind_name(run, node.target.id, value, run.span(node.target), fresh_buffer=fresh)
    found, bound = run.scope.find(node.target.id)
    return bound if found is not None else value


def unsupported(run: Run, node: ast.expr) -> Any:
    """`await`, `yield`."""
    word = type(node).__name__.lower().replace("yieldfrom", "yield from")
    return run.report(UNSUPPORTED_PYTHON, run.span(node), what=f"`{word}` cannot stand in a kernel")


def yielded(run: Run, node: ast.Yield | ast.YieldFrom) -> Any:
    """`yield x`, whose element goes to the user of the generator (`run.on_yield`)."""
    if run.on_yield is None:
        return unsupported(run, node)
    value = None if node.value is None else run.eval(node.value)
    if isinstance(node, ast.Yield):
        run.on_yield(kept(run, value, "element"))
    else:
        hand_on(run, value, [] if isinstance(value, Suspended) else python_items(run, value, run.span(node)))
    return Unknown("what a generator is sent is not known")


def starred(run: Run, node: ast.Starred) -> Any:
    return run.eval(node.value)
