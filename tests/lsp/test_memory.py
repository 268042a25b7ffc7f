"""What a keystroke leaves behind in the server: nothing."""

from __future__ import annotations

from lsprotocol import types

from tests.lsp.test_guard import URI, opened, server  # noqa: F401 - fixtures
from tilelang_lsp.documents.document import _MAX_EDITS, Document, Replacement
from tilelang_lsp.language_server import TileLangServer


def test_a_notification_leaves_no_future_behind(opened: TileLangServer):
    identifier = types.VersionedTextDocumentIdentifier(version=2, uri=URI)
    change = types.TextDocumentContentChangeWholeDocument("y = 2\n")
    for _ in range(50):
        opened.protocol._handle_notification(
            types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(identifier, [change])
        )
    assert opened.session.files[URI].document.text == "y = 2\n"
    assert not opened.protocol._request_futures


def test_edits_that_nobody_asks_about_are_forgotten():
    document = Document(URI, "k.py", 1, "x = 1\n")
    for _ in range(3 * _MAX_EDITS):
        document.replace(Replacement(0, 0, ""))
    assert len(document._moves) <= _MAX_EDITS and len(document._edits) <= _MAX_EDITS
