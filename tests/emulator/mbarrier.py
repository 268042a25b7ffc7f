"""mbarriers of an emulated block: arrivals, bytes of asynchronous copies, parities (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.emulator.memory import EmulationError, SharedMemory


@dataclass
class Mbarrier:
    """One barrier. `row` is what its current phase has been told (`Order.publish`), `known` what the last
    complete one had.
    """

    count: int
    left: int
    parity: int = 0  # of the phase that is going on
    bytes: int = 0  # still expected, below 0 where more came than was announced yet
    row: np.ndarray | None = None
    known: np.ndarray | None = None
    # Copies on their way: the thread that began one, and what lets it land and gives its bytes.
    landings: list[tuple[int, Callable[[], int]]] = field(default_factory=list)

    def arrive(self, who: np.ndarray, shared: SharedMemory, times: int = 1) -> None:
        told = shared.order.publish(who)
        self.row = told if self.row is None else np.maximum(self.row, told)
        self.left -= times
        if self.left < 0:
            raise EmulationError("more threads arrive at a barrier than it was made for")
        self.turn()

    def land(self, shared: SharedMemory) -> None:
        """Let the copies on their way arrive: as late as can be, when somebody waits for them."""
        for thread, landing in self.landings:
            self.bytes -= landing()
            told = shared.order.publish(np.array([thread]))
            self.row = told if self.row is None else np.maximum(self.row, told)
        self.landings = []
        self.turn()

    def turn(self) -> None:
        """Begin the next phase if this one is complete."""
        if self.left or self.bytes or self.landings:
            return
        self.left, self.parity = self.count, self.parity ^ 1
        self.known = self.row

    def passed(self, parity: int) -> bool:
        """Whether the phase of that parity is complete."""
        return self.parity != parity
