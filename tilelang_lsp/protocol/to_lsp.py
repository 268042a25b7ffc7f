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
from tilelang_lsp.documents.notebook import NotebookText
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
    cells: NotebookText | None = None  # of a notebook, whose lines are counted within their cells

    def position(self, line: int, column: int) -> types.Position:
        """A place of this document; in a notebook counted within its cell."""
        return self._position(self.index, line, column, self._lines_above(line))

    def _position(self, index: LineIndex, line: int, column: int, lines_above: int) -> types.Position:
        units = units_from_column(index.line(line - 1), column - 1, self.encoding)
        return types.Position(line - 1 - lines_above, units)

    def _lines_above(self, line: int) -> int:
        """How many lines of other cells are above the cell of a line."""
        cell = self.cells.cell_at(line - 1) if self.cells is not None else None
        return cell.first_line if cell is not None else 0

    def range(self, span: Span) -> types.Range:
        index, above = self.index, self._lines_above(span.line)
        if span.path != self.path:
            above = 0
            # Without its text columns are taken for units: right for ASCII lines, close for others.
            index = self.other_index(span.path) or LineIndex("")
            if index.n_lines <= span.line - 1:
                return types.Range(
                    types.Position(span.line - 1, span.column - 1),
                    types.Position(span.end_line - 1, span.end_column - 1),
                )
        return types.Range(
            self._position(index, span.line, span.column, above),
            self._position(index, span.end_line, span.end_column, above),
        )

    def location(self, span: Span) -> types.Location:
        if span.path != self.path:
            return types.Location(file_uri(span.path), self.range(span))
        cell = self.cells.cell_at(span.line - 1) if self.cells is not None else None
        return types.Location(cell.uri if cell is not None else self.uri, self.range(span))

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
            data=self._fixes(problem),
        )

    def _fixes(self, problem: Problem) -> dict[str, Any] | None:
        """The fixes of a problem, for clients that make them by themselves (docs/protocol.md)."""
        fixes = [
            {"title": fix.title, "edits": [self._edit(e) for e in fix.edits]}
            for fix in problem.fixes
            if all(e.span.path == self.path for e in fix.edits)
        ]
        return {"fixes": fixes} if fixes else None

    def _edit(self, edit: Edit) -> dict[str, Any]:
        place = self.range(edit.span)
        ends = {
            name: {"line": at.line, "character": at.character}
            for name, at in (("start", place.start), ("end", place.end))
        }
        return {"range": ends, "newText": edit.new_text}

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

    def fix_all(
        self, edits: Sequence[Edit], version: int, kind: types.CodeActionKind | str
    ) -> types.CodeAction:
        return types.CodeAction(
            title="Fix all TileLang problems that leave no choice",
            kind=kind,
            edit=self.workspace_edit(edits, version),
        )

    def explain(self, rule: str) -> types.CodeAction:
        command = types.Command(f"Explain {rule}", custom.EXPLAIN_RULE, arguments=[{"rule": rule}])
        return types.CodeAction(title=command.title, kind=types.CodeActionKind.QuickFix, command=command)

    def workspace_edit(self, edits: Iterable[Edit], version: int) -> types.WorkspaceEdit:
        """Edits of this document; in a notebook of its cells, whose own versions are not known here."""
        changes: dict[str, list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit]] = {}
        for edit in edits:
            if edit.span.path == self.path:
                place = self.location(edit.span)
                changes.setdefault(place.uri, []).append(types.TextEdit(place.range, edit.new_text))
        known = version if self.cells is None else None
        return types.WorkspaceEdit(
            document_changes=[
                types.TextDocumentEdit(
                    types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=known), own
                )
                for uri, own in changes.items()
            ]
        )

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


def _page(rule: str) -> types.CodeDescription | None:
    uri = rule_page_uri(rule)
    return types.CodeDescription(uri) if uri else None


@cache
def rule_page_uri(rule: str) -> str | None:
    """The page of a rule, in the checkout around the package or where the wheel puts it."""
    checkout = Path(tilelang_lsp.__file__).resolve().parent.parent / "docs" / "rules"
    installed = Path(sys.prefix) / "share" / "tilelang" / "rules"
    for page in (checkout / f"{rule}.md", installed / f"{rule}.md"):
        if page.is_file():
            return page.as_uri()
    return None
