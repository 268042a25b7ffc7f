"""unmet-expectation: a barrier is told to wait for bytes that no copy brings.

A load by T.tma_copy tells its barrier itself how many bytes come, and they come. What is expected besides is
left over when all copies have arrived, and the barrier never opens (PTX ISA 9.7.13.15.5: a phase is complete
when no arrivals and no bytes are pending).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Edit, Fix, Problem, Related
from tilelang.diagnostics.rules.order import UNMET_EXPECTATION
from tilelang.diagnostics.span import Span
from tilelang.ir.expressions import loads_of
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Bind, Do, Evaluate, For, If, Launch, Loop, Node, Store
from tilelang.ir.values import Unknown, as_int
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import lone_statement_indent, span_text

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_EXPECTS = ("tl.mbarrier_expect_tx", "tl.mbarrier_arrive_expect_tx")
_WAITS = "tl.mbarrier_wait"
_ARRIVES = ("tl.mbarrier_init", "tl.mbarrier_arrive", "tl.mbarrier_arrive_remote")
_KNOWN = frozenset({*_ARRIVES, *_EXPECTS, _WAITS})  # none of them brings bytes


@dataclass(frozen=True)
class _Expectation:
    node: Evaluate
    bytes: int
    order: int
    loops: tuple[Loop, ...]


@dataclass
class _Barrier:
    """What the kernel does with the barriers of one allocation. `copies`: the spans of loads that tell it."""

    expectations: list[_Expectation] = field(default_factory=list)
    waits: list[tuple[int, tuple[Loop, ...], Span]] = field(default_factory=list)
    copies: list[Span] = field(default_factory=list)
    escapes: bool = False


def check(subject: Subject) -> Iterator[Problem]:
    """Barriers of which all uses are known, and expectations that surely come about and are waited for."""
    program = subject.program
    if not program.complete or program.unsupported or subject.target.kind != "cuda":
        return
    found: dict[ir.Var, _Barrier] = {}
    for order, (node, loops, sure) in enumerate(_nodes(program.body, (), True)):
        _note(found, node, order, loops, sure)
    buffers = {b.var: b for b in program.buffers if b.known and b.dtype == "uint64" and b.scope == "shared"}
    for source, barrier in found.items():
        if barrier.escapes or source not in buffers:
            continue
        for wanted in barrier.expectations:
            wait = next((w for w in barrier.waits if _follows(w, wanted)), None)
            if wait is None:
                continue
            copy = barrier.copies[0] if barrier.copies else None
            why = "no T.tma_copy names this barrier"
            if copy is not None:
                why = f"T.tma_copy (line {copy.line}) tells the barrier itself what it brings"
            related = () if copy is None else (Related(copy, "this copy expects its own bytes"),)
            yield UNMET_EXPECTATION.at(
                wanted.node.span,
                related=(*related, Related(wait[2], "waits for ever"), *declared(buffers[source])),
                fixes=_without(subject, wanted.node) if copy is not None else (),
                bytes=wanted.bytes,
                why=why,
                line=wait[2].line,
            )


def _nodes(
    nodes: Sequence[Node], loops: tuple[Loop, ...], sure: bool
) -> Iterator[tuple[Node, tuple[Loop, ...], bool]]:
    """All statements with the loops around, and whether no condition on memory decides that they run."""
    for node in nodes:
        yield node, loops, sure
        if isinstance(node, Launch):
            yield from _nodes(node.body, loops, sure)
        elif isinstance(node, For):
            runs = node.loop.kind != "while" and all((as_int(e) or 0) > 0 for e in node.loop.extents)
            yield from _nodes(node.body, (*loops, node.loop), sure and runs)
        elif isinstance(node, If):
            plain = isinstance(node.condition, ir.Expr) and not isinstance(node.condition, Unknown)
            plain = plain and not loads_of(node.condition)
            plain = plain and not any(X.is_buffer_var(v) for v in free_vars(node.condition))
            yield from _nodes([*node.body, *node.orelse], loops, sure and plain)


def _note(found: dict[ir.Var, _Barrier], node: Node, order: int, loops: tuple[Loop, ...], sure: bool) -> None:
    if isinstance(node, Do):
        barrier = node.record.value("barrier")
        for source in _sources(barrier):
            found.setdefault(source, _Barrier()).copies.append(node.span)
        return
    value = node.value if isinstance(node, Evaluate | Bind | Store) else None
    call = value if isinstance(value, ir.Call) else None
    name = call.op.name if call is not None and isinstance(call.op, ir.Op) else ""
    for source in _sources(value):
        barrier = found.setdefault(source, _Barrier())
        if name not in _KNOWN:
            barrier.escapes = True
        elif name in _EXPECTS and call is not None and isinstance(node, Evaluate):
            number = as_int(call.args[1])
            if sure and number is not None and number > 0:
                barrier.expectations.append(_Expectation(node, number, order, loops))
        elif name == _WAITS:
            barrier.waits.append((order, loops, node.span))


def _sources(value: Any) -> set[ir.Var]:
    """The buffers that an expression reads or takes the address of."""
    return {load.source for load in loads_of(value)} if isinstance(value, ir.Expr) else set()


def _follows(wait: tuple[int, tuple[Loop, ...], Span], wanted: _Expectation) -> bool:
    return wait[0] > wanted.order or any(loop in wanted.loops for loop in wait[1])


def _without(subject: Subject, node: Evaluate) -> tuple[Fix, ...]:
    """Remove the statement, or leave only the arrival of one that arrives too."""
    written = span_text(node.span, subject.text)
    if ".mbarrier_arrive_expect_tx(" in written:
        inside = written.partition("(")[2].removesuffix(")")
        barrier, comma, _ = inside.rpartition(",")
        if not comma or "=" in inside or "(" in inside:
            return ()
        language = written.partition("(")[0].removesuffix("mbarrier_arrive_expect_tx")
        return (Fix("Arrive only", (Edit(node.span, f"{language}mbarrier_arrive({barrier.strip()})"),)),)
    if lone_statement_indent(node.span, subject.text) is None:
        return ()
    line = Span(node.span.path, node.span.line, 1, node.span.end_line + 1, 1)
    return (Fix("Remove the expectation", (Edit(line, ""),)),)
