"""A few processes that share a list of tasks; each imports what it needs once.

A process that dies at a task, or hangs at it, costs that task only: a new one takes its place.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any


@dataclass(frozen=True)
class Lost:
    """A task without a result, and why: its process `ended by signal 11`, or `gave no answer in 60 s`."""

    why: str


class Workers:
    """`n` processes that carry out `work`, a function that a module defines; started when needed.

    limit_s: how long one task may take.
    """

    def __init__(self, work: Callable[[Any], Any], n: int, limit_s: float) -> None:
        self._work = work
        self._n = n
        self._limit_s = limit_s

    def map(self, tasks: Sequence[Any]) -> list[Any]:
        """The result of each task, in their order; `Lost` where there is none."""
        results: list[Any] = [None] * len(tasks)
        todo = list(enumerate(tasks))[::-1]
        busy: dict[Connection, _Worker] = {}
        try:
            while todo or busy:
                while todo and len(busy) < self._n:
                    index, task = todo.pop()
                    worker = _Worker(self._work)
                    worker.give(index, task, self._limit_s)
                    busy[worker.connection] = worker
                soonest = min(w.deadline for w in busy.values())
                for connection in wait(list(busy), max(0.0, soonest - time.monotonic())):
                    assert isinstance(connection, Connection)
                    worker = busy[connection]
                    results[worker.index], alive = worker.answer()
                    if alive and todo:
                        worker.give(*todo.pop(), self._limit_s)
                    else:
                        busy.pop(connection).end()
                now = time.monotonic()
                for connection in [c for c, w in busy.items() if w.deadline <= now]:
                    worker = busy.pop(connection)
                    results[worker.index] = Lost(f"gave no answer in {self._limit_s:g} s")
                    worker.end()
        finally:
            for worker in busy.values():
                worker.end()
        return results


class _Worker:
    """One process and the task it is at."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        # Not by fork: a process that has loaded tvm holds threads and locks that its copy would wait for.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self._process.start()
        theirs.close()
        self.index = -1
        self.deadline = 0.0

    def give(self, index: int, task: Any, limit_s: float) -> None:
        self.index, self.deadline = index, time.monotonic() + limit_s
        with suppress(BrokenPipeError):  # it is gone, which `answer` says
            self.connection.send(task)

    def answer(self) -> tuple[Any, bool]:
        """The result, and whether the process is still there. An exception of the task is raised here."""
        try:
            result = self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode or 0
            return Lost(f"ended by signal {-code}" if code < 0 else f"ended with status {code}"), False
        if isinstance(result, BaseException):
            raise result
        return result, True

    def end(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.join()


def available_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _serve(connection: Connection, work: Callable[[Any], Any]) -> None:
    """The life of a process: one task after the other, until nobody gives any."""
    logging.getLogger("tilelang").setLevel(logging.ERROR)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when it is over
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]  # tvm_ffi would import it, for two seconds
    while True:
        try:
            task = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            result: Any = work(task)
        except Exception as error:  # noqa: BLE001 - raised again where the result is waited for
            result = error
        connection.send(result)
