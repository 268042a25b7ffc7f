"""negative-index: an index read from memory that the kernel itself takes to be negative at times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.bounds import NEGATIVE_INDEX
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Bind, If, walk
from tilelang.ir.values import as_int, show
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
    for access in subject.program.accesses:
        if access.buffer.scope not in _SCOPES or len(access.indices) != len(access.buffer.shape):
            continue
        for index in access.indices:
            source = _loaded(index.start, sources)
            if source is None or source not in tested or _guarded(access.context.guards, source, sources):
                continue
            yield NEGATIVE_INDEX.at(
                index.span,
                related=(
                    Related(tested[source], f"negative values of {source.name} are expected here"),
                    *declared(access.buffer),
                ),
                index=show(index.start),
                buffer=access.buffer.name,
                source=source.name,
                line=tested[source].line,
                scope=_SCOPES[access.buffer.scope],
            )


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
        for value, limit in ((condition.a, as_int(condition.b)), (condition.b, as_int(condition.a))):
            source = _loaded(value, sources)
            if source is not None and limit is not None and _is_about_sign(condition, limit):
                yield source


def _is_about_sign(condition: Any, limit: int) -> bool:
    return limit < 0 or (limit == 0 and not isinstance(condition, X.EQ | X.NE))


def _loaded(value: Any, sources: dict[ir.Var, Any]) -> ir.Var | None:
    """The table of signed integers that a value is read from, with a constant or a variable added at most."""
    while isinstance(value, X.Cast):
        value = value.value
    if isinstance(value, X.Add):
        left = _loaded(value.a, sources)
        return _loaded(value.b, sources) if left is None else left
    if isinstance(value, ir.Var):
        return _loaded(sources[value], sources) if value in sources else None
    if isinstance(value, ir.TensorLoad) and str(value.ty).startswith("int"):
        return value.source
    return None


def _guarded(guards: Any, source: ir.Var, sources: dict[ir.Var, Any]) -> bool:
    """Whether any condition around has to do with the table; what exactly it says does not matter."""
    for guard in guards:
        inside = free_vars(guard.condition)
        if source in inside or any(source in free_vars(sources[v]) for v in inside if v in sources):
            return True
    return False
