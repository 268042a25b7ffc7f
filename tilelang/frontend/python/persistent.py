"""`for m, n in T.Persistent(domain, wave_size, index)`: the tiles of one block as a loop over waves."""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS, UNSUPPORTED_PYTHON
from tilelang.frontend.model import Flow, Frame
from tilelang.frontend.operations.intrinsics import ceildiv, minimum
from tilelang.frontend.operators import binary, literal
from tilelang.frontend.python.targets import assign
from tilelang.frontend.regions import leave_loop, traced_region
from tilelang.frontend.run import LoopEntry, Run
from tilelang.frontend.scalars import any_unknown
from tilelang.frontend.tensors import read_size
from tilelang.ir.tile_program import Context, For, Guard, If, Loop
from tilelang.ir.values import Unknown, as_int


def persistent_loop(run: Run, node: ast.For, frame: Frame) -> Flow | None:
    """Tile `w * wave_size + index` in wave w. Groups of the last dimension are innermost."""
    given, span = frame.arguments, frame.span
    domain = given.get("domain")
    if not isinstance(domain, tuple | list) or not domain:
        if isinstance(domain, Unknown):
            run.complete = False
        else:
            what = "`domain` must be a list of extents, one for each variable of the loop"
            run.report(BAD_ARGUMENTS, frame.spans.get("domain", span), callee="T.Persistent", what=what)
        assign(run, node.target, Unknown("the tiles are not known"), of_loop=True)
        return None

    def size(name: str, default: Any = None) -> Any:
        return read_size(run, given.get(name, default), frame.spans.get(name, span), f"`{name}`")

    extents = [read_size(run, e, frame.spans.get("domain", span), "an extent") for e in domain]
    waves, index = size("wave_size"), size("index")
    group = (
        extents[-1] if given.get("group_size", 8) is None else minimum_of(size("group_size", 8), extents[-1])
    )
    lost = any_unknown([*extents, waves, index, group])
    if lost is not None:
        run.complete = False
        assign(run, node.target, lost, of_loop=True)
        return None
    # The last dimension is filled up to whole groups; what lies beyond it is skipped.
    total: Any = binary(ast.Mult, ceildiv(extents[-1], group), group)
    for extent in extents[:-1]:
        total = binary(ast.Mult, total, extent)
    stages = given.get("num_stages", 0)
    var = run.fresh("w")
    kind: Any = "Pipelined" if as_int(stages) else "serial"
    notes = {"num_stages": stages} if as_int(stages) else {}
    loop = Loop(kind, (var,), (0,), (ceildiv(total, waves),), span, 1, notes)
    number = binary(ast.Add, binary(ast.Mult, var, waves), index)
    rest = binary(ast.FloorDiv, number, group)
    values = []
    for extent in reversed(extents[:-1]):
        values.append(binary(ast.Mod, rest, extent))
        rest = binary(ast.FloorDiv, rest, extent)
    last = binary(ast.Add, binary(ast.Mult, rest, group), binary(ast.Mod, number, group))
    inside = X.And(X.LT(_expr(number), _expr(total)), X.LT(_expr(last), _expr(extents[-1])))
    return _body(run, node, loop, inside, (*reversed(values), last))


def minimum_of(a: Any, b: Any) -> Any:
    """The smaller of two sizes, either unknown."""
    lost = any_unknown([a, b])
    return lost if lost is not None else minimum(a, b)


def _expr(value: Any) -> Any:
    return value if isinstance(value, ir.Expr) else literal(int(value))


def _body(run: Run, node: ast.For, loop: Loop, inside: Any, values: tuple[Any, ...]) -> Flow | None:
    branch = If(inside, [], [], loop.span)
    run.emit(For(loop, [branch]))
    guards = (*run.context.guards, Guard(inside, False, loop.span))
    context = Context((*run.context.loops, loop), guards, run.context.maybe)
    with run.nested(branch.body, context), traced_region(run, "loop", loop.span) as region:
        run.loops.append(LoopEntry(True, len(run.regions)))
        single = not isinstance(node.target, ast.Tuple | ast.List)
        assign(run, node.target, values[0] if single and len(values) == 1 else values, of_loop=True)
        flow = run.exec(node.body)
        run.loops.pop()
    leave_loop(run, region)
    if flow is not None and flow.kind == "return":
        run.report(UNSUPPORTED_PYTHON, loop.span, what="a `return` cannot stand inside a loop of the kernel")
    if node.orelse:
        run.report(UNSUPPORTED_PYTHON, run.span(node.orelse[0]), what="a loop of the kernel has no `else`")
    return None
