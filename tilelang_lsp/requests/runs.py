"""The command that runs a kernel and compares its results."""

from __future__ import annotations

import asyncio
from typing import Any

from lsprotocol import types

from tilelang.facts.reports import RunResult
from tilelang_lsp.ide.run_report import one_line
from tilelang_lsp.language_server import TileLangServer
from tilelang_lsp.protocol import custom
from tilelang_lsp.protocol.wire import work_done_token
from tilelang_lsp.session import OpenFile


def register(server: TileLangServer) -> None:
    @server.command(custom.RUN_AND_ASSERT)
    async def run_and_assert(argument: Any) -> dict[str, Any]:
        data = custom.plain(argument)
        uri, kernel = custom.text_field(data, "uri"), custom.text_field(data, "kernel")
        file = server.file_of(uri)
        result = await _run(server, file, kernel)
        kind = types.MessageType.Info if result.passed else types.MessageType.Error
        server.editor.show_message(one_line(result), kind)
        if server.session.settings.run_finished:
            server.editor.run_finished(result)
        server.editor.refresh_lenses()
        if server.editor.features.pull_diagnostics:
            server.editor.refresh_diagnostics()
        elif server.session.files.get(uri) is file:  # it may have been closed meanwhile
            server.publish(file)
        return result.to_json()


async def _run(server: TileLangServer, file: OpenFile, kernel: str) -> RunResult:
    """Run with progress; the button of the progress ends it with a result that says so."""
    running: list[asyncio.Task[RunResult]] = []
    loop = asyncio.get_running_loop()

    def cancel() -> None:
        for task in running:
            loop.call_soon_threadsafe(task.cancel)

    async with server.editor.progress(f"Running {kernel}", work_done_token.get(), cancel) as report:
        task = asyncio.ensure_future(server.session.run(file, kernel, report))
        running.append(task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()  # the request itself was cancelled; nothing happens to a task that is done
            running.clear()
        if task.cancelled():
            return RunResult(kernel, False, "none", None, error="the run was cancelled")
        return task.result()
