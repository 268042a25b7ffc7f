"""The language server: every request is registered here, and answered by a session and `ide/`."""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import FeatureRequestError, JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from tilelang.diagnostics.problem import Edit
from tilelang.diagnostics.registry import rule
from tilelang.diagnostics.span import Span
from tilelang.facts.reports import RunResult
from tilelang.version import PACKAGE_VERSION
from tilelang_lsp.documents.document import Document
from tilelang_lsp.documents.line_index import Encoding, LineIndex
from tilelang_lsp.documents.notebook import CellPlace
from tilelang_lsp.engine.client import ANALYSIS_COMMAND, AnalysisClient
from tilelang_lsp.ide import navigation
from tilelang_lsp.ide import preview as previews
from tilelang_lsp.ide.hover import hover
from tilelang_lsp.ide.inlay_hints import inlay_hints
from tilelang_lsp.ide.quick_fixes import fix_all, quick_fixes, rules_at
from tilelang_lsp.ide.run_report import one_line
from tilelang_lsp.ide.semantic_tokens import semantic_tokens
from tilelang_lsp.ide.symbols import symbols
from tilelang_lsp.protocol import custom, from_lsp
from tilelang_lsp.protocol.capabilities import ClientFeatures
from tilelang_lsp.protocol.editor import Editor
from tilelang_lsp.protocol.to_lsp import TOKEN_LEGEND, ToLsp, rule_page_uri
from tilelang_lsp.protocol.wire import TileLangProtocol, work_done_token
from tilelang_lsp.session import SETTLE_S, OpenFile, PreviewFailed, Session, Shown
from tilelang_lsp.settings import Settings

log = logging.getLogger("tilelang_lsp")

FIX_ALL = "source.fixAll.tilelang"

Result = TypeVar("Result")
Handler = Callable[..., Awaitable[Any]]


_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(
            notebook="*", cells=[types.NotebookCellLanguage(language="python")]
        )
    ]
)


class NotOpen(JsonRpcInvalidParams):
    """A request about a document that is not open."""


class TileLangServer(LanguageServer):
    """The pygls server and its state. `session` and `editor` exist from `initialize` on."""

    session: Session
    editor: Editor

    def __init__(self, analysis_command: Sequence[str] = ANALYSIS_COMMAND) -> None:
        # The reader of stdin occupies one thread of the pool for good; nothing else uses it.
        super().__init__(
            "tilelang-lsp",
            PACKAGE_VERSION,
            protocol_cls=TileLangProtocol,
            max_workers=2,
            notebook_document_sync=_NOTEBOOKS,
        )
        self.analysis = AnalysisClient(analysis_command)
        self._told_unavailable = False
        _register_lifecycle(self)
        _register_documents(self)
        _register_features(self)
        _register_navigation(self)
        _register_generated_source(self)
        _register_runs(self)

    def report_server_error(self, error: Exception, source: Any) -> None:
        # pygls would pop up a message box. Errors of requests reach the client as their answers anyway.
        level = logging.INFO if source is FeatureRequestError else logging.ERROR
        log.log(level, "%s: %s", getattr(source, "__name__", source), error)

    @property
    def encoding(self) -> Encoding:
        kind = self.server_capabilities.position_encoding
        return {"utf-8": "utf-8", "utf-32": "utf-32"}.get(str(getattr(kind, "value", kind)), "utf-16")  # type: ignore[return-value]

    def begin(self, params: types.InitializeParams) -> None:
        """Make session and editor for this client."""
        self.editor = Editor(self, ClientFeatures.of(params.capabilities))
        self.session = Session(
            self.analysis,
            self._on_answer,
            self._on_details,
            self._on_preview_changed,
            self._on_unavailable,
            lambda complaint: self.editor.show_message(complaint, types.MessageType.Warning),
        )
        self._initial = Settings()
        self.configure(params.initialization_options)
        self._initial = self.session.settings

    def configure(self, options: Any) -> None:
        """Take in the client's configuration, over what it said at the start."""
        self.session.settings, complaints = self._initial.updated(custom.plain(options))
        level = {"messages": logging.INFO, "verbose": logging.DEBUG}.get(
            self.session.settings.trace, logging.WARNING
        )
        log.setLevel(level)
        for complaint in complaints:
            self.editor.show_message(complaint, types.MessageType.Warning)

    def file(self, uri: str) -> OpenFile:
        """Raises NotOpen."""
        file = self.session.files.get(uri)
        if file is None:
            raise NotOpen(f"{uri} is not open")
        return file

    def file_of(self, uri: str) -> OpenFile:
        """The open document, or the notebook that has the cell. Raises NotOpen."""
        file = self.session.file_of(uri)
        if file is None:
            raise NotOpen(f"{uri} is not open")
        return file

    def place(self, file: OpenFile, uri: str, position: types.Position) -> tuple[int, int]:
        """(line, column) in the text of a file, from a position in the document or the cell `uri`."""
        return from_lsp.place_in(file.document, _cell(file, uri), position, self.encoding)

    async def settle(self, file: OpenFile, can_refresh: bool) -> None:
        """Wait for the analysis of this text; not for long if the client can be told to ask again."""
        await self.session.settle(file, None if can_refresh else SETTLE_S)

    def to_lsp(self, file: OpenFile) -> ToLsp:
        document = file.document
        return ToLsp(document.uri, document.path, document.index, self.encoding, self._index_of, file.cells)

    def diagnostics(self, file: OpenFile, uri: str) -> list[types.Diagnostic]:
        """Those of the document, or of the cell `uri` of a notebook."""
        to_lsp, cell = self.to_lsp(file), _cell(file, uri)
        problems = self.session.problems(file)
        if cell is not None:
            problems = [p for p in problems if _is_in(cell, p.span)]
        return [to_lsp.diagnostic(p) for p in problems]

    def _index_of(self, path: str) -> LineIndex | None:
        file = self.session.file_at(path)
        return file.document.index if file else None

    def _on_answer(self, file: OpenFile, was_stale: bool) -> None:
        if not self.editor.features.pull_diagnostics:
            self.publish(file)
        if was_stale:
            self.refresh_all()

    def _on_details(self, file: OpenFile, before: Shown, now: Shown) -> None:
        if now.problems != before.problems:
            if self.editor.features.pull_diagnostics:
                self.editor.refresh_diagnostics()
            else:
                self.publish(file)
        if now.lenses != before.lenses:
            self.editor.refresh_lenses()
        if now.hints != before.hints:
            self.editor.refresh_hints()

    def publish(self, file: OpenFile) -> None:
        if file.notebook is None or file.cells is None:
            uri = file.document.uri
            self.editor.publish(uri, self.diagnostics(file, uri), file.document.version)
            return
        for cell in file.cells.places:
            version = file.notebook.cells[cell.uri].version
            self.editor.publish(cell.uri, self.diagnostics(file, cell.uri), version)

    def refresh_all(self) -> None:
        self.editor.refresh_diagnostics()
        self.editor.refresh_lenses()
        self.editor.refresh_hints()
        self.editor.refresh_tokens()

    def _on_preview_changed(self, uri: str) -> None:
        self.editor.refresh_preview(uri, self.session.settings.generated_source_changed)

    def _on_unavailable(self, message: str) -> None:
        if not self._told_unavailable:
            self._told_unavailable = True
            self.editor.show_message(message, types.MessageType.Error)


def _cell(file: OpenFile, uri: str) -> CellPlace | None:
    """The cell of a notebook that has this URI."""
    return file.cells.cell(uri) if file.cells is not None else None


def _is_in(cell: CellPlace | None, span: Span) -> bool:
    """Whether a place of a file is in the cell that is asked about; a file without cells is one."""
    return cell is None or cell.first_line < span.line <= cell.end_line


def _guarded(
    server: TileLangServer, scope: str, otherwise: Callable[[], Any]
) -> Callable[[Handler], Handler]:
    """Keep one feature's bugs to itself: log them, answer with `otherwise()`."""

    def wrap(handler: Handler) -> Handler:
        @functools.wraps(handler)
        async def guarded(*args: Any) -> Any:
            try:
                return await handler(*args)
            except NotOpen:  # closed while the request was on its way
                return otherwise()
            except JsonRpcException:
                raise
            except Exception:  # the guard is what keeps the other features alive
                log.exception("%s failed", scope)
                server.editor.log(f"{scope} failed; the log of the language server says why")
                return otherwise()

        # pygls looks at the signature; functools.wraps would show it the one of `handler`, which is the same.
        return guarded

    return wrap


def _nothing() -> None:
    return None


def _register_lifecycle(server: TileLangServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.begin(params)

    @server.feature(types.INITIALIZED)
    @_guarded(server, "start", _nothing)
    async def initialized(params: types.InitializedParams) -> None:
        server.analysis.start()
        server.editor.watch("**/pyproject.toml", "**/*.py")
        await _pull_configuration(server)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    @_guarded(server, "configuration", _nothing)
    async def configuration_changed(params: types.DidChangeConfigurationParams) -> None:
        sent = custom.plain(params.settings)
        if isinstance(sent, dict) and isinstance(sent.get("tilelang"), dict):
            server.configure(sent["tilelang"])
            server.session.recheck_all()
            server.refresh_all()
        else:
            await _pull_configuration(server)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    @_guarded(server, "watched files", _nothing)
    async def files_changed(params: types.DidChangeWatchedFilesParams) -> None:
        # A file on disk counts for the open ones as their settings, or as a module that they import.
        changed = [change.uri for change in params.changes]
        if server.session.recheck_all(changed[0] if len(changed) == 1 else None):
            server.refresh_all()

    @server.feature(types.SHUTDOWN)
    @_guarded(server, "shutdown", _nothing)
    async def shutdown(*args: Any) -> None:
        await server.analysis.stop()


async def _pull_configuration(server: TileLangServer) -> None:
    before = server.session.settings
    server.configure(await server.editor.configuration())
    if server.session.settings != before:
        server.session.recheck_all()
        server.refresh_all()


def _register_documents(server: TileLangServer) -> None:
    # Synchronous on purpose: texts change in the order in which the client says so.

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        server.session.open(Document(item.uri, from_lsp.file_path(item.uri), item.version, item.text))

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        file = server.session.files.get(params.text_document.uri)
        if file is not None:
            from_lsp.apply_changes(file.document, params.content_changes, server.encoding)
            file.document.version = params.text_document.version
            server.session.changed(file)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        # Other open files may import this one. Clients that watch files say so themselves.
        watched = server.editor.features.watched_files
        if not watched and server.session.recheck_all(params.text_document.uri):
            server.refresh_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.session.close(uri)
        if not server.editor.features.pull_diagnostics:
            server.editor.publish(uri, [], None)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def notebook_opened(params: types.DidOpenNotebookDocumentParams) -> None:
        server.session.open_notebook(from_lsp.notebook(params), params.notebook_document.version)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def notebook_changed(params: types.DidChangeNotebookDocumentParams) -> None:
        file = server.session.files.get(params.notebook_document.uri)
        if file is not None and file.notebook is not None and params.change.cells is not None:
            from_lsp.apply_notebook_change(file.notebook, params.change.cells, server.encoding)
            server.session.notebook_changed(file, params.notebook_document.version)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def notebook_closed(params: types.DidCloseNotebookDocumentParams) -> None:
        server.session.close(params.notebook_document.uri)
        if not server.editor.features.pull_diagnostics:
            for cell in params.cell_text_documents:
                server.editor.publish(cell.uri, [], None)


def _register_features(server: TileLangServer) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(
            identifier="tilelang", inter_file_dependencies=True, workspace_diagnostics=False
        ),
    )
    @_guarded(server, "diagnostics", lambda: types.RelatedFullDocumentDiagnosticReport(items=[]))
    async def diagnostic(params: types.DocumentDiagnosticParams) -> Any:
        uri = params.text_document.uri
        file = server.session.file_of(uri)
        if file is None:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        await server.settle(file, server.editor.features.refresh_diagnostics)
        return types.RelatedFullDocumentDiagnosticReport(items=server.diagnostics(file, uri))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    @_guarded(server, "hover", _nothing)
    async def text_hover(params: types.HoverParams) -> types.Hover | None:
        file = server.file_of(params.text_document.uri)
        if file.answer is None:
            await server.session.settle(file, SETTLE_S)
        place = server.place(file, params.text_document.uri, params.position)
        found = hover(server.session.kernels(file), file.document.index, *place)
        return server.to_lsp(file).hover(found) if found else None

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=False))
    @_guarded(server, "inlay hints", list)
    async def hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        file = server.file_of(params.text_document.uri)
        await server.settle(file, server.editor.features.refresh_hints)
        first, last = params.range.start.line + 1, params.range.end.line + 1
        cell = _cell(file, params.text_document.uri)
        if cell is not None:
            first, last = first + cell.first_line, min(last + cell.first_line, cell.end_line)
        to_lsp = server.to_lsp(file)
        return [to_lsp.inlay_hint(h) for h in inlay_hints(server.session.kernels(file), first, last)]

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    @_guarded(server, "lenses", list)
    async def code_lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        file = server.file_of(params.text_document.uri)
        await server.settle(file, server.editor.features.refresh_lenses)
        to_lsp, client = server.to_lsp(file), server.session.settings.preview == "client"
        cell = _cell(file, params.text_document.uri)
        return [to_lsp.lens(lens, client) for lens in server.session.lenses(file) if _is_in(cell, lens.span)]

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL]),
    )
    @_guarded(server, "quick fixes", list)
    async def code_actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        file = server.file_of(params.text_document.uri)
        await server.settle(file, False)
        only = params.context.only
        found: list[types.CodeAction] = []
        if _wanted(types.CodeActionKind.QuickFix, only):
            cell = _cell(file, params.text_document.uri)
            span = from_lsp.span(file.document, cell, params.range, server.encoding)
            found += _quick_fixes(server, file, span)
        # Asked for by name alone, as editors do when a file is saved.
        if only is not None and _wanted(FIX_ALL, only):
            edits = fix_all(server.session.problems(file), file.document.path)
            found += [server.to_lsp(file).fix_all(edits, file.document.version, FIX_ALL)] if edits else []
        return found

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    @_guarded(server, "symbols", list)
    async def document_symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        file = server.file_of(params.text_document.uri)
        await server.settle(file, False)
        to_lsp, cell = server.to_lsp(file), _cell(file, params.text_document.uri)
        found = symbols(server.session.kernels(file))
        return [to_lsp.symbol(s) for s in found if _is_in(cell, s.span)]

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, TOKEN_LEGEND)
    @_guarded(server, "semantic tokens", lambda: types.SemanticTokens([]))
    async def tokens(params: types.SemanticTokensParams) -> types.SemanticTokens:
        file = server.file_of(params.text_document.uri)
        await server.settle(file, server.editor.features.refresh_tokens)
        cell = _cell(file, params.text_document.uri)
        found = semantic_tokens(server.session.kernels(file))
        return server.to_lsp(file).semantic_tokens([t for t in found if _is_in(cell, t.span)])


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


def _register_navigation(server: TileLangServer) -> None:
    def look(params: Any) -> tuple[OpenFile, tuple[int, int]]:
        file = server.file_of(params.text_document.uri)
        return file, server.place(file, params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    @_guarded(server, "definition", _nothing)
    async def definition(params: types.DefinitionParams) -> types.Location | None:
        file, place = look(params)
        found = navigation.definition(server.session.kernels(file), *place)
        return server.to_lsp(file).location(found) if found else None

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    @_guarded(server, "references", list)
    async def references(params: types.ReferenceParams) -> list[types.Location]:
        file, place = look(params)
        to_lsp = server.to_lsp(file)
        found = navigation.references(server.session.kernels(file), *place)
        return [to_lsp.location(s) for s in (found if params.context.include_declaration else found[1:])]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    @_guarded(server, "highlights", list)
    async def highlights(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        file, place = look(params)
        to_lsp, cell = server.to_lsp(file), _cell(file, params.text_document.uri)
        found = navigation.references(server.session.kernels(file), *place)
        return [types.DocumentHighlight(to_lsp.range(s)) for s in found if _is_in(cell, s)]

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    @_guarded(server, "rename", _nothing)
    async def prepare_rename(params: types.PrepareRenameParams) -> types.Range | None:
        file, place = look(params)
        found = navigation.renameable(server.session.kernels(file), *place)
        return server.to_lsp(file).range(found) if found else None

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    @_guarded(server, "rename", _nothing)
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


def _register_generated_source(server: TileLangServer) -> None:
    @server.feature(custom.GENERATED_SOURCE)
    @_guarded(
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


def _register_runs(server: TileLangServer) -> None:
    @server.command(custom.RUN_AND_ASSERT)
    async def run_and_assert(argument: Any) -> dict[str, Any]:
        data = custom.plain(argument)
        uri, kernel = custom.text_field(data, "uri"), custom.text_field(data, "kernel")
        file = server.file_of(uri)
        result = await _run(server, file, kernel)
        kind = types.MessageType.Info if result.passed else types.MessageType.Error
        server.editor.show_message(one_line(result), kind)
        if server.session.settings.run_finished:
            server.editor.run_finished(result)
        server.editor.refresh_lenses()
        if server.editor.features.pull_diagnostics:
            server.editor.refresh_diagnostics()
        elif server.session.files.get(uri) is file:  # it may have been closed meanwhile
            server.publish(file)
        return result.to_json()


async def _run(server: TileLangServer, file: OpenFile, kernel: str) -> RunResult:
    """Run with progress; the button of the progress ends it with a result that says so."""
    running: list[asyncio.Task[RunResult]] = []
    loop = asyncio.get_running_loop()

    def cancel() -> None:
        for task in running:
            loop.call_soon_threadsafe(task.cancel)

    async with server.editor.progress(f"Running {kernel}", work_done_token.get(), cancel) as report:
        task = asyncio.ensure_future(server.session.run(file, kernel, report))
        running.append(task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()  # the request itself was cancelled; nothing happens to a task that is done
            running.clear()
        if task.cancelled():
            return RunResult(kernel, False, "none", None, error="the run was cancelled")
        return task.result()


def main(arguments: Sequence[str] | None = None, analysis_command: Sequence[str] = ANALYSIS_COMMAND) -> None:
    """The command `tilelang-lsp`."""
    parser = argparse.ArgumentParser("tilelang-lsp", description="Language server for TileLang kernels.")
    parser.add_argument("--tcp", action="store_true", help="listen on a port instead of stdio, for debugging")
    parser.add_argument("--port", type=int, default=2087, help="port on the loopback interface (2087)")
    parser.add_argument("--stdio", action="store_true", help="the default; editors like to say it")
    parser.add_argument("--version", action="version", version=PACKAGE_VERSION)
    options = parser.parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    server = TileLangServer(analysis_command)
    if options.tcp:
        server.start_tcp("127.0.0.1", options.port)
    else:
        server.start_io()


if __name__ == "__main__":
    main()
