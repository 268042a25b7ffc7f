"""What every rule looks at: one tile program for one target, with what follows from it computed once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, TypeVar

from tilelang.analysis.wgmma_choice import wgmma_choice
from tilelang.arch.target import Target
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.ir.prove import Prover, free_vars, positive_symbols
from tilelang.ir.tile_ops import ASSUME
from tilelang.ir.tile_program import (
    Bind,
    Context,
    Evaluate,
    For,
    Jump,
    Launch,
    Loop,
    OpRecord,
    TileProgram,
    walk,
)
from tilelang.ir.values import Buffer, Unknown, Value, as_int
from tilelang.ops.registry import TILE_OPS
from tilelang.ops.tile_op import CheckContext, RegionAccess

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip
from tilelang.parsing import parse

T = TypeVar("T")
PRIVATE_SCOPES = frozenset({"local", "local.var"})


@dataclass(eq=False)
class Subject:
    """A program under analysis. `text` is the module's source, empty if it is not at hand.

    elsewhere: buffers that launches touch which are left out of the program (`analysis/launches.py`).
    """

    program: TileProgram
    target: Target
    text: str = ""
    elsewhere: frozenset[Buffer] = frozenset()
    _shared: dict[Callable[..., Any], Any] = field(default_factory=dict)
    _accesses: dict[OpRecord, list[RegionAccess]] = field(default_factory=dict)
    _found: dict[Check, tuple[Problem, ...]] = field(default_factory=dict)

    @cached_property
    def launch(self) -> Launch | None:
        """The launch, if there is exactly one."""
        launches = self.program.launches()
        return launches[0] if len(launches) == 1 else None

    @cached_property
    def threads(self) -> int | None:
        """Threads of a block, None where unknown."""
        return None if self.launch is None or self.launch.threads is None else prod(self.launch.threads)

    @cached_property
    def prover(self) -> Prover:
        """Knows the symbols that are extents, the ranges of loops and blocks, and what T.assume says."""
        positive = positive_symbols(b.shape for b in self.program.buffers)
        return Prover(positive, self.ranges, self.assumptions)

    @cached_property
    def assumptions(self) -> list[ir.Expr]:
        """Conditions that T.assume promises for all that a block does: about numbers that do not change, in
        statements that every block comes to.
        """
        conditions = [
            node.value.args[0]
            for node in (self.launch.body if self.launch is not None else ())
            if isinstance(node, Evaluate) and is_assumption(node.value)
        ]
        return [c for c in conditions if not any(X.is_buffer_var(v) for v in free_vars(c))]

    @cached_property
    def ranges(self) -> Mapping[ir.Var, tuple[Value, Value]]:
        """Variable -> (first value, extent) of blocks, threads and loops with step 1."""
        found: dict[ir.Var, tuple[Value, Value]] = {}
        for node in walk(self.program.body):
            if isinstance(node, Launch):
                found |= {v: (0, e) for v, e in zip(node.block_vars, node.grid, strict=False)}
                found |= {v: (0, e) for v, e in zip(node.thread_vars, node.threads or (), strict=False)}
            elif isinstance(node, For) and as_int(node.loop.step) == 1:
                loop = node.loop
                found |= {v: (m, e) for v, m, e in zip(loop.vars, loop.mins, loop.extents, strict=False)}
        return {v: r for v, r in found.items() if not any(isinstance(x, Unknown) for x in r)}

    @cached_property
    def definitions(self) -> Mapping[ir.Var, ir.Expr]:
        """Names that stand for arithmetic on other variables, as in `partner = tx ^ (1 << step)`. Those whose
        value reads memory are not among them.
        """
        return {
            node.var: node.value
            for node in walk(self.program.body)
            if isinstance(node, Bind)
            and isinstance(node.value, ir.Expr)
            and not any(X.is_buffer_var(v) for v in free_vars(node.value))
        }

    def meaning(self, value: Value) -> Value:
        """What a name stands for (`definitions`); of anything else, and of other names, itself."""
        return self.definitions.get(value, value) if isinstance(value, ir.Var) else value

    @cached_property
    def context(self) -> CheckContext:
        constants = frozenset(s.var for s in self.program.symbols if s.kind == "const")
        launch = None if self.launch is None else self.launch.span
        plain = CheckContext(self.target, self.threads, constants, self.prover, self.text, launch)
        if self.launch is not None and self.launch.threads is not None:
            pairs = zip(self.launch.thread_vars, self.launch.threads, strict=False)
            plain = replace(plain, thread_vars=tuple(pairs))
        return replace(plain, wgmma=wgmma_choice(self.program, plain))

    @cached_property
    def records(self) -> list[OpRecord]:
        return list(self.program.ops())

    @cached_property
    def tree(self) -> ast.Module | None:
        """The module's text as Python reads it, None where it does not."""
        try:
            return parse(self.text)
        except (SyntaxError, ValueError, RecursionError):
            return None

    def shared(self, compute: Callable[[Subject], T]) -> T:
        """The result of `compute`, made once for all rules that ask."""
        if compute not in self._shared:
            self._shared[compute] = compute(self)
        return self._shared[compute]

    def found(self, check: Check) -> tuple[Problem, ...]:
        """What a rule finds, looked for once."""
        known = self._found.get(check)
        if known is None:
            known = self._found[check] = tuple(check(self))
        return known

    def told_by(self, *checks: Check) -> bool:
        """Whether one of these rules finds anything: it names the mistake, and others are silent."""
        return any(self.found(check) for check in checks)

    def accesses(self, record: OpRecord) -> list[RegionAccess]:
        """What a tile operation touches; nothing for operations that the registry does not know."""
        found = self._accesses.get(record)
        if found is None:
            op = TILE_OPS.get(record.op)
            found = self._accesses[record] = [] if op is None else list(op.accesses(record))
        return found

    @cached_property
    def loops_with_jumps(self) -> set[Loop]:
        """Loops that a `break` or `continue` may cut short, and `while` loops."""
        found: set[Loop] = set()
        for node in walk(self.program.body):
            if isinstance(node, For) and (
                node.loop.kind == "while" or any(isinstance(n, Jump) for n in walk(node.body))
            ):
                found.add(node.loop)
        return found

    def surely_runs(self, context: Context) -> Mapping[ir.Var, tuple[Value, Value]] | None:
        """The loop variables around a statement that runs for every combination of their values.

        None where a condition, an undecided branch, a `break` or a possibly empty loop may keep it from
        running. Blocks and threads count as loops.
        """
        if context.guards or context.maybe:
            return None
        found: dict[ir.Var, tuple[Value, Value]] = {}
        for loop in context.loops:
            if loop in self.loops_with_jumps or not all(self._nonempty(e) for e in loop.extents):
                return None
            if as_int(loop.step) == 1:
                found |= {v: self.ranges[v] for v in loop.vars if v in self.ranges}
        launch = self.launch
        if launch is not None and all(self._nonempty(e) for e in launch.grid):
            around = (*launch.block_vars, *launch.thread_vars)
            found |= {v: self.ranges[v] for v in around if v in self.ranges}
        return self._independent(found)

    def _nonempty(self, extent: Value) -> bool:
        number = as_int(extent)
        if number is not None:
            return number > 0
        return self.prover.at_least(extent, 1) is True

    def _independent(
        self, found: dict[ir.Var, tuple[Value, Value]]
    ) -> Mapping[ir.Var, tuple[Value, Value]] | None:
        names = set(found)
        for low, extent in found.values():
            if free_vars(low) & names or free_vars(extent) & names:
                return None
        return found


Check = Callable[[Subject], Iterator[Problem]]


def is_assumption(value: Value) -> bool:
    """Whether a call for its effect is T.assume, which has none."""
    return isinstance(value, ir.Call) and isinstance(value.op, ir.Op) and value.op.name == ASSUME


def soften(problem: Problem, context: Context) -> Problem:
    """A hint at most where the statement stands in a branch the frontend could not decide."""
    return problem.with_severity(Severity.HINT) if context.maybe else problem


def is_tile(buffer: Buffer) -> bool:
    """Whether the buffer is allocated by the kernel and holds more than one scalar variable."""
    return buffer.role is None and buffer.scope not in ("global", "local.var")
