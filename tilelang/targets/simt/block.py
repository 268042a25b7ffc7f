"""What lowerings on the threads of a block share: the thread number, the layouts, the registers that stand
for fragments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm import ir, sym
from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.diagnostics.span import Span
from tilelang.ir.simplify import simplify
from tilelang.ir.spans import from_tvm
from tilelang.ir.teams import Team
from tilelang.layout.fragment import Fragment
from tilelang.passes.infer_layouts import LayoutMap
from tilelang.passes.parallel_loop import VectorWidths
from tilelang.passes.walk import index
from tilelang.runtime.plan import TensorMap


@dataclass(eq=False)
class Block:
    """One block being lowered.

    `thread` is the linear thread number, below `threads`; inside the code of a team (`ir.teams`) both are the
    team's, which begins at thread `first` of the block. `outer` holds the ends of serial loops around the
    current statement, where they are constants: handle of the variable -> end.
    """

    target: Target
    threads: int
    thread: Any  # counted from the first one of the team
    layouts: LayoutMap
    analyzer: sym.Analyzer
    outer: Mapping[int, int] = field(default_factory=dict)
    workspaces: list[ir.Var] = field(default_factory=list)
    frugal: bool = False  # operations take turns in one workspace, at the price of barriers between them
    instructions: dict[Span, str] = field(default_factory=dict)
    first: int = 0
    scattered: bool = False  # other threads of their warps are elsewhere: no shuffles
    products: list[ir.Var] = field(default_factory=list)  # registers of asynchronous products, oldest first
    maps: dict[TensorMap, ir.Var] = field(default_factory=dict)  # descriptors, and their parameters
    _registers: dict[int, ir.Var] = field(default_factory=dict)
    _common: dict[Any, ir.Var] = field(default_factory=dict)  # the workspaces that operations share

    @property
    def team(self) -> Team:
        """The threads that this is about."""
        return Team(self.first, self.threads)

    @property
    def widths(self) -> VectorWidths:
        return VectorWidths(self.analyzer, self.layouts.shared)

    def fragment(self, buffer: ir.Var) -> Fragment:
        """The layout of a fragment buffer."""
        return self.layouts.fragments[buffer.__chandle__()]

    def registers(self, buffer: ir.Var, view_of: ir.Var | None = None) -> ir.Var:
        """The array of each thread that holds its part of a fragment; a view has one over the same bits."""
        handle = buffer.__chandle__()
        if handle not in self._registers:
            count = self.fragment(buffer).registers
            data = None if view_of is None else view_of.data
            self._registers[handle] = local(str(buffer.name), str(buffer.dtype), count, data)
        return self._registers[handle]

    def name_alike(self, view: ir.Var, array: ir.Var) -> None:
        """Let the view of a fragment stand for the array that holds it."""
        self._registers[view.__chandle__()] = array

    def workspace(self, name: str, dtype: str, count: int) -> ir.Var:
        """Shared memory for the inside of one operation; allocated at the top of the block."""
        users = (dtype, str(self.thread), self.threads)  # the same threads, which meet at the same barriers
        found = self._common.get(users)
        if self.frugal and found is not None and int(found.shape[0]) >= count:
            return found
        buffer = X.decl_buffer((count,), dtype, name, scope="shared")
        self.workspaces.append(buffer)
        self._common[users] = buffer
        return buffer

    def bind(self, var: ir.Var, extent: int) -> None:
        """`var` runs from 0 to `extent` - 1."""
        self.analyzer.bind(var, ir.Range.from_min_extent(index(0), index(extent)), True)

    def simplify(self, value: Any) -> Any:
        return simplify(self.analyzer, value) if isinstance(value, ir.Expr) else index(value)

    def note_instruction(self, span: Any, text: str) -> None:
        """Remember which instruction the operation at `span` became, for hovers."""
        place = from_tvm(span)
        if place is not None:
            self.instructions[place] = text


def local(name: str, dtype: str, count: int, data: Any = None) -> ir.Var:
    """A register array of each thread; over memory that has another name already if `data` is given."""
    return X.decl_buffer((count,), dtype, name, data=data, scope="local")


def unrolled(var: ir.Var, extent: int, body: Any, span: Any) -> Any:
    """`for var in 0..extent` fully unrolled; just the body where it runs once (`var` must then be replaced by
    0).
    """
    return X.For(var, index(0), index(extent), X.ForKind.UNROLLED, body, span=span)


def ramp(base: Any, lanes: int) -> Any:
    """`base, base + 1, ...`: an access to `lanes` neighbouring elements at once."""
    return X.Ramp(index(base), index(1), lanes)
