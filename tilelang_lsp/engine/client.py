"""The server's side of the analysis process: start it, keep a spare, cancel stale work, survive its death."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilelang_lsp
from tilelang_lsp.engine.messages import (
    HEADER_BYTES,
    CheckAnswer,
    CheckRequest,
    GenerateAnswer,
    GenerateRequest,
    body_length,
    decode_body,
    encode_frame,
)

log = logging.getLogger(__name__)

ANALYSIS_COMMAND = (sys.executable, "-m", "tilelang_lsp.engine.worker")

# A kernel of 2,000 lines takes seconds at most; what takes longer hangs.
STEP_LIMIT_S = 20.0
# The spare imports the compiler too: not while the first file is being analysed, on a machine with two cores.
SPARE_DELAY_S = 3.0
# After this many processes in a row that never became ready, the next one is not tried before a new request.
_MAX_FAILED_STARTS = 3


class AnalysisFailed(Exception):
    """A request cannot be answered: the process died or hung at it, or it failed inside the compiler."""

    def __init__(self, message: str, kernel: str | None = None) -> None:
        super().__init__(message)
        self.kernel = kernel


class AnalysisUnavailable(AnalysisFailed):
    """No analysis process can be started at all, for the reason in the message."""


@dataclass
class _Pending:
    message: dict[str, Any]
    future: asyncio.Future[dict[str, Any]]
    deaths: int = 0
    kernel: str | None = None
    memo_key: str | None = None
    started: bool = False


class _Process:
    """One running analysis process. `on_message` gets what it says, `on_end` is called once, at its end."""

    def __init__(
        self, command: Sequence[str], on_message: Callable[[Any, dict], None], on_end: Callable[[Any], None]
    ) -> None:
        self._command = command
        self._on_message = on_message
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: list[bytes] = []
        self.ready = False
        self.unusable: str | None = None
        self.ended = False
        self.task = asyncio.ensure_future(self._run())

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def send(self, message: dict[str, Any]) -> None:
        frame = encode_frame(message)
        if self._process is None or self._process.stdin is None:
            self._waiting.append(frame)
        elif not self.ended:
            self._process.stdin.write(frame)

    def kill(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        if sys.platform == "win32":
            self._process.kill()
            return
        try:
            # Not Process.kill: it polls, and so takes the exit status away from asyncio's own watcher.
            os.kill(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            log.debug("the analysis process %s is gone already", self._process.pid)

    async def _run(self) -> None:
        try:
            # Not in the user's folder: with `-m` Python would import modules from there.
            home = Path(tilelang_lsp.__file__).resolve().parent.parent
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=home
            )
            for frame in self._waiting:
                self._process.stdin.write(frame)  # type: ignore[union-attr]
            await self._read(self._process.stdout)
        except OSError as error:
            self.unusable = f"cannot start {self._command[0]}: {error}"
        finally:
            self.ended = True
            self.kill()
            self._on_end(self)
            if self._process is not None:
                await self._process.wait()

    async def _read(self, stream: asyncio.StreamReader | None) -> None:
        if stream is None:
            return
        while True:
            try:
                header = await stream.readexactly(HEADER_BYTES)
                message = decode_body(await stream.readexactly(body_length(header)))
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            if message["event"] == "ready":
                self.ready = True
                log.info("analysis process %s ready after %.2f s", message["pid"], message["seconds"])
            elif message["event"] == "unusable":
                self.unusable = message["message"]
            self._on_message(self, message)


class AnalysisClient:
    """Asks the analysis process. Make it inside a running event loop; `stop` it at the end."""

    def __init__(
        self,
        command: Sequence[str] = ANALYSIS_COMMAND,
        *,
        step_limit_s: float = STEP_LIMIT_S,
        spare_delay_s: float = SPARE_DELAY_S,
    ) -> None:
        self._command = command
        self._step_limit_s = step_limit_s
        self._spare_delay_s = spare_delay_s
        self._ids = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._current: _Process | None = None
        self._spare: _Process | None = None
        self._failed_starts = 0
        self._deadly: dict[str, None] = {}  # memo keys that ended a process, in order
        self._last_sign = time.monotonic()
        self._watchdog: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def ready(self) -> bool:
        """Whether a request would be worked on at once."""
        return self._current is not None and self._current.ready

    @property
    def pid(self) -> int | None:
        """Process id of the analysis process in use."""
        return self._current.pid if self._current else None

    def start(self) -> None:
        if self._current is None and not self._stopped:
            self._current = self._spawn()
            self._watchdog = asyncio.ensure_future(self._watch())

    async def stop(self) -> None:
        """End the processes. Requests in flight fail."""
        self._stopped = True
        for task in [*self._background, *([self._watchdog] if self._watchdog else [])]:
            task.cancel()
        processes = [p for p in (self._current, self._spare) if p is not None]
        self._current = self._spare = None
        for process in processes:
            process.kill()
        await asyncio.gather(*(p.task for p in processes), return_exceptions=True)
        self._fail_all(AnalysisUnavailable("the server is shutting down"))

    async def check(self, request: CheckRequest) -> CheckAnswer:
        """Analyse a text. Cancel the awaiting task to give up. Raises AnalysisFailed."""
        message = {"method": "check", **request.to_json(), "skip": [*request.skip, *self._deadly]}
        return CheckAnswer.from_json(await self._ask(message))

    async def generate(self, request: GenerateRequest) -> GenerateAnswer:
        """Lower one kernel. Cancel the awaiting task to give up. Raises AnalysisFailed."""
        return GenerateAnswer.from_json(await self._ask({"method": "generate", **request.to_json()}))

    async def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._stopped:
            raise AnalysisUnavailable("the server is shutting down")
        if self._current is None:
            self.start()
        request_id = next(self._ids)
        message["id"] = request_id
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if not self._pending:
            self._last_sign = time.monotonic()
        self._pending[request_id] = _Pending(message, future)
        if self._current is not None:
            self._current.send(message)
        try:
            return await future
        except asyncio.CancelledError:
            if self._pending.pop(request_id, None) and self._current is not None:
                self._current.send({"method": "cancel", "id": request_id})
            raise

    def _spawn(self) -> _Process:
        return _Process(self._command, self._on_message, self._on_end)

    def _on_message(self, process: _Process, message: dict[str, Any]) -> None:
        event = message["event"]
        if event == "ready":
            self._failed_starts = 0
            self._last_sign = time.monotonic()
            if process is self._current and self._spare is None:
                self._later(self._start_spare())
            return
        if process is not self._current:
            return
        self._last_sign = time.monotonic()
        pending = self._pending.get(message.get("id", -1))
        if pending is None:
            return
        if event == "step":
            pending.started = True
            pending.kernel, pending.memo_key = message["kernel"], message["memo_key"]
        elif event in ("answer", "failure"):
            del self._pending[message["id"]]
            if pending.future.done():
                return
            if event == "answer":
                pending.future.set_result(message["result"])
            else:
                pending.future.set_exception(AnalysisFailed(message["message"], pending.kernel))

    def _on_end(self, process: _Process) -> None:
        if self._stopped:
            return
        if process is self._spare:
            self._spare = None  # the next death of the process in use starts a fresh one
            return
        if process is not self._current:
            return
        if not process.ready:
            self._failed_starts += 1
        log.warning("the analysis process %s ended", process.pid)
        if process.unusable is not None or self._failed_starts >= _MAX_FAILED_STARTS:
            self._current = None
            reason = process.unusable or "it ends before it is ready"
            self._fail_all(AnalysisUnavailable(f"the analysis process cannot be started: {reason}"))
            return
        self._take_over()

    def _take_over(self) -> None:
        """Go on with the spare, or a new process: ask again what was in flight, except what killed twice."""
        self._current, self._spare = self._spare or self._spawn(), None
        if self._current.ready:
            self._later(self._start_spare())
        self._last_sign = time.monotonic()
        for request_id, pending in list(self._pending.items()):
            if pending.started:
                pending.deaths += 1
                if pending.memo_key and pending.deaths >= 2:
                    self._mark_deadly(pending.memo_key)
                    pending.message["skip"] = [*pending.message.get("skip", ()), pending.memo_key]
                    pending.deaths = 0
                elif pending.deaths >= 2:
                    del self._pending[request_id]
                    self._fail(
                        pending, AnalysisFailed("the analysis process ended twice at it", pending.kernel)
                    )
                    continue
            pending.started = False
            self._current.send(pending.message)

    def _mark_deadly(self, memo_key: str) -> None:
        self._deadly[memo_key] = None
        while len(self._deadly) > 100:
            del self._deadly[next(iter(self._deadly))]

    async def _watch(self) -> None:
        """Kill the process in use when it gives no sign of life for too long at one step."""
        while True:
            await asyncio.sleep(min(1.0, self._step_limit_s / 4))
            process = self._current
            if process is None or not self._pending or not process.ready:
                continue
            if time.monotonic() - self._last_sign > self._step_limit_s:
                log.warning("the analysis process %s gave no sign of life, killed", process.pid)
                for pending in self._pending.values():
                    if pending.started:
                        pending.deaths += 1  # no second try: another wait as long would help nobody
                self._last_sign = time.monotonic()
                process.kill()

    async def _start_spare(self) -> None:
        await asyncio.sleep(self._spare_delay_s)
        if self._spare is None and not self._stopped:
            self._spare = self._spawn()

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _fail(self, pending: _Pending, error: AnalysisFailed) -> None:
        if not pending.future.done():
            pending.future.set_exception(error)

    def _fail_all(self, error: AnalysisFailed) -> None:
        pending, self._pending = list(self._pending.values()), {}
        for one in pending:
            self._fail(one, error)
