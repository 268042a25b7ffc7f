"""What an editor shows of a file: diagnostics, hovers, hints, lenses, symbols and colours."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from tilelang_lsp.ide.hover import hover
from tilelang_lsp.ide.inlay_hints import inlay_hints
from tilelang_lsp.ide.semantic_tokens import semantic_tokens
from tilelang_lsp.ide.symbols import symbols
from tilelang_lsp.language_server import TileLangServer, cell_of, is_in
from tilelang_lsp.protocol.to_lsp import TOKEN_LEGEND
from tilelang_lsp.requests.guard import guarded, nothing
from tilelang_lsp.session import SETTLE_S


def register(server: TileLangServer) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(
            identifier="tilelang", inter_file_dependencies=True, workspace_diagnostics=False
        ),
    )
    @guarded(server, "diagnostics", lambda: types.RelatedFullDocumentDiagnosticReport(items=[]))
    async def diagnostic(params: types.DocumentDiagnosticParams) -> Any:
        uri = params.text_document.uri
        file = server.session.file_of(uri)
        if file is None:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        await server.settle(file, server.editor.features.refresh_diagnostics)
        return types.RelatedFullDocumentDiagnosticReport(items=server.diagnostics(file, uri))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    @guarded(server, "hover", nothing)
    async def text_hover(params: types.HoverParams) -> types.Hover | None:
        file = server.file_of(params.text_document.uri)
        if file.answer is None:
            await server.session.settle(file, SETTLE_S)
        place = server.place(file, params.text_document.uri, params.position)
        found = hover(server.session.kernels(file), file.document.index, *place)
        return server.to_lsp(file).hover(found) if found else None

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=False))
    @guarded(server, "inlay hints", list)
    async def hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        file = server.file_of(params.text_document.uri)
        await server.settle(file, server.editor.features.refresh_hints)
        first, last = params.range.start.line + 1, params.range.end.line + 1
        cell = cell_of(file, params.text_document.uri)
        if cell is not None:
            first, last = first + cell.first_line, min(last + cell.first_line, cell.end_line)
        to_lsp = server.to_lsp(file)
        return [to_lsp.inlay_hint(h) for h in inlay_hints(server.session.kernels(file), first, last)]

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    @guarded(server, "lenses", list)
    async def code_lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        file = server.file_of(params.text_document.uri)
        await server.settle(file, server.editor.features.refresh_lenses)
        to_lsp, client = server.to_lsp(file), server.session.settings.preview == "client"
        cell = cell_of(file, params.text_document.uri)
        return [to_lsp.lens(lens, client) for lens in server.session.lenses(file) if is_in(cell, lens.span)]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    @guarded(server, "symbols", list)
    async def document_symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        file = server.file_of(params.text_document.uri)
        await server.settle(file, False)
        to_lsp, cell = server.to_lsp(file), cell_of(file, params.text_document.uri)
        found = symbols(server.session.kernels(file))
        return [to_lsp.symbol(s) for s in found if is_in(cell, s.span)]

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, TOKEN_LEGEND)
    @guarded(server, "semantic tokens", lambda: types.SemanticTokens([]))
    async def tokens(params: types.SemanticTokensParams) -> types.SemanticTokens:
        file = server.file_of(params.text_document.uri)
        await server.settle(file, server.editor.features.refresh_tokens)
        cell = cell_of(file, params.text_document.uri)
        found = semantic_tokens(server.session.kernels(file))
        return server.to_lsp(file).semantic_tokens([t for t in found if is_in(cell, t.span)])
