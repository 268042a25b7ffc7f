"""Code actions, fix-all, rule pages, and settings that change while files are open: over the real server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.cli.kernels import GEMM, GEMM_LINE, WRONG_GEMM
from tests.lsp.sessions import File, as_dict, until

ROOT = Path(__file__).resolve().parents[2]
SERVER = ClientServerConfig(
    server_command=[sys.executable, "-m", "tilelang_lsp.server"], server_env={"PYTHONPATH": str(ROOT)}
)
_ERROR, _WARNING = types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Warning
CALL = "T.gemm(A_shared, B_shared, C_local)"
UNUSED = GEMM.replace(CALL, f"{CALL}  # tilelang: ignore[gemm-shape]").replace(
    "T.clear(C_local)", "T.clear(C_local)  # tilelang: ignore[gemm-dtype]"
)


@pytest_lsp.fixture(config=SERVER, scope="module")
async def client(lsp_client: LanguageClient, tmp_path_factory: pytest.TempPathFactory):
    """A client whose configuration a test sets, and which shows documents."""
    lsp_client.watched = []  # type: ignore[attr-defined]

    for method in (
        types.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
        types.WORKSPACE_INLAY_HINT_REFRESH,
        types.WORKSPACE_CODE_LENS_REFRESH,
    ):
        lsp_client.feature(method)(lambda *_: None)

    @lsp_client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(params: types.RegistrationParams) -> None:
        lsp_client.watched += [r.method for r in params.registrations]

    capabilities = client_capabilities("visual-studio-code")
    capabilities.window.show_document = types.ShowDocumentClientCapabilities(support=True)
    folder = tmp_path_factory.mktemp("workspace")
    lsp_client.folder = folder  # type: ignore[attr-defined]
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=capabilities, root_uri=folder.as_uri())
    )
    yield
    await lsp_client.shutdown_session()


def opened(client: LanguageClient, name: str, text: str) -> File:
    path = client.folder / name  # type: ignore[attr-defined]
    path.write_text(text, encoding="utf-8")
    return File.of(client, path)


async def actions(file: File, part: str, only: list[str] | None = None) -> list[types.CodeAction]:
    start = file.position(part)
    params = types.CodeActionParams(
        file.identifier, types.Range(start, start), types.CodeActionContext(diagnostics=[], only=only)
    )
    # lsprotocol takes an action that has nothing but a command for that command.
    found = await file.client.text_document_code_action_async(params)
    return [
        a if isinstance(a, types.CodeAction) else types.CodeAction(a.title, command=a) for a in found or []
    ]


def applied(text: str, action: types.CodeAction) -> str:
    """The text after the edit of an action. (All texts here are ASCII.)"""
    (change,) = action.edit.document_changes
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines))]
    for edit in sorted(
        change.edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True
    ):
        begin = starts[edit.range.start.line] + edit.range.start.character
        end = starts[edit.range.end.line] + edit.range.end.character
        text = text[:begin] + edit.new_text + text[end:]
    return text


async def configure(client: LanguageClient, settings: dict[str, Any] | None) -> None:
    client.set_configuration({"tilelang": settings})
    client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))


async def grave(file: File) -> list[types.Diagnostic]:
    """Errors and warnings; there may be hints about speed."""
    return [d for d in await file.diagnostics() if d.severity in (_ERROR, _WARNING)]


async def codes(file: File) -> list[str]:
    return [str(d.code) for d in await grave(file)]


class TestActions:
    async def test_a_diagnostic_says_all_it_knows(self, client: LanguageClient):
        file = opened(client, "unused.py", UNUSED)
        await file.analysed()
        first, second = await grave(file)
        for found in (first, second):
            assert (found.code, found.source) == ("unused-ignore", "tilelang")
            assert found.code_description.href == (ROOT / "docs/rules/unused-ignore.md").as_uri()
            assert list(found.tags) == [types.DiagnosticTag.Unnecessary]
        (fix,) = as_dict(second.data)["fixes"]
        assert fix["title"] == "Remove the unused ignore comment" and fix["edits"][0]["newText"] == ""
        assert fix["edits"][0]["range"]["start"]["line"] == GEMM_LINE - 1
        file.close()

    async def test_related_places(self, client: LanguageClient):
        file = opened(client, "wrong.py", WRONG_GEMM)
        (found,) = await until(lambda: grave(file))
        assert found.code == "gemm-shape" and found.tags is None
        related = found.related_information
        assert [r.location.range.start for r in related] == [
            file.position("A_shared ="),
            file.position("B_shared ="),
        ]
        file.close()

    async def test_fix_all(self, client: LanguageClient):
        file = await opened(client, "all.py", UNUSED).analysed()
        for only in (["source.fixAll.tilelang"], ["source.fixAll"], ["source"]):
            (action,) = await actions(file, "import", only)
            assert action.kind == "source.fixAll.tilelang"
            assert applied(UNUSED, action) == GEMM
        assert await actions(file, "import", ["source.organizeImports"]) == []
        found = await actions(file, "gemm-shape]")
        titles = [a.title for a in found]
        assert titles == [
            "Remove the unused ignore comment",
            "Fix all TileLang problems that leave no choice",
            "Ignore unused-ignore on this line",
            "Explain unused-ignore",
        ]
        assert found[0].is_preferred and applied(UNUSED, found[1]) == GEMM
        file.close()
        right = await opened(client, "right.py", GEMM).analysed()
        assert await actions(right, "import", ["source.fixAll"]) == []
        right.close()

    async def test_ignore_on_this_line_silences_it(self, client: LanguageClient):
        file = opened(client, "ignored.py", WRONG_GEMM)
        await until(lambda: grave(file))
        found = await actions(file, "B_shared, C_local")
        ignore = next(a for a in found if a.title == "Ignore gemm-shape on this line")
        silenced = applied(WRONG_GEMM, ignore)
        assert silenced.split("\n")[GEMM_LINE - 1].endswith(f"{CALL}  # tilelang: ignore[gemm-shape]")
        file.replace(CALL, f"{CALL}  # tilelang: ignore[gemm-shape]")
        assert file.text == silenced and await grave(file) == []
        file.close()

    async def test_explain_shows_the_page_of_the_rule(self, client: LanguageClient):
        file = opened(client, "explained.py", WRONG_GEMM)
        await until(lambda: grave(file))
        explain = (await actions(file, "B_shared, C_local"))[-1]
        assert explain.title == "Explain gemm-shape"
        params = types.ExecuteCommandParams("tilelang.explainRule", [{"rule": "gemm-shape"}])
        page = (ROOT / "docs" / "rules" / "gemm-shape.md").as_uri()
        answer = as_dict(await client.workspace_execute_command_async(params))
        assert answer == {"uri": page, "shown": True} and client.shown_documents[-1].uri == page
        wrong = types.ExecuteCommandParams("tilelang.explainRule", [{"rule": "no-such"}])
        assert "no-such" in as_dict(await client.workspace_execute_command_async(wrong))["error"]
        file.close()


class TestOtherFiles:
    """A mistake in a macro of another file is shown at the call that leads there."""

    MACRO = "import tilelang.language as T\n\n@T.macro\ndef put(s, n):\n    s[n, 0] = 0\n"
    TEXT = GEMM.replace("import tilelang\n", "import tilelang\nfrom macros import put\n", 1).replace(
        "T.clear(C_local)", "T.clear(C_local)\n        put(A_shared, 4096)"
    )

    async def test_it_stands_at_the_call(self, client: LanguageClient):
        (client.folder / "macros.py").write_text(self.MACRO, encoding="utf-8")
        file = await opened(client, "calls.py", self.TEXT).analysed()
        (found,) = await grave(file)
        assert found.code == "index-out-of-bounds" and found.message.startswith("in macros.py, line 5: ")
        assert found.range.start == file.position("put(A_shared, 4096)")
        first, *_ = found.related_information
        assert first.location.uri == (client.folder / "macros.py").as_uri()
        assert first.location.range.start == types.Position(4, 6)
        titles = [a.title for a in await actions(file, "put(A_shared")]
        assert titles == ["Ignore index-out-of-bounds on this line", "Explain index-out-of-bounds"]
        file.replace("import tilelang\n", "import tilelang\n\n\n")
        (moved,) = await grave(file)
        assert moved.range.start == file.position("put(A_shared, 4096)")
        assert moved.related_information[0].location.range.start == types.Position(4, 6)
        file.replace("put(A_shared, 4096)", "put(A_shared, 4096)  # tilelang: ignore[index-out-of-bounds]")
        assert await grave(file) == []
        file.close()


class TestSettings:
    async def test_they_count_at_once(self, client: LanguageClient):
        file = opened(client, "live.py", WRONG_GEMM)
        await until(lambda: grave(file))
        await configure(client, {"ignore": ["gemm-shape"]})
        await until(lambda: _are(file, []))
        await configure(client, {"ignore": None, "select": ["dtype"]})
        assert await codes(file) == []
        await configure(client, {"select": ["shape", "dtype"]})
        await until(lambda: _are(file, ["gemm-shape"]))
        await configure(client, {"target": "hip:gfx942"})
        await until(lambda: _says(file, "def matmul", "hip:gfx942"))
        await configure(client, {"specialisations": {"matmul": {"block_K": 64}}})
        await until(lambda: _says(file, "def matmul", "block_K=64"))
        assert await codes(file) == ["gemm-shape"]  # the default still has it, as a warning that says so
        (found,) = await grave(file)
        assert found.severity == types.DiagnosticSeverity.Warning
        await configure(client, {})
        await until(lambda: _says(file, "def matmul", "cuda:sm_90"))
        file.close()

    async def test_the_project_counts_and_is_watched(self, client: LanguageClient):
        project = client.folder / "pyproject.toml"
        file = opened(client, "project.py", WRONG_GEMM)
        await until(lambda: grave(file))
        assert types.WORKSPACE_DID_CHANGE_WATCHED_FILES in client.watched
        project.write_text("[tool.tilelang]\nignore = ['shape']\n", encoding="utf-8")
        self.changed_on_disk(client, project)
        await until(lambda: _are(file, []))
        await configure(client, {"ignore": []})  # the editor goes over the project
        await until(lambda: _are(file, ["gemm-shape"]))
        await configure(client, {})
        project.write_text("[tool.tilelang]\nignore = ['shap']\n", encoding="utf-8")
        self.changed_on_disk(client, project)
        await until(lambda: _are(file, ["gemm-shape"]))
        await until(
            lambda: _told(client, "ignore: 'shap' is no rule and no family of rules; did you mean shape?")
        )
        project.unlink()
        self.changed_on_disk(client, project)
        assert len([m for m in client.messages if "'shap'" in m.message]) == 1
        file.close()

    async def test_a_module_that_changes_on_disk_is_read_again(self, client: LanguageClient):
        helper = client.folder / "sizes.py"
        helper.write_text("ROWS = 32\n", encoding="utf-8")
        text = GEMM.replace("import tilelang\n", "import tilelang\nfrom sizes import ROWS\n", 1)
        text = text.replace("alloc_shared((block_K, block_N)", "alloc_shared((ROWS, block_N)")
        file = opened(client, "uses.py", text)
        await file.analysed()
        assert await codes(file) == []
        helper.write_text("ROWS = 48\n", encoding="utf-8")
        self.changed_on_disk(client, helper)
        await until(lambda: _are(file, ["gemm-shape"]))
        file.close()

    def changed_on_disk(self, client: LanguageClient, path: Path) -> None:
        change = types.FileEvent(path.as_uri(), types.FileChangeType.Changed)
        client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([change]))


async def _are(file: File, expected: list[str]) -> bool:
    return await codes(file) == expected


async def _says(file: File, part: str, said: str) -> bool:
    hover = await file.hover(part, 4)
    return hover is not None and said in hover


async def _told(client: LanguageClient, said: str) -> bool:
    await asyncio.sleep(0)
    return any(said in m.message for m in client.messages)
