"""Run a function in a process of its own with a time limit: mutants crash, hang and overwrite memory."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any


class Died(Exception):
    """The process ended without an answer, and how."""


def isolated(function: Callable[..., Any], *args: Any, seconds: float = 20.0) -> Any:
    """What `function(*args)` returns or raises, from a forked process. Died if it crashed or took longer.

    The parent must have no threads that hold locks: it imports the compiler and does nothing else.
    """
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        _answer(send, function, args)
    os.close(send)
    data = None
    try:
        data = _read(receive, time.monotonic() + seconds)
    finally:
        os.close(receive)
        if data is None:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if data is None:
        raise Died(f"still running after {seconds:.0f} s")
    if not data:
        raise Died(
            f"crashed: signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended without an answer"
        )
    ok, value = pickle.loads(data)
    if ok:
        return value
    raise value


def _answer(send: int, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """In the child: compute, write the answer, end at once."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    try:
        data = pickle.dumps((True, function(*args)))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent hears of it
        data = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}"[:500])))
    with os.fdopen(send, "wb") as pipe:
        pipe.write(data)
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    os._exit(0)


def _read(receive: int, until: float) -> bytes | None:
    """Everything the child writes, None if time is up before it ends."""
    parts = []
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([receive], [], [], left)[0]:
            return None
        part = os.read(receive, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
