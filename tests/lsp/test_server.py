"""Whole sessions over stdio with the real compiler, under the capabilities of Neovim and VS Code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.lsp.sessions import File, accept_registrations, content, until

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "examples" / "quickstart.py"
MISTAKE = ROOT / "tests" / "mistakes" / "wrong" / "gemm_k_mismatch.py"

OPTIONS = {"generatedSourceChanged": True, "runFinished": True, "runTimeout": 120}


@pytest_lsp.fixture(
    params=["neovim", "visual-studio-code"],
    config=ClientServerConfig(
        server_command=[sys.executable, "-m", "tilelang_lsp.server"], server_env={"PYTHONPATH": str(ROOT)}
    ),
    scope="module",
)
async def client(request: pytest.FixtureRequest, lsp_client: LanguageClient):
    accept_registrations(lsp_client)
    heard: list[tuple[str, object]] = []
    for method in ("tilelang/generatedSourceChanged", "tilelang/runFinished"):
        lsp_client.feature(method)(lambda params, method=method: heard.append((method, params)))
    lsp_client.heard = heard  # type: ignore[attr-defined]
    for method in (
        types.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
        types.WORKSPACE_INLAY_HINT_REFRESH,
        types.WORKSPACE_CODE_LENS_REFRESH,
    ):
        lsp_client.feature(method)(lambda *_: None)
    workspace = client_capabilities(request.param).workspace
    can_refresh = workspace.diagnostics is not None and workspace.diagnostics.refresh_support
    lsp_client.can_refresh = can_refresh  # type: ignore[attr-defined]
    result = await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities(request.param),
            root_uri=ROOT.as_uri(),
            initialization_options=OPTIONS,
        )
    )
    lsp_client.initialize_result = result  # type: ignore[attr-defined]
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
async def quickstart(client: LanguageClient):
    file = await File.of(client, QUICKSTART).analysed()
    yield file
    file.close()


class TestStart:
    async def test_generated_documents_are_advertised(self, client: LanguageClient):
        workspace = client.initialize_result.capabilities.workspace
        assert list(workspace.text_document_content.schemes) == [
            "tilelang-cuda",
            "tilelang-hip",
            "tilelang-metal",
            "tilelang-cpu",
        ]


class TestDiagnostics:
    async def test_a_mistake_stands_at_its_argument(self, client: LanguageClient):
        file = await File.of(client, MISTAKE).analysed()
        (error,) = await file.errors()
        line = file.text.splitlines()[error.range.start.line]
        assert "T.gemm" in line
        assert line[error.range.start.character : error.range.end.character] == "B_s"
        assert "32" in error.message and "128" in error.message
        assert error.source == "tilelang" and error.code_description.href.endswith(f"{error.code}.md")
        assert any("B_s" in r.message for r in error.related_information)
        file.close()

    async def test_a_repair_ends_it_and_a_break_brings_it_back(self, client: LanguageClient):
        file = await File.of(client, MISTAKE).analysed()
        file.replace("B_s = T.alloc_shared((BM, BN)", "B_s = T.alloc_shared((BK, BN)")
        assert await file.errors() == []
        file.replace("B_s = T.alloc_shared((BK, BN)", "B_s = T.alloc_shared((BM, BN)")
        assert len(await file.errors()) == 1
        file.close()

    async def test_while_the_text_is_broken_the_rest_stays(self, client: LanguageClient):
        file = await File.of(client, MISTAKE).analysed()
        file.replace("        T.clear(acc)", "        T.clear(acc\n\n")
        found = await file.errors()
        assert [d.code for d in found if d.code == "syntax-error"] == ["syntax-error"]
        (stays,) = [d for d in found if d.code != "syntax-error"]
        assert "T.gemm" in file.text.splitlines()[stays.range.start.line]
        assert "B_s" in (await file.hover("B_s =") or "")
        file.close()

    async def test_columns_behind_wide_characters(self, client: LanguageClient):
        text = MISTAKE.read_text().replace("T.clear(acc)", "T.clear(acc); note = '😀é'")
        text = text.replace("            T.gemm(A_s", "            note = '😀é'; T.gemm(A_s")
        file = await File(client, "file:///wide.py", text).analysed()
        (error,) = await file.errors()
        line = text.splitlines()[error.range.start.line]
        encoding = client.initialize_result.capabilities.position_encoding
        raw = line.encode("utf-16-le") if encoding == "utf-16" else line.encode(encoding)
        width = 2 if encoding == "utf-16" else 1
        part = raw[error.range.start.character * width : error.range.end.character * width]
        assert part.decode("utf-16-le" if encoding == "utf-16" else encoding) == "B_s"
        file.close()

    async def test_form_feeds_end_no_line(self, client: LanguageClient):
        text = MISTAKE.read_text().replace("import tilelang\n", "import tilelang\n\x0c# page \x85 two\n", 1)
        file = await File(client, "file:///pages.py", text).analysed()
        (error,) = await file.errors()
        assert "T.gemm" in text.split("\n")[error.range.start.line]
        file.close()

    async def test_files_without_kernels_are_left_alone(self, client: LanguageClient):
        file = File(client, "file:///plain.py", "def f(:\n")
        assert await file.diagnostics() == []
        file.close()


class TestHoverAndHints:
    async def test_buffer(self, quickstart: File):
        shown = await quickstart.hover("A_shared =")
        assert "A_shared: float16[128, 32] shared" in shown
        assert "3 stages" in shown and "swizzle" in shown

    async def test_fragment(self, quickstart: File):
        shown = await quickstart.hover("C_local =")
        assert "float32[128, 128] fragment" in shown and "128 registers per thread" in shown

    async def test_tile_op(self, quickstart: File):
        shown = await quickstart.hover("T.gemm(", 3)
        assert "A_shared" in shown and "cuda:sm_90" in shown and "wgmma m64n128k16" in shown

    async def test_kernel(self, quickstart: File):
        for place in ("def matmul_relu", "T.Kernel("):
            shown = await quickstart.hover(place, 4 if place.startswith("def") else 3)
            assert "grid" in shown and "128 threads per block" in shown and "of 227 KiB" in shown

    async def test_hints(self, quickstart: File):
        whole = types.Range(types.Position(0, 0), types.Position(999, 0))
        params = types.InlayHintParams(quickstart.identifier, whole)
        hints = await quickstart.client.text_document_inlay_hint_async(params)
        labels = [h.label for h in hints]
        assert any(label.startswith(": float16[128, 32]") for label in labels)
        assert any("128×32" in label for label in labels)
        lines = quickstart.text.splitlines()
        gemm = next(h for h in hints if "T.gemm" in lines[h.position.line])
        assert gemm.position.character == len(lines[gemm.position.line])

    async def test_navigation(self, quickstart: File):
        position = quickstart.position("A_shared, B_shared", 2)
        definition = await quickstart.client.text_document_definition_async(
            types.DefinitionParams(quickstart.identifier, position)
        )
        assert definition.range.start == quickstart.position("A_shared =")
        edit = await quickstart.client.text_document_rename_async(
            types.RenameParams(quickstart.identifier, position, "A_tile")
        )
        (change,) = edit.document_changes
        assert len(change.edits) == quickstart.text.count("A_shared")

    async def test_symbols_and_tokens(self, quickstart: File):
        (kernel,) = await quickstart.symbols()
        assert kernel.name == "matmul_relu"
        assert [c.name for c in kernel.children] == ["A", "B", "C", "A_shared", "B_shared", "C_local"]
        tokens = await quickstart.client.text_document_semantic_tokens_full_async(
            types.SemanticTokensParams(quickstart.identifier)
        )
        assert len(tokens.data) >= 5 * quickstart.text.count("A_shared")

    async def test_quick_fix_ignores_a_rule(self, client: LanguageClient):
        file = await File.of(client, MISTAKE).analysed()
        (error,) = await file.errors()
        context = types.CodeActionContext([error])
        params = types.CodeActionParams(file.identifier, error.range, context)
        actions = await client.text_document_code_action_async(params)
        ignore = next(a for a in actions if a.title == f"Ignore {error.code} on this line")
        (change,) = ignore.edit.document_changes
        assert change.edits[0].new_text == f"  # tilelang: ignore[{error.code}]"
        line = file.text.splitlines()[error.range.start.line]
        file.replace(line, line + change.edits[0].new_text)
        assert await file.errors() == []
        file.close()


class TestDetails:
    """What lowering knows comes by itself, when nothing was typed for a moment."""

    async def test_instructions_and_layouts_come_without_a_preview(self, quickstart: File):
        def shown(instruction: str) -> Callable[[], Awaitable[str | None]]:
            async def look() -> str | None:
                text = await quickstart.hover("T.copy(A[", 3)
                return text if text and instruction in text else None

            return look

        assert "with M=1000, K=520, N=1024" in await until(shown("TMA load, 2-D, 1 box"))
        quickstart.replace("block_M: int = 128", "block_M: int = 64")
        await quickstart.diagnostics()
        assert "64×32" in (await quickstart.hover("T.copy(A[", 3) or "")  # at once
        # Smaller blocks leave a multiprocessor room for so many that no warp group of them only loads.
        assert "64×32" in await until(shown("cp.async 16 bytes"))

    async def test_a_layout_that_cannot_be_is_told_after_typing(self, client: LanguageClient):
        file = await File.of(client, QUICKSTART).analysed()
        assert await file.errors() == []
        refreshes = client.diagnostic_refresh_count
        file.replace("T.max(C_local[i, j], 0)", "T.max(C_local[i, j ^ 2], 0)")
        (error,) = await until(file.errors)
        assert error.code == "fragment-layout" and "C_local" in error.message
        assert "T.Parallel" in file.text.splitlines()[error.range.start.line]
        if client.can_refresh:
            assert client.diagnostic_refresh_count > refreshes
        file.replace("j ^ 2", "j")
        assert await file.errors() == []
        file.close()

    async def test_the_lens_counts_the_workspace_of_reductions(self, client: LanguageClient):
        file = await File.of(client, ROOT / "examples" / "softmax.py").analysed()

        async def counted() -> bool:
            return any(x.command.title.startswith("shared memory 192 B of") for x in await file.lenses())

        assert await until(counted)
        file.close()


class TestPreviews:
    async def test_lenses_lead_to_generated_source(self, quickstart: File):
        commands = [lens.command for lens in await quickstart.lenses()]
        assert [c.title for c in commands][:4] == [
            "▶ run & assert vs torch",
            "preview CUDA",
            "preview HIP",
            "preview Metal",
        ]
        assert commands[4].title.startswith("shared memory 48 KiB of")
        argument = commands[1].arguments[0]
        assert (argument["kernel"], argument["target"]) == ("matmul_relu", "cuda")

    async def test_every_line_has_its_python_line(self, quickstart: File):
        source = await quickstart.generated("matmul_relu")
        lines = source["text"].split("\n")[:-1]
        assert source["uri"] == f"tilelang-cuda://{QUICKSTART.as_posix()}/matmul_relu.cu"
        assert lines[0].startswith("// matmul_relu for cuda:sm_90")
        assert len(source["lineMap"]) == len(lines)
        mma = next(i for i, line in enumerate(lines) if "wgmma_" in line and source["lineMap"][i])
        assert "T.gemm" in quickstart.text.splitlines()[source["lineMap"][mma] - 1]
        assert await content(quickstart.client, source["uri"]) == source["text"]

    async def test_changes_of_the_kernel_are_told(self, client: LanguageClient, quickstart: File):
        await quickstart.generated("matmul_relu")
        client.heard.clear()
        quickstart.replace("block_K: int = 32", "block_K: int = 64")
        await quickstart.diagnostics()
        await until(lambda: _heard(client, "tilelang/generatedSourceChanged"))
        assert "block_K" not in (await quickstart.generated("matmul_relu")).get("error", "")
        client.heard.clear()
        quickstart.replace("def main", "# elsewhere\ndef main")
        await quickstart.diagnostics()
        assert not await _heard(client, "tilelang/generatedSourceChanged")

    async def test_while_broken_the_last_good_text_stays(self, client: LanguageClient, quickstart: File):
        uri = (await quickstart.generated("matmul_relu"))["uri"]
        good = await content(client, uri)
        quickstart.replace("T.gemm(", "T.gemm((")
        late = await content(client, uri)
        assert late.startswith("// out of date: line ") and late.endswith(good)
        assert "error" in await quickstart.generated("matmul_relu")

    async def test_what_cannot_be_generated_says_why(self, client: LanguageClient):
        file = await File.of(client, MISTAKE).analysed()
        refused = await file.generated("k")
        assert "B_s" in refused["error"]
        shown = await content(client, f"tilelang-cuda://{MISTAKE.as_posix()}/k.cu")
        assert shown.startswith("// k cannot be generated for cuda:\n//   line ")
        assert "no kernel called nothing" in (await file.generated("nothing"))["error"]
        assert "expected one of cuda" in (await file.generated("k", "fpga"))["error"]
        file.close()

    @pytest.mark.parametrize("target", ["hip", "metal", "cpu"])
    async def test_other_targets(self, quickstart: File, target: str):
        source = await quickstart.generated("matmul_relu", target)
        assert "error" not in source, source
        assert source["target"] == target and "matmul_relu" in source["text"]


async def _heard(client: LanguageClient, method: str) -> bool:
    await asyncio.sleep(0.05)
    return any(name == method for name, _ in client.heard)
