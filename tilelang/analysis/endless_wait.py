"""endless-wait: threads wait at a barrier that never opens, with the arrivals that the kernel makes.

Producers and consumers that hand tiles to each other hang as a whole when one arrival is missing, a count is
wrong or a parity is the other one. What they do with barriers is small and seldom depends on data, so it is
played through: the threads that take the same branches are one process, an operation of theirs is one step,
and a barrier counts as PTX does (PTX ISA 9.7.13.15: a phase is complete when all arrivals have come; a wait
for a parity ends when the phase of that parity is complete). Told only where both orders of going on end with
processes that wait; silent where a condition, an index or a loop is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilelang.analysis.open_sizes import given_sizes
from tilelang.analysis.subject import Subject
from tilelang.analysis.tensor_use import usual_sizes
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.bounds import INDEX_OUT_OF_BOUNDS
from tilelang.diagnostics.rules.order import ENDLESS_WAIT
from tilelang.diagnostics.span import Span
from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.ir.expressions import loads_of, spelled_out
from tilelang.ir.prove import free_vars
from tilelang.ir.teams import thread_numbers
from tilelang.ir.tile_ops import SYNC, is_call
from tilelang.ir.tile_program import Bind, Do, Evaluate, For, If, Jump, Launch, Node, Store, walk
from tilelang.ir.values import Buffer, Unknown, Value, as_int, show
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip

_INIT, _WAIT = "tl.mbarrier_init", "tl.mbarrier_wait"
_ARRIVE = ("tl.mbarrier_arrive", "tl.mbarrier_arrive_expect_tx")
_BYTES = "tl.mbarrier_expect_tx"
_MOST_STEPS = 1 << 13


class _NotKnownError(Exception):
    """Something that decides about the barriers is not known before the kernel runs."""


@dataclass(frozen=True, eq=False)
class _Step:
    """ "wait", "arrive" or "init" at a barrier, with its parity or count; or the block's "sync"."""

    kind: str
    buffer: Buffer | None
    index: Value
    number: Value
    span: Span


class _NotThereError(Exception):
    """A step at a barrier behind the last one."""

    def __init__(self, step: _Step, index: int) -> None:
        super().__init__()
        self.step, self.index = step, index


@dataclass(frozen=True, eq=False)
class _Branch:
    condition: Value
    body: list[Any]
    orelse: list[Any]


@dataclass(frozen=True, eq=False)
class _Repeat:
    node: For
    body: list[Any]


@dataclass(eq=False)
class _Barrier:
    count: int
    pending: int
    phases: int = 0

    def arrive(self, threads: int) -> None:
        self.pending -= threads
        while self.pending <= 0:
            self.phases += 1
            self.pending += self.count

    def is_open(self, parity: int) -> bool:
        """Whether the phase of this parity is complete, the one before the first among them."""
        return self.phases % 2 != parity


@dataclass(eq=False)
class _Process:
    """The threads that take the same branches. `at`: the step that is next, with the loops around it."""

    threads: np.ndarray
    steps: Iterator[tuple[_Step, Any, int, dict[str, int]]]
    at: tuple[_Step, Any, int, dict[str, int]] | None = None

    def go_on(self) -> None:
        self.at = next(self.steps, None)


@dataclass(eq=False)
class _Play:
    """One way in which the processes may go on."""

    barriers: dict[tuple[Buffer, int], _Barrier] = field(default_factory=dict)
    steps: int = 0

    def run(self, processes: Sequence[_Process]) -> list[_Process]:
        """Those that wait for ever."""
        for process in processes:
            process.go_on()
        moved = True
        while moved:
            moved = False
            for process in processes:
                while process.at is not None and self._can(process):
                    process.go_on()
                    moved = True
            waiting = [p for p in processes if p.at is not None]
            if waiting and all(p.at is not None and p.at[0].kind == "sync" for p in waiting):
                for process in waiting:
                    process.go_on()
                moved = True
        return [p for p in processes if p.at is not None and p.at[0].kind == "wait"]

    def _can(self, process: _Process) -> bool:
        """Carries the next step out, if it can be."""
        assert process.at is not None
        step, index, number, _ = process.at
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _NotKnownError
        if step.kind == "sync":
            return False
        assert step.buffer is not None
        place = step.buffer, index
        if step.kind == "init":
            self.barriers.setdefault(place, _Barrier(number, number))
            return True
        barrier = self.barriers.get(place)
        if barrier is None:
            size = as_int(step.buffer.shape[0])
            if size is not None and not 0 <= index < size:
                raise _NotThereError(step, index)
            raise _NotKnownError
        if step.kind == "wait":
            return barrier.is_open(number)
        barrier.arrive(len(process.threads))
        return True


def check(subject: Subject) -> Iterator[Problem]:
    """The wait that comes first in the text, of those that never end."""
    program, launch = subject.program, subject.launch
    if not program.complete or program.unsupported or subject.target.kind != "cuda":
        return
    if launch is None or launch.threads is None or not any(_is_wait(n) for n in walk(launch.body)):
        return
    if "tl.cluster_dims" in program.attrs:  # other blocks may arrive
        return
    sizes = subject.shared(usual_sizes)
    if sizes and subject.assumptions:
        return
    try:
        skeleton = _steps(launch.body, {b.var: b for b in program.buffers if b.known}, False)
        classes = _classes(subject, skeleton)
        plays: list[tuple[_Play, list[_Process]]] = []
        for order, times in ((1, 1), (-1, 1), (1, 2)) if sizes else ((1, 1), (-1, 1)):
            play, taken = _Play(), {v: n * times for v, n in sizes.items()}
            processes = [
                _Process(c, _walk(subject, skeleton, c, _start(subject, c, taken), {})) for c in classes
            ]
            plays.append((play, play.run(processes[::order])))
    except _NotThereError as missing:
        yield _outside(subject, missing)
        return
    except _NotKnownError:
        return
    if all(stuck for _, stuck in plays):
        play, stuck = plays[0]
        yield _problem(subject, play, stuck, list(_arrivals(skeleton)))


def _is_wait(node: Node) -> bool:
    return isinstance(node, Evaluate) and is_call(node.value, _WAIT)


def _steps(nodes: Sequence[Node], buffers: Mapping[ir.Var, Buffer], divided: bool) -> list[Any]:
    """What is done with barriers, in the order of the program."""
    found: list[Any] = []
    for node in nodes:
        if isinstance(node, Launch | Jump):
            raise _NotKnownError
        if isinstance(node, For):
            body = _steps(node.body, buffers, divided)
            if body and node.loop.kind not in ("serial", "unroll"):
                raise _NotKnownError
            if body:
                found.append(_Repeat(node, body))
        elif isinstance(node, If):
            body, orelse = (_steps(part, buffers, True) for part in (node.body, node.orelse))
            if body and not orelse and all(isinstance(s, _Step) and s.kind == "init" for s in body):
                found += body  # one thread does it, and all wait for it
            elif body or orelse:
                found.append(_Branch(node.condition, body, orelse))
        elif isinstance(node, Evaluate):
            found += _step(node, buffers, divided)
        elif isinstance(node, Bind | Store):
            if _barriers_in(node.value, buffers):
                raise _NotKnownError
        elif isinstance(node, Do) and not _brings_bytes_only(node, buffers):
            raise _NotKnownError
    return found


def _brings_bytes_only(node: Do, buffers: Mapping[ir.Var, Buffer]) -> bool:
    """Whether an operation has nothing to do with barriers, or only lets its bytes come at one: they do."""
    record = node.record
    named = {k for k, o in record.operands.items() if _barriers_in(o.value, buffers)}
    if not named:
        return True
    return record.op == "copy" and named == {"barrier"} and not record.value("emit_arrive")


def _step(node: Evaluate, buffers: Mapping[ir.Var, Buffer], divided: bool) -> Iterator[_Step]:
    value = node.value
    if is_call(value, SYNC):
        if divided or value.args:
            raise _NotKnownError
        yield _Step("sync", None, 0, 0, node.span)
        return
    places = _barriers_in(value, buffers)
    if not places:
        return
    if len(places) != 1 or not isinstance(value, ir.Call):
        raise _NotKnownError
    name = value.op.name if isinstance(value.op, ir.Op) else ""
    (buffer, index), numbers = places[0], value.args[1:]
    if name == _INIT:
        yield _Step("init", buffer, index, numbers[0], node.span)
    elif name == _WAIT:
        yield _Step("wait", buffer, index, numbers[0], node.span)
    elif name in _ARRIVE:
        yield _Step("arrive", buffer, index, 0, node.span)
    elif name != _BYTES:
        raise _NotKnownError


def _barriers_in(value: Any, buffers: Mapping[ir.Var, Buffer]) -> list[tuple[Buffer, Value]]:
    if isinstance(value, Unknown):
        raise _NotKnownError
    found = []
    for load in loads_of(value):
        buffer = buffers.get(load.source)
        if buffer is not None and buffer.dtype == "uint64" and buffer.scope == "shared":
            found.append((buffer, load.indices[0]))
    return found


def _classes(subject: Subject, skeleton: list[Any]) -> list[np.ndarray]:
    """The threads of a block, those together that take the same branches."""
    numbers = _numbers(subject)
    total = subject.threads or 0
    keys = np.zeros(total, np.int64)
    for condition in _conditions(subject, skeleton):
        try:
            holds = np.broadcast_to(np.asarray(evaluate(condition, numbers), bool), (total,))
        except NotEvaluable:
            raise _NotKnownError from None
        keys = np.unique(keys * 2 + holds, return_inverse=True)[1]
    return [np.flatnonzero(keys == k) for k in np.unique(keys)]


def _numbers(subject: Subject) -> dict[int, np.ndarray]:
    return thread_numbers([(v.__chandle__(), n) for v, n in subject.context.thread_vars])


def _conditions(subject: Subject, items: Sequence[Any]) -> Iterator[Value]:
    """Those on the thread's number."""
    threads = {v for v, _ in subject.context.thread_vars}
    for item in items:
        if isinstance(item, _Branch):
            condition = _spelled_out(subject, item.condition)
            if free_vars(condition) & threads:
                yield condition
            yield from _conditions(subject, [*item.body, *item.orelse])
        elif isinstance(item, _Repeat):
            yield from _conditions(subject, item.body)


def _spelled_out(subject: Subject, value: Value) -> Value:
    """A value without names that stand for arithmetic; gives up on one that is not known."""
    if isinstance(value, Unknown):
        raise _NotKnownError
    return spelled_out(value, subject.definitions)


def _start(subject: Subject, threads: np.ndarray, sizes: Mapping[ir.Var, int]) -> dict[int, Any]:
    """The first block, sizes of tensors, and a thread of the class."""
    launch = subject.launch
    assert launch is not None
    env: dict[int, Any] = {v.__chandle__(): 0 for v in launch.block_vars}
    env |= {v.__chandle__(): n for v, n in sizes.items()}
    return env | {handle: int(each[threads[0]]) for handle, each in _numbers(subject).items()}


def _number(subject: Subject, value: Value, env: Mapping[int, Any]) -> int:
    known = as_int(value)
    if known is not None:
        return known
    try:
        return int(evaluate(_spelled_out(subject, value), env))
    except (NotEvaluable, TypeError):
        raise _NotKnownError from None


def _walk(
    subject: Subject, items: Sequence[Any], threads: np.ndarray, env: dict[int, Any], around: dict[str, int]
) -> Iterator[tuple[_Step, Any, int, dict[str, int]]]:
    """The steps of some threads one after the other, with the values of the loops around."""
    own = {v for v, _ in subject.context.thread_vars}
    for item in items:
        if isinstance(item, _Step):
            index, number = _spelled_out(subject, item.index), _spelled_out(subject, item.number)
            if any(isinstance(v, ir.Expr) and free_vars(v) & own for v in (index, number)):
                raise _NotKnownError
            yield item, _number(subject, index, env), _number(subject, number, env), around
        elif isinstance(item, _Branch):
            holds = _number(subject, item.condition, env)
            yield from _walk(subject, item.body if holds else item.orelse, threads, env, around)
        else:
            loop = item.node.loop
            low, count = (_number(subject, v[0], env) for v in (loop.mins, loop.extents))
            step = _number(subject, loop.step, env)
            var = loop.vars[0]
            for k in range(count):
                here = low + k * step
                inner = {**env, var.__chandle__(): here}
                yield from _walk(subject, item.body, threads, inner, {**around, var.name: here})


def _arrivals(items: Sequence[Any]) -> Iterator[_Step]:
    for item in items:
        if isinstance(item, _Step):
            if item.kind == "arrive":
                yield item
        else:
            yield from _arrivals(item.body if isinstance(item, _Repeat) else [*item.body, *item.orelse])


def _problem(subject: Subject, play: _Play, stuck: Sequence[_Process], arrivals: Sequence[_Step]) -> Problem:
    """At the first wait, with the others beside it."""
    ordered = sorted(stuck, key=lambda p: (list(p.at[3].values()), p.at[0].span) if p.at else ([], None))
    first, *rest = ordered
    assert first.at is not None
    step, index, parity, around = first.at
    assert step.buffer is not None
    barrier = play.barriers[step.buffer, index]
    sizes = subject.shared(usual_sizes)
    when = ", ".join(f"{name} = {n}" for name, n in around.items())
    related = [Related(p.at[0].span, f"{_who(p)} wait here{_at(p.at[3])}") for p in rest if p.at is not None]
    problem = ENDLESS_WAIT.at(
        step.span,
        related=(*related, *declared(step.buffer)),
        who=_who(first),
        when=f" at {when}" if when else "",
        barrier=f"{step.buffer.name}[{index}]",
        parity=parity,
        come=barrier.count - barrier.pending,
        count=barrier.count,
        why=_why(barrier, step, parity, arrivals, rest),
    )
    return given_sizes(problem, sizes) if sizes else problem


def _why(
    barrier: _Barrier, step: _Step, parity: int, arrivals: Sequence[_Step], others: Sequence[_Process]
) -> str:
    """What is missing, and what to do."""
    come = barrier.count - barrier.pending
    if not any(a.buffer is step.buffer for a in arrivals):
        return "no thread arrives at it: let those who are done with the tile call T.mbarrier_arrive"
    if come:
        return f"make the barrier for {come}, or let as many threads arrive as it is made for"
    if barrier.phases == 0 and parity == 0 and others:
        return (
            "who would arrive waits too (who waits first, of two, asks for parity 1, which is open at once)"
        )
    return "who would arrive waits too, or has come already and ended another phase"


def _outside(subject: Subject, missing: _NotThereError) -> Problem:
    step, sizes = missing.step, subject.shared(usual_sizes)
    assert step.buffer is not None
    problem = INDEX_OUT_OF_BOUNDS.at(
        step.span,
        related=declared(step.buffer),
        index=show(step.index),
        buffer=step.buffer.name,
        dim=0,
        size=show(step.buffer.shape[0]),
        reached=missing.index,
    )
    return given_sizes(problem, sizes) if sizes else problem


def _who(process: _Process) -> str:
    first, last = int(process.threads[0]), int(process.threads[-1])
    if first == last:
        return f"thread {first}"
    return f"threads {first} to {last}"


def _at(around: Mapping[str, int]) -> str:
    return f" at {', '.join(f'{name} = {n}' for name, n in around.items())}" if around else ""
