"""Which accesses came before which, for the threads of one block: barriers of all, of some, and mbarriers.

Accesses are stamped with `now`. `seen[t, u]` says that thread t comes after all that thread u did before that
time; while only barriers of the whole block happened, `now` alone says so.
"""

from __future__ import annotations

import numpy as np

NOBODY, MANY, ATOMIC = -1, -2, -3
GROUP = 128  # threads of a warp group: several readers of one are remembered together


class Order:
    """The order of one block of `threads`."""

    def __init__(self, threads: int) -> None:
        self.threads, self.now = threads, 0
        self._seen: np.ndarray | None = None

    def barrier(self) -> None:
        """A barrier of all threads."""
        self.now += 1
        if self._seen is not None:
            self._seen[:] = self.now

    def publish(self, who: np.ndarray) -> np.ndarray:
        """What a thread that meets the threads `who` later comes after."""
        seen = self._matrix()
        self.now += 1
        row = seen[who].max(axis=0)
        row[who] = self.now
        return row

    def learn(self, who: np.ndarray, row: np.ndarray) -> None:
        """The threads `who` come after what was published."""
        seen = self._matrix()
        seen[who] = np.maximum(seen[who], row)

    def after(self, thread: np.ndarray, owner: np.ndarray, stamp: np.ndarray) -> np.ndarray:
        """Whether `thread` comes after the access that `owner` (a thread, an atomic) made at `stamp`."""
        if self._seen is None:
            return stamp < self.now
        return np.where(owner < 0, stamp < self.now, self._seen[thread, np.maximum(owner, 0)] > stamp)

    def after_readers(
        self, thread: np.ndarray, group: int, owner: np.ndarray, stamp: np.ndarray
    ) -> np.ndarray:
        """The same for readers of one group, which may be several."""
        if self._seen is None:
            return stamp < self.now
        least = self._seen[:, group * GROUP : (group + 1) * GROUP].min(axis=1)
        known = self._seen[thread, np.maximum(owner, 0)]
        return np.where(owner == MANY, least[thread], known) > stamp

    def _matrix(self) -> np.ndarray:
        if self._seen is None:
            self._seen = np.full((self.threads, self.threads), self.now)
        return self._seen
