"""Functions without `@T.macro` that hold statements of the kernel: read here, lost or refused elsewhere."""

from __future__ import annotations

import ast
import types
from typing import Any

from tilelang.diagnostics.problem import Edit, Fix, Related
from tilelang.diagnostics.rules.python import UNMARKED_MACRO
from tilelang.diagnostics.span import Span
from tilelang.frontend.run import Run
from tilelang.language.dtypes import DType
from tilelang.language.functions import Macro
from tilelang.language.names import LANGUAGE, declared_name

# Kinds of names that only make values: plain functions may call them. Some statements take effect at once,
# as do `with T.serial(n) as i:` and `with T.If(c):`.
_VALUES = ("expr", "dtype", "tensor", "meta", "alloc")
_AT_ONCE = (
    "print",
    "device_assert",
    "evaluate",
    "buffer_store",
    "import_source",
    "annotate_layout",
    "annotate_safe_value",
    "annotate_l2_hit_ratio",
    "annotate_restrict_buffers",
    "annotate_compile_flags",
    "annotate_pass_configs",
)
# Names that running Python may call outside a kernel.
_ANYWHERE = (
    "ceildiv",
    "cdiv",
    "dynamic",
    "symbolic",
    "Tensor",
    "StridedTensor",
    "Buffer",
    "Layout",
    "Fragment",
    "max",
    "min",
    "max_value",
    "min_value",
    "infinity",
)

DROPPED = "drops the statement without a word"
REFUSED = "fails"


def in_plain_function(run: Run) -> bool:
    """Whether what is read stands in a function without `@T.macro`, whose statements run as Python."""
    return (
        bool(run.calls)
        and not run.calls[-1][0].is_macro
        and isinstance(run.calls[-1][0].node, ast.FunctionDef)
    )


def note_kernel_statement(run: Run, span: Span, what: str, fate: str = REFUSED) -> None:
    """A statement of the kernel is met: a problem if the function around it is a plain one.

    `what`: "the loop"; `fate`: what becomes of it where plain functions run as Python.
    """
    if not in_plain_function(run):
        return
    function, called_at = run.calls[-1]
    if id(function.node) in run.unmarked:
        return
    run.unmarked.add(id(function.node))
    run.kept.append(function.node)
    related = (Related(span, "this is a statement of the kernel"),)
    run.report(
        UNMARKED_MACRO,
        called_at,
        related=related,
        fixes=_mark(run, function.source, function.node, called_at),
        name=function.name,
        what=what,
        line=span.line,
        fate=fate,
    )


def _mark(run: Run, source: Any, node: ast.FunctionDef | ast.Lambda, called_at: Span) -> tuple[Fix, ...]:
    prefix = run.language_prefix()
    if isinstance(node, ast.Lambda) or prefix is None or source.path != called_at.path:
        return ()
    if node.decorator_list:
        return ()
    at = source.span(node)
    start = Span(at.path, at.line, at.column, at.line, at.column)
    # A macro is not bound to its object, an inline method is.
    mark = f"@{prefix}.{'inline' if [a.arg for a in node.args.args[:1]] == ['self'] else 'macro'}"
    return (Fix(f"Mark `{node.name}` with {mark}", (Edit(start, f"{mark}\n{' ' * node.col_offset}"),)),)


def is_kernel_statement(function: Any) -> bool:
    """Whether calling `function` as a statement puts something into the kernel: `T.copy`, not `T.exp`."""
    name = None if isinstance(function, DType | str | int | float) else declared_name(function)
    if name is None or LANGUAGE[name].kind in _VALUES or LANGUAGE[name].op == "reduce":
        return False
    return name not in _AT_ONCE


def holds_kernel_code(function: types.FunctionType) -> bool:
    """Whether a function of running Python mentions names that have a meaning only in a kernel.

    It must then be interpreted, even where nothing that it receives is of the kernel.
    """
    seen: set[int] = set()
    pending = [function]
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        names = _names_in(current.__code__)
        for value in _values_of(current, names):
            if isinstance(value, Macro) or needs_kernel(value):
                return True
            if isinstance(value, types.ModuleType) and value.__name__ == "tilelang.language":
                if any(needs_kernel(getattr(value, name, None)) for name in names):
                    return True
            elif isinstance(value, types.FunctionType) and not value.__module__.startswith("tilelang."):
                pending.append(value)
    return False


def needs_kernel(value: Any) -> bool:
    """Whether a value is a name of the language that has a meaning only in a kernel."""
    if value is None or isinstance(value, DType | str | int | float):
        return False
    name = declared_name(value)
    return name is not None and name not in _ANYWHERE and LANGUAGE[name].kind not in ("dtype", "meta")


def _names_in(code: types.CodeType) -> set[str]:
    names = {*code.co_names, *code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


def _values_of(function: types.FunctionType, names: set[str]) -> list[Any]:
    found = [function.__globals__[n] for n in names if n in function.__globals__]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue  # not bound yet
    return found
