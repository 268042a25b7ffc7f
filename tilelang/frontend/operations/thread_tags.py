"""T.env_thread: a number of a thread or block by its tag, `threadIdx.x`, before it is launched."""

from __future__ import annotations

from typing import Any

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.run import Run
from tilelang.ir.values import Unknown

# Tag -> (blockIdx or threadIdx, which dimension).
TAGS = {f"{kind}.{axis}": (kind, k) for kind in ("blockIdx", "threadIdx") for k, axis in enumerate("xyz")}


def env_thread(run: Run, call: Bound) -> Any:
    """The number, to be launched later."""
    tag = call.value("thread_tag")
    if isinstance(tag, Unknown):
        run.complete = False
        return tag
    if tag not in TAGS:
        what = f"`thread_tag` is one of {', '.join(map(repr, TAGS))}, not {tag!r}"
        return run.report(BAD_ARGUMENTS, call.span_of("thread_tag"), callee=call.callee, what=what)
    var = run.fresh(run.binding_name[0] if run.binding_name else short_name(tag))
    run.env_threads[var] = tag
    return var


def short_name(tag: str) -> str:
    """`threadIdx.x` -> "tx"."""
    return tag[0] + tag[-1]
