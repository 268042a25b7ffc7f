"""What end-to-end tests do again and again with a client of pytest-lsp."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pytest_lsp import LanguageClient

Found = TypeVar("Found")


class File:
    """An open document as an editor keeps it, and what one asks the server about it."""

    def __init__(self, client: LanguageClient, uri: str, text: str) -> None:
        self.client = client
        self.uri = uri
        self.text = text
        self.version = 1
        self.identifier = types.TextDocumentIdentifier(uri)
        item = types.TextDocumentItem(uri, "python", 1, text)
        client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    @staticmethod
    def of(client: LanguageClient, path: Path) -> File:
        return File(client, path.as_uri(), path.read_text(encoding="utf-8"))

    def close(self) -> None:
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(self.identifier))

    def position(self, part: str, shift: int = 0, nth: int = 0) -> types.Position:
        """The place `shift` behind the start of the nth `part`; columns in UTF-16, as in VS Code."""
        offset = -1
        for _ in range(nth + 1):
            offset = self.text.index(part, offset + 1)
        before = self.text[: offset + shift]
        column = before[before.rfind("\n") + 1 :]
        return types.Position(before.count("\n"), len(column.encode("utf-16-le")) // 2)

    def replace(self, old: str, new: str) -> None:
        """Replace the first `old`, told to the server as an incremental change."""
        start, end = self.position(old), self.position(old, len(old))
        self.text = self.text.replace(old, new, 1)
        self.version += 1
        change = types.TextDocumentContentChangePartial(range=types.Range(start, end), text=new)
        identifier = types.VersionedTextDocumentIdentifier(version=self.version, uri=self.uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))

    async def diagnostics(self) -> list[types.Diagnostic]:
        params = types.DocumentDiagnosticParams(self.identifier)
        report = await self.client.text_document_diagnostic_async(params)
        return list(report.items)

    async def errors(self) -> list[types.Diagnostic]:
        return [d for d in await self.diagnostics() if d.severity == types.DiagnosticSeverity.Error]

    async def hover(self, part: str, shift: int = 0, nth: int = 0) -> str | None:
        params = types.HoverParams(self.identifier, self.position(part, shift, nth))
        found = await self.client.text_document_hover_async(params)
        return found.contents.value if found else None

    async def symbols(self) -> list[types.DocumentSymbol]:
        params = types.DocumentSymbolParams(self.identifier)
        return list(await self.client.text_document_document_symbol_async(params) or [])

    async def lenses(self) -> list[types.CodeLens]:
        params = types.CodeLensParams(self.identifier)
        return list(await self.client.text_document_code_lens_async(params) or [])

    async def generated(self, kernel: str, target: str = "cuda") -> dict[str, Any]:
        params = {"textDocument": {"uri": self.uri}, "kernel": kernel, "target": target}
        return as_dict(await self.client.protocol.send_request_async("tilelang/generatedSource", params))

    async def run(self, kernel: str) -> dict[str, Any]:
        params = types.ExecuteCommandParams("tilelang.runAndAssert", [{"uri": self.uri, "kernel": kernel}])
        return as_dict(await self.client.workspace_execute_command_async(params))

    async def analysed(self) -> File:
        """Wait until the kernels of the file are known."""
        await until(self.symbols)
        return self


async def until(ask: Callable[[], Awaitable[Found]], limit_s: float = 60) -> Found:
    """Ask again until the answer is true. Raises TimeoutError."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        answer = await ask()
        if answer:
            return answer
        await asyncio.sleep(0.05)
    raise TimeoutError(f"not within {limit_s} s")


async def content(client: LanguageClient, uri: str) -> str:
    """A generated document, as a client with virtual documents asks for it."""
    params = types.TextDocumentContentParams(uri)
    result = await client.workspace_text_document_content_async(params)
    return result.text


def as_dict(value: Any) -> Any:
    """JSON as dicts and lists, whatever pygls made of it."""
    if hasattr(value, "_asdict"):
        return {k: as_dict(v) for k, v in value._asdict().items()}
    if isinstance(value, dict):
        return {k: as_dict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [as_dict(v) for v in value]
    return value


def accept_registrations(client: LanguageClient) -> None:
    """Let the server ask for more notifications, as the profiles say that these clients do."""
    client.feature(types.CLIENT_REGISTER_CAPABILITY)(lambda *_: None)
