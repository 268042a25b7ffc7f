"""buffer-augmented: `f += 1` on a whole buffer or a slice, and the loop over its elements that does it."""

from __future__ import annotations

import ast
from typing import Any

from tilelang.diagnostics.problem import Edit, Fix
from tilelang.diagnostics.rules.python import BUFFER_AUGMENTED
from tilelang.diagnostics.span import Span
from tilelang.frontend.operators import SYMBOLS
from tilelang.frontend.run import Run
from tilelang.ir.values import Buffer, Region, Unknown, as_int, show
from tilelang.ops.source_edits import argument_of, lone_statement_indent, text_of

_LOOP_NAMES = ("i", "j", "k", "l")
_LOOPS = {"local": "serial"}  # a thread's own array is not shared out; others are
_OTHER_NAMES = ("ii", "jj", "kk", "ll")


def report_augmented_buffer(run: Run, node: ast.AugAssign, region: Region, value: Any) -> None:
    """`value` is what the right side is."""
    buffer = region.buffer
    names = ", ".join(_LOOP_NAMES[: len(buffer.shape)]) if len(buffer.shape) <= 4 else "..."
    run.report(
        BUFFER_AUGMENTED,
        run.span(node),
        fixes=_loop(run, node, region, value),
        name=_written(node),
        loop=_LOOPS.get(buffer.scope, "Parallel"),
        op=SYMBOLS[type(node.op)],
        vars=names,
        shape=", ".join(map(show, buffer.shape)),
    )


def _written(node: ast.AugAssign) -> str:
    return ast.unparse(node.target.value if isinstance(node.target, ast.Subscript) else node.target)


def _loop(run: Run, node: ast.AugAssign, region: Region, value: Any) -> tuple[Fix, ...]:
    """The loop over all elements, for a statement on a line of its own in the kernel's body.

    A macro's buffer is another one in each call, and in a parallel loop one element was meant.
    """
    prefix, source = run.language_prefix(), run.source.text
    own = run.scope is run.signature.node_scope and run.launch is not None
    indent = lone_statement_indent(run.span(node), source)
    if prefix is None or indent is None or not own or run.context.parallel_vars():
        return ()
    starts = [as_int(s) for s in region.starts]
    names = _free_names(run, len(starts))
    right = _right_side(run, node, region, value, names or ())
    extents = _extents(run, region)
    if not names or None in starts or right is None or extents is None:
        return ()
    kind = _LOOPS.get(region.buffer.scope, "Parallel")
    if kind != "Parallel" and len(names) > 1:
        return ()
    places = [n if s == 0 else f"{s} + {n}" for n, s in zip(names, starts, strict=True)]
    loop = f"for {', '.join(names)} in {prefix}.{kind}({extents}):"
    update = f"{_written(node)}[{', '.join(places)}] {SYMBOLS[type(node.op)]}= {right}"
    return (
        Fix("Write the loop over its elements", (Edit(run.span(node), f"{loop}\n{indent}    {update}"),)),
    )


def _free_names(run: Run, count: int) -> tuple[str, ...] | None:
    """Loop variables whose names stand for nothing else in the function; None if there are not enough."""
    function = run.scope.function
    if not 0 < count <= len(_LOOP_NAMES) or function is None:
        return None
    loops = {n for f in ast.walk(function.node) if isinstance(f, ast.For) for n in _names(f.target)}
    taken = {n for n in _names(function.node) if n not in loops} | {
        n for n in _LOOP_NAMES if isinstance(run.scope.names.get(n), Buffer)
    }
    around = {str(v.name) for loop in run.context.loops for v in loop.vars}
    for names in (_LOOP_NAMES[:count], _OTHER_NAMES[:count]):
        if not (taken | around).intersection(names):
            return names
    return None


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _right_side(
    run: Run, node: ast.AugAssign, region: Region, value: Any, names: tuple[str, ...]
) -> str | None:
    """The value of one element: a number for all of them, or the same element of a buffer of that shape."""
    text = text_of(run.span(node.value), run.source.text)
    if not text or isinstance(value, Unknown) or (isinstance(value, Region) and not value.is_point):
        return None
    if not isinstance(value, Buffer) or value.scope == "local.var":
        return text
    same = [as_int(e) for e in value.shape] == [as_int(e) for e in region.extents]
    return f"{text}[{', '.join(names)}]" if same and isinstance(node.value, ast.Name) else None


def _extents(run: Run, region: Region) -> str | None:
    """As the allocation gives them, where those are names and numbers; else the numbers."""
    numbers = [as_int(e) for e in region.extents]
    if None in numbers:
        return None
    written = _written_shape(region.buffer.span, run.source.text) if region.whole else None
    return written or ", ".join(map(str, numbers))


def _written_shape(allocation: Span, source: str) -> str | None:
    shape = argument_of(allocation, source, 0, "shape")
    if not isinstance(shape, ast.Tuple | ast.List) or not shape.elts:
        return None
    plain = all(isinstance(e, ast.Name | ast.Constant) for e in shape.elts)
    return ", ".join(ast.unparse(e) for e in shape.elts) if plain else None
