"""Several launches in one kernel: one function for each, in order.

In:  a tile function whose body is one or more launches (`thread_extent` attributes), one after the other.
Out: a function for each launch with the same parameters. The first keeps the name, the others are `<name>_1`,
     `<name>_2`, ...; views that a launch uses but an earlier one declared are declared again.
Not: anything for functions with one launch.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.ir.tile_ops import seq
from tilelang.passes.walk import remake, uses, walk


def split_launches(func: X.PrimFunc) -> list[X.PrimFunc]:
    """Apply the pass."""
    parts = _flat(func.body)
    launches = [p for p in parts if isinstance(p, X.AttrStmt) and p.attr_key == "thread_extent"]
    if len(launches) < 2 or len(launches) < len(parts):
        return [func]
    name = str(func.attrs["global_symbol"])
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
        made.append(part.with_attr("global_symbol", f"{name}_{k}") if k else part)
    return made


def _flat(stmt: Any) -> list[Any]:
    return [q for s in stmt.seq for q in _flat(s)] if isinstance(stmt, X.SeqStmt) else [stmt]


def _inside(stmt: Any, first: list[Any]) -> Any:
    """`stmt` with `first` at the beginning of what each thread does."""
    if isinstance(stmt, X.AttrStmt):
        return remake(stmt, lambda s: _inside(s, first))
    return seq([*first, *_flat(stmt)])
