"""The life of open documents: opened, typed in, saved, renamed, closed, fast and in any order, on both kinds
of clients: one that pulls diagnostics and watches files, one that does neither.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.cli.kernels import GEMM, WRONG_GEMM
from tests.lsp.sessions import File, accept_registrations, until
from tests.lsp.test_endurance import Typist, seen

ROOT = Path(__file__).resolve().parents[2]
SERVER = ClientServerConfig(
    server_command=[sys.executable, "-m", "tilelang_lsp.server"], server_env={"PYTHONPATH": str(ROOT)}
)
GRAVE = (types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Warning)
USES = GEMM.replace("import tilelang\n", "import tilelang\nfrom sizes import ROWS\n", 1).replace(
    "alloc_shared((block_K, block_N)", "alloc_shared((ROWS, block_N)"
)


@pytest_lsp.fixture(config=SERVER, scope="module")
async def pulling(lsp_client: LanguageClient):
    """VS Code."""
    accept_registrations(lsp_client)
    for method in (
        types.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
        types.WORKSPACE_INLAY_HINT_REFRESH,
        types.WORKSPACE_CODE_LENS_REFRESH,
    ):
        lsp_client.feature(method)(lambda *_: None)
    capabilities = client_capabilities("visual-studio-code")
    await lsp_client.initialize_session(types.InitializeParams(capabilities=capabilities))
    yield
    await lsp_client.shutdown_session()


@pytest_lsp.fixture(config=SERVER, scope="module")
async def pushed(lsp_client: LanguageClient):
    """Emacs: is told of diagnostics, knows no refreshes and watches no files."""
    accept_registrations(lsp_client)
    capabilities = client_capabilities("emacs")
    capabilities.workspace.did_change_watched_files = None
    await lsp_client.initialize_session(types.InitializeParams(capabilities=capabilities))
    yield
    await lsp_client.shutdown_session()


def grave(found: list[types.Diagnostic]) -> list[str]:
    return [str(d.code) for d in found if d.severity in GRAVE]


async def _told(client: LanguageClient, uri: str, codes: list[str]) -> bool:
    await asyncio.sleep(0)
    return uri in client.diagnostics and grave(list(client.diagnostics[uri])) == codes


class TestPulling:
    async def test_old_names_are_tagged(self, pulling: LanguageClient):
        text = GEMM.replace('M, N, K = T.const("M, N, K")', 'M, N, K = (T.symbolic(n) for n in "MNK")')
        file = await File(pulling, "file:///old.py", text).analysed()
        found = [d for d in await file.diagnostics() if d.code == "deprecated-name"]
        assert found and all(list(d.tags or []) == [types.DiagnosticTag.Deprecated] for d in found)
        file.close()

    async def test_each_folder_has_its_own_project(self, pulling: LanguageClient, tmp_path: Path):
        files = {}
        for name, setting in (("one", "ignore = ['shape']"), ("two", "target = 'hip:gfx942'"), ("none", "")):
            folder = tmp_path / name / "kernels"
            folder.mkdir(parents=True)
            (tmp_path / name / "pyproject.toml").write_text(f"[tool.tilelang]\n{setting}\n")
            (folder / "k.py").write_text(WRONG_GEMM)
            files[name] = await File.of(pulling, folder / "k.py").analysed()
        expected = {"one": [], "two": ["gemm-shape"], "none": ["gemm-shape"]}
        assert {name: grave(await file.diagnostics()) for name, file in files.items()} == expected
        assert "hip:gfx942" in (await files["two"].hover("def matmul", 4) or "")
        assert "cuda:sm_90" in (await files["none"].hover("def matmul", 4) or "")
        for file in files.values():
            file.close()

    async def test_edits_behind_wide_characters_are_where_the_client_says(self, pulling: LanguageClient):
        note = "😀漢字é" * 40
        text = GEMM.replace("T.clear(C_local)", f"note = '{note}'; T.cleer(C_local); note = '字😀'")
        file = await File(pulling, "file:///wide.py", text).analysed()
        typist = Typist(file, seed=3)
        place = text.index(note)
        for step in range(40):
            start = place + step * 7 % 30
            typist.change(start, start + step % 3, ("😀", "漢", "x", "")[step % 4])
            if step % 10 == 9:
                fresh = File(pulling, f"file:///fresh{step}.py", file.text)
                found = await file.diagnostics()
                assert grave(found) == ["unknown-language-name"]
                assert seen(found) == seen(await fresh.diagnostics())
                fresh.close()
        file.close()

    async def test_requests_that_typing_overtakes_may_be_cancelled(self, pulling: LanguageClient):
        file = await File(pulling, "file:///burst.py", GEMM).analysed()
        typist, chance, asked = Typist(file, seed=4), random.Random(4), []
        for number in range(60):
            typist.edit()
            params = types.DocumentDiagnosticParams(file.identifier)
            method, name = types.TEXT_DOCUMENT_DIAGNOSTIC, f"burst-{number}"
            asked.append(
                asyncio.ensure_future(pulling.protocol.send_request_async(method, params, msg_id=name))
            )
            if chance.random() < 0.8:
                pulling.cancel_request(types.CancelParams(id=name))
        typist.repair()
        assert file.text == GEMM and grave(await file.diagnostics()) == []
        answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 60)
        refused = [a for a in answers if isinstance(a, Exception)]
        assert all("ancel" in str(error) for error in refused), refused
        assert not [m for m in pulling.log_messages if m.type == types.MessageType.Error]
        file.close()

    async def test_previews_follow_imported_files(self, pulling: LanguageClient, tmp_path: Path):
        (tmp_path / "sizes.py").write_text("SCALE = 32\n")
        path = tmp_path / "k.py"
        path.write_text(
            "import tilelang\nimport tilelang.language as T\nfrom sizes import SCALE\n\n\n@tilelang.jit\n"
            "def k(A):\n    A: T.Tensor((128,), T.float32)\n    with T.Kernel(1, threads=128):\n"
            "        for i in T.Parallel(128):\n            A[i] = A[i] * SCALE\n"
        )
        file = await File.of(pulling, path).analysed()
        for scale in (32, 77, 32, 5):
            (tmp_path / "sizes.py").write_text(f"SCALE = {scale}\n")
            assert f"{scale}" in (await file.generated("k"))["text"].split("k_kernel", 1)[-1]
        file.close()

    async def test_what_is_no_file_is_not_read(self, pulling: LanguageClient, tmp_path: Path):
        """Nobody writes to this pipe, so reading it would never end."""
        os.mkfifo(tmp_path / "pipe.py")
        params = types.TextDocumentContentParams(f"tilelang-cuda://{tmp_path.as_posix()}/pipe.py/k.cu")
        asked = pulling.workspace_text_document_content_async(params)
        assert "it is no regular file" in (await asyncio.wait_for(asked, 20)).text


class TestPushed:
    async def test_both_kinds_of_clients_see_the_same(self, pushed: LanguageClient, pulling: LanguageClient):
        for number, text in enumerate((GEMM, WRONG_GEMM, GEMM.replace("T.clear(", "T.clear"))):
            uri = f"file:///same{number}.py"
            pushed_file, pulled_file = File(pushed, uri, text), File(pulling, uri, text)
            expected = seen(await until(pulled_file.diagnostics))

            async def same(uri: str = uri, expected: list[tuple[object, ...]] = expected) -> bool:
                await asyncio.sleep(0)
                return seen(list(pushed.diagnostics.get(uri, []))) == expected

            await until(same)
            pushed_file.close()
            pulled_file.close()

    async def test_a_renamed_and_a_closed_file_have_no_diagnostics(self, pushed: LanguageClient):
        file = File(pushed, "file:///before.py", WRONG_GEMM)
        await until(lambda: _told(pushed, file.uri, ["gemm-shape"]))
        file.close()  # as clients tell of a rename
        renamed = File(pushed, "file:///after.py", WRONG_GEMM)
        await until(lambda: _told(pushed, renamed.uri, ["gemm-shape"]))
        await until(lambda: _told(pushed, file.uri, []))
        renamed.close()
        await until(lambda: _told(pushed, renamed.uri, []))

    async def test_files_that_are_opened_and_closed_fast(self, pushed: LanguageClient):
        uri = "file:///fast.py"
        for number in range(100):
            file = File(
                pushed, uri, (GEMM, WRONG_GEMM, "import tilelang\nx = (")[number % 3] + f"# {number}\n"
            )
            if number % 4:
                file.replace("import", "import ")
            file.close()
        last = File(pushed, uri, WRONG_GEMM)
        await until(lambda: _told(pushed, uri, ["gemm-shape"]))
        last.close()
        await until(lambda: _told(pushed, uri, []))
        await asyncio.sleep(0.5)  # what was still on its way would come now
        assert await _told(pushed, uri, [])

    async def test_a_document_opened_twice_is_the_second(self, pushed: LanguageClient):
        uri = "file:///twice.py"
        File(pushed, uri, WRONG_GEMM)
        file = File(pushed, uri, GEMM.replace("T.clear(C_local)", "T.cleer(C_local)"))
        await until(lambda: _told(pushed, uri, ["unknown-language-name"]))
        await asyncio.sleep(0.5)
        assert await _told(pushed, uri, ["unknown-language-name"])
        file.close()

    async def test_a_saved_file_counts_for_those_that_import_it(self, pushed: LanguageClient, tmp_path: Path):
        (tmp_path / "sizes.py").write_text("ROWS = 32\n")
        (tmp_path / "uses.py").write_text(USES)
        file, sizes = File.of(pushed, tmp_path / "uses.py"), File.of(pushed, tmp_path / "sizes.py")
        await file.analysed()
        await until(lambda: _told(pushed, file.uri, []))
        (tmp_path / "sizes.py").write_text("ROWS = 48\n")
        pushed.text_document_did_save(types.DidSaveTextDocumentParams(sizes.identifier))
        await until(lambda: _told(pushed, file.uri, ["gemm-shape"]))
        for one in (file, sizes):
            one.close()
