"""mbarriers: counters of arrivals, in phases (PTX ISA, "mbarrier"). Copies are done at once, so that bytes
count only where a program announces some by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

OPERATIONS = frozenset(
    {
        "tl.mbarrier_init",
        "tl.mbarrier_arrive",
        "tl.mbarrier_wait",
        "tl.mbarrier_expect_tx",
        "tl.mbarrier_arrive_expect_tx",
        "tl.cp_async_arrive",
    }
)


@dataclass
class Barrier:
    """One barrier of `count` arrivals; `left` of them and `bytes` are missing in the phase of `parity`."""

    count: int
    left: int
    parity: int = 0
    bytes: int = 0

    def arrive(self, times: int = 1) -> None:
        """So many arrivals, each of which may end a phase."""
        for _ in range(times):
            self.left -= 1
            self.settle()

    def settle(self) -> None:
        """Begin the next phase if nothing is missing in this one."""
        if self.left == 0 and self.bytes == 0:
            self.left, self.parity = self.count, self.parity ^ 1

    def passed(self, parity: int) -> bool:
        """Whether the latest phase of that parity is complete."""
        return self.parity != parity
