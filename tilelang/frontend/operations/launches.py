"""What every launch goes through, whichever way it is written (`T.Kernel`, `T.launch_thread`)."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.diagnostics.problem import Related
from tilelang.diagnostics.rules.order import LOOP_AROUND_LAUNCH
from tilelang.diagnostics.rules.python import UNSUPPORTED_PYTHON
from tilelang.frontend.model import Flow, Frame
from tilelang.frontend.operations.builder_values import refuse_unbound
from tilelang.frontend.operations.thread_returns import refuse_others
from tilelang.frontend.regions import leave_loop, traced_region
from tilelang.frontend.run import Run, StopInterpreting
from tilelang.ir.tile_program import Alloc, Launch
from tilelang.ir.values import Unknown, as_int

SOURCE_ENTRY = "tl.source_entry"  # attribute of the function: the entry of a hand-written kernel
_MAX_LAUNCHES = 256  # of one launch that is written in loops of the function


def may_launch(run: Run, frame: Frame) -> bool:
    """Whether a launch can stand here; it is told where it cannot."""
    if run.signature.stop_at_launch:
        raise StopInterpreting
    if run.launch is not None:
        run.report(UNSUPPORTED_PYTHON, frame.span, what="a launch cannot stand inside another one")
        return False
    if run.attrs.get(SOURCE_ENTRY) is not None:
        what = "a launch beside a T.CUDASourceCodeKernel: put it into a function of its own"
        run.report(UNSUPPORTED_PYTHON, frame.span, what=what)
        return False
    return not _repeated(run, frame)


def launched(run: Run, launch: Launch, inside: Callable[[], Flow | None]) -> Flow | None:
    """The launch around the statements that `inside` interprets."""
    # Tiles may be allocated before the launch; they are memory of its blocks all the same.
    launch.body.extend(n for n in run.block if isinstance(n, Alloc))
    run.block[:] = [n for n in run.block if not isinstance(n, Alloc)]
    run.emit(launch)
    run.launch, run.launched = launch, True
    first = len(run.accesses)
    try:
        with run.nested(launch.body), traced_region(run, "launch", launch.span) as region:
            flow = inside()
    finally:
        run.launch = None
        launch.accesses = first, len(run.accesses)
    refuse_others(run, launch)
    refuse_unbound(run)
    leave_loop(run, region, launch=True)
    return None if flow is not None and flow.kind == "return" and flow.value is None else flow


def _repeated(run: Run, frame: Frame) -> bool:
    """Whether the loops around a launch ask for more launches than are prepared, which is told then."""
    count = 1
    for loop in run.context.loops:
        if any(isinstance(n, Unknown) for n in loop.extents):
            continue
        extents = [as_int(n) for n in (*loop.mins, *loop.extents)]
        if loop.kind == "while" or None in extents:
            around = "the `while` loop" if loop.kind == "while" else "this loop"
            there = (Related(frame.span, "the launch in it"),)
            run.report(LOOP_AROUND_LAUNCH, loop.span, related=there, loop=around)
            return True
        for extent in extents[len(loop.mins) :]:
            count *= extent or 0
    before = run.launch_counts.get(frame.span, 0)  # of loops that Python ran through
    run.launch_counts[frame.span] = before + count
    if before > _MAX_LAUNCHES:  # told
        return True
    if before + count > _MAX_LAUNCHES:
        at_least = f"{count} iterations" if not before else f"more than {_MAX_LAUNCHES} iterations"
        what = f"a launch in a loop of the function with {at_least}: a launch per iteration is prepared "
        run.report(UNSUPPORTED_PYTHON, frame.span, what=f"{what}beforehand, and no more than {_MAX_LAUNCHES}")
        return True
    return False
