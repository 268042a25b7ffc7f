"""The state of one interpretation, and the dispatch from syntax nodes to the functions that interpret
them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

from tvm import ir, sym
from tvm import tirx as X

from tilelang.diagnostics.problem import Fix, Problem, Related, Severity
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules.python import PYTHON_ERROR, STEP_LIMIT
from tilelang.diagnostics.span import Span
from tilelang.frontend.model import Flow, Function, HostCall, Late, Slot
from tilelang.frontend.rest_of_block import as_with
from tilelang.frontend.scope import Scope, TracedRegion
from tilelang.frontend.source import Source
from tilelang.ir.tile_program import Access, Bind, Context, Launch, Node, Param, Symbol
from tilelang.ir.values import Buffer, Region, Unknown


class StopInterpreting(Exception):
    """Raised to leave a run at once: limits, and the first phase of an eager kernel that needs the
    signature only.
    """


class TooManyItems(Exception):
    """A generator yields more elements than are looked at."""


class Environment(Protocol):
    """What differs between the JIT and the editor: where names come from and what may be called."""

    static: bool

    def global_name(self, run: Run, scope: Scope, name: str) -> Any:
        """The value of a name that no interpreted scope binds; NO_VALUE if it does not exist, Unknown if
        it may.
        """
        ...

    def global_names(self, scope: Scope) -> list[str]:
        """Names to suggest from when one is misspelt."""
        ...

    def module(self, run: Run, name: str, level: int) -> Any:
        """What `import name` gives (`level` dots before it), Unknown if that is not known."""
        ...

    def attribute(self, run: Run, owner: Any, name: str) -> Any:
        """`owner.name` of a value that the interpreter does not model; NO_VALUE if it does not exist."""
        ...

    def call(self, run: Run, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of a function that the interpreter does not model; `args` and `kwargs` are `Argument`s."""
        ...


@dataclass
class Limits:
    """How far a run may go before it gives up with a hint."""

    steps: int = 150_000
    depth: int = 40
    sequence: int = 100_000  # elements of a Python sequence
    chain: int = 350  # operators behind each other in one expression: each one nests its value deeper


@dataclass(eq=False)
class LoopEntry:
    """An enclosing loop: `traced` ones become loops of the kernel, others run now. `regions` open around
    its body.
    """

    traced: bool
    regions: int


@dataclass(eq=False)
class Signature:
    """How the kernel under interpretation is called: values given to T.const, and which parameter names
    are tensors.
    """

    consts: Mapping[str, int] = field(default_factory=dict)
    parameters: dict[str, Param] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # the function's parameters in order
    node_scope: Scope | None = None  # of the kernel function itself, where annotations declare tensors
    stop_at_launch: bool = False


Evaluate = Callable[["Run", Any], Any]
Execute = Callable[["Run", Any], "Flow | None"]


class Run:
    """One interpretation. `eval` and `exec` dispatch through the two tables given by `interpreter.py`."""

    def __init__(
        self,
        environment: Environment,
        source: Source,
        scope: Scope,
        expressions: Mapping[type[ast.expr], Evaluate],
        statements: Mapping[type[ast.stmt], Execute],
        limits: Limits,
    ) -> None:
        self.environment = environment
        self.source = source
        self.scope = scope
        self.limits = limits
        self._expressions = expressions
        self._statements = statements
        self.steps = 0
        self.depth = 0
        self.analyzer = sym.Analyzer()
        # The tree under construction.
        self.body: list[Node] = []
        self.block: list[Any] = self.body
        self.context = Context()
        self.launch: Launch | None = None
        self.rest_of_launch: list[list[Any]] = []  # blocks of the threads that no T.thread_return has ended
        self.random: Any = None  # variables of the random numbers, once T.rng_init has made them
        self.launched = False
        self.launch_counts: dict[Span, int] = {}  # how often each launch of the text has been prepared
        self.numbered_barriers: Buffer | None = None  # of T.create_barriers
        self.env_threads: dict[ir.Var, str] = {}  # numbers that T.env_thread gave, by what they are called
        self.dimensions: Any = None  # of the launch around, where T.launch_thread gives them
        self.unbound: dict[ir.Var, Span] = {}  # variables of T.var that have no value so far
        self.kernel_span = Span(source.path, 1, 1, 1, 1)
        self.by_defaults = False  # nothing in the file calls the kernel: parameters have their defaults
        # What was noticed.
        self.problems: list[Problem] = []
        self.unsupported: list[tuple[str, Span]] = []
        self._reported: set[tuple[str, str, Span]] = set()
        self.buffers: list[Buffer] = []
        self.uses: dict[tuple[Span, int], Buffer] = {}
        self.handed_on: list[tuple[Span, Buffer]] = []
        self.accesses: list[Access] = []
        self.symbols: list[Symbol] = []
        self.dynamic_sizes: list[
            tuple[Any, ir.Var]
        ] = []  # sizes that running Python made, and their variables
        self.promises: list[ir.Expr] = []  # conditions on sizes, asserted before the launch
        self.attrs: dict[str, Any] = {}
        self.reducers: list[Any] = []  # of the `with T.attr(T.comm_reducer(...), ...)` around
        self.layouts: dict[str, Any] = {}  # buffer name -> annotated layout
        self.complete = True
        # Where in the control flow we are.
        self.regions: list[TracedRegion] = []
        self.loops: list[LoopEntry] = []
        self.signature = Signature()
        self.binding_name: tuple[str, Span] | None = (
            None  # the name that the current right-hand side is bound to
        )
        self.used_names: set[str] = set()
        self.open_scopes: set[int] = set()  # module scopes that may hold names we do not know
        self.tainted: set[int] = set()  # ids of containers changed on a path that may not be taken
        self.kept: list[Any] = []  # keeps tainted containers alive, so that ids stay theirs
        self.host_calls: list[HostCall] = []  # of kernels, and of the watched function
        # Of the module, where host code runs: its names as they are then, and at its end.
        self.host_names: tuple[Mapping[str, Any], Mapping[str, Any]] = {}, {}
        # A kernel's definition, noticed with what its decorators make of it whenever it is reached.
        self.made_kernels: list[Any] = []  # by `tilelang.jit(f)`
        self.watched: ast.FunctionDef | None = None
        self.reached: list[tuple[Function, Any]] = []
        self.on_lambda: Callable[[Function], None] | None = None  # told of each lambda that host code makes
        self.return_spans: dict[int, Span] = {}
        self.calls: list[tuple[Function, Span]] = []  # interpreted calls we are in, and where they stand
        self.unmarked: set[int] = set()  # ids of plain functions that are reported already
        self.printing: ast.Call | None = None  # Python's `print` around the expression, for a fix
        self.quiet_text = False  # texts of assertions: they are made from what is known, on purpose
        self.at_class_level: list[str] | None = None  # names of annotated fields while a class body runs
        self.on_yield: Callable[[Any], None] | None = None  # takes what a generator yields
        self.maybe_returned: list[Any] = []  # by branches that may not be taken

    # -- dispatch

    def eval(self, node: ast.expr) -> Any:
        """The value of an expression."""
        self.steps += 1
        if self.steps > self.limits.steps:
            self.give_up(node, f"interpreting this takes more than {self.limits.steps} steps")
        return self._expressions.get(type(node), self._expressions[ast.Await])(self, node)

    def exec(self, statements: list[ast.stmt]) -> Flow | None:
        """Interpret statements in order until one leaves the block."""
        for index, statement in enumerate(statements):
            self.steps += 1
            around = as_with(statements, index)
            if around is not None:
                return self._statements[ast.With](self, around)
            handler = self._statements.get(type(statement), self._statements[ast.AsyncFor])
            try:
                flow = handler(self, statement)
            except RecursionError:
                self.give_up(statement, "this expression or call is nested too deeply")
            if flow is not None:
                return flow
        return None

    def give_up(self, node: ast.AST, what: str) -> NoReturn:
        """Report that a limit is reached and leave the run."""
        self.report(STEP_LIMIT, self.span(node), what=what)
        self.complete = False
        raise StopInterpreting

    def too_long(self, node: ast.AST, parts: int) -> Unknown:
        """Report an expression whose value would be nested too deeply, and go on without it."""
        self.complete = False
        what = f"this expression has {parts} operators behind each other, more than {self.limits.chain}"
        return self.report(STEP_LIMIT, self.span(node), what=what)

    # -- places and problems

    def span(self, node: ast.AST) -> Span:
        at = self.source.span(node)
        return at.reached(self.calls[-1][1]) if self.calls else at

    def report(
        self,
        rule: Rule,
        span: Span,
        *,
        related: tuple[Related, ...] = (),
        fixes: tuple[Fix, ...] = (),
        tags: tuple[str, ...] = (),
        **fields: object,
    ) -> Unknown:
        """Note a problem once per place and return the Unknown that stands for the failed value."""
        problem = rule.at(span, related=related, fixes=fixes, tags=tags, severity=None, **fields)
        self.note(problem)
        if rule.level is Severity.ERROR:
            self.complete = False
        return Unknown(problem.message)

    def note(self, problem: Problem) -> None:
        """Keep a problem, once per place; a hint where the statement may not run."""
        if self.context.maybe:
            problem = problem.with_severity(Severity.HINT)
        key = (problem.rule, problem.message, problem.span)
        if key not in self._reported:
            self._reported.add(key)
            self.problems.append(problem)

    def unknown(self, reason: str) -> Unknown:
        """An Unknown that decides the structure of the program, which is incomplete from here on."""
        self.complete = False
        return Unknown(reason)

    def text_of(self, span: Span) -> str:
        """The source text of a span, its first line if there are more."""
        first = self.source.lines[span.line - 1]
        if span.end_line == span.line:
            return first[span.column - 1 : span.end_column - 1]
        return first[span.column - 1 :].strip() + " ..."

    def language_prefix(self) -> str | None:
        """How the author calls the language here: `T`; None if only single names are imported."""
        scope: Scope | None = self.scope
        while scope is not None:
            for name, value in list(scope.names.items()):
                if getattr(value, "__name__", None) == "tilelang.language":
                    return name
            scope = scope.parent
        return None

    def guarded_native(
        self, node: ast.AST, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Call Python code on Python values; what it raises is a problem at the call."""
        try:
            return function(*args, **kwargs)
        except (StopInterpreting, RecursionError):
            raise
        except Exception as error:  # noqa: BLE001 (whatever it raises is told to the author)
            return self.report(PYTHON_ERROR, self.span(node), what=f"{type(error).__name__}: {error}")

    def is_unset(self, value: Any) -> bool:
        """None where a number is needed: in a file, a default that waits for a value and no mistake."""
        return value is None and self.environment.static

    # -- the tree

    @contextmanager
    def nested(self, block: list[Any], context: Context | None = None) -> Iterator[list[Any]]:
        """Statements go to `block` and stand in `context` while the body runs."""
        saved = self.block, self.context
        self.block = block
        self.context = context or self.context
        try:
            yield block
        finally:
            self.block, self.context = saved

    @contextmanager
    def guarded(self, **changes: Any) -> Iterator[None]:
        """A changed context for a part of an expression."""
        saved = self.context
        self.context = replace(saved, **changes)
        try:
            yield
        finally:
            self.context = saved

    def emit(self, node: Node) -> None:
        self.block.append(node)

    def fresh(self, name: str, dtype: str = "int32") -> ir.Var:
        return X.Var(name, dtype)

    def late(self, region: Region, name: str) -> Late:
        """Keep an element for later use; see `Late`."""
        slot = Slot()
        self.block.append(slot)
        return Late(region, self.block, slot, name)

    def put_late(self, late: Late, node: Bind) -> None:
        late.block[next(k for k, n in enumerate(late.block) if n is late.slot)] = node

    def names_now(self) -> dict[str, Any]:
        """Names of the module that have another value at its end."""
        now, final = self.host_names
        return {n: v for n, v in now.items() if n not in final or final[n] is not v}

    # -- limits

    @contextmanager
    def called(self, node: ast.AST, name: str) -> Iterator[None]:
        """Count the depth of interpreted calls."""
        if self.depth >= self.limits.depth:
            self.give_up(node, f"`{name}` calls itself more than {self.limits.depth} levels deep")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


def without_slots(block: list[Any]) -> list[Node]:
    """The finished tree: unused places of late elements are removed, in place and recursively."""
    kept = [n for n in block if not isinstance(n, Slot)]
    for node in kept:
        for part in ("body", "orelse"):
            inner = getattr(node, part, None)
            if inner:
                inner[:] = without_slots(inner)
    return kept
