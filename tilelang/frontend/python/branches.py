"""`if`: folded when Python can decide, a branch of the kernel when traced, forked and joined when unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tvm import ir

from tilelang.diagnostics.rules.python import UNSUPPORTED_PYTHON
from tilelang.diagnostics.span import Span
from tilelang.frontend.constants import not_given
from tilelang.frontend.local_names import assigned_names
from tilelang.frontend.model import NO_VALUE, Flow, Missing, PrimFunction
from tilelang.frontend.names import same
from tilelang.frontend.operations.intrinsics import choose, condition_guard
from tilelang.frontend.operations.thread_returns import drop_returns, go_on_without, returns
from tilelang.frontend.operators import as_bool, fold
from tilelang.frontend.python.loops import truth
from tilelang.frontend.python.plain_functions import note_kernel_statement
from tilelang.frontend.regions import (
    Changes,
    Reads,
    join,
    reads_of_loops,
    set_reads,
    take_changes,
    traced_region,
)
from tilelang.frontend.run import Run
from tilelang.frontend.same_operands import note_same_branches
from tilelang.frontend.scalars import scalar
from tilelang.ir.tile_program import Context, Guard, If, Node
from tilelang.ir.values import Buffer, Region, Unknown


def if_statement(run: Run, node: ast.If, built: bool = False) -> Flow | None:
    """`if test: ... else: ...`. built: written as `with T.If(test)`, which plain functions may hold."""
    value = run.eval(node.test)
    if isinstance(value, Buffer | Region | ir.Expr):
        value = fold(scalar(run, value, run.span(node.test)))
    if isinstance(value, ir.Expr):
        condition = fold(as_bool(value))
        if isinstance(condition, ir.Expr):
            lost = not_given(run, condition)
            return _traced(run, node, condition, built) if lost is None else _undecided(run, node, lost)
        value = condition
    decided = value if isinstance(value, Unknown) else truth(value)
    if isinstance(decided, Unknown):
        return _undecided(run, node, decided)
    _note_missing(run, node.orelse if decided else node.body)
    return run.exec(node.body if decided else node.orelse)


def _note_missing(run: Run, skipped: list[ast.stmt]) -> None:
    """Remember where names stand that only the branch not taken would bind."""
    for name, span in assigned_names(run.source, skipped).items():
        if run.scope.names.get(name, NO_VALUE) is NO_VALUE and name in run.scope.locals:
            run.scope.names[name] = Missing(span)


def _traced(run: Run, node: ast.If, condition: Any, built: bool) -> Flow | None:
    if not built:
        note_kernel_statement(run, run.span(node.test), "the `if`")
    made = If(condition, [], [], run.span(node.test))
    run.emit(made)
    depth = len(run.context.loops)
    with traced_region(run, "branch", run.span(node.test)) as region:
        before = reads_of_loops(run)
        first_flow = _branch(run, node, node.body, made.body, Guard(condition, False, made.span, depth))
        first = take_changes(run, region)
        region.bound.clear()
        read = reads_of_loops(run)
        set_reads(run, before)
        second_flow = _branch(run, node, node.orelse, made.orelse, Guard(condition, True, made.span, depth))
        set_reads(run, read, reads_of_loops(run))
        second = take_changes(run, region)
    # A branch that jumps out of the loop does not reach what follows.
    if _jumps(first_flow) or returns(made.body):
        first = second
    elif _jumps(second_flow) or returns(made.orelse):
        second = first
    join(run, region, first, second, undecided=False)
    if returns(made.body) or returns(made.orelse):
        go_on_without(run, made)
    for flow in (first_flow, second_flow):
        if flow is not None and flow.kind == "return":
            what = "a `return` cannot stand under a condition of the kernel"
            run.report(UNSUPPORTED_PYTHON, flow.span or made.span, what=what)
        if flow is not None and flow.kind == "raise":
            what = "a `raise` cannot stand under a condition of the kernel"
            run.report(UNSUPPORTED_PYTHON, flow.span or made.span, what=what)
    return first_flow if _jumps(first_flow) and _jumps(second_flow) else None


def _jumps(flow: Flow | None) -> bool:
    return flow is not None and flow.kind == "jump"


def _branch(run: Run, node: ast.If, body: list[ast.stmt], block: list[Node], guard: Guard) -> Flow | None:
    context = Context(run.context.loops, (*run.context.guards, guard), run.context.maybe)
    with run.nested(block, context):
        return run.exec(body)


def _undecided(run: Run, node: ast.If, reason: Unknown) -> Flow | None:
    return undecided(
        run, run.span(node.test), reason, lambda: run.exec(node.body), lambda: run.exec(node.orelse)
    )


def undecided(
    run: Run, span: Span, reason: Unknown, first: Callable[[], Flow | None], second: Callable[[], Flow | None]
) -> Flow | None:
    """Both ways, each one perhaps not taken; what they return joins."""
    run.complete = False
    made = If(reason, [], [], span)
    run.emit(made)
    context = Context(run.context.loops, run.context.guards, True)
    flows: list[Flow | None] = []
    changes: list[Changes] = []
    reads: list[Reads] = []
    with traced_region(run, "branch", span) as region:
        before = reads_of_loops(run)
        for way, block in ((first, made.body), (second, made.orelse)):
            set_reads(run, before)
            with run.nested(block, context):
                flows.append(way())
            reads.append(reads_of_loops(run))
            changes.append(take_changes(run, region))
            region.bound.clear()
        set_reads(run, *reads)
    one, two = flows
    ends = [returns(made.body), returns(made.orelse)]  # for all threads that come here
    if (_leaves(one) or ends[0]) and not (_leaves(two) or ends[1]):
        changes[0] = changes[1]
    elif (_leaves(two) or ends[1]) and not (_leaves(one) or ends[0]):
        changes[1] = changes[0]
    join(run, region, changes[0], changes[1], undecided=True)
    dropped = [drop_returns(made.body), drop_returns(made.orelse)]
    if any(dropped):  # which threads do what follows is not known
        run.context = Context(run.context.loops, run.context.guards, True)
    return _join_flows(run, one, two)


def _leaves(flow: Flow | None) -> bool:
    return flow is not None


def _join_flows(run: Run, one: Flow | None, two: Flow | None) -> Flow | None:
    if one is not None and two is not None:
        if one.kind == "raise":
            return two
        if two.kind == "raise":
            return one
        if one.kind == two.kind == "return":
            return one if one.value is two.value else Flow("return", _joined_return(one.value, two.value))
        return one
    left = one or two
    if left is not None and left.kind == "return":
        run.maybe_returned.append(left.value)
    if left is not None and left.kind != "raise":
        # What follows runs only if this branch was not taken. A check that raises promises that it was not.
        run.context = Context(run.context.loops, run.context.guards, True)
    return None


def _joined_return(one: Any, two: Any) -> Any:
    """What a function returns if either branch may be taken: a kernel rather than nothing."""
    if isinstance(one, PrimFunction):
        return one
    return (
        two
        if isinstance(two, PrimFunction)
        else Unknown("the value depends on a condition that is not known")
    )


def conditional(run: Run, node: ast.IfExp) -> Any:
    """`a if test else b`."""
    test = run.eval(node.test)
    span = run.span(node.test)
    if isinstance(test, Buffer | Region | ir.Expr):
        test = fold(scalar(run, test, span))
    lost = not_given(run, test)
    if isinstance(test, ir.Expr) and lost is None:
        with condition_guard(run, test, False, span):
            yes = scalar(run, run.eval(node.body), run.span(node.body))
        with condition_guard(run, test, True, span):
            no = scalar(run, run.eval(node.orelse), run.span(node.orelse))
        for value, part in ((yes, node.body), (no, node.orelse)):
            if not isinstance(value, ir.Expr | bool | int | float | Unknown):
                what = f"a {type(value).__name__} cannot be chosen by a condition of the kernel"
                return run.report(UNSUPPORTED_PYTHON, run.span(part), what=what)
        note_same_branches(run, test, node.body, node.orelse, yes)
        return choose(run, test, yes, no)
    decided = lost if lost is not None else test if isinstance(test, Unknown) else truth(test)
    if isinstance(decided, Unknown):
        with run.guarded(maybe=True):
            yes, no = run.eval(node.body), run.eval(node.orelse)
        return yes if same(yes, no) else decided
    return run.eval(node.body if decided else node.orelse)
