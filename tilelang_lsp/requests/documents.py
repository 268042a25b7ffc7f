"""Texts and notebooks as the client opens, changes, saves and closes them."""

from __future__ import annotations

from lsprotocol import types

from tilelang_lsp.documents.document import Document
from tilelang_lsp.language_server import TileLangServer
from tilelang_lsp.protocol import from_lsp


def register(server: TileLangServer) -> None:
    # Synchronous on purpose: texts change in the order in which the client says so.

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        server.session.open(Document(item.uri, from_lsp.file_path(item.uri), item.version, item.text))

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        file = server.session.files.get(params.text_document.uri)
        if file is not None:
            from_lsp.apply_changes(file.document, params.content_changes, server.encoding)
            file.document.version = params.text_document.version
            server.session.changed(file)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        # Other open files may import this one. Clients that watch files say so themselves.
        watched = server.editor.features.watched_files
        if not watched and server.session.recheck_all(params.text_document.uri):
            server.refresh_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.session.close(uri)
        if not server.editor.features.pull_diagnostics:
            server.editor.publish(uri, [], None)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def notebook_opened(params: types.DidOpenNotebookDocumentParams) -> None:
        server.session.open_notebook(from_lsp.notebook(params), params.notebook_document.version)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def notebook_changed(params: types.DidChangeNotebookDocumentParams) -> None:
        file = server.session.files.get(params.notebook_document.uri)
        if file is not None and file.notebook is not None and params.change.cells is not None:
            from_lsp.apply_notebook_change(file.notebook, params.change.cells, server.encoding)
            server.session.notebook_changed(file, params.notebook_document.version)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def notebook_closed(params: types.DidCloseNotebookDocumentParams) -> None:
        server.session.close(params.notebook_document.uri)
        if not server.editor.features.pull_diagnostics:
            for cell in params.cell_text_documents:
                server.editor.publish(cell.uri, [], None)
