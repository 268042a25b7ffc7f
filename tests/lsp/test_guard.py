"""Each feature in a guard of its own: one that fails logs, the others answer."""

from __future__ import annotations

import asyncio
import logging

import pytest
from lsprotocol import types

from tilelang_lsp.language_server import TileLangServer
from tilelang_lsp.requests import features
from tilelang_lsp.server import make_server

URI = "file:///k.py"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> TileLangServer:
    """A server that was initialised and has a file open, without a client behind it."""
    server = make_server()
    said: list[tuple[str, object]] = []
    monkeypatch.setattr(server.protocol, "notify", lambda method, params=None: said.append((method, params)))
    server.said = said  # type: ignore[attr-defined]
    return server


def ask(server: TileLangServer, method: str, params: object) -> object:
    return asyncio.run(server.protocol.fm.features[method](params))


@pytest.fixture
def opened(server: TileLangServer) -> TileLangServer:
    server.begin(types.InitializeParams(capabilities=types.ClientCapabilities()))
    server.protocol.server_capabilities = types.ServerCapabilities(position_encoding="utf-16")
    item = types.TextDocumentItem(URI, "python", 1, "x = 1\n")
    server.protocol.fm.features[types.TEXT_DOCUMENT_DID_OPEN](types.DidOpenTextDocumentParams(item))
    return server


def test_a_failing_feature_is_logged_and_the_others_answer(
    opened: TileLangServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fails(*arguments: object) -> None:
        raise ZeroDivisionError("a bug in hover")

    monkeypatch.setattr(features, "hover", fails)
    identifier = types.TextDocumentIdentifier(URI)
    with caplog.at_level(logging.ERROR):
        answer = ask(opened, "textDocument/hover", types.HoverParams(identifier, types.Position(0, 0)))
    assert answer is None
    assert "a bug in hover" in caplog.text
    assert ("window/logMessage", "hover failed") in [
        (method, params.message.partition(";")[0])
        for method, params in opened.said  # type: ignore[attr-defined]
        if method == "window/logMessage"
    ]
    assert ask(opened, "textDocument/codeLens", types.CodeLensParams(identifier)) == []


def test_a_document_that_was_closed_meanwhile_is_no_error(opened: TileLangServer):
    closed = types.TextDocumentIdentifier("file:///closed.py")
    assert ask(opened, "textDocument/hover", types.HoverParams(closed, types.Position(0, 0))) is None
    assert ask(opened, "textDocument/codeLens", types.CodeLensParams(closed)) == []
