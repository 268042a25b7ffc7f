"""missing-pipeline: a loop that loads tiles and multiplies them in turn, so that neither hides the other."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.contents import History, histories
from tilelang.analysis.shared_memory import filled_from_global, shared_tiles
from tilelang.analysis.subject import Subject
from tilelang.arch.tables import features, limits
from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.rules.performance import MISSING_PIPELINE
from tilelang.ir.tile_program import Do, For, Loop, OpRecord, walk
from tilelang.ir.values import Buffer, Unknown, as_int
from tilelang.ops.source_edits import callee_edit, last_argument, text_of

_STAGES = 2
_SPELLINGS = ("range", "serial", "Serial", "Pipelined")


def check(subject: Subject) -> Iterator[Problem]:
    """Only where copies can run ahead, and where two versions of the tiles fit into shared memory."""
    if not features(subject.target).async_copies:
        return
    viewed = {b.storage for b in subject.program.buffers if b.view_of is not None}
    by_buffer = {h.buffer: h for h in subject.shared(histories)}
    for node in walk(subject.program.body):
        if not isinstance(node, For) or not _runs_in_turn(subject, node.loop):
            continue
        records = [n.record for n in node.body if isinstance(n, Do)]
        loads = {b: r for r in records if (b := filled_from_global(r)) is not None and b not in viewed}
        product = next((r for r in records if r.op == "gemm" and _operands(r) & loads.keys()), None)
        ahead = [b for b in loads if _may_run_ahead(by_buffer.get(b), node.loop)]
        if product is None or not ahead or not _fits(subject, ahead):
            continue
        yield MISSING_PIPELINE.at(
            node.loop.span,
            fixes=_fixes(subject, node.loop, product),
            tiles=" and ".join(b.name for b in ahead),
            var=node.loop.vars[0].name,
        )


def _runs_in_turn(subject: Subject, loop: Loop) -> bool:
    """A loop of several iterations, one after the other, that cannot end early and of whose stages nothing is
    said: who writes `num_stages=0` has chosen.
    """
    plain = loop.kind in ("serial", "Pipelined") and "num_stages" not in loop.annotations
    count = as_int(loop.extents[0]) if len(loop.extents) == 1 else 0
    by_hand = any(name in loop.annotations for name in ("order", "stage"))
    one_by_one = as_int(loop.step) == 1
    return (
        plain
        and not isinstance(loop.extents[0], Unknown)  # nor are its stages known then
        and one_by_one
        and not by_hand
        and (count is None or count > 2)
        and loop not in subject.loops_with_jumps
    )


def _operands(record: OpRecord) -> set[Buffer]:
    regions = (record.region(name) for name in ("A", "B"))
    return {r.buffer for r in regions if r is not None}


def _may_run_ahead(history: History | None, loop: Loop) -> bool:
    """Whether the loop alone fills and reads the tile, the filling first."""
    if history is None or history.escaped:
        return False
    inside = [t for t in history.touches if any(x is loop for x in t.context.loops)]
    return (
        len(inside) == len(history.touches)
        and inside[0].mode == "write"
        and all(t.mode == "read" for t in inside[1:])
    )


def _fits(subject: Subject, ahead: list[Buffer]) -> bool:
    tiles = subject.shared(shared_tiles)
    limit = limits(subject.target).shared_bytes or 0
    sizes = [t.storage for t in tiles]
    more = [t.storage for t in tiles if t.buffer in ahead]
    if None in sizes:
        return False
    return sum(s or 0 for s in sizes) + sum(s or 0 for s in more) <= limit


def _fixes(subject: Subject, loop: Loop, product: OpRecord) -> tuple[Fix, ...]:
    """`num_stages=2` on the loop; a serial one becomes T.Pipelined, spelled as the gemm beside it."""
    title = f"Use T.Pipelined with num_stages={_STAGES}"
    spelled = text_of(product.callee_span, subject.text)
    behind = last_argument(loop.span, subject.text)
    callee = callee_edit(loop.span, subject.text, spelled.removesuffix("gemm") + "Pipelined")
    if behind is None or callee is None or not spelled.endswith("gemm"):
        return ()
    if text_of(callee.span, subject.text).rpartition(".")[2] not in _SPELLINGS:
        return ()
    return (Fix(title, (callee, Edit(behind, f", num_stages={_STAGES}"))),)
