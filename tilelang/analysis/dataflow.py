"""Which tiles and scalars the contents of each tile are made of, and what of it reaches a result.

A result is whatever a kernel does that can be seen from outside: a write to global memory, a call for its
effect, and what decides whether and how often something runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tilelang.analysis.contents import histories
from tilelang.analysis.subject import Subject, is_assumption
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Bind, Do, Evaluate, For, If, Launch, OpRecord, Store, walk
from tilelang.ir.values import Buffer, Region
from tilelang.ops.registry import TILE_OPS

from tvm import ir  # isort: skip

Holder = Buffer | ir.Var  # storage, or a scalar that is bound once


@dataclass(eq=False)
class Flow:
    """`sources` of each holder, the holders that reach a `result`, and whether there is one at all."""

    sources: dict[Holder, set[Holder]] = field(default_factory=dict)
    live: set[Holder] = field(default_factory=set)
    has_result: bool = False

    def readers(self, of: Holder) -> set[Holder]:
        """What is made of a holder."""
        return {target for target, made_of in self.sources.items() if of in made_of}

    def reached_from(self, holder: Holder) -> set[Holder]:
        """All that is made of a holder, directly or not."""
        found: set[Holder] = set()
        todo = [holder]
        while todo:
            for reader in self.readers(todo.pop()) - found:
                found.add(reader)
                todo.append(reader)
        return found


def dataflow(subject: Subject) -> Flow:
    """The flow of the whole program, without regard to order."""
    collector = _Collector(subject)
    for node in walk(subject.program.body):
        collector.node(node)
    flow = collector.flow
    for history in subject.shared(histories):
        if history.escaped:
            flow.live.add(history.buffer)
    todo = list(flow.live)
    while todo:
        for source in flow.sources.get(todo.pop(), ()):
            if source not in flow.live:
                flow.live.add(source)
                todo.append(source)
    return flow


def mentioned_elsewhere(subject: Subject, buffer: Buffer) -> bool:
    """Whether the kernel's text names a tile where it was not interpreted: in the branch that these values do
    not take. True if the text is not at hand.
    """
    span = subject.program.span
    lines = subject.text.split("\n")
    if len(lines) < span.end_line:
        return True
    word = re.compile(rf"\b{re.escape(buffer.name)}\b")
    seen = {line for s, b in subject.program.uses if b.storage is buffer for line in _lines(s)}
    seen |= {line for b in subject.program.buffers if b.storage is buffer for line in _lines(b.span)}
    seen |= set(_lines(buffer.name_span))
    return any(
        word.search(lines[number - 1].partition("#")[0])
        for number in range(span.line, span.end_line + 1)
        if number not in seen
    )


def _lines(span: Span) -> range:
    return range(span.line, span.end_line + 1)


class _Collector:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._by_var = {b.var: b.storage for b in subject.program.buffers if b.known}
        self.flow = Flow()

    def node(self, node: object) -> None:
        match node:
            case Do():
                self._op(node.record)
            case Store():
                self._into(node.buffer, self._of([node.value, *node.indices]))
            case Bind():
                self.flow.sources.setdefault(node.var, set()).update(self._of([node.value]))
            case Evaluate() if is_assumption(node.value):
                self.flow.live.update(self._of([node.value]))
            case Evaluate():
                self._result(self._of([node.value]))
            case For():
                loop = node.loop
                self.flow.live.update(self._of([*loop.mins, *loop.extents, loop.step, node.condition]))
            case If():
                self.flow.live.update(self._of([node.condition]))
            case Launch():
                self.flow.live.update(self._of(node.grid))

    def _of(self, values: Iterable[object]) -> Iterator[Holder]:
        for value in values:
            if isinstance(value, tuple | list):
                yield from self._of(value)
            elif isinstance(value, Region):
                yield value.buffer.storage
                yield from self._of(value.starts)
            else:
                for var in free_vars(value):
                    yield self._by_var.get(var, var)

    def _result(self, made_of: Iterable[Holder]) -> None:
        self.flow.has_result = True
        self.flow.live.update(made_of)

    def _into(self, target: Buffer, made_of: Iterable[Holder]) -> None:
        if target.scope == "global":
            self._result(made_of)
        else:
            self.flow.sources.setdefault(target.storage, set()).update(made_of)

    def _op(self, record: OpRecord) -> None:
        accesses = self._subject.accesses(record)
        made_of = {a.region.buffer.storage for a in accesses if a.mode == "read"}
        made_of |= set(self._of(s for a in accesses for s in a.region.starts))
        targets = [a.region.buffer for a in accesses if a.mode != "read"]
        for name, operand in record.operands.items():
            if record.op not in TILE_OPS or not any(a.argument == name for a in accesses):
                made_of |= set(self._of([operand.value]))
        if record.op == "atomic":  # it may return what was there before
            made_of |= {t.storage for t in targets}
            self.flow.live.update(made_of)
        elif record.op not in TILE_OPS or not targets:
            self._result(made_of)
        for target in targets:
            self._into(target, made_of)
