"""Python's builtin functions on frontend values, and the problem they are on values of the kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir

from tilelang.diagnostics.rules.python import UNSUPPORTED_PYTHON
from tilelang.frontend.arguments import Argument
from tilelang.frontend.constants import any_not_given, not_given
from tilelang.frontend.model import ClassValue, Function, Instance
from tilelang.frontend.names import known_size
from tilelang.frontend.operators import binary, conjunction, disjunction
from tilelang.frontend.python.functions import call_function
from tilelang.frontend.python.large_values import too_large
from tilelang.frontend.python.loops import SymbolicRange, python_items, symbolic_range
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_traced, any_unknown, is_traced, kept, scalar
from tilelang.frontend.traced_values import builtin_needs_value, print_fix, traced_text
from tilelang.ir.values import Buffer, Region, Unknown
from tilelang.language.tensors import Tensor
from tilelang.language.values import DynamicSize, Scalar

Args = list[Argument]
Kwargs = dict[str, Argument]

_OF_NUMBERS = (abs, bool, divmod, float, int, pow, round)


def call_builtin(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """The value of a builtin's call."""
    return BUILTIN_FUNCTIONS[function](run, node, function, args, kwargs)


def _strict(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """Builtins that compute on Python values only: a traced argument is a problem."""
    given = [a.value for a in (*args, *kwargs.values())]
    unknown = None if _compares_traced(run, function, args, kwargs) else any_unknown(given)
    unknown = any_not_given(run, given) if unknown is None else unknown
    if unknown is not None:
        return unknown
    for argument in (*args, *kwargs.values()):
        if any_traced(argument.value) and not_given(run, argument.value) is None:
            if function in _OF_NUMBERS or (function in (min, max) and len(args) > 1):
                lost = scalar(run, argument.value, argument.span)  # says so if it is a whole tile
                if isinstance(lost, Unknown):
                    return lost
            lost = builtin_needs_value(run, node, function.__name__, argument.span, argument.value)
            # The condition itself is what was meant, and what it guards is checked as such.
            return scalar(run, argument.value, argument.span) if function is bool else lost
    return _native(run, node, function, args, kwargs)


def _compares_traced(run: Run, function: Any, args: Args, kwargs: Kwargs) -> bool:
    """`min(n, A[i])`: one value of the kernel among several is compared, whatever the others are, unless one
    of them is what a mistake left.
    """
    if function not in (min, max) or len(args) < 2 or kwargs:
        return False
    told = {p.message for p in run.problems}
    if any(isinstance(a.value, Unknown) and a.value.reason in told for a in args):
        return False
    return any(is_traced(a.value) and not_given(run, a.value) is None for a in args)


def _ordered(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """`max`, `min` and `sorted` with a `key` that is interpreted, over whatever objects."""
    key = kwargs.get("key")
    plain = all(is_modelled(a.value) for a in args)
    if not run.environment.static or key is None or not isinstance(key.value, Function) or plain:
        return _strict(run, node, function, args, kwargs)
    if len(args) != 1 or not kwargs.keys() <= {"key", "reverse"}:
        return Unknown(f"`{function.__name__}` with these arguments is not known to the compiler")
    items = _items_or_unknown(run, args[0])
    if isinstance(items, Unknown):
        return items
    at = run.span(node)
    keys = [call_function(run, key.value, [Argument(item, at)], {}, node, at) for item in items]
    if any_unknown(keys) is not None or any_traced(keys) or not all(map(is_modelled, keys)):
        return Unknown("the order of these objects is not known to the compiler")
    reverse = {"reverse": kwargs["reverse"].value} if "reverse" in kwargs else {}

    def ordered() -> Any:
        places = function(range(len(keys)), key=lambda k: keys[k], **reverse)
        return [items[k] for k in places] if isinstance(places, list) else items[places]

    return run.guarded_native(node, ordered, [], {})


def _text(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """str, repr, ascii, format: text of a traced value is its expression."""
    value = args[0].value if args else None
    if not is_traced(value) or not_given(run, value) is not None:
        return _strict(run, node, function, args, kwargs)
    traced_text(run, f"the text of `{function.__name__}`", node.args[0] if node.args else node)
    return value.name if isinstance(value, Buffer) else str(value)


def _native(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    values: list[Any] = []
    for argument in args:
        value = argument.value
        if id(value) in run.tainted:
            return Unknown("the container is changed on a path that may not be taken")
        if isinstance(value, range) and len(value) > run.limits.sequence:
            return Unknown(f"more than {run.limits.sequence} elements")
        values.append(value)
    given = [*values, *(a.value for a in kwargs.values())]
    if run.environment.static and function is pow and len(given) == 2 and too_large(ast.Pow, *given):
        return Unknown("the value is too large to be computed here")
    if run.environment.static and not all(is_modelled(v) for v in given):
        return Unknown(f"`{function.__name__}` of this object is not known to the compiler")
    return run.guarded_native(node, function, values, {k: a.value for k, a in kwargs.items()})


def is_modelled(value: Any) -> bool:
    """Plain values and interpreted functions: nothing that would run code of the user's when used."""
    if isinstance(value, list | tuple | set):
        return all(is_modelled(v) for v in value)
    if isinstance(value, dict):
        return all(is_modelled(v) for v in value.values())
    return isinstance(value, bool | int | float | complex | str | bytes | range | type(None) | Function)


def _items_or_unknown(run: Run, argument: Argument) -> list[Any] | Unknown:
    return python_items(run, argument.value, argument.span)


def _collect(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """list, tuple, set, reversed: a new container of the same elements."""
    if not args:
        return function()
    items = _items_or_unknown(run, args[0])
    if isinstance(items, Unknown):
        return items
    if function is reversed:
        return items[::-1]
    return function(kept(run, i, "element") for i in items)


def _dict(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    result: dict[Any, Any] = {}
    if args:
        source = args[0].value
        if isinstance(source, dict):
            result.update(source)
        else:
            pairs = _items_or_unknown(run, args[0])
            if isinstance(pairs, Unknown) or not all(
                isinstance(p, tuple | list) and len(p) == 2 for p in pairs
            ):
                return Unknown("the dict's entries are not known")
            unknown = any_unknown([p[0] for p in pairs])
            if unknown is not None:
                return unknown
            result.update({p[0]: p[1] for p in pairs})
    result.update({k: kept(run, a.value, k) for k, a in kwargs.items()})
    return result


def _zip(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    columns = []
    for argument in args:
        items = _items_or_unknown(run, argument)
        if isinstance(items, Unknown):
            return items
        columns.append(items)
    return list(zip(*columns, strict=False))


def _enumerate(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    if not args:
        return Unknown("enumerate of nothing")
    items = _items_or_unknown(run, args[0])
    if isinstance(items, Unknown):
        return items
    start = args[1].value if len(args) > 1 else kwargs["start"].value if "start" in kwargs else 0
    return list(enumerate(items, start)) if isinstance(start, int) else Unknown("the start is not known")


def _sum(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """sum works on traced elements too."""
    if not args:
        return Unknown("sum of nothing")
    items = _items_or_unknown(run, args[0])
    if isinstance(items, Unknown):
        return items
    total: Any = args[1].value if len(args) > 1 else 0
    if len(items) > run.limits.chain and any_traced(items):
        return run.too_long(node, len(items))
    for item in items:
        value = scalar(run, known_size(run, item), args[0].span)
        if not isinstance(value, ir.Expr | int | float | Unknown):
            return Unknown("the sum is not known")
        total = binary(ast.Add, total, value) if total != 0 or isinstance(total, ir.Expr) else value
    return total


def _all_any(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """all, any: traced conditions combine."""
    if not args:
        return Unknown("all or any of nothing")
    items = _items_or_unknown(run, args[0])
    if isinstance(items, Unknown):
        return items
    combine = conjunction if function is all else disjunction
    if len(items) > run.limits.chain and any_traced(items):
        return run.too_long(node, len(items))
    result: Any = function is all
    for item in items:
        result = combine(result, scalar(run, item, args[0].span))
    return result if isinstance(result, ir.Expr | Unknown) else bool(result)


def _range(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    values = [scalar(run, a.value, a.span) for a in args]
    unknown = any_unknown(values)
    if unknown is not None:
        return unknown
    if any(isinstance(v, ir.Expr) for v in values):
        return symbolic_range(run, values, run.span(node))
    return run.guarded_native(node, range, values, {})


def _len(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    value = args[0].value if args else None
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Buffer | Region | ir.Expr):
        return builtin_needs_value(run, node, "len", args[0].span)
    if id(value) in run.tainted:
        return Unknown("the container is changed on a path that may not be taken")
    if isinstance(value, SymbolicRange):
        lost = any_not_given(run, value.bounds)
        return builtin_needs_value(run, node, "len", args[0].span) if lost is None else lost
    if isinstance(value, ClassValue) and value.is_enum:
        return len(value.members())
    if isinstance(value, Instance) and (parts := value.items()) is not None:
        return len(parts)
    if isinstance(value, ClassValue | Instance):
        return Unknown("the length of this object is not known")
    return run.guarded_native(node, len, [value], {}) if args else Unknown("len of nothing")


def _isinstance(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 2:
        return Unknown("isinstance without a type")
    value, kind = args[0].value, args[1].value
    if any_unknown([value, kind]) is not None or not_given(run, value) is not None:
        return Unknown("the type of this value is not known")
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, Instance):
        return any(_is_subclass(value.cls, k) for k in kinds)
    if all(isinstance(k, type) for k in kinds):
        return isinstance(value, (*kinds, *(_NODES[k] for k in kinds if k in _NODES)))
    return Unknown("the type of this value is not known")


# What the language's classes are while a kernel is read: `isinstance(n, T.Var)`.
_NODES: Mapping[type, type] = {DynamicSize: ir.Var, Scalar: ir.Expr, Tensor: Buffer}


def _is_subclass(cls: ClassValue, kind: Any) -> bool:
    return cls is kind or any(isinstance(b, ClassValue) and _is_subclass(b, kind) for b in cls.bases)


def _getattr(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    name = args[1].value if len(args) > 1 else None
    if not isinstance(name, str) or not name.isidentifier():
        return Unknown("the attribute is not known")
    if isinstance(args[0].value, Unknown):
        return args[0].value
    if function is hasattr:
        return Unknown("whether the attribute exists is not known")
    read = ast.copy_location(ast.Attribute(node.args[0], name, ast.Load()), node)
    written = node.args[1]
    if isinstance(written, ast.Constant) and written.end_col_offset is not None:
        read.end_lineno, read.end_col_offset = written.end_lineno, written.end_col_offset - 1  # in its quotes
    return run.eval(read) if len(args) < 3 else Unknown("the attribute is not known")


def _nothing(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """print: the editor prints nothing; the JIT prints at trace time, as Python would."""
    for argument, written in zip(args, node.args, strict=False):
        value = argument.value
        tile = isinstance(value, Buffer) and value.scope != "local.var"
        if is_traced(value) and not tile and not_given(run, value) is None:
            traced_text(run, "what `print` writes", written, print_fix(run, node))
    if not run.environment.static:
        function(*[a.value for a in args], **{k: a.value for k, a in kwargs.items()})
    return None


def _forbidden(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    if run.launch is not None:
        what = f"`{function.__name__}` cannot stand in a kernel"
        return run.report(UNSUPPORTED_PYTHON, run.span(node), what=what)
    return Unknown(f"`{function.__name__}` is not run by the compiler")


def _type(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    value = args[0].value if len(args) == 1 else None
    return (
        type(value)
        if isinstance(value, bool | int | float | str | list | dict)
        else Unknown("the type is not known")
    )


Handler = Callable[[Run, ast.Call, Any, Args, Kwargs], Any]


def _slice(run: Run, node: ast.Call, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """`slice(lo, hi)`: what stands between brackets later, of values of the kernel too."""
    parts = [scalar(run, a.value, a.span) for a in args]
    unknown = any_unknown(parts)
    if unknown is not None:
        return unknown
    numbers = [Argument(p, a.span) for p, a in zip(parts, args, strict=True)]
    if kwargs or not any_traced(parts):
        return _strict(run, node, function, numbers, kwargs)
    return run.guarded_native(node, slice, parts, {})


BUILTIN_FUNCTIONS: dict[Any, Handler] = {
    **dict.fromkeys((bool, int, float, abs, round, pow, divmod), _strict),
    **dict.fromkeys((min, max, sorted), _ordered),
    **dict.fromkeys((str, repr, ascii, format), _text),
    **dict.fromkeys((chr, ord, hex, bin, oct, complex, bytes, hash), _strict),
    **dict.fromkeys((list, tuple, set, frozenset, reversed), _collect),
    **dict.fromkeys((all, any), _all_any),
    **dict.fromkeys((getattr, hasattr), _getattr),
    **dict.fromkeys((open, exec, eval, compile, input, globals, locals, vars, __import__), _forbidden),
    dict: _dict,
    zip: _zip,
    enumerate: _enumerate,
    sum: _sum,
    range: _range,
    len: _len,
    isinstance: _isinstance,
    print: _nothing,
    slice: _slice,
    type: _type,
}
