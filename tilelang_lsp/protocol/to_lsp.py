"""From our records to the protocol's types."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lsprotocol import types

import tilelang_lsp
from tilelang.diagnostics.problem import Edit, Problem, Severity
from tilelang.diagnostics.span import Span
from tilelang_lsp.documents.line_index import Encoding, LineIndex, units_from_column
from tilelang_lsp.ide.hover import Hover
from tilelang_lsp.ide.inlay_hints import InlayHint
from tilelang_lsp.ide.lenses import Lens
from tilelang_lsp.ide.quick_fixes import QuickFix
from tilelang_lsp.ide.semantic_tokens import SCOPES, Token
from tilelang_lsp.ide.symbols import Symbol
from tilelang_lsp.protocol import custom
from tilelang_lsp.protocol.from_lsp import file_uri

SOURCE = "tilelang"

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
    Severity.HINT: types.DiagnosticSeverity.Hint,
}
_TAGS = {"unnecessary": types.DiagnosticTag.Unnecessary, "deprecated": types.DiagnosticTag.Deprecated}

TOKEN_LEGEND = types.SemanticTokensLegend(token_types=["variable"], token_modifiers=list(SCOPES))


@dataclass(frozen=True)
class ToLsp:
    """Translates for one document. `other_index` gives the lines of another file, None if it is not open."""

    uri: str
    path: str
    index: LineIndex
    encoding: Encoding
    other_index: Callable[[str], LineIndex | None]

    def position(self, line: int, column: int, index: LineIndex | None = None) -> types.Position:
        text = (index or self.index).line(line - 1)
        return types.Position(line - 1, units_from_column(text, column - 1, self.encoding))

    def range(self, span: Span) -> types.Range:
        index = self.index
        if span.path != self.path:
            # Without its text columns are taken for units: right for ASCII lines, close for others.
            index = self.other_index(span.path) or LineIndex("")
            if index.n_lines <= span.line - 1:
                return types.Range(
                    types.Position(span.line - 1, span.column - 1),
                    types.Position(span.end_line - 1, span.end_column - 1),
                )
        return types.Range(
            self.position(span.line, span.column, index), self.position(span.end_line, span.end_column, index)
        )

    def location(self, span: Span) -> types.Location:
        return types.Location(self.uri if span.path == self.path else file_uri(span.path), self.range(span))

    def diagnostic(self, problem: Problem) -> types.Diagnostic:
        return types.Diagnostic(
            range=self.range(problem.span),
            message=problem.message,
            severity=_SEVERITIES[problem.severity],
            code=problem.rule,
            code_description=_page(problem.rule),
            source=SOURCE,
            tags=[_TAGS[t] for t in problem.tags if t in _TAGS] or None,
            related_information=[
                types.DiagnosticRelatedInformation(self.location(r.span), r.message) for r in problem.related
            ]
            or None,
        )

    def hover(self, hover: Hover) -> types.Hover:
        return types.Hover(
            types.MarkupContent(types.MarkupKind.Markdown, hover.markdown), self.range(hover.span)
        )

    def inlay_hint(self, hint: InlayHint) -> types.InlayHint:
        is_type = hint.kind == "type"
        return types.InlayHint(
            position=self.position(hint.line, hint.column),
            label=hint.label,
            kind=types.InlayHintKind.Type if is_type else None,
            tooltip=types.MarkupContent(types.MarkupKind.Markdown, hint.tooltip),
            padding_left=not is_type,
        )

    def lens(self, lens: Lens, client_preview: bool) -> types.CodeLens:
        argument: dict[str, Any] = {"uri": self.uri, "kernel": lens.kernel}
        if lens.action == "run":
            command = types.Command(lens.title, custom.RUN_AND_ASSERT, arguments=[argument])
        elif lens.action == "preview":
            name = custom.CLIENT_PREVIEW if client_preview else custom.SHOW_GENERATED_SOURCE
            command = types.Command(lens.title, name, arguments=[argument | {"target": lens.target}])
        else:
            command = types.Command(lens.title, "")  # editors show a lens without a command as plain text
        return types.CodeLens(self.range(lens.span), command)

    def code_action(self, fix: QuickFix, version: int) -> types.CodeAction:
        return types.CodeAction(
            title=fix.title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[self.diagnostic(fix.problem)],
            is_preferred=fix.preferred or None,
            edit=self.workspace_edit(fix.edits, version),
        )

    def workspace_edit(self, edits: Iterable[Edit], version: int) -> types.WorkspaceEdit:
        own: list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit] = [
            types.TextEdit(self.range(e.span), e.new_text) for e in edits if e.span.path == self.path
        ]
        identifier = types.OptionalVersionedTextDocumentIdentifier(uri=self.uri, version=version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, own)])

    def symbol(self, symbol: Symbol) -> types.DocumentSymbol:
        return types.DocumentSymbol(
            name=symbol.name,
            detail=symbol.detail,
            kind=types.SymbolKind.Function if symbol.kind == "kernel" else types.SymbolKind.Variable,
            range=self.range(symbol.span),
            selection_range=self.range(symbol.name_span),
            children=[self.symbol(c) for c in symbol.children],
        )

    def semantic_tokens(self, tokens: Sequence[Token]) -> types.SemanticTokens:
        data: list[int] = []
        last_line = last_character = 0
        for token in tokens:
            place = self.range(token.span)
            line, character = place.start.line, place.start.character
            delta = character - last_character if line == last_line else character
            modifier = 1 << SCOPES.index(token.scope)
            data += [line - last_line, delta, place.end.character - character, 0, modifier]
            last_line, last_character = line, character
        return types.SemanticTokens(data)


@cache
def _page(rule: str) -> types.CodeDescription | None:
    """The page of a rule, in the checkout around the package or where the wheel puts it."""
    checkout = Path(tilelang_lsp.__file__).resolve().parent.parent / "docs" / "rules"
    installed = Path(sys.prefix) / "share" / "tilelang" / "rules"
    for page in (checkout / f"{rule}.md", installed / f"{rule}.md"):
        if page.is_file():
            return types.CodeDescription(page.as_uri())
    return None
