"""The tile program: what a kernel's body means, as records with spans, before anything is lowered.

The frontend makes it, rules and hovers read it, `ir.build` turns it into a TIRX function. Values inside may
be `Unknown`; then rules stay silent and no function is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tvm import ir

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.span import Span
from tilelang.ir.values import Buffer, Index, Region, Value

# Attribute of a kernel: what it does outside of global tensors is not guarded.
UNGUARDED = "tl.disable_safe_memory_legalize"

LoopKind = Literal["Parallel", "Pipelined", "serial", "unroll", "vectorized", "while"]


@dataclass(frozen=True)
class Operand:
    """An argument of a tile operation with its own place in the text."""

    value: Any  # Region, Value, or a plain Python object such as a dtype or a policy name
    span: Span


@dataclass(eq=False)
class Loop:
    """A loop around statements. `vars` has one TIRX variable per extent (several only for `Parallel`)."""

    kind: LoopKind
    vars: tuple[ir.Var, ...]
    mins: tuple[Value, ...]
    extents: tuple[Value, ...]
    span: Span  # the iterator expression, `T.Parallel(128, 32)`
    step: Value = 1
    # num_stages, coalesced_width, order, stage, ...
    annotations: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Guard:
    """A condition that holds where a statement stands (`negated` in an else branch).

    `depth`: how many of the statement's loops stand around the condition; None where that is not known.
    """

    condition: Value
    negated: bool
    span: Span
    depth: int | None = None


@dataclass(frozen=True)
class Context:
    """Where a record stands: enclosing loops from outside in, conditions, and whether it may be absent."""

    loops: tuple[Loop, ...] = ()
    guards: tuple[Guard, ...] = ()
    maybe: bool = False  # in one branch only of a condition the frontend could not decide

    def parallel_vars(self) -> tuple[ir.Var, ...]:
        return tuple(v for loop in self.loops if loop.kind == "Parallel" for v in loop.vars)


@dataclass(eq=False)
class OpRecord:
    """One tile operation as written. Keys of `operands` are the parameter names of its declaration.

    `op` is what it does, `callee` what its author called: "T.clear" is a fill.
    """

    op: str  # "copy", "gemm", "fill", "reduce", ... : the file in `ops/`
    span: Span  # the whole call
    callee_span: Span  # `T.copy`
    operands: Mapping[str, Operand]
    context: Context
    callee: str = ""

    @property
    def called(self) -> str:
        """The operation's name in messages."""
        return self.callee or f"T.{self.op}"

    def region(self, name: str) -> Region | None:
        """The operand as a region, None if it is absent, unknown or no buffer."""
        operand = self.operands.get(name)
        return operand.value if operand is not None and isinstance(operand.value, Region) else None

    def value(self, name: str, default: Any = None) -> Any:
        operand = self.operands.get(name)
        return default if operand is None else operand.value

    def span_of(self, name: str) -> Span:
        """The span of an argument, of the whole call if it was not given."""
        operand = self.operands.get(name)
        return self.span if operand is None else operand.span


@dataclass(frozen=True, eq=False)
class Access:
    """One element read or written outside tile operations, in the order of execution.

    `load`: of a read, the very node that stands for its value in the tree of statements.
    """

    buffer: Buffer
    indices: tuple[Index, ...]
    mode: Literal["read", "write"]
    span: Span  # the subscript expression
    context: Context
    load: ir.Expr | None = None


@dataclass(eq=False)
class Alloc:
    """Storage comes into being here."""

    buffer: Buffer
    span: Span


@dataclass(eq=False)
class Do:
    """A tile operation in its place."""

    record: OpRecord

    @property
    def span(self) -> Span:
        return self.record.span


@dataclass(eq=False)
class Store:
    """`buffer[indices] = value`; the value is converted to the buffer's dtype."""

    buffer: Buffer
    indices: tuple[Value, ...]
    value: Value
    span: Span
    context: Context


@dataclass(eq=False)
class Bind:
    """An immutable scalar `name = value` that reads memory and must be evaluated once, here."""

    var: ir.Var
    value: Value
    span: Span


@dataclass(eq=False)
class Evaluate:
    """A call for its effect (barriers, prints, atomics)."""

    value: Value
    span: Span


@dataclass(eq=False)
class For:
    """A loop and its body."""

    loop: Loop
    body: list[Node]
    condition: Value = None  # of a `while` loop

    @property
    def span(self) -> Span:
        return self.loop.span


@dataclass(eq=False)
class If:
    """A traced condition. `orelse` may be empty."""

    condition: Value
    body: list[Node]
    orelse: list[Node]
    span: Span


@dataclass(eq=False)
class Jump:
    """`break` or `continue`. `return` stands for T.thread_return while a kernel is being interpreted: in its
    tile program, what threads do that stay is the other branch of an If.
    """

    kind: Literal["break", "continue", "return"]
    span: Span


@dataclass(eq=False)
class Launch:
    """`with T.Kernel(...)`: the grid, the threads of a block, and the body that every block runs."""

    grid: tuple[Value, ...]
    threads: tuple[int, ...] | None  # None where unknown
    block_vars: tuple[ir.Var, ...]
    thread_vars: tuple[ir.Var, ...]  # used only by explicit thread code
    body: list[Node]
    span: Span
    accesses: tuple[int, int] = (0, 0)  # which of the program's stand in it: the first, and behind the last


Node = Alloc | Do | Store | Bind | Evaluate | For | If | Jump | Launch


@dataclass(eq=False)
class Param:
    """A parameter of the kernel: a tensor, or a scalar variable."""

    name: str
    buffer: Buffer | None
    scalar: ir.Var | None
    span: Span


@dataclass(eq=False)
class Symbol:
    """A size known by name: `T.const` (fixed per call) or `T.dynamic` (solved at each launch)."""

    name: str
    var: ir.Var
    kind: Literal["const", "dynamic"]
    span: Span


@dataclass(eq=False)
class TileProgram:
    """One kernel under one specialisation, with everything the frontend noticed on the way."""

    name: str
    qualified_name: str
    style: Literal["eager", "lazy"]
    span: Span  # from the first decorator to the last line
    name_span: Span
    params: list[Param]  # in call order; in eager style the returned outputs follow
    body: list[Node]
    buffers: list[Buffer]  # all, in order of appearance
    uses: list[tuple[Span, Buffer]]  # every place where a buffer's name is read
    accesses: list[Access]
    symbols: list[Symbol]
    # To macros and helpers, interpreted here.
    handed_on: list[tuple[Span, Buffer]] = field(default_factory=list)
    outputs: tuple[int, ...] = ()  # indices into `params` that the runtime allocates and returns
    specialisation: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    promises: tuple[ir.Expr, ...] = ()  # conditions on sizes that are asserted before the launch
    attrs: dict[str, Any] = field(default_factory=dict)  # block swizzle, pass configs, ...
    unsupported: tuple[tuple[str, Span], ...] = ()  # names of the language that we lack, surely reached
    complete: bool = True  # False if something structural was Unknown: no function can be built
    target: Any = None  # what the decorator names, where the kernel is read from text
    unlaunched: bool = False  # incomplete only because statements stand outside of any launch
    siblings: int = 0  # how many other kernels the factory around this one makes
    aside: bool = False  # one that the factory makes and does not return

    def ops(self) -> Iterator[OpRecord]:
        """All tile operations in program order."""
        return (n.record for n in walk(self.body) if isinstance(n, Do))

    def launches(self) -> list[Launch]:
        return [n for n in walk(self.body) if isinstance(n, Launch)]


def walk(nodes: list[Node]) -> Iterator[Node]:
    """All nodes in program order, outer before inner."""
    pending = nodes[::-1]
    while pending:
        node = pending.pop()
        yield node
        kind = type(node)
        if kind is For or kind is Launch:
            pending += node.body[::-1]  # type: ignore[union-attr]
        elif kind is If:
            pending += node.orelse[::-1]  # type: ignore[union-attr]
            pending += node.body[::-1]  # type: ignore[union-attr]
