"""The server's side of the analysis process: start it, keep a spare, cancel stale work, survive its death.

The spare is not idle: it finds out details, which nobody waits for, so that they never keep the process in
use from answering. When it takes over, it does both.
"""

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
    DetailsAnswer,
    DetailsRequest,
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
    process: _Process
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
        self.last_sign = time.monotonic()  # of life, or of having been given something to do
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
        self._deadly_details: dict[str, None] = {}  # the same for their details
        self._spare_ready = asyncio.Event()
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
        self._spare_ready.set()
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

    async def details(self, request: DetailsRequest) -> DetailsAnswer:
        """Lower kernels of a checked text. Waits for the spare process, which does it.

        Cancel the awaiting task to give up. Raises AnalysisFailed; the next request leaves out what failed.
        """
        wanted = [key for key in request.wanted if key not in self._deadly_details]
        while self._spare is None or not self._spare.ready:
            self._spare_ready.clear()
            await self._spare_ready.wait()
            if self._stopped:
                raise AnalysisUnavailable("the server is shutting down")
        message = {"method": "details", **request.to_json(), "wanted": wanted}
        return DetailsAnswer.from_json(await self._ask(message, self._spare))

    async def _ask(self, message: dict[str, Any], process: _Process | None = None) -> dict[str, Any]:
        """The answer of `process`, the one in use by default."""
        if self._stopped:
            raise AnalysisUnavailable("the server is shutting down")
        if self._current is None:
            self.start()
        process = process or self._current
        if process is None:
            raise AnalysisUnavailable("no analysis process can be started")
        request_id = next(self._ids)
        message["id"] = request_id
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if not self._pending_at(process):
            process.last_sign = time.monotonic()
        self._pending[request_id] = _Pending(message, future, process)
        process.send(message)
        try:
            return await future
        except asyncio.CancelledError:
            pending = self._pending.pop(request_id, None)
            if pending is not None:
                pending.process.send({"method": "cancel", "id": request_id})
            raise

    def _pending_at(self, process: _Process) -> dict[int, _Pending]:
        return {i: p for i, p in self._pending.items() if p.process is process}

    def _spawn(self) -> _Process:
        return _Process(self._command, self._on_message, self._on_end)

    def _on_message(self, process: _Process, message: dict[str, Any]) -> None:
        event = message["event"]
        process.last_sign = time.monotonic()
        if event == "ready":
            self._failed_starts = 0
            if process is self._spare:
                self._spare_ready.set()
            elif process is self._current and self._spare is None:
                self._later(self._start_spare())
            return
        pending = self._pending.get(message.get("id", -1))
        if pending is None or pending.process is not process:
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
            self._spare = None
            self._give_up_details(process)
            if process.ready:  # one that never was would end again; the next take-over tries anew
                self._later(self._start_spare())
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
        self._give_up_details(process)
        self._take_over(process)

    def _give_up_details(self, process: _Process) -> None:
        """Fail the details that an ended process was asked for, and never ask for what ended it."""
        for request_id, pending in self._pending_at(process).items():
            if pending.message["method"] == "details":
                del self._pending[request_id]
                if pending.memo_key:
                    _remember(self._deadly_details, pending.memo_key)
                self._fail(pending, AnalysisFailed("the analysis process ended at details", pending.kernel))

    def _take_over(self, ended: _Process) -> None:
        """Go on with the spare, or a new process: ask again what was in flight, except what killed twice."""
        self._current, self._spare = self._spare or self._spawn(), None
        if self._current.ready:
            self._later(self._start_spare())
        self._current.last_sign = time.monotonic()
        for request_id, pending in self._pending_at(ended).items():
            if pending.started:
                pending.deaths += 1
                if pending.memo_key and pending.deaths >= 2:
                    _remember(self._deadly, pending.memo_key)
                    pending.message["skip"] = [*pending.message.get("skip", ()), pending.memo_key]
                    pending.deaths = 0
                elif pending.deaths >= 2:
                    del self._pending[request_id]
                    self._fail(
                        pending, AnalysisFailed("the analysis process ended twice at it", pending.kernel)
                    )
                    continue
            pending.started = False
            pending.process = self._current
            self._current.send(pending.message)

    async def _watch(self) -> None:
        """Kill a process that gives no sign of life for too long at one step."""
        while True:
            await asyncio.sleep(min(1.0, self._step_limit_s / 4))
            for process in (self._current, self._spare):
                at_work = self._pending_at(process) if process is not None and process.ready else {}
                if process is None or not at_work:
                    continue
                if time.monotonic() - process.last_sign > self._step_limit_s:
                    log.warning("the analysis process %s gave no sign of life, killed", process.pid)
                    for pending in at_work.values():
                        if pending.started:
                            pending.deaths += 1  # no second try: another wait as long would help nobody
                    process.last_sign = time.monotonic()
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


def _remember(keys: dict[str, None], key: str) -> None:
    """Add the newest of at most a hundred keys."""
    keys[key] = None
    while len(keys) > 100:
        del keys[next(iter(keys))]
