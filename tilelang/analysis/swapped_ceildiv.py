"""partly-used, of a loop or grid whose T.ceildiv has its arguments the wrong way round.

`T.ceildiv(block, N)` counts how many pieces of size N a block has: one, as a rule. That N was to be walked
in steps of `block` is what the index says, `k * block`, into a dimension of that size.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilelang.analysis.affine import affine
from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Fix, Problem, Related
from tilelang.diagnostics.rules.bounds import SWAPPED_CEILDIV
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import Prover
from tilelang.ir.tile_program import For, Launch, walk
from tilelang.ir.values import Unknown, Value, as_int
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import argument_span, span_text, swap_arguments

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip
from tilelang.parsing import parse

_CALLS = ("ceildiv", "cdiv")


def swapped_counts(subject: Subject) -> list[Problem]:
    """One problem for each such extent."""
    return list(_found(subject))


def _found(subject: Subject) -> Iterator[Problem]:
    if not any(name in subject.text for name in _CALLS):
        return
    for var, extent, span in _counted(subject):
        count = _count(subject, span)
        if count is None:
            continue
        call, at = count
        for place in subject.shared(global_places):
            dim = _walked(subject, place, var, extent, call)
            if dim is not None:
                yield _problem(subject, place, dim, var, call, at)
                break


def _counted(subject: Subject) -> Iterator[tuple[ir.Var, Value, Span]]:
    """Variables of blocks and of loops that run in order, with their extents and where these are written."""
    for node in walk(subject.program.body):
        if isinstance(node, Launch):
            for at, (var, extent) in enumerate(zip(node.block_vars, node.grid, strict=False)):
                span = argument_span(node.span, subject.text, at)
                if span is not None:
                    yield var, extent, span
        elif isinstance(node, For) and node.loop.kind not in ("Parallel", "while"):
            loop = node.loop
            if len(loop.vars) != 1 or as_int(loop.mins[0]) != 0 or as_int(loop.step) != 1:
                continue
            span = argument_span(node.span, subject.text, 1) or argument_span(node.span, subject.text, 0)
            if span is not None:
                yield loop.vars[0], loop.extents[0], span


def _count(subject: Subject, span: Span) -> tuple[ast.Call, Span] | None:
    """The call of T.ceildiv that an extent is, with two arguments."""
    try:
        call = parse(span_text(span, subject.text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    if not isinstance(call, ast.Call) or len(call.args) != 2 or call.keywords:
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else None
    return (call, span) if name in _CALLS else None


def _walked(subject: Subject, place: GlobalPlace, var: ir.Var, extent: Value, call: ast.Call) -> int | None:
    """The dimension that a touch goes through in steps of the first argument, where the extent is that step
    divided by the size.
    """
    if isinstance(extent, Unknown) or place.context.maybe or place.span.path != subject.program.span.path:
        return None
    for dim, (start, size) in enumerate(zip(place.starts, place.buffer.shape, strict=True)):
        form = affine(start)
        step = 0 if form is None else form.coefficient(var)
        if step > 1 and dim < len(place.spans) and _too_few(subject.prover, extent, step, size):
            index = span_text(place.spans[dim], subject.text)
            if _steps_by(index, var.name, ast.unparse(call.args[0])):
                return dim
    return None


def _too_few(prover: Prover, extent: Value, step: int, size: Value) -> bool:
    """Whether an extent is ceildiv(step, size), and that is another number than ceildiv(size, step)."""
    count, number = as_int(extent), as_int(size)
    if number is not None:
        return count is not None and number > 0 and count == -(-step // number) and count * step < number
    if not isinstance(size, ir.Var) or count is not None:
        return False
    turned = X.floordiv(size - 1 + step, size)
    return prover.equal(extent, turned) is True


def _steps_by(index: str, var: str, step: str) -> bool:
    """Whether an index multiplies a variable, or a sum with it, by what is written as `step`."""
    try:
        tree = parse(f"_[{index}]", mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for side, other in ((node.left, node.right), (node.right, node.left)):
                names = {n.id for n in ast.walk(side) if isinstance(n, ast.Name)}
                if var in names and ast.unparse(other) == step:
                    return True
    return False


def _problem(
    subject: Subject, place: GlobalPlace, dim: int, var: ir.Var, call: ast.Call, at: Span
) -> Problem:
    edits = swap_arguments(at, subject.text, 0, 1)
    block, size = (ast.unparse(a) for a in call.args)
    return SWAPPED_CEILDIV.at(
        at,
        fixes=() if edits is None else (Fix("Exchange the arguments of T.ceildiv", edits),),
        related=(Related(place.spans[dim], f"{var.name} goes through it here"), *declared(place.buffer)),
        var=var.name,
        block=block,
        size=size,
        dim=dim,
        buffer=place.buffer.name,
    )
