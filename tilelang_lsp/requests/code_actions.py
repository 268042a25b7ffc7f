"""Quick fixes, all fixes of a file, and the page of a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lsprotocol import types

from tilelang.diagnostics.registry import rule
from tilelang.diagnostics.span import Span
from tilelang_lsp.ide.quick_fixes import fix_all, quick_fixes, rules_at
from tilelang_lsp.language_server import TileLangServer, cell_of
from tilelang_lsp.protocol import custom, from_lsp
from tilelang_lsp.protocol.to_lsp import rule_page_uri
from tilelang_lsp.requests.guard import guarded
from tilelang_lsp.session import OpenFile

FIX_ALL = "source.fixAll.tilelang"


def register(server: TileLangServer) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL]),
    )
    @guarded(server, "quick fixes", list)
    async def code_actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        file = server.file_of(params.text_document.uri)
        await server.settle(file, False)
        only = params.context.only
        found: list[types.CodeAction] = []
        if _wanted(types.CodeActionKind.QuickFix, only):
            cell = cell_of(file, params.text_document.uri)
            span = from_lsp.span(file.document, cell, params.range, server.encoding)
            found += _quick_fixes(server, file, span)
        # Asked for by name alone, as editors do when a file is saved.
        if only is not None and _wanted(FIX_ALL, only):
            edits = fix_all(server.session.problems(file), file.document.path)
            found += [server.to_lsp(file).fix_all(edits, file.document.version, FIX_ALL)] if edits else []
        return found

    @server.command(custom.EXPLAIN_RULE)
    async def explain_rule(argument: Any) -> dict[str, Any]:
        name = custom.text_field(custom.plain(argument), "rule")
        known, uri = rule(name), rule_page_uri(name)
        if known is None or uri is None:
            return {"error": f"there is no page of a rule called {name!r}"}
        shown = await server.editor.show_document(uri)
        if not shown:
            server.editor.show_message(f"{name}: {known.summary} ({uri})", types.MessageType.Info)
        return {"uri": uri, "shown": shown}


def _wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Whether actions of a kind are asked for; `source` means `source.fixAll` and what is below it too."""
    names = None if only is None else [str(getattr(one, "value", one)) for one in only]
    kind = str(getattr(kind, "value", kind))
    return names is None or any(kind == name or kind.startswith(f"{name}.") for name in names)


def _quick_fixes(server: TileLangServer, file: OpenFile, span: Span) -> Iterator[types.CodeAction]:
    """The fixes of the problems at a place, all fixes of the file, the rules silenced there, their pages."""
    problems, version = server.session.problems(file), file.document.version
    to_lsp = server.to_lsp(file)
    fixes = quick_fixes(problems, file.document.index, span)
    real = [f for f in fixes if f.edits in [one.edits for one in f.problem.fixes]]
    yield from (to_lsp.code_action(fix, version) for fix in real)
    edits = fix_all(problems, file.document.path)
    if real and len(edits) > 1:
        yield to_lsp.fix_all(edits, version, types.CodeActionKind.QuickFix)
    yield from (to_lsp.code_action(fix, version) for fix in fixes if fix not in real)
    yield from (to_lsp.explain(rule) for rule in rules_at(problems, span))
