"""What happens where a `@T.prim_func` is defined: it is read once, with the names as they are then.

Mistakes that no target would accept are raised there, as the language has it; what depends on the target
waits until the kernel is compiled. `language.functions` calls `define`; this module stands above the rooms
because a declaration may import none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tvm import tirx as X

from tilelang.analysis.check import unique, verify
from tilelang.analysis.subject import Subject
from tilelang.arch.target import Target
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.registry import RULES
from tilelang.frontend.environments.live import live_function, trace_lazy
from tilelang.frontend.model import Function
from tilelang.frontend.python.native_functions import SourceNotFound
from tilelang.ir.tile_program import TileProgram
from tilelang.jit.compiling import prim_func_of, raise_errors
from tilelang.jit.options import default_target
from tilelang.jit.tile_function import TileFunction
from tilelang.language.functions import KernelFunction

# Operations are verified for some target; only what holds on each of them is raised at the definition.
_ANY_TARGET = Target("cuda", "sm_90")
_RULES = frozenset({"reduce-scope", "reduce-dtype", "scan-scope"})


@dataclass(frozen=True)
class Definition:
    """A kernel as it was when it was defined: its function with the names around it, and its program."""

    function: Function
    program: TileProgram

    @property
    def kind(self) -> type:
        """The class of `tile_function`."""
        return X.PrimFunc

    @cached_property
    def tile_function(self) -> TileFunction:
        """The kernel before any lowering. Raises KernelError with every problem."""
        return TileFunction.of(prim_func_of(self.program, default_target()))

    def text(self) -> str | None:
        """The kernel as tvm prints it; None for one with mistakes, or that needs values to be known."""
        try:
            return str(self.tile_function.script())
        except ValueError:  # a KernelError is one
            return None


def define(kernel: KernelFunction) -> None:
    """Read `kernel` and keep what was read as its `definition`; none for one whose source is not to be had.

    Raises KernelError with the mistakes that no target would accept.
    """
    try:
        function = live_function(kernel.function)
    except SourceNotFound:
        return  # compiling it says so
    program = trace_lazy(function)
    subject = Subject(program, _ANY_TARGET)
    problems = [*program.problems, *filter(_holds_everywhere, verify(subject))]
    raise_errors(unique(p for p in problems if p.severity is Severity.ERROR))
    kernel.definition = Definition(function, program)


def _holds_everywhere(problem: Problem) -> bool:
    return RULES[problem.rule].family == "shape" or problem.rule in _RULES
