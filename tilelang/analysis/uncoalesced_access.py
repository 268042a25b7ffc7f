"""uncoalesced-access: neighbouring threads touch global memory far apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from tilelang.analysis.subject import Subject
from tilelang.analysis.warp_accesses import WarpAccess, warp_accesses
from tilelang.analysis.written_statements import expression_span, statements_around
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.rules.performance import UNCOALESCED_ACCESS, UNCOALESCED_STRIDE
from tilelang.ir.tile_program import Loop
from tilelang.ir.values import Unknown, as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip

_SECTOR = 32  # bytes that the memory of NVIDIA GPUs moves at a time (CUDA C++ Best Practices Guide 10.2.1)
_MUCH = 4  # times as many sectors as the elements fill


def check(subject: Subject) -> Iterator[Problem]:
    """Where another variable of T.Parallel, or a loop of each thread, runs along the rows, so that exchanging
    the two would help.
    """
    if not features(subject.target).spreads_blocks:
        return
    for one in subject.shared(warp_accesses):
        if one.access.buffer.scope != "global" or one.width > 1:
            continue
        addresses = set(one.addresses())
        sectors = {a * one.bytes // _SECTOR for a in addresses}
        needed = -(-len(addresses) * one.bytes // _SECTOR)
        along = _along_rows(one)
        if len(sectors) < _MUCH * needed:
            continue
        if along is None and not (one.merges or one.rows):
            continue
        if along is None:
            apart = {b - a for a, b in pairwise(one.addresses())}
            if len(apart) == 1:
                yield UNCOALESCED_STRIDE.at(
                    one.access.span,
                    related=declared(one.access.buffer),
                    buffer=one.access.buffer.name,
                    apart=_apart(one, apart.pop()),
                    sectors=len(sectors),
                    needed=needed,
                    size=_SECTOR,
                )
            continue
        yield UNCOALESCED_ACCESS.at(
            one.access.span,
            related=declared(one.access.buffer),
            fixes=_exchange(subject, one, along),
            buffer=one.access.buffer.name,
            last=one.variables[-1].name,
            along=along.name,
            sectors=len(sectors),
            needed=needed,
            size=_SECTOR,
        )


def _apart(one: WarpAccess, elements: int) -> str:
    """How far apart neighbouring threads are: in elements where the strides are numbers, else in rows."""
    first, second = one.indices[0], one.indices[1]
    changed = [k for k, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    extents = [None if isinstance(n, Unknown) else as_int(n) for n in one.access.buffer.shape]
    known = one.access.buffer.strides is None and None not in extents[min(changed) + 1 :]
    return f"{abs(elements)} elements apart" if known else "rows apart"


def _along_rows(one: WarpAccess) -> ir.Var | None:
    """The loop variable that walks along the last dimension, if it is not the last variable."""
    for var in one.variables[:-1] if one.forms else ():
        if one.forms[-1].coefficient(var) == 1 and not any(f.coefficient(var) for f in one.forms[:-1]):
            return var
    return None


def _exchange(subject: Subject, one: WarpAccess, along: ir.Var) -> tuple[Fix, ...]:
    """Exchange `along` and the last variable of the loop, where no access of global memory gets worse."""
    loop = next((x for x in one.access.context.loops if along in x.vars), None)
    last = one.variables[-1]
    if loop is None or loop.kind != "Parallel" or last not in loop.vars:
        return ()
    for other in subject.shared(warp_accesses):
        if other.access.buffer.scope != "global" or loop not in other.access.context.loops:
            continue
        if not other.forms or other.forms[-1].coefficient(last):
            return ()
    written = _as_written(subject, loop)
    if written is None:
        return ()
    k = loop.vars.index(along)
    edits = tuple(
        Edit(expression_span(subject, loop.span.path, part[to]), ast.unparse(part[of]))
        for part in written
        for to, of in ((k, -1), (-1, k))
    )
    return (Fix(f"Let {along.name} be the last variable", edits),)


def _as_written(subject: Subject, loop: Loop) -> tuple[list[ast.expr], list[ast.expr]] | None:
    """The variables and the extents of a loop, if both are written out one by one."""
    around = statements_around(subject, loop.span)
    match around[-1] if around else None:
        case ast.For(target=ast.Tuple(elts=names), iter=ast.Call(args=sizes) as call):
            here = expression_span(subject, loop.span.path, call) == loop.span
            plain = all(isinstance(n, ast.Name) for n in names)
            plain = plain and not any(isinstance(s, ast.Starred) for s in sizes)
            if here and plain and len(names) == len(loop.vars) == len(sizes):
                return names, sizes
    return None
