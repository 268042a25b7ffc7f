"""Several launches in one kernel: one function for each, in order.

In:  a tile function whose body is one or more launches (`thread_extent` attributes), one after the other, on
     their own or in a condition or a counted loop of the function.
Out: a function for each launch with the same parameters. The others say which they are by the attribute
     `LAUNCH`; views that a launch uses but an earlier one declared are declared again. A condition around a
     launch is asked by each of its threads, a loop around launches becomes one launch per iteration.
Not: anything for functions that are one launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import tirx as X

from tilelang.ir.tile_ops import seq
from tilelang.passes.accesses import accesses, all_accesses, storages
from tilelang.passes.walk import children, constant, index, remake, substitute, uses, walk

LAUNCH = "tl.launch"  # function attribute: the number of the launch, absent for the first


def split_launches(func: X.PrimFunc) -> list[X.PrimFunc]:
    """Apply the pass.

    Raises ValueError for a loop around launches whose iterations are not known when it is compiled, for what
    is read outside of launches and written in one, and for what is written outside of all.
    """
    parts = _flat(func.body)
    launches = [p for p in parts if _is_launch(p)]
    if not any(_has_launch(p) for p in parts if not _is_launch(p)) and len(launches) < 2:
        return [func]
    if len(launches) < len(parts):
        _refuse_changed(func.body)
        launches = _launches(func.body)
    made = []
    views: list[Any] = []
    for k, launch in enumerate(launches):
        declared = {s.buffer.__chandle__() for s in walk(launch) if isinstance(s, X.DeclBuffer)}
        missing = [
            v
            for v in views
            if v.buffer.__chandle__() not in declared and uses(launch, {v.buffer.__chandle__()})
        ]
        views += [s for s in walk(launch) if isinstance(s, X.DeclBuffer) and s.buffer.scope() == "global"]
        body = _inside(launch, missing) if missing else launch
        part = func.with_body(body)
        made.append(part.with_attr(LAUNCH, k) if k else part)
    return made


def _is_launch(stmt: Any) -> bool:
    return isinstance(stmt, X.AttrStmt) and stmt.attr_key == "thread_extent"


def _has_launch(stmt: Any) -> bool:
    return any(_is_launch(s) for s in walk(stmt))


def _refuse_changed(body: Any) -> None:
    """What stands around launches is computed by each of their threads: it must be the same for all."""
    views = storages(body)
    handles = {a.buffer.__chandle__() for a in all_accesses(body) if a.mode == "write"}
    written = {views.get(handle, handle) for handle in handles}
    for access in (a for stmt in _around(body) for a in accesses(stmt) if a.mode == "read"):
        handle = access.buffer.__chandle__()
        if views.get(handle, handle) in written:
            name = access.buffer.name
            raise ValueError(
                f"{name} is read outside of T.Kernel and written in a launch, so only a host could keep what "
                f"it was: decide by a tensor that no launch writes, or read {name} inside of T.Kernel"
            )


def _around(stmt: Any) -> Iterator[Any]:
    """The statements of the function that stand in no launch."""
    if not _is_launch(stmt):
        yield stmt
        for child in children(stmt):
            yield from _around(child)


def _launches(stmt: Any) -> list[Any]:
    """The launches of a statement of the function, as they run one after the other."""
    if _is_launch(stmt):
        return [stmt]
    if isinstance(stmt, X.SeqStmt):
        return _in_order(list(stmt.seq))
    if isinstance(stmt, X.IfThenElse):
        then = [_where(stmt.condition, n) for n in _launches(stmt.then_case)]
        if stmt.else_case is None:
            return then
        return then + [_where(X.Not(stmt.condition), n) for n in _launches(stmt.else_case)]
    if isinstance(stmt, X.For):
        first, extent, step = constant(stmt.min), constant(stmt.extent), constant(stmt.step or 1)
        if first is None or extent is None or step is None:
            raise ValueError(
                f"the iterations of the loop `{stmt.loop_var.name}` around launches are not known"
            )
        values = [index(i) for i in range(first, first + extent, step)]
        return [n for i in values for n in _launches(substitute(stmt.body, {stmt.loop_var: i}))]
    if _has_launch(stmt):
        raise ValueError("a launch stands in a statement of the function that only a host could run")
    if any(a.mode == "write" for a in all_accesses(stmt)):
        raise ValueError("something is written outside of T.Kernel beside several launches: none does it")
    return []


def _in_order(stmts: list[Any]) -> list[Any]:
    """The launches of a sequence; what names stand for (`X.Bind`) is put in their place."""
    made: list[Any] = []
    for k, stmt in enumerate(stmts):
        if isinstance(stmt, X.Bind):
            rest = substitute(seq(stmts[k + 1 :]), {stmt.var: stmt.value}) if stmts[k + 1 :] else None
            return made + (_launches(rest) if rest is not None else [])
        made += _launches(stmt)
    return made


def _where(condition: Any, launch: Any) -> Any:
    """The launch, whose threads do nothing unless `condition` holds. Memory stays that of the block."""
    if isinstance(launch, X.AttrStmt):
        return remake(launch, lambda s: _where(condition, s))
    parts = _flat(launch)
    allocated = [s for s in parts if isinstance(s, X.AllocBuffer | X.DeclBuffer)]
    rest = [s for s in parts if not isinstance(s, X.AllocBuffer | X.DeclBuffer)]
    return seq([*allocated, X.IfThenElse(condition, seq(rest), None)]) if rest else launch


def _flat(stmt: Any) -> list[Any]:
    return [q for s in stmt.seq for q in _flat(s)] if isinstance(stmt, X.SeqStmt) else [stmt]


def _inside(stmt: Any, first: list[Any]) -> Any:
    """`stmt` with `first` at the beginning of what each thread does."""
    if isinstance(stmt, X.AttrStmt):
        return remake(stmt, lambda s: _inside(s, first))
    return seq([*first, *_flat(stmt)])
