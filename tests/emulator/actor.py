"""Threads of a block that run in step, and what they have on its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Ready = Callable[[], bool]
Steps = Iterator[Ready]  # what runs until it has to wait for something


@dataclass
class Product:
    """A wgmma on its way: (array of registers, first thread), where its results go, what it read."""

    key: tuple[int, ...]
    registers: np.ndarray
    at: tuple[np.ndarray, np.ndarray]
    new: np.ndarray
    read: list[Any]
    held: Any = None  # (array, places, values) of an operand in registers


@dataclass(eq=False)
class Actor:
    """Threads of a block that run in step: all of them, or a warp group where groups wait for each other."""

    mask: np.ndarray
    values: dict[int, Any]
    line: int = 0
    groups: list[Any] = field(default_factory=list)  # cp.async, committed
    open: list[Any] = field(default_factory=list)  # cp.async, since the last commit
    left: list[np.ndarray] = field(default_factory=list)  # by loop: threads that left it by `break`
    skipped: list[np.ndarray] = field(default_factory=list)  # threads that skip the rest of an iteration
    products: list[Any] = field(default_factory=list)  # wgmma, committed
    begun: list[Any] = field(default_factory=list)  # single wgmma, since the last commit
    groups_of_products: list[Any] = field(default_factory=list)  # single wgmma, committed
    stores: list[Any] = field(default_factory=list)  # bulk stores, committed
    leaving: list[Any] = field(default_factory=list)  # bulk stores, since the last commit


class Meeting:
    """Threads that wait for each other at a barrier."""

    def __init__(self) -> None:
        self.rounds, self.came = 0, np.zeros(0, int)
        self.waiting = np.zeros(0, int)
        self.row: np.ndarray | None = None
