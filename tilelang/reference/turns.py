"""Parts of a program that wait for each other, one of them running at a time: blocks of a grid, warp groups.

Each part has a thread of Python for its stack; which one runs is decided here, in order of their numbers, so
that every run is the same. A part gives up its turn only where it waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

Ready = Callable[[], bool]


class Stuck(Exception):
    """No part can go on: each waits for something that none of them does. `place`: where the first waits."""

    def __init__(self, place: Any) -> None:
        super().__init__()
        self.place = place


class _Abandoned(BaseException):
    """Ends a waiting part after another one has failed."""


class _Part:
    """One part: its thread and what it waits for."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.ready: Ready = _at_once
        self.place: Any = None  # where it waits
        self.over, self.abandoned = False, False
        self.failure: BaseException | None = None
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._work = work
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def _live(self) -> None:
        self._go.acquire()
        try:
            if not self.abandoned:
                self._work()
        except _Abandoned:
            pass
        except BaseException as failure:  # noqa: BLE001 - raised by whoever runs the parts
            self.failure = failure
        self.over = True
        self._back.release()

    def turn(self) -> None:
        """Let it run until it waits or ends."""
        self._go.release()
        self._back.acquire()
        if self.over:
            self._thread.join()

    def wait(self, ready: Ready, place: Any) -> None:
        """Called in its thread: give up the turn until `ready()`."""
        self.ready, self.place = ready, place
        self._back.release()
        self._go.acquire()
        if self.abandoned:
            raise _Abandoned


def _at_once() -> bool:
    return True


class Turns:
    """Who runs. One for a whole program; parts may themselves have parts."""

    def __init__(self) -> None:
        self._running: list[_Part] = []  # the innermost last

    def wait(self, ready: Ready, place: Any) -> None:
        """Go on when `ready()`. Raises Stuck where nothing else runs that could make it so."""
        if ready():
            return
        if not self._running:
            raise Stuck(place)
        self._running[-1].wait(ready, place)

    def together(self, works: Sequence[Callable[[], None]]) -> None:
        """Run all of `works` to their ends. Raises what one of them raises, and Stuck."""
        parts = [_Part(work) for work in works]
        try:
            while any(not p.over for p in parts):
                able = [p for p in parts if not p.over and p.ready()]
                if not able:  # perhaps something outside of these parts lets one go on
                    waiting = [p for p in parts if not p.over]
                    self.wait(lambda: any(p.ready() for p in waiting), waiting[0].place)  # noqa: B023 (called now)
                for part in able:
                    self._running.append(part)
                    part.turn()
                    self._running.pop()
                    if part.failure is not None:
                        raise part.failure
        finally:
            for part in parts:
                if not part.over:
                    part.abandoned = True
                    part.turn()
