"""What every tile operation answers: how it is checked, what it touches, how it is described, how it is
built.

One file per operation defines (a) a frozen dataclass of its lowered form, over TIRX regions, with `call()`
and `read(call)`, which layout inference and the targets' lowerings consume, and (b) a `TileOp` record,
which the frontend, the rules and the hovers use through `ops.registry.TILE_OPS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tilelang.arch.target import Target
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import Prover, free_vars
from tilelang.ir.teams import Branches, Team, branches, team_under, thread_numbers
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Buffer, Region, Unknown, as_int

Mode = Literal["read", "write", "update"]  # update: reads the old contents, then writes


@dataclass(frozen=True)
class RegionAccess:
    """A region that an operation reads or writes, with the extents it really covers there."""

    argument: str  # parameter name in the declaration
    region: Region
    mode: Mode
    extents: tuple[Any, ...]  # per dimension of the buffer


@dataclass(frozen=True)
class OpDescription:
    """The words of a hover and of an inlay hint."""

    summary: str
    hint: str
    instruction: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class WgmmaChoice:
    """Which tiles keep a T.gemm from wgmma: shared ones that are laid out in another way (by storage), and
    fragments that a gemm on mma.sync takes too.
    """

    unswizzled: frozenset[Buffer] = frozenset()
    refused: frozenset[Buffer] = frozenset()


@dataclass(frozen=True)
class CheckContext:
    """What a verification may know beyond the record."""

    target: Target
    threads: int | None  # of a block, None where unknown
    constants: frozenset[Any] = frozenset()  # symbols (T.const) that are numbers once the kernel is compiled
    prover: Prover = field(default_factory=Prover)  # knows which symbols are extents, hence positive
    text: str = ""  # the module's source, for fixes that need it
    launch: Span | None = None  # the `T.Kernel(...)` call, if there is exactly one
    thread_vars: tuple[tuple[Any, int], ...] = ()  # of the launch, with their extents, x first
    wgmma: WgmmaChoice | None = None  # None: no gemm of this kernel becomes wgmma on this target

    def threads_of(self, record: OpRecord) -> int | None:
        """Threads that do an operation together: those of the block, or of the team whose code it stands in
        (`ir.teams`). None where that is not known.
        """
        team = self.team_of(record)
        return None if team is None else team.threads

    def team_of(self, record: OpRecord) -> Team | None:
        """The threads that do an operation together; None where that is not known."""
        if self.threads is None:
            return None
        block = Team(0, self.threads)
        guards = [
            (g.condition, g.negated) for g in record.context.guards if not isinstance(g.condition, Unknown)
        ]
        if not guards or self.target.kind != "cuda":
            return block
        numbers = thread_numbers([(v.__chandle__(), n) for v, n in self.thread_vars])
        return team_under(guards, numbers, block)

    def whole_block(self) -> Team | None:
        """All threads of a block, where teams of them can meet at barriers of their own; else None."""
        return Team(0, self.threads) if self.threads is not None and self.target.kind == "cuda" else None

    def teams_of(self, condition: Any, has_else: bool, within: Team | None) -> Branches | None:
        """The teams that take the branches of a condition and can meet in them; None where some cannot."""
        if within is None or isinstance(condition, Unknown):
            return None
        numbers = thread_numbers([(v.__chandle__(), n) for v, n in self.thread_vars])
        parted = branches(condition, numbers, within)
        if parted is None or parted[0] is None or (has_else and parted[1] is None):
            return None
        return parted

    def runtime(self, value: Any) -> bool:
        """Whether a size is certainly not known when the kernel is compiled."""
        return (
            not isinstance(value, Unknown)
            and as_int(value) is None
            and not self.constants >= free_vars(value)
        )


@dataclass(frozen=True)
class TileOp:
    """One tile operation of the language.

    `verify` yields every proven problem (never stops at the first; Unknown or symbolic sizes that decide
    nothing are silent). `accesses` names the regions it touches. `describe` words it. `build` returns the
    TIRX statement `Evaluate(tl.<name>(...))`, called only for records without problems and without Unknown.
    """

    name: str
    verify: Callable[[OpRecord, CheckContext], Iterator[Problem]]
    accesses: Callable[[OpRecord], Sequence[RegionAccess]]
    describe: Callable[[OpRecord, CheckContext], OpDescription]
    build: Callable[[OpRecord], Any]
