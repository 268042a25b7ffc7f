"""Starts the run process, passes its progress on, and ends it with all its children when time is up."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilelang_lsp
from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import KernelFacts
from tilelang.facts.reports import RunResult
from tilelang.facts.run_request import run_request

log = logging.getLogger(__name__)

SCRIPT = Path(__file__).with_name("run_kernel.py")
_OUTPUT_LIMIT = 64 * 1024


@dataclass(frozen=True)
class RunRequest:
    """One kernel and how to run it. `kernel_text` reaches from the comments above it to its end."""

    path: str
    text: str
    facts: KernelFacts
    kernel_text: str
    interpreter: str
    timeout_s: float

    def to_json(self) -> dict[str, Any]:
        """What the script reads; it must understand this without importing anything of ours."""
        return run_request(self.path, self.text, self.facts, self.kernel_text)


async def run(request: RunRequest, report: Callable[[str], None]) -> RunResult:
    """Run and assert. Never raises for what the kernel does; cancelling the task ends the run process."""
    try:
        process = await asyncio.create_subprocess_exec(
            request.interpreter,
            str(SCRIPT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=_folder(request.path),
            env=_environment(request.interpreter),
            limit=16 * 1024 * 1024,
            **_own_group(),
        )
    except OSError as error:
        message = (
            f"cannot start {request.interpreter}: {error.strerror or error}. Set `tilelang.interpreter`."
        )
        return _failed(request, message)
    output = _Tail()
    try:
        return await asyncio.wait_for(_converse(process, request, report, output), request.timeout_s)
    except asyncio.TimeoutError:
        message = (
            f"{request.facts.name} did not finish within {request.timeout_s:g} s and was ended. "
            "Raise `tilelang.runTimeout` if it needs longer."
        )
        return _failed(request, message, output.text)
    finally:
        _end_group(process)
        await process.wait()


async def _converse(
    process: asyncio.subprocess.Process, request: RunRequest, report: Callable[[str], None], output: _Tail
) -> RunResult:
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    reading = asyncio.ensure_future(output.read(process.stderr))
    try:
        process.stdin.write(json.dumps(request.to_json()).encode("ascii") + b"\n")
        await process.stdin.drain()
        process.stdin.close()
    except ConnectionError:
        log.info("the run process ended before it read its request")  # its exit says more, below
    result: dict[str, Any] | None = None
    while line := await process.stdout.readline():
        event = json.loads(line)
        if event["event"] == "progress":
            report(event["message"])
        elif event["event"] == "result":
            result = event["result"]
            break
    if result is None:
        await asyncio.wait({reading}, timeout=2)
        return _failed(request, _why_ended(request, await process.wait(), output.text), output.text)
    await asyncio.wait({reading}, timeout=0.2)
    return _read_result(result, request, output.text)


def _read_result(data: dict[str, Any], request: RunRequest, output: str) -> RunResult:
    line = data.pop("error_line")
    error_span = _line_span(request, line) if line else None
    span_json = error_span.to_json() if error_span else None
    return RunResult.from_json(data | {"error_span": span_json, "output": output})


def _line_span(request: RunRequest, line: int) -> Span:
    lines = request.text.split("\n")
    text = lines[line - 1].rstrip() if line <= len(lines) else ""
    start = len(text) - len(text.lstrip()) + 1
    return Span(request.path, line, start, line, max(len(text) + 1, start + 1))


def _failed(request: RunRequest, message: str, output: str = "") -> RunResult:
    return RunResult(request.facts.qualified_name, False, "none", None, error=message, output=output)


def _why_ended(request: RunRequest, code: int, output: str) -> str:
    last = output.strip().splitlines()[-1] if output.strip() else ""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = " (it probably reads or writes out of bounds)" if name in ("SIGSEGV", "SIGBUS") else ""
        hint = " (probably out of memory)" if name == "SIGKILL" else hint
        return f"the run of {request.facts.name} was ended by {name}{hint}. {last}".rstrip()
    return f"the run of {request.facts.name} ended with exit code {code} and no result. {last}".rstrip()


class _Tail:
    """The last part of what the process printed."""

    def __init__(self) -> None:
        self._data = b""

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace")

    async def read(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(8192):
            self._data = (self._data + chunk)[-_OUTPUT_LIMIT:]


def _folder(path: str) -> str | None:
    folder = os.path.dirname(path)
    return folder if os.path.isdir(folder) else None


def _environment(interpreter: str) -> dict[str, str]:
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    if interpreter == sys.executable:
        # The server's own interpreter has the `tilelang` that the server has, installed or not.
        home = str(Path(tilelang_lsp.__file__).resolve().parent.parent)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), home)))
    return environment


def _own_group() -> dict[str, Any]:
    """Make the process the head of a group of its own, so that everything it starts ends with it."""
    if os.name == "nt":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _end_group(process: asyncio.subprocess.Process) -> None:
    try:
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        log.debug("the run process and its group are gone already")
