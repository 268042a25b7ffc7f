"""Teams: whole warps of a block that run code of their own, behind a condition on the thread's number.

`with T.ws(1):` makes one, as does `if tx < 128:`. A team shares its tile operations out among its threads as
a block does; fragments that it touches are its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilelang.ir.evaluate import NotEvaluable, evaluate

WARP = 32


@dataclass(frozen=True)
class Team:
    """`threads` neighbouring threads of a block from `first` on."""

    first: int
    threads: int

    def __str__(self) -> str:
        return f"threads {self.first} to {self.first + self.threads - 1}"

    def has(self, numbers: Any) -> Any:
        """Whether threads (a number or an array of them) belong to the team."""
        return (numbers >= self.first) & (numbers < self.first + self.threads)


Branches = tuple[Team | None, Team | None]


def thread_numbers(axes: Sequence[tuple[int, int]]) -> dict[int, np.ndarray]:
    """Handle of a thread variable -> its value in every thread; `axes`: (handle, extent), x first."""
    total = int(np.prod([extent for _, extent in axes], dtype=int))
    found, left = {}, np.arange(total)
    for handle, extent in axes:
        found[handle] = left % extent
        left = left // extent
    return found


def branches(condition: Any, numbers: Mapping[int, np.ndarray], within: Team) -> Branches | None:
    """The teams that take the branches of a condition, of the threads `within`.

    None for a condition on more than the thread's number, or one that is the same for all. A branch that no
    whole warps side by side take has no team.
    """
    try:
        found = np.asarray(evaluate(condition, numbers), bool)
    except NotEvaluable:
        return None
    threads = len(next(iter(numbers.values()), np.zeros(1)))
    holds = np.broadcast_to(found, (threads,))[within.first : within.first + within.threads]
    if holds.all() or not holds.any():
        return None
    return _team(holds, within), _team(~holds, within)


def team_under(
    guards: Sequence[tuple[Any, bool]], numbers: Mapping[int, np.ndarray], block: Team
) -> Team | None:
    """The team that comes to a place under conditions, each with whether it stands in the else branch.

    None where only some threads of a warp come, or warps that are not side by side.
    """
    team: Team | None = block
    for condition, negated in guards:
        parted = branches(condition, numbers, team) if team is not None else None
        if parted is not None:
            team = parted[1 if negated else 0]
    return team


def _team(mask: np.ndarray, within: Team) -> Team | None:
    chosen = np.flatnonzero(mask)
    first, count = int(chosen[0]), len(chosen)
    if int(chosen[-1]) - first + 1 != count or first % WARP or count % WARP:
        return None
    return Team(within.first + first, count)
