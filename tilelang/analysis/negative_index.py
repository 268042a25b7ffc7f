"""negative-index: an index read from memory that the kernel itself takes to be negative at times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.bounds import NEGATIVE_INDEX
from tilelang.diagnostics.span import Span
from tilelang.ir.expressions import without_casts
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Bind, Context, For, If, Jump, Loop, Node, walk
from tilelang.ir.values import Buffer, Index, Region, as_int, show
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_SCOPES = {"shared": "shared", "local.fragment": "register", "local": "private"}


def check(subject: Subject) -> Iterator[Problem]:
    """Tables padded with -1 are common, and tensors are guarded. Shared memory, fragments and private arrays
    are not, so there an index that is tested for negative values in one place and not in another is worth a
    hint. A table that no condition asks about is trusted.
    """
    tested = subject.shared(_tested)
    if not tested:
        return
    sources = _bound_to(subject)
    for buffer, indices, context in _places(subject):
        if buffer.scope not in _SCOPES or len(indices) != len(buffer.shape):
            continue
        for index in indices:
            source = _loaded(index.start, sources)
            if source is None or source not in tested or _guarded(subject, context, source, sources):
                continue
            yield NEGATIVE_INDEX.at(
                index.span,
                related=(
                    Related(tested[source], f"negative values of {source.name} are expected here"),
                    *declared(buffer),
                ),
                index=show(index.start),
                buffer=buffer.name,
                source=source.name,
                line=tested[source].line,
                scope=_SCOPES[buffer.scope],
            )


def _places(subject: Subject) -> Iterator[tuple[Buffer, tuple[Index, ...], Context]]:
    """Elements that statements touch, and parts of buffers that tile operations work on."""
    for access in subject.program.accesses:
        yield access.buffer, access.indices, access.context
    for record in subject.records:
        for operand in record.operands.values():
            if isinstance(operand.value, Region):
                yield operand.value.buffer, operand.value.indices or (), record.context


def _bound_to(subject: Subject) -> dict[ir.Var, Any]:
    return {n.var: n.value for n in walk(subject.program.body) if isinstance(n, Bind)}


def _tested(subject: Subject) -> dict[ir.Var, Span]:
    """Tables of which a condition asks whether an element is negative, with the place of the first one."""
    sources = _bound_to(subject)
    conditions = [(n.condition, n.span) for n in walk(subject.program.body) if isinstance(n, If)]
    conditions += [(g.condition, g.span) for a in subject.program.accesses for g in a.context.guards]
    found: dict[ir.Var, Span] = {}
    for condition, span in conditions:
        for source in _asked(condition, sources):
            found.setdefault(source, span)
    return found


def _asked(condition: Any, sources: dict[ir.Var, Any]) -> Iterator[ir.Var]:
    if isinstance(condition, X.And | X.Or):
        yield from _asked(condition.a, sources)
        yield from _asked(condition.b, sources)
    elif isinstance(condition, X.Not):
        yield from _asked(condition.a, sources)
    elif isinstance(condition, X.LT | X.LE | X.GT | X.GE | X.EQ | X.NE):
        sides = (
            (condition.a, as_int(condition.b), X.LT | X.GE),
            (condition.b, as_int(condition.a), X.GT | X.LE),
        )
        for value, limit, about_zero in sides:
            source = _loaded(value, sources)
            # `x < 0` and `x >= 0` are about the sign; `x > 0` asks whether a count is none.
            sign = limit is not None and (limit < 0 or (limit == 0 and isinstance(condition, about_zero)))
            if source is not None and sign:
                yield source


def _loaded(value: Any, sources: dict[ir.Var, Any]) -> ir.Var | None:
    """The table of signed integers that a value is read from, with a number or a variable added at most; none
    where that number makes an element -1, the padding, the first place.
    """
    value = without_casts(value)
    if isinstance(value, X.Sub) and (as_int(value.b) or 0) > 0:
        return _loaded(value.a, sources)
    if isinstance(value, X.Add):
        if (as_int(value.a) or 0) > 0 or (as_int(value.b) or 0) > 0:
            return None
        left = _loaded(value.a, sources)
        return _loaded(value.b, sources) if left is None else left
    if isinstance(value, ir.Var):
        return _loaded(sources[value], sources) if value in sources else None
    if isinstance(value, ir.TensorLoad) and str(value.ty).startswith("int"):
        return value.source
    return None


def _guarded(subject: Subject, context: Context, source: ir.Var, sources: dict[ir.Var, Any]) -> bool:
    """Whether any condition around, or one that leaves an iteration around early, has to do with the table;
    what exactly it says does not matter.
    """
    leaving = subject.shared(_leaving)
    conditions = [g.condition for g in context.guards]
    conditions += [c for loop in context.loops for c in leaving.get(loop, ())]
    for condition in conditions:
        inside = free_vars(condition)
        if source in inside or any(source in free_vars(sources[v]) for v in inside if v in sources):
            return True
    return False


def _leaving(subject: Subject) -> dict[Loop, list[Any]]:
    """The conditions of each loop that end it, or one of its iterations."""
    found: dict[Loop, list[Any]] = {}
    for node in walk(subject.program.body):
        if isinstance(node, For) and node.loop in subject.loops_with_jumps:
            ends = [n for n in walk(node.body) if isinstance(n, If) and any(map(_is_jump, walk([n])))]
            found[node.loop] = [n.condition for n in ends]
            if node.loop.kind == "while":
                found[node.loop].append(node.condition)
    return found


def _is_jump(node: Node) -> bool:
    return isinstance(node, Jump)
