"""T.thread_return: threads that are done, as an `if` around what the others still do.

`if c: T.thread_return()` in the body of a launch makes the rest of it the other branch of that `if`. A jump
of kind `return` marks the place until then; one that is left at the end stands where that cannot be done.
"""

from __future__ import annotations

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.run import Run
from tilelang.ir.tile_program import Context, For, Guard, If, Jump, Launch, Node, walk


def thread_return(run: Run, call: Bound) -> None:
    """Mark where threads leave the kernel."""
    run.emit(Jump("return", call.span))


def returns(block: list[Node]) -> bool:
    """Whether a branch ends with T.thread_return."""
    return bool(block) and isinstance(block[-1], Jump) and block[-1].kind == "return"


def go_on_without(run: Run, made: If) -> None:
    """Let what follows `made`, one of whose branches leaves the kernel, stand in the other branch."""
    if run.launch is None or not any(run.block is b for b in (run.launch.body, *run.rest_of_launch)):
        return
    leaves, stays = (made.body, made.orelse) if returns(made.body) else (made.orelse, made.body)
    if returns(stays):
        return
    leaves.pop()
    run.rest_of_launch.append(stays)
    run.block = stays
    guard = Guard(made.condition, leaves is made.body, made.span)
    run.context = Context(run.context.loops, (*run.context.guards, guard), run.context.maybe)


def drop_returns(block: list[Node]) -> bool:
    """Take the marks out of a branch that may not be taken; whether there were any."""
    found = False
    for node in list(block):
        if isinstance(node, Jump) and node.kind == "return":
            block.remove(node)
            found = True
        elif isinstance(node, If):
            inside = [drop_returns(node.body), drop_returns(node.orelse)]
            found = found or any(inside)
        elif isinstance(node, For):
            found = drop_returns(node.body) or found
    return found


def refuse_others(run: Run, launch: Launch) -> None:
    """bad-arguments for every T.thread_return that stands elsewhere."""
    run.rest_of_launch.clear()
    for node in walk(launch.body):
        if isinstance(node, Jump) and node.kind == "return":
            what = (
                "is supported at the end of an `if` that stands directly in the body of the kernel, in no "
                "loop and no other branch; put what the other threads do under a condition"
            )
            run.report(BAD_ARGUMENTS, node.span, callee="T.thread_return", what=what)
