"""Which copies of a pipelined loop may run ahead of their iteration, and what keeps the others.

The pass that rewrites the loop and the rules that explain it describe the statements of its body in the same
terms and ask here, so that what the editor says is what the compiler does. Memory and scalars are named by
any keys that compare equal for the same thing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

Hindrance = Literal[
    "part",  # it fills a part of its tile
    "read-before",  # the iteration reads the tile before it is refilled
    "written-twice",  # another statement of the iteration writes the tile too
    "source-written",  # the loop writes the tensor that is loaded
    "index-changes",  # its indices depend on what the loop computes
]


@dataclass(frozen=True)
class Load:
    """A copy from global memory to a shared tile. `whole`: it fills all of a tile of constant size.

    `uses`: what its indices depend on, scalars of the body replayed. `steady`: memory among `uses` is global
    or a scalar variable, so that it can be read early at all.
    """

    src: Hashable
    dst: Hashable
    whole: bool
    uses: frozenset[Hashable]
    steady: bool = True


@dataclass(frozen=True)
class Step:
    """One statement of the body: the memory that it reads and writes, the scalars that are bound inside of it
    and cannot be replayed, and the load that it is, if it is one.
    """

    reads: frozenset[Hashable]
    writes: frozenset[Hashable]
    binds: frozenset[Hashable] = frozenset()
    load: Load | None = None


def hindrance(steps: Sequence[Step], at: int) -> Hindrance | None:
    """What keeps the load `steps[at]` from running early as far as its loop alone tells; None for nothing."""
    load = steps[at].load
    if load is None:
        raise ValueError("the step is no load")
    if not load.whole:
        return "part"
    if any(load.dst in s.reads | s.writes for s in steps[:at]):
        return "read-before" if any(load.dst in s.reads for s in steps[:at]) else "written-twice"
    if any(load.dst in s.writes for s in steps[at + 1 :]):
        return "written-twice"
    written = frozenset().union(*(s.writes for s in steps)) - {load.dst}
    if load.src in written:
        return "source-written"
    bound = frozenset().union(*(s.binds for s in steps))
    if load.uses & (written | {load.dst} | bound) or not load.steady:
        return "index-changes"
    return None
