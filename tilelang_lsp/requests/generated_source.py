"""The generated source of a kernel, as an answer or as a document of its own."""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from tilelang_lsp.ide import preview as previews
from tilelang_lsp.language_server import TileLangServer
from tilelang_lsp.protocol import custom, from_lsp
from tilelang_lsp.requests.guard import guarded
from tilelang_lsp.session import PreviewFailed


def register(server: TileLangServer) -> None:
    @server.feature(custom.GENERATED_SOURCE)
    @guarded(
        server, "generated source", lambda: {"error": "internal error, see the log of the language server"}
    )
    async def generated_source(params: Any) -> dict[str, Any]:
        try:
            address, version = _address(server, custom.plain(params))
            made = await server.session.generate_and_watch(address)
        except (PreviewFailed, ValueError) as error:
            return {"error": str(error)}
        return {
            "uri": address.uri,
            "kernel": address.kernel,
            "target": address.target,
            "languageId": previews.language_id(address.target),
            "text": made.text,
            "lineMap": list(made.line_map),
            "version": version,
        }

    @server.feature(types.WORKSPACE_TEXT_DOCUMENT_CONTENT)
    async def content(params: types.TextDocumentContentParams) -> types.TextDocumentContentResult:
        try:
            address = previews.parse_preview_uri(params.uri)
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from error
        return types.TextDocumentContentResult((await server.session.show(address)).text)

    @server.command(custom.SHOW_GENERATED_SOURCE)
    async def show_generated_source(argument: Any) -> dict[str, Any]:
        try:
            address, _ = _address(server, custom.plain(argument))
        except ValueError as error:
            return {"error": str(error)}
        shown = await server.editor.show_document(address.uri)
        return {"uri": address.uri, "shown": shown}


def _address(server: TileLangServer, data: Any) -> tuple[previews.PreviewAddress, int | None]:
    """The document that parameters name, and the version of the Python text. Raises ValueError."""
    in_document = isinstance(data, dict) and "textDocument" in data
    uri = custom.text_field(data, *(("textDocument", "uri") if in_document else ("uri",)))
    kernel, target = custom.text_field(data, "kernel"), custom.text_field(data, "target")
    if target not in previews.TARGETS:
        raise ValueError(f"there is no target {target!r}: expected one of {', '.join(previews.TARGETS)}")
    file = server.session.file_of(uri)
    path = file.document.path if file else from_lsp.file_path(uri)
    return previews.PreviewAddress(path, kernel, target), file.document.version if file else None
