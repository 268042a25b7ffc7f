"""Where a name is defined and used, and its renaming."""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from tilelang.diagnostics.problem import Edit
from tilelang.diagnostics.span import Span
from tilelang_lsp.ide import navigation
from tilelang_lsp.language_server import TileLangServer, cell_of, is_in
from tilelang_lsp.requests.guard import guarded, nothing
from tilelang_lsp.session import OpenFile


def register(server: TileLangServer) -> None:
    def look(params: Any) -> tuple[OpenFile, tuple[int, int]]:
        file = server.file_of(params.text_document.uri)
        return file, server.place(file, params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    @guarded(server, "definition", nothing)
    async def definition(params: types.DefinitionParams) -> types.Location | None:
        file, place = look(params)
        found = navigation.definition(server.session.kernels(file), *place)
        return server.to_lsp(file).location(found) if found else None

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    @guarded(server, "references", list)
    async def references(params: types.ReferenceParams) -> list[types.Location]:
        file, place = look(params)
        to_lsp = server.to_lsp(file)
        found = navigation.references(server.session.kernels(file), *place)
        return [to_lsp.location(s) for s in (found if params.context.include_declaration else found[1:])]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    @guarded(server, "highlights", list)
    async def highlights(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        file, place = look(params)
        to_lsp, cell = server.to_lsp(file), cell_of(file, params.text_document.uri)
        found = navigation.references(server.session.kernels(file), *place)
        return [types.DocumentHighlight(to_lsp.range(s)) for s in found if is_in(cell, s)]

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    @guarded(server, "rename", nothing)
    async def prepare_rename(params: types.PrepareRenameParams) -> types.Range | None:
        file, place = look(params)
        found = navigation.renameable(server.session.kernels(file), *place)
        return server.to_lsp(file).range(found) if found else None

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    @guarded(server, "rename", nothing)
    async def rename(params: types.RenameParams) -> types.WorkspaceEdit | None:
        file, place = look(params)
        if not params.new_name.isidentifier():
            raise JsonRpcInvalidParams(f"{params.new_name!r} is no Python name")
        # Only what analysis has seen in this very text is certain to be all of them.
        await server.session.settle(file)
        kernels = server.session.kernels(file)
        if not file.is_current or navigation.renameable(kernels, *place) is None:
            return None
        edits = [Edit(span, params.new_name) for span in _unique(navigation.references(kernels, *place))]
        return server.to_lsp(file).workspace_edit(edits, file.document.version)


def _unique(spans: list[Span]) -> list[Span]:
    return list(dict.fromkeys(spans))
