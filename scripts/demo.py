"""The demo behind `make demo`: drives the real language server over stdio, as an editor does.

Opens `examples/quickstart.py` and a copy with a mistake in it; shows the diagnostics as source excerpts, one
hover, the head of the generated CUDA, and "run & assert vs torch" (on the CPU where there is no GPU).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax

ROOT = Path(__file__).resolve().parent.parent
QUICKSTART = ROOT / "examples" / "quickstart.py"
console = Console(highlight=False, width=min(Console().width, 120))


class DemoClient(LanguageClient):
    """A language client that answers what the server may ask of an editor."""

    def __init__(self) -> None:
        super().__init__("tilelang-demo", "1")
        self.changed = asyncio.Event()  # the server has new diagnostics to be pulled

        @self.feature(types.WORKSPACE_DIAGNOSTIC_REFRESH)
        def refresh(*_: Any) -> None:
            self.changed.set()

        @self.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)
        def progress(*_: Any) -> None:
            return None

        @self.feature(types.WINDOW_SHOW_MESSAGE)
        @self.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        @self.feature(types.WORKSPACE_INLAY_HINT_REFRESH)
        def ignored(*_: Any) -> None:
            return None


def heading(text: str) -> None:
    console.print()
    console.rule(f"[bold]{text}", align="left", style="blue")


def broken_copy(folder: Path) -> Path:
    """The quickstart with the B tile allocated (block_M, block_N) instead of (block_K, block_N)."""
    text = QUICKSTART.read_text(encoding="utf-8")
    right = "B_shared = T.alloc_shared((block_K, block_N)"
    if right not in text:
        raise SystemExit(f"{QUICKSTART} no longer allocates its B tile as `{right}...`; adapt the demo")
    path = folder / "quickstart_with_a_mistake.py"
    path.write_text(text.replace(right, "B_shared = T.alloc_shared((block_M, block_N)"), encoding="utf-8")
    return path


def open_document(client: LanguageClient, path: Path) -> str:
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(
            types.TextDocumentItem(path.as_uri(), "python", 1, path.read_text(encoding="utf-8"))
        )
    )
    return path.as_uri()


async def diagnostics(client: DemoClient, uri: str) -> list[types.Diagnostic]:
    report = await client.text_document_diagnostic_async(
        types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
    )
    return list(getattr(report, "items", []))


def show_diagnostic(path: Path, diagnostic: types.Diagnostic) -> None:
    line = path.read_text(encoding="utf-8").splitlines()[diagnostic.range.start.line]
    start, end = diagnostic.range.start, diagnostic.range.end
    width = (end.character if end.line == start.line else len(line)) - start.character
    level = (diagnostic.severity or types.DiagnosticSeverity.Error).name.lower()
    console.print(f"[bold red]{level}\\[{diagnostic.code}][/]: {escape(diagnostic.message)}", soft_wrap=True)
    console.print(f"  [blue]-->[/] {path.name}:{start.line + 1}:{start.character + 1}")
    console.print(f"[blue]{start.line + 1:4} |[/] {escape(line)}", soft_wrap=True)
    console.print(f"[blue]     |[/] {' ' * start.character}[red]{'^' * max(width, 1)}[/]", soft_wrap=True)
    for related in diagnostic.related_information or []:
        where = related.location.range.start.line + 1
        console.print(f"  [blue]note[/] line {where}: {escape(related.message)}", soft_wrap=True)


def show_mistakes(path: Path, found: list[types.Diagnostic]) -> int:
    """Shows the errors and warnings, names the hints beside them; how many errors and warnings there are."""
    mistakes = [
        d for d in found if d.severity in (types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Warning)
    ]
    for diagnostic in mistakes:
        show_diagnostic(path, diagnostic)
    hints = Counter(str(d.code) for d in found if d not in mistakes)
    named = ", ".join(f"{n} × {code}" for code, n in sorted(hints.items())) or "none"
    console.print(f"mistakes: {len(mistakes)}, hints: {named}")
    return len(mistakes)


async def demo() -> int:
    client = DemoClient()
    started = time.perf_counter()
    await client.start_io(sys.executable, "-m", "tilelang_lsp.server")
    answer = await client.initialize_async(
        types.InitializeParams(
            capabilities=types.ClientCapabilities(
                text_document=types.TextDocumentClientCapabilities(
                    diagnostic=types.DiagnosticClientCapabilities(related_document_support=False),
                    publish_diagnostics=types.PublishDiagnosticsClientCapabilities(related_information=True),
                    hover=types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown]),
                ),
                general=types.GeneralClientCapabilities(
                    position_encodings=[types.PositionEncodingKind.Utf32]
                ),
            ),
            root_uri=ROOT.as_uri(),
        )
    )
    name = answer.server_info.name if answer.server_info else "server"
    console.print(f"{name} answered `initialize` after {(time.perf_counter() - started) * 1e3:.0f} ms")
    client.initialized(types.InitializedParams())

    with tempfile.TemporaryDirectory() as folder:
        failed = await show_documents(client, Path(folder))
    await client.shutdown_async(None)
    client.exit(None)
    return 1 if failed else 0


async def show_documents(client: DemoClient, folder: Path) -> bool:
    """Walk through the features; True if something was not as it must be."""
    heading("diagnostics of examples/quickstart.py")
    uri = open_document(client, QUICKSTART)
    unexpected = show_mistakes(QUICKSTART, await diagnostics(client, uri))

    heading("diagnostics of a copy whose B tile has the wrong first dimension")
    wrong = broken_copy(folder)
    found = show_mistakes(wrong, await diagnostics(client, open_document(client, wrong)))

    heading("hover on the gemm")
    lines = QUICKSTART.read_text(encoding="utf-8").splitlines()
    row = next(i for i, line in enumerate(lines) if "T.gemm(" in line)
    position = types.Position(row, lines[row].index("gemm"))
    hover = await client.text_document_hover_async(
        types.HoverParams(types.TextDocumentIdentifier(uri), position)
    )
    text = hover.contents.value if hover and isinstance(hover.contents, types.MarkupContent) else None
    console.print(text or "no hover", markup=False)

    heading("generated CUDA (sm_90), first lines")
    kernel = await kernel_name(client, uri)
    source = await client.protocol.send_request_async(
        "tilelang/generatedSource", {"textDocument": {"uri": uri}, "kernel": kernel, "target": "cuda"}
    )
    cuda = getattr(source, "text", None)
    if cuda is None:
        console.print(f"no source: {source}", markup=False)
    else:
        console.print(Syntax("\n".join(cuda.splitlines()[:40]), "cuda", background_color="default"))

    heading("run & assert vs torch")
    result = await client.workspace_execute_command_async(
        types.ExecuteCommandParams("tilelang.runAndAssert", [{"uri": uri, "kernel": kernel}])
    )
    passed = bool(_get(result, "passed"))
    show_run(result)
    return bool(unexpected) or not found or text is None or cuda is None or not passed


async def kernel_name(client: DemoClient, uri: str) -> str:
    """The kernel that the first lens of the file stands on."""
    lenses = await client.text_document_code_lens_async(
        types.CodeLensParams(types.TextDocumentIdentifier(uri))
    )
    for lens in lenses or []:
        if lens.command is None:
            lens = await client.code_lens_resolve_async(lens)
        if lens.command and lens.command.arguments:
            return _get(lens.command.arguments[0], "kernel")
    raise SystemExit("the server shows no lens on the quickstart's kernel")


def show_run(result: Any) -> None:
    console.print(f"device: {_get(result, 'device')}, reference: {_get(result, 'reference')}")
    if _get(result, "error"):
        console.print(str(_get(result, "error")), markup=False)
    for case in _get(result, "cases") or []:
        sizes = ", ".join(f"{k}={v}" for k, v in _get(case, "sizes"))
        mark = "[green]passed[/]" if _get(case, "passed") else "[red]failed[/]"
        console.print(f"{mark} {sizes}: max |error| {_get(case, 'max_abs_error'):.3g}")
    if _get(result, "latency_ms") is not None:
        console.print(f"latency {_get(result, 'latency_ms'):.3f} ms")


def _get(record: Any, key: str) -> Any:
    """A field of a JSON object, which pygls hands over as a mapping or as a named tuple."""
    return record.get(key) if isinstance(record, dict) else getattr(record, key, None)


if __name__ == "__main__":
    raise SystemExit(asyncio.run(demo()))
