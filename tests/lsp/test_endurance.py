"""Ten thousand edits on the real server: memory stays, a killed analysis comes back, answers stay right."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.lsp.sessions import File, accept_registrations, until

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")

N_EDITS = 10_000
BURST = 25  # edits between two questions
WORDS = (
    "128",
    "64",
    "32",
    "T.float16",
    "T.float32",
    "A_shared",
    "B_shared",
    "bx",
    "by",
    "(",
    ")",
    ":",
    "\n",
    "  ",
    "é",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]


@pytest_lsp.fixture(
    config=ClientServerConfig(
        server_command=[sys.executable, "-m", "tilelang_lsp.server"], server_env={"PYTHONPATH": str(ROOT)}
    ),
)
async def client(lsp_client: LanguageClient):
    accept_registrations(lsp_client)
    for method in (
        types.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
        types.WORKSPACE_INLAY_HINT_REFRESH,
        types.WORKSPACE_CODE_LENS_REFRESH,
    ):
        lsp_client.feature(method)(lambda *_: None)
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities("visual-studio-code"), root_uri="file:///nowhere"
        )
    )
    yield
    await lsp_client.shutdown_session()


def server_pid(client: LanguageClient) -> int:
    return client._server.pid  # type: ignore[attr-defined]


def analysis_pids(client: LanguageClient) -> list[int]:
    pid = server_pid(client)
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Typist:
    """Makes random edits, a third of which undo the one before, so that the text is often whole again."""

    def __init__(self, file: File, seed: int) -> None:
        self.file = file
        self.chance = random.Random(seed)
        self.undo: list[tuple[int, int, str]] = []

    def edit(self) -> None:
        if self.undo and self.chance.random() < 0.5:
            self.change(*self.undo.pop())
            return
        start = self.chance.randrange(len(self.file.text))
        length = self.chance.choice((0, 0, 1, 1, 3))
        word = self.chance.choice(WORDS) if length == 0 or self.chance.random() < 0.5 else ""
        removed = self.file.text[start : start + length]
        self.change(start, start + len(removed), word)
        self.undo.append((start, start + len(word), removed))

    def repair(self) -> None:
        while self.undo:
            self.change(*self.undo.pop())

    def change(self, start: int, end: int, new: str) -> None:
        """Replace characters, told to the server as an incremental change."""
        file = self.file
        place = types.Range(self.position(start), self.position(end))
        file.text = file.text[:start] + new + file.text[end:]
        file.version += 1
        change = types.TextDocumentContentChangePartial(range=place, text=new)
        identifier = types.VersionedTextDocumentIdentifier(version=file.version, uri=file.uri)
        file.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))

    def position(self, offset: int) -> types.Position:
        before = self.file.text[:offset]
        column = before[before.rfind("\n") + 1 :]
        return types.Position(before.count("\n"), len(column.encode("utf-16-le")) // 2)


def seen(found: list[types.Diagnostic]) -> list[tuple[object, ...]]:
    return sorted((str(d.code), d.message, d.range.start.line, d.range.start.character) for d in found)


async def equals_from_scratch(client: LanguageClient, file: File, name: str) -> None:
    """What the server says of an edited file is what it says of the same text opened anew."""
    fresh = await File(client, f"file:///nowhere/{name}.py", file.text).analysed()
    assert seen(await file.diagnostics()) == seen(await fresh.diagnostics())
    # What lowering adds comes a moment after the diagnostics, and not to both at once.
    await until(lambda: same_hover(file, fresh))
    fresh.close()


async def same_hover(file: File, fresh: File) -> bool:
    return await file.hover("def matmul_relu", 4) == await fresh.hover("def matmul_relu", 4)


async def test_memory_stays_over_ten_thousand_edits(client: LanguageClient, capsys: pytest.CaptureFixture):
    file = await File(client, "file:///nowhere/edited.py", QUICKSTART).analysed()
    typist = Typist(file, seed=1)
    sizes: list[tuple[int, float, list[float]]] = []
    for number in range(1, N_EDITS + 1):
        typist.edit()
        if number % BURST == 0:
            await file.diagnostics()
        if number % (N_EDITS // 20) == 0:
            typist.repair()
            await equals_from_scratch(client, file, f"fresh{number}")
            analysis = [resident_mib(pid) for pid in analysis_pids(client)]
            sizes.append((number, resident_mib(server_pid(client)), analysis))
    with capsys.disabled():
        for number, server, analysis in (sizes[0], sizes[len(sizes) // 2 - 1], sizes[-1]):
            said = ", ".join(f"{size:.0f} MiB" for size in sorted(analysis))
            print(f"\n{number} edits: server {server:.0f} MiB, analysis processes {said}", end="")
    # By the middle the memo of the analysis is full; from there on nothing may grow.
    (_, server, analysis), (_, last_server, last_analysis) = sizes[len(sizes) // 2 - 1], sizes[-1]
    assert last_server < server * 1.05 + 5
    assert max(last_analysis) < max(analysis) * 1.05 + 10
    file.close()


async def test_the_analysis_may_die_in_any_burst(client: LanguageClient):
    file = await File(client, "file:///nowhere/killed.py", QUICKSTART).analysed()
    typist = Typist(file, seed=2)
    for number in range(8):
        for _ in range(BURST):
            typist.edit()
        for pid in analysis_pids(client)[: 1 + number % 2]:  # the one in use, at times the spare with it
            os.kill(pid, signal.SIGKILL)
        for _ in range(BURST):
            typist.edit()
        typist.repair()
        await file.diagnostics()
    await equals_from_scratch(client, file, "fresh")
    assert not [m for m in client.messages if m.type == types.MessageType.Error]
    file.close()
