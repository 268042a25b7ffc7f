"""What the server says on its own: to the editor, in the forms that this client understands."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from tilelang.facts.reports import RunResult
from tilelang_lsp.protocol import custom
from tilelang_lsp.protocol.capabilities import ClientFeatures

log = logging.getLogger(__name__)

Report = Callable[[str], None]


class Editor:
    """The client. Refreshes go only to clients that support them; their answers are not waited for."""

    def __init__(self, server: LanguageServer, features: ClientFeatures) -> None:
        self._server = server
        self.features = features

    def watch(self, *patterns: str) -> None:
        """Ask to be told of files that change on disk, where the client can."""
        if self.features.watched_files:
            watchers = [types.FileSystemWatcher(glob_pattern=pattern) for pattern in patterns]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = types.Registration(str(uuid.uuid4()), method, options)
            self._server.client_register_capability(types.RegistrationParams([registration]))

    def publish(self, uri: str, diagnostics: list[types.Diagnostic], version: int | None) -> None:
        self._server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics, version=version)
        )

    def refresh_diagnostics(self) -> None:
        if self.features.refresh_diagnostics:
            self._server.workspace_diagnostic_refresh(None)

    def refresh_lenses(self) -> None:
        if self.features.refresh_lenses:
            self._server.workspace_code_lens_refresh(None)

    def refresh_hints(self) -> None:
        if self.features.refresh_hints:
            self._server.workspace_inlay_hint_refresh(None)

    def refresh_tokens(self) -> None:
        if self.features.refresh_tokens:
            self._server.workspace_semantic_tokens_refresh(None)

    def refresh_preview(self, uri: str, notify: bool) -> None:
        """Say that a generated document has changed. `notify`: the client asked for our own notification."""
        if self.features.text_document_content:
            self._server.workspace_text_document_content_refresh(
                types.TextDocumentContentRefreshParams(uri=uri)
            )
        elif notify:
            self._server.protocol.notify(custom.GENERATED_SOURCE_CHANGED, {"uri": uri})

    def run_finished(self, result: RunResult) -> None:
        self._server.protocol.notify(custom.RUN_FINISHED, result.to_json())

    def show_message(self, message: str, kind: types.MessageType) -> None:
        self._server.window_show_message(types.ShowMessageParams(kind, message))

    def log(self, message: str, kind: types.MessageType = types.MessageType.Error) -> None:
        self._server.window_log_message(types.LogMessageParams(kind, message))

    async def show_document(self, uri: str) -> bool:
        if not self.features.show_document:
            return False
        params = types.ShowDocumentParams(uri=uri, external=False, take_focus=False)
        result = await self._server.window_show_document_async(params)
        return result.success

    async def configuration(self) -> Any:
        """The section `tilelang` of the client's configuration, None if it has none."""
        if not self.features.configuration:
            return None
        params = types.ConfigurationParams(items=[types.ConfigurationItem(section="tilelang")])
        sections = await self._server.workspace_configuration_async(params)
        return custom.plain(sections[0]) if sections else None

    @asynccontextmanager
    async def progress(
        self, title: str, token: int | str | None, cancel: Callable[[], object]
    ) -> AsyncIterator[Report]:
        """Show that something runs; calls `cancel` when the user presses the button for it.

        `token` is the one the client sent along, if it did; else one is made where the client allows it.
        """
        progress = self._server.work_done_progress
        if token is None and self.features.progress:
            token = str(uuid.uuid4())
            await progress.create_async(token)
        if token is None:
            yield lambda message: None
            return
        progress.begin(token, types.WorkDoneProgressBegin(title=title, cancellable=True))
        progress.tokens[token].add_done_callback(lambda future: cancel())
        try:
            yield lambda message: progress.report(token, types.WorkDoneProgressReport(message=message))
        finally:
            progress.end(token, types.WorkDoneProgressEnd())
            progress.tokens.pop(token, None)
