"""Whole sessions over stdio with the fake compiler: what happens when analysis fails, crashes or hangs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

SERVER = Path(__file__).with_name("fake_server.py")
pytestmark = pytest.mark.asyncio(loop_scope="module")

URI = "file:///nowhere/kernels.py"
TEXT = """\
import tilelang
import tilelang.language as T


@tilelang.jit
def k(A):
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((64, 64), T.float16)
        T.copy(A, s)
        T.wrong()
"""


@pytest_lsp.fixture(
    params=["neovim", "visual-studio-code"],
    config=ClientServerConfig(server_command=[sys.executable, str(SERVER)]),
    scope="module",
)
async def client(request: pytest.FixtureRequest, lsp_client: LanguageClient):
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities(request.param), root_uri="file:///nowhere")
    )
    yield
    await lsp_client.shutdown_session()


def open_text(client: LanguageClient, uri: str, text: str) -> None:
    item = types.TextDocumentItem(uri, "python", 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))


async def diagnostics_of(client: LanguageClient, uri: str) -> list[types.Diagnostic]:
    report = await client.text_document_diagnostic_async(
        types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
    )
    return list(report.items)


async def until_analysed(client: LanguageClient, uri: str) -> list[types.Diagnostic]:
    """Ask until the analysis process has started; the first answers may know only the syntax."""
    for _ in range(100):
        symbols = await client.text_document_document_symbol_async(
            types.DocumentSymbolParams(types.TextDocumentIdentifier(uri))
        )
        if symbols:
            break
        await asyncio.sleep(0.05)
    return await diagnostics_of(client, uri)


async def test_first_slice(client: LanguageClient):
    open_text(client, URI, TEXT)
    found = await until_analysed(client, URI)
    assert [(d.code, d.range.start.line, d.range.start.character) for d in found] == [("fake-rule", 9, 8)]
    identifier = types.TextDocumentIdentifier(URI)
    hover = await client.text_document_hover_async(types.HoverParams(identifier, types.Position(8, 18)))
    assert "s: float16[64, 64] shared" in hover.contents.value
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(identifier))
    assert [lens.command.title for lens in lenses] == [
        "▶ run & assert vs torch",
        "preview CUDA",
        "preview HIP",
        "preview Metal",
        "shared memory 8 KiB of 227 KiB",
    ]
