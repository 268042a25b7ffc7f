"""The pygls server with what its requests share: the session, the editor, places in files and cells."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from lsprotocol import types
from pygls.exceptions import FeatureRequestError, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from tilelang.diagnostics.span import Span
from tilelang.version import PACKAGE_VERSION
from tilelang_lsp.documents.line_index import Encoding, LineIndex
from tilelang_lsp.documents.notebook import CellPlace
from tilelang_lsp.engine.client import ANALYSIS_COMMAND, AnalysisClient
from tilelang_lsp.protocol import custom, from_lsp
from tilelang_lsp.protocol.capabilities import ClientFeatures
from tilelang_lsp.protocol.editor import Editor
from tilelang_lsp.protocol.to_lsp import ToLsp
from tilelang_lsp.protocol.wire import TileLangProtocol
from tilelang_lsp.session import SETTLE_S, OpenFile, Session, Shown
from tilelang_lsp.settings import Settings

log = logging.getLogger("tilelang_lsp")

_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(
            notebook="*", cells=[types.NotebookCellLanguage(language="python")]
        )
    ]
)


class NotOpen(JsonRpcInvalidParams):
    """A request about a document that is not open."""


class TileLangServer(LanguageServer):
    """The pygls server and its state. `session` and `editor` exist from `initialize` on."""

    session: Session
    editor: Editor

    def __init__(self, analysis_command: Sequence[str] = ANALYSIS_COMMAND) -> None:
        # The reader of stdin occupies one thread of the pool for good; nothing else uses it.
        super().__init__(
            "tilelang-lsp",
            PACKAGE_VERSION,
            protocol_cls=TileLangProtocol,
            max_workers=2,
            notebook_document_sync=_NOTEBOOKS,
        )
        self.analysis = AnalysisClient(analysis_command)
        self._told_unavailable = False

    def report_server_error(self, error: Exception, source: Any) -> None:
        # pygls would pop up a message box. Errors of requests reach the client as their answers anyway.
        level = logging.INFO if source is FeatureRequestError else logging.ERROR
        log.log(level, "%s: %s", getattr(source, "__name__", source), error)

    @property
    def encoding(self) -> Encoding:
        kind = self.server_capabilities.position_encoding
        return {"utf-8": "utf-8", "utf-32": "utf-32"}.get(str(getattr(kind, "value", kind)), "utf-16")  # type: ignore[return-value]

    def begin(self, params: types.InitializeParams) -> None:
        """Make session and editor for this client."""
        self.editor = Editor(self, ClientFeatures.of(params.capabilities))
        self.session = Session(
            self.analysis,
            self._on_answer,
            self._on_details,
            self._on_preview_changed,
            self._on_unavailable,
            lambda complaint: self.editor.show_message(complaint, types.MessageType.Warning),
        )
        self._initial = Settings()
        self.configure(params.initialization_options)
        self._initial = self.session.settings

    def configure(self, options: Any) -> None:
        """Take in the client's configuration, over what it said at the start."""
        self.session.settings, complaints = self._initial.updated(custom.plain(options))
        level = {"messages": logging.INFO, "verbose": logging.DEBUG}.get(
            self.session.settings.trace, logging.WARNING
        )
        log.setLevel(level)
        for complaint in complaints:
            self.editor.show_message(complaint, types.MessageType.Warning)

    def file(self, uri: str) -> OpenFile:
        """Raises NotOpen."""
        file = self.session.files.get(uri)
        if file is None:
            raise NotOpen(f"{uri} is not open")
        return file

    def file_of(self, uri: str) -> OpenFile:
        """The open document, or the notebook that has the cell. Raises NotOpen."""
        file = self.session.file_of(uri)
        if file is None:
            raise NotOpen(f"{uri} is not open")
        return file

    def place(self, file: OpenFile, uri: str, position: types.Position) -> tuple[int, int]:
        """(line, column) in the text of a file, from a position in the document or the cell `uri`."""
        return from_lsp.place_in(file.document, cell_of(file, uri), position, self.encoding)

    async def settle(self, file: OpenFile, can_refresh: bool) -> None:
        """Wait for the analysis of this text; not for long if the client can be told to ask again."""
        await self.session.settle(file, None if can_refresh else SETTLE_S)

    def to_lsp(self, file: OpenFile) -> ToLsp:
        document = file.document
        return ToLsp(document.uri, document.path, document.index, self.encoding, self._index_of, file.cells)

    def diagnostics(self, file: OpenFile, uri: str) -> list[types.Diagnostic]:
        """Those of the document, or of the cell `uri` of a notebook."""
        to_lsp, cell = self.to_lsp(file), cell_of(file, uri)
        problems = self.session.problems(file)
        if cell is not None:
            problems = [p for p in problems if is_in(cell, p.span)]
        return [to_lsp.diagnostic(p) for p in problems]

    def _index_of(self, path: str) -> LineIndex | None:
        file = self.session.file_at(path)
        return file.document.index if file else None

    def _on_answer(self, file: OpenFile, was_stale: bool) -> None:
        if not self.editor.features.pull_diagnostics:
            self.publish(file)
        if was_stale:
            self.refresh_all()

    def _on_details(self, file: OpenFile, before: Shown, now: Shown) -> None:
        if now.problems != before.problems:
            if self.editor.features.pull_diagnostics:
                self.editor.refresh_diagnostics()
            else:
                self.publish(file)
        if now.lenses != before.lenses:
            self.editor.refresh_lenses()
        if now.hints != before.hints:
            self.editor.refresh_hints()

    def publish(self, file: OpenFile) -> None:
        if file.notebook is None or file.cells is None:
            uri = file.document.uri
            self.editor.publish(uri, self.diagnostics(file, uri), file.document.version)
            return
        for cell in file.cells.places:
            version = file.notebook.cells[cell.uri].version
            self.editor.publish(cell.uri, self.diagnostics(file, cell.uri), version)

    def refresh_all(self) -> None:
        self.editor.refresh_diagnostics()
        self.editor.refresh_lenses()
        self.editor.refresh_hints()
        self.editor.refresh_tokens()

    def _on_preview_changed(self, uri: str) -> None:
        self.editor.refresh_preview(uri, self.session.settings.generated_source_changed)

    def _on_unavailable(self, message: str) -> None:
        if not self._told_unavailable:
            self._told_unavailable = True
            self.editor.show_message(message, types.MessageType.Error)


def cell_of(file: OpenFile, uri: str) -> CellPlace | None:
    """The cell of a notebook that has this URI."""
    return file.cells.cell(uri) if file.cells is not None else None


def is_in(cell: CellPlace | None, span: Span) -> bool:
    """Whether a place of a file is in the cell that is asked about; a file without cells is one."""
    return cell is None or cell.first_line < span.line <= cell.end_line
