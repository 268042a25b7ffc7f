"""Clients of other kinds: one that cannot pull, one with virtual documents, one that previews by itself."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.lsp.sessions import File, accept_registrations, as_dict, content, until
from tests.lsp.test_server import MISTAKE, QUICKSTART, ROOT

SERVER = ClientServerConfig(
    server_command=[sys.executable, "-m", "tilelang_lsp.server"], server_env={"PYTHONPATH": str(ROOT)}
)


@pytest_lsp.fixture(config=SERVER, scope="module")
async def emacs(lsp_client: LanguageClient):
    """Cannot pull diagnostics, knows no refreshes."""
    accept_registrations(lsp_client)
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities("emacs"), root_uri=ROOT.as_uri())
    )
    yield
    await lsp_client.shutdown_session()


@pytest_lsp.fixture(config=SERVER, scope="module")
async def modern(lsp_client: LanguageClient):
    """A current VS Code: virtual documents, previews of its own."""
    accept_registrations(lsp_client)
    refreshed: list[str] = []

    @lsp_client.feature(types.WORKSPACE_TEXT_DOCUMENT_CONTENT_REFRESH)
    def on_refresh(params: types.TextDocumentContentRefreshParams) -> None:
        refreshed.append(params.uri)

    for method in (types.WORKSPACE_SEMANTIC_TOKENS_REFRESH, types.WORKSPACE_INLAY_HINT_REFRESH):
        lsp_client.feature(method)(lambda *_: None)
    capabilities = client_capabilities("visual-studio-code")
    capabilities.workspace.text_document_content = types.TextDocumentContentClientCapabilities()
    capabilities.window.show_document = types.ShowDocumentClientCapabilities(support=True)
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=capabilities,
            root_uri=ROOT.as_uri(),
            initialization_options={
                "preview": "client",
                "target": "cuda:sm_80",
                "specialisations": {"matmul_relu": {"block_M": "64"}},
                "runTimeout": "soon",
            },
        )
    )
    lsp_client.refreshed = refreshed  # type: ignore[attr-defined]
    yield
    await lsp_client.shutdown_session()


class TestEmacs:
    async def test_diagnostics_are_pushed(self, emacs: LanguageClient):
        file = File.of(emacs, MISTAKE)
        await until(lambda: _published(emacs, file.uri, 1))
        file.replace("B_s = T.alloc_shared((BM, BN)", "B_s = T.alloc_shared((BK, BN)")
        await until(lambda: _published(emacs, file.uri, 0))
        file.replace("with T.Kernel(", "with T.Kernel((")
        await until(lambda: _published(emacs, file.uri, 1))
        file.close()

    async def test_what_lowering_finds_is_pushed_later(self, emacs: LanguageClient):
        file = await File.of(emacs, QUICKSTART).analysed()
        file.replace("T.max(C_local[i, j], 0)", "T.max(C_local[i, j ^ 2], 0)")
        await until(lambda: _published(emacs, file.uri, 1))
        assert [d.code for d in _grave(emacs, file.uri)] == ["fragment-layout"]
        file.close()

    async def test_answers_wait_for_the_analysis(self, emacs: LanguageClient):
        """Nothing can tell this client to ask again, so the first answer must be the right one."""
        for pid in _analysis(emacs):
            os.kill(pid, signal.SIGKILL)
        file = File.of(emacs, QUICKSTART)
        assert "shared memory" in (await file.lenses())[4].command.title
        file.close()


class TestModern:
    async def test_a_changed_kernel_refreshes_its_document(self, modern: LanguageClient):
        file = await File.of(modern, QUICKSTART).analysed()
        uri = f"tilelang-cuda://{QUICKSTART.as_posix()}/matmul_relu.cu"
        before = await content(modern, uri)
        file.replace("block_K: int = 32", "block_K: int = 64")
        await file.diagnostics()
        await until(lambda: _equals(modern.refreshed, [uri]))
        assert await content(modern, uri) != before
        file.close()

    async def test_lenses_carry_the_clients_own_command(self, modern: LanguageClient):
        file = await File.of(modern, QUICKSTART).analysed()
        commands = [lens.command for lens in await file.lenses()]
        assert commands[0].command == "tilelang.runAndAssert"
        assert commands[1].command == "tilelang.preview"
        file.close()

    async def test_the_server_can_show_a_document(self, modern: LanguageClient):
        file = await File.of(modern, QUICKSTART).analysed()
        argument = {"uri": file.uri, "kernel": "matmul_relu", "target": "metal"}
        params = types.ExecuteCommandParams("tilelang.showGeneratedSource", [argument])
        result = await modern.workspace_execute_command_async(params)
        assert as_dict(result)["shown"]
        shown = [p.uri for p in modern.shown_documents]
        assert shown == [f"tilelang-metal://{QUICKSTART.as_posix()}/matmul_relu.metal"]
        file.close()

    async def test_target_and_specialisation_chosen_in_the_editor(self, modern: LanguageClient):
        file = await File.of(modern, QUICKSTART).analysed()
        assert "float16[64, 32] shared" in await file.hover("A_shared =")
        first = (await file.generated("matmul_relu"))["text"].split("\n")[0]
        assert "cuda:sm_80" in first and "block_M=64" in first
        file.close()

    async def test_a_setting_that_cannot_be_read_is_told(self, modern: LanguageClient):
        assert any("tilelang.runTimeout" in m.message for m in modern.messages)


async def _published(client: LanguageClient, uri: str, count: int) -> bool:
    return uri in client.diagnostics and len(_grave(client, uri)) == count


def _grave(client: LanguageClient, uri: str) -> list[types.Diagnostic]:
    """Errors and warnings of what was pushed; there may be hints."""
    grave = (types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Warning)
    return [d for d in client.diagnostics[uri] if d.severity in grave]


async def _equals(found: list[str], expected: list[str]) -> bool:
    return found == expected


def _analysis(client: LanguageClient) -> list[int]:
    pid = client._server.pid
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(c) for c in found if b"engine.worker" in Path(f"/proc/{c}/cmdline").read_bytes()]
