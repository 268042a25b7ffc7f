"""What a target's lowering returns, the same for every target.

A target folder offers in `lower.py` one function `lower(func: PrimFunc, target: Target) -> LoweredKernel`,
and in `toolchain.py` `build(lowered: LoweredKernel, flags: Sequence[str]) -> Artifact`, which raises where
this machine cannot build for the target (`driver`).

The thread-level function (`LoweredKernel.func`) is TIRX made only of: SeqStmt, For (SERIAL, UNROLLED,
VECTORIZED on the CPU), While, IfThenElse, Break, Continue, Bind, BufferStore, AllocBuffer, DeclBuffer,
Evaluate of `tl.*` calls that the target's table of intrinsics knows, and `thread_extent` AttrStmts around
everything. Buffers are flat (one index). Scopes: `global` (parameters), `shared` (placed in one arena, see
`shared_offsets`), `local` (registers). A Ramp as the index of a store or a load moves that many neighbours at
once; it is aligned to its width, up to 16 bytes, counted from the beginning of the tensor, so tensors must be
aligned to 16 bytes. Addresses are `address_of(load)`. Parameters are those of the tile function, then the
sizes that shapes depend on, in the order of `LaunchPlan.arguments`. Each statement keeps the span of the
Python statement it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm import ir
from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.diagnostics.span import Span
from tilelang.facts.reports import GeneratedSource
from tilelang.runtime.artifact import Artifact
from tilelang.runtime.plan import LaunchPlan


@dataclass(frozen=True, eq=False)
class LoweredKernel:
    """One kernel lowered for one target, with its source and its launch plan."""

    name: str
    target: Target
    func: X.PrimFunc  # thread-level
    plan: LaunchPlan
    source: GeneratedSource
    shared_offsets: Mapping[ir.Var, int] = field(default_factory=dict)  # buffer -> byte offset in the arena
    layouts: Mapping[str, str] = field(default_factory=dict)  # buffer name -> one line for people
    registers: Mapping[str, int] = field(default_factory=dict)  # fragment name -> elements per thread
    instructions: Mapping[Span, str] = field(default_factory=dict)  # Python span of an op -> its instruction
    notes: tuple[str, ...] = ()  # what the kernel does not get, and why
    parts: tuple[LoweredKernel, ...] = ()  # of several launches: each, the first included

    def artifact(self, binary: bytes = b"", binary_format: str = "") -> Artifact:
        """The kernel as it is saved and launched, with what its toolchain made of the source."""
        return Artifact(
            name=self.name,
            target=self.target.name,
            plan=self.plan,
            source=self.source.text,
            language=self.source.language,
            line_map=self.source.line_map,
            binary=binary,
            binary_format=binary_format,
        )
