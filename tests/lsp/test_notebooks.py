"""Notebooks: cells as one Python text, and diagnostics, hovers and fixes in the cells where they belong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.lsp.sessions import accept_registrations, as_dict, until
from tilelang.facts.notebook_cells import definitions
from tilelang_lsp.documents.document import Document
from tilelang_lsp.documents.notebook import Notebook

ROOT = Path(__file__).resolve().parents[2]

IMPORTS = "%load_ext autoreload\nimport tilelang\nimport tilelang.language as T"
SIZES = "ROWS = 32\n!nvidia-smi\ntile = 64"
KERNEL = """\
@tilelang.jit
def double(A):
    A: T.Tensor((64, 64), T.float16)
    B = T.empty((64, 64), T.float16)
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((ROWS, tile), T.float16)
        T.copy(A, s)
        T.copy(s, B)
    return B"""


def notebook(*texts: str) -> Notebook:
    cells = {f"cell:{n}": Document(f"cell:{n}", "/n.ipynb", 1, text) for n, text in enumerate(texts)}
    return Notebook("file:///n.ipynb", "/n.ipynb", [*cells, "cell:markdown"], cells)


class TestDefinitions:
    def test_what_runs_for_its_effect_is_left_out_line_by_line(self):
        text = """import torch
from __magic__ import *
x = torch.zeros(3)
k(x); k(x)
y = 1; k(y)
for n in (1, 2):
    k(n)
def f():
    return k(x)
with torch.no_grad():
    k(x)
if x: y = 2
print(
    x)"""
        kept = definitions(text).split("\n")
        assert len(kept) == text.count("\n") + 1
        assert [line for line in kept if line] == [
            "import torch",
            "x = torch.zeros(3)",
            "k(x); k(x)",
            "y = 1; k(y)",
            "def f():",
            "    return k(x)",
            "if x: y = 2",
        ]
        assert definitions("def f(:") == "def f(:"


class TestText:
    def test_cells_follow_each_other_and_keep_their_lines(self):
        read = notebook(IMPORTS, SIZES, KERNEL).read()
        assert [(p.uri, p.first_line, p.end_line) for p in read.places] == [
            ("cell:0", 0, 3),
            ("cell:1", 3, 6),
            ("cell:2", 6, 15),
        ]
        lines = read.text.split("\n")
        assert lines[:7] == [
            "pass",
            *IMPORTS.split("\n")[1:],
            "ROWS = 32",
            "pass",
            "tile = 64",
            "@tilelang.jit",
        ]
        assert read.problems == () and read.cell_at(5) == read.cell("cell:1") and read.cell_at(99) is None

    def test_errors_of_a_notebook_without_kernels_are_told_by_others(self):
        assert notebook("x = 1", "def f(:\n    pass").read().problems == ()

    def test_what_looks_like_magic_in_python_stays(self):
        text = "x = (7\n% 4)\ny = '''\n!important\n'''"
        assert notebook(text).read().text == text

    def test_a_cell_of_another_language_and_help_are_comments(self):
        read = notebook("%%bash\nls -la | wc", "T.copy?", "await f()").read()
        assert read.text == "#\n#\npass\nawait f()" and read.problems == ()

    def test_a_cell_that_does_not_parse_leaves_the_others(self):
        read = notebook("x = 1", "def f(:\n    pass", "y = 2", "import tilelang").read()
        assert read.text == "x = 1\nfrom __magic__ import *\n#\ny = 2\nimport tilelang"
        assert read.typed == "x = 1\ndef f(:\n    pass\ny = 2\nimport tilelang" and read.broken == ((1, 3),)
        assert [read.is_broken(line) for line in range(5)] == [False, True, True, False, False]
        (problem,) = read.problems
        assert (problem.rule, problem.span.line) == ("syntax-error", 2)

    def test_lines_of_windows(self):
        read = notebook("a = 1\r\nb = 2\r\n", "c = 3").read()
        assert read.text == "a = 1\nb = 2\n\nc = 3" and read.cell("cell:1").first_line == 3


class Cells:
    """An open notebook as an editor keeps it."""

    def __init__(self, client: LanguageClient, name: str, *texts: str) -> None:
        self.client = client
        self.uri = f"file:///nowhere/{name}.ipynb"
        self.version = 1
        self.texts = {f"vscode-notebook-cell:/nowhere/{name}.ipynb#{n}": t for n, t in enumerate(texts)}
        markdown = types.NotebookCell(types.NotebookCellKind.Markup, f"{self.uri}#markdown")
        cells = [markdown, *(types.NotebookCell(types.NotebookCellKind.Code, uri) for uri in self.texts)]
        items = [types.TextDocumentItem(uri, "python", 1, text) for uri, text in self.texts.items()]
        document = types.NotebookDocument(self.uri, "jupyter-notebook", 1, cells)
        client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(document, items))

    def cell(self, number: int) -> str:
        return list(self.texts)[number]

    def changed(self, cells: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        self.client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(self.version, self.uri),
                types.NotebookDocumentChangeEvent(cells=cells),
            )
        )

    def replace(self, number: int, old: str, new: str) -> None:
        uri = self.cell(number)
        start, end = position(self.texts[uri], old), position(self.texts[uri], old, len(old))
        self.texts[uri] = self.texts[uri].replace(old, new, 1)
        change = types.TextDocumentContentChangePartial(range=types.Range(start, end), text=new)
        document = types.VersionedTextDocumentIdentifier(self.version + 1, uri)
        self.changed(
            types.NotebookDocumentCellChanges(
                text_content=[types.NotebookDocumentCellContentChanges(document, [change])]
            )
        )

    async def diagnostics(self, number: int) -> list[types.Diagnostic]:
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(self.cell(number)))
        found = (await self.client.text_document_diagnostic_async(params)).items
        grave = (types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Warning)
        return [d for d in found if d.severity in grave]  # there may be hints about speed

    async def hover(self, number: int, part: str, shift: int = 0) -> str | None:
        uri = self.cell(number)
        params = types.HoverParams(types.TextDocumentIdentifier(uri), position(self.texts[uri], part, shift))
        found = await self.client.text_document_hover_async(params)
        return found.contents.value if found else None

    async def symbols(self, number: int) -> list[types.DocumentSymbol]:
        params = types.DocumentSymbolParams(types.TextDocumentIdentifier(self.cell(number)))
        return await self.client.text_document_document_symbol_async(params)

    def close(self) -> None:
        identifiers = [types.TextDocumentIdentifier(uri) for uri in self.texts]
        document = types.NotebookDocumentIdentifier(self.uri)
        self.client.notebook_document_did_close(types.DidCloseNotebookDocumentParams(document, identifiers))


def position(text: str, part: str, shift: int = 0) -> types.Position:
    offset = text.index(part) + shift
    return types.Position(text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1))


@pytest_lsp.fixture(
    params=["visual-studio-code", "neovim"],
    config=ClientServerConfig(
        server_command=[sys.executable, "-m", "tilelang_lsp.server"], server_env={"PYTHONPATH": str(ROOT)}
    ),
    scope="module",
)
async def client(request: pytest.FixtureRequest, lsp_client: LanguageClient):
    accept_registrations(lsp_client)
    for method in (
        types.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
        types.WORKSPACE_INLAY_HINT_REFRESH,
        types.WORKSPACE_CODE_LENS_REFRESH,
    ):
        lsp_client.feature(method)(lambda *_: None)
    capabilities = client_capabilities(request.param)
    capabilities.notebook_document = types.NotebookDocumentClientCapabilities(
        types.NotebookDocumentSyncClientCapabilities()
    )
    result = await lsp_client.initialize_session(
        types.InitializeParams(capabilities=capabilities, root_uri="file:///nowhere")
    )
    assert result.capabilities.notebook_document_sync is not None
    yield
    await lsp_client.shutdown_session()


async def known(cells: Cells, number: int, part: str, said: str, shift: int = 0) -> str:
    async def ask() -> str | None:
        found = await cells.hover(number, part, shift)
        return found if found is not None and said in found else None

    return await until(ask)


RUN_KERNEL = """\
@tilelang.jit
def scale(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, tile), threads=64) as bx:
        for i in T.Parallel(tile):
            B[bx * tile + i] = A[bx * tile + i] * 2
    return B

def ref_scale(A):
    return A * 2"""
EFFECTS = """\
import torch
raise SystemExit("a cell of the author's own")
x = scale(torch.zeros(3))
for n in range(10**12):
    pass"""


class TestNotebooks:
    async def test_a_kernel_of_a_cell_is_run_and_shown(self, client: LanguageClient):
        """Lenses stand above it in its cell; of the other cells a run takes what they define."""
        cells = Cells(client, "runs", IMPORTS, SIZES, RUN_KERNEL, EFFECTS.replace("x = scale", "scale"))
        await known(cells, 2, "B = T", "B: float32[N]")
        identifier = types.TextDocumentIdentifier(cells.cell(2))
        found = await client.text_document_code_lens_async(types.CodeLensParams(identifier))
        assert found and {lens.range.start.line for lens in found} == {0}
        commands = {lens.command.title: lens.command for lens in found if lens.command is not None}
        first = types.TextDocumentIdentifier(cells.cell(0))
        assert not await client.text_document_code_lens_async(types.CodeLensParams(first))
        preview = next(c for title, c in commands.items() if title == "preview CUDA")
        (argument,) = preview.arguments or []
        made = as_dict(await client.protocol.send_request_async("tilelang/generatedSource", argument))
        assert "__global__" in made["text"]
        run = next(c for title, c in commands.items() if "run & assert" in title)
        params = types.ExecuteCommandParams(run.command, run.arguments)
        result = as_dict(await client.workspace_execute_command_async(params))
        assert result["error"] is None and result["passed"] and result["reference"] == "ref_scale"
        cells.close()

    async def test_a_kernel_sees_earlier_cells(self, client: LanguageClient):
        cells = Cells(client, "sees", IMPORTS, SIZES, KERNEL)
        await known(cells, 2, "s = T", "s: float16[32, 64] shared")
        found, second = await cells.diagnostics(2)
        assert found.code == second.code == "copy-shape"
        assert (found.range.start.line, second.range.start.line) == (6, 7)
        assert await cells.diagnostics(0) == [] and await cells.diagnostics(1) == []
        related = [r.location for r in found.related_information or []]
        assert related and {place.uri for place in related} == {cells.cell(2)}
        assert position(KERNEL, "s = T") in [place.range.start for place in related]
        cells.replace(1, "ROWS = 32", "ROWS = 64")
        await known(cells, 2, "s = T", "s: float16[64, 64] shared")
        assert await cells.diagnostics(2) == []
        cells.close()

    async def test_cells_come_and_go(self, client: LanguageClient):
        cells = Cells(client, "comes", IMPORTS, "tile = 64", KERNEL)
        uri = "vscode-notebook-cell:/nowhere/comes.ipynb#new"
        await until(lambda: cells.diagnostics(2), 60)  # ROWS is unknown
        added = types.NotebookCell(types.NotebookCellKind.Code, uri)
        structure = types.NotebookDocumentCellChangeStructure(
            types.NotebookCellArrayChange(start=2, delete_count=0, cells=[added]),
            did_open=[types.TextDocumentItem(uri, "python", 1, "ROWS = 64")],
        )
        cells.changed(types.NotebookDocumentCellChanges(structure=structure))
        await known(cells, 2, "s = T", "s: float16[64, 64] shared")
        assert await cells.diagnostics(2) == []
        removed = types.NotebookDocumentCellChangeStructure(
            types.NotebookCellArrayChange(start=2, delete_count=1),
            did_close=[types.TextDocumentIdentifier(uri)],
        )
        cells.changed(types.NotebookDocumentCellChanges(structure=removed))
        await until(lambda: cells.diagnostics(2), 60)
        cells.close()

    async def test_a_broken_cell_is_told_and_the_others_are_analysed(self, client: LanguageClient):
        cells = Cells(client, "broken", IMPORTS, SIZES.replace("32", "64"), "def f(:\n    pass", KERNEL)
        (error,) = await until(lambda: cells.diagnostics(2))
        assert (error.code, error.range.start.line) == ("syntax-error", 0)
        await known(cells, 3, "s = T", "s: float16[64, 64] shared")
        assert await cells.diagnostics(3) == []
        cells.close()

    async def test_a_kernel_stays_known_while_it_is_typed(self, client: LanguageClient):
        other = (
            KERNEL.replace("double", "other").replace("s =", "t =").replace("s)", "t)").replace("(s,", "(t,")
        )
        cells = Cells(client, "typed", f"{IMPORTS}\n{SIZES}".replace("32", "64"), f"{KERNEL}\n\n{other}")
        await known(cells, 1, "s = T", "s: float16[64, 64] shared")
        cells.replace(1, "T.copy(A, s)", "T.fill((\n        T.copy(A, s)")
        (error,) = await until(lambda: cells.diagnostics(1))
        assert (error.code, error.range.start.line) == ("syntax-error", 6)
        # Also where something above it is typed, and in the kernel below the one that is broken.
        cells.replace(0, "tile = 64", "tile = 64\nmore = 1")
        await until(lambda: cells.diagnostics(1))
        await known(cells, 1, "s = T", "s: float16[64, 64] shared")
        await known(cells, 1, "t = T", "t: float16[64, 64] shared")
        assert [s.name for s in await cells.symbols(1)] == ["double", "other"]
        cells.replace(0, "tile = 64", "tile = 32")
        await known(cells, 1, "t = T", "t: float16[64, 32] shared")
        cells.replace(1, "T.fill((\n        T.copy(A, s)", "T.copy(A, s)")
        await known(cells, 1, "s = T", "s: float16[64, 32] shared")
        cells.replace(1, "def double(A):", "def double(A:")
        cells.replace(1, "@tilelang.jit\ndef double(A:", "x = (")
        await until(lambda: cells.diagnostics(1))
        cells.close()

    async def test_names_are_followed_within_a_cell(self, client: LanguageClient):
        right = KERNEL.replace("(ROWS, tile)", "(64, 64)")
        cells = Cells(client, "names", f"{IMPORTS}\n", right, right.replace("double", "other"))
        await known(cells, 2, "s = T", "s: float16[64, 64] shared")
        uri = cells.cell(2)
        document, use = types.TextDocumentIdentifier(uri), position(right, "s)")
        bound = types.Range(position(right, "s = T"), position(right, "s = T", 1))
        found = await client.text_document_definition_async(types.DefinitionParams(document, use))
        assert found == types.Location(uri, bound)
        marked = await client.text_document_document_highlight_async(
            types.DocumentHighlightParams(document, use)
        )
        assert [h.range.start.line for h in marked] == [5, 6, 7]
        asked = types.ReferenceParams(types.ReferenceContext(True), document, use)
        assert [r.uri for r in await client.text_document_references_async(asked)] == [uri] * 3
        prepared = await client.text_document_prepare_rename_async(types.PrepareRenameParams(document, use))
        assert prepared.start == use
        edit = await client.text_document_rename_async(types.RenameParams(document, use, "tile"))
        (change,) = edit.document_changes
        assert change.text_document.uri == uri and len(change.edits) == 3
        (kernel,) = await cells.symbols(2)
        assert kernel.name == "other" and kernel.range.start.line == 0
        assert [s.name for s in kernel.children] == ["A", "B", "s"]
        tokens = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(document))
        assert list(tokens.data[:2]) == [2, 4] and sum(tokens.data[::5]) == 8
        assert await cells.symbols(0) == []
        cells.close()

    async def test_fixes_are_edits_of_the_cell(self, client: LanguageClient):
        right = KERNEL.replace("(ROWS, tile)", "(64, 64)")
        unused = right.replace("T.copy(A, s)", "T.copy(A, s)  # tilelang: ignore[copy-shape]")
        cells = Cells(client, "fixes", IMPORTS, unused)
        (found,) = await until(lambda: cells.diagnostics(1))
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(cells.cell(1)), found.range, types.CodeActionContext([found])
        )
        actions = await client.text_document_code_action_async(params)
        (change,) = actions[0].edit.document_changes
        assert change.text_document.uri == cells.cell(1)
        (edit,) = change.edits
        assert edit.new_text == "" and edit.range.start == position(unused, "  # tilelang")
        cells.close()
