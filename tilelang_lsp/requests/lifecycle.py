"""Start, configuration, files that change on disk, and the end."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from tilelang_lsp.language_server import TileLangServer
from tilelang_lsp.protocol import custom
from tilelang_lsp.requests.guard import guarded, nothing


def register(server: TileLangServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.begin(params)

    @server.feature(types.INITIALIZED)
    @guarded(server, "start", nothing)
    async def initialized(params: types.InitializedParams) -> None:
        server.analysis.start()
        server.editor.watch("**/pyproject.toml", "**/*.py")
        await _pull_configuration(server)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    @guarded(server, "configuration", nothing)
    async def configuration_changed(params: types.DidChangeConfigurationParams) -> None:
        sent = custom.plain(params.settings)
        if isinstance(sent, dict) and isinstance(sent.get("tilelang"), dict):
            server.configure(sent["tilelang"])
            server.session.recheck_all()
            server.refresh_all()
        else:
            await _pull_configuration(server)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    @guarded(server, "watched files", nothing)
    async def files_changed(params: types.DidChangeWatchedFilesParams) -> None:
        # A file on disk counts for the open ones as their settings, or as a module that they import.
        changed = [change.uri for change in params.changes]
        if server.session.recheck_all(changed[0] if len(changed) == 1 else None):
            server.refresh_all()

    @server.feature(types.SHUTDOWN)
    @guarded(server, "shutdown", nothing)
    async def shutdown(*args: Any) -> None:
        await server.analysis.stop()


async def _pull_configuration(server: TileLangServer) -> None:
    before = server.session.settings
    server.configure(await server.editor.configuration())
    if server.session.settings != before:
        server.session.recheck_all()
        server.refresh_all()
