"""One editor's session: open files, what is known of them, previews and runs. No protocol types here.

A keystroke's life: the document is edited, and a check of the whole text starts in the analysis process,
giving up the one before; that process computes only what its memo lacks; the answer replaces the last one.
Until then, and while the text is broken, what is shown is the last good answer, carried by the edits since.
When nothing was typed for a moment, details follow that take longer: what lowering knows of the kernels.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import os
import stat
import time
import tokenize
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tilelang.diagnostics.once import once
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.python import SYNTAX_ERROR
from tilelang.facts.kernel_facts import KernelFacts
from tilelang.facts.notebook_cells import definitions
from tilelang.facts.project import Project, ProjectError, Projects
from tilelang.facts.reports import RunResult
from tilelang_lsp.documents.document import Document, Replacement
from tilelang_lsp.documents.kernel_discovery import KernelSlice
from tilelang_lsp.documents.notebook import Notebook, NotebookText
from tilelang_lsp.documents.syntax_errors import syntax_problem
from tilelang_lsp.engine.answers import FileAnswer, KernelAnswer, failed_answer, file_answer, with_details
from tilelang_lsp.engine.client import AnalysisClient, AnalysisFailed, AnalysisUnavailable
from tilelang_lsp.engine.messages import CheckRequest, DetailsRequest, GenerateRequest
from tilelang_lsp.ide import preview as previews
from tilelang_lsp.ide.diagnostics import diagnostics
from tilelang_lsp.ide.inlay_hints import InlayHint, inlay_hints
from tilelang_lsp.ide.lenses import Lens, lenses
from tilelang_lsp.ide.run_report import run_problem
from tilelang_lsp.runner import client as runner
from tilelang_lsp.settings import Chosen, Settings

log = logging.getLogger(__name__)

# How long a request may wait for the analysis of the text as it is now; then it gets what is known.
SETTLE_S = 15.0
# While the analysis process is still importing the compiler.
SETTLE_AT_START_S = 0.3
# How long nothing must have been typed before details are asked for: longer than between two keys.
DETAILS_DELAY_S = 0.3


class PreviewFailed(Exception):
    """There is no source to show; the message says why."""


@dataclass
class _Run:
    """The last run of a kernel, and a fingerprint of the text that was run."""

    fingerprint: str
    result: RunResult


@dataclass
class _ShownPreview:
    """A generated document the client has open: what it was generated from, and the text it shows."""

    memo_key: str
    preview: previews.Preview


@dataclass
class OpenFile:
    """An open document and everything known about it."""

    document: Document
    notebook: Notebook | None = None  # the document is the text of its cells as they are typed
    cells: NotebookText | None = None  # as the document has them
    answer: FileAnswer | None = None
    unavailable: bool = False  # no analysis can be had of this revision
    outdated: bool = False  # the settings have changed since the answer
    check: asyncio.Task[None] | None = None
    details: asyncio.Task[None] | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    stale: bool = False  # the client got answers that a finished check will change
    runs: dict[str, _Run] = field(default_factory=dict)
    previews: dict[str, _ShownPreview] = field(default_factory=dict)
    facts: tuple[int, FileAnswer | None, list[KernelFacts]] | None = None

    @property
    def is_current(self) -> bool:
        """Whether the answer is about the text as it is now."""
        known = self.answer is not None and self.answer.revision == self.document.revision
        return known and not self.outdated

    @property
    def source(self) -> str:
        """The text as the analysis reads it: of a notebook without what does not parse."""
        return self.cells.text if self.cells is not None else self.document.text

    @property
    def is_ours(self) -> bool:
        """Whether the text can have kernels."""
        return self.cells.is_ours if self.cells is not None else "tilelang" in self.document.text


@dataclass(frozen=True)
class Shown:
    """What an editor shows of a file without being asked again. Compared before and after details came."""

    problems: tuple[Problem, ...]
    lenses: tuple[Lens, ...]
    hints: tuple[InlayHint, ...]


class Session:
    """All state of the server. `on_answer(file, was_stale)` is called whenever more is known about a file,
    `on_details(file, before, now)` when only details were added that an editor shows.
    """

    def __init__(
        self,
        analysis: AnalysisClient,
        on_answer: Callable[[OpenFile, bool], None],
        on_details: Callable[[OpenFile, Shown, Shown], None],
        on_preview_changed: Callable[[str], None],
        on_unavailable: Callable[[str], None],
        on_complaint: Callable[[str], None],
    ) -> None:
        self.settings = Settings()
        self.files: dict[str, OpenFile] = {}
        self._analysis = analysis
        self._on_answer = on_answer
        self._on_details = on_details
        self._on_preview_changed = on_preview_changed
        self._on_unavailable = on_unavailable
        self._on_complaint = on_complaint
        self._complaints: set[str] = set()
        self._projects = Projects()
        self._run_lock = asyncio.Lock()

    # --- documents

    def open(self, document: Document) -> OpenFile:
        self.close(
            document.uri
        )  # a client may open a document twice: what was asked of the first is not told
        file = OpenFile(document)
        self.files[document.uri] = file
        self._start_check(file)
        return file

    def open_notebook(self, notebook: Notebook, version: int) -> OpenFile:
        """A notebook is one file, known by its own URI; `file_of` finds it by the URI of a cell too."""
        self.close(notebook.uri)
        cells = notebook.read()
        document = Document(notebook.uri, notebook.path, version, cells.typed)
        file = OpenFile(document, notebook, cells)
        self.files[notebook.uri] = file
        self._start_check(file)
        return file

    def notebook_changed(self, file: OpenFile, version: int) -> None:
        """To be called after cells of the notebook were edited, added or removed."""
        assert file.notebook is not None
        file.cells = file.notebook.read()
        file.document.replace(Replacement(None, None, file.cells.typed))
        file.document.version = version
        self._start_check(file)

    def file_of(self, uri: str) -> OpenFile | None:
        """The open document, or the notebook that has the cell."""
        file = self.files.get(uri)
        if file is not None:
            return file
        return next((f for f in self.files.values() if f.cells is not None and f.cells.cell(uri)), None)

    def changed(self, file: OpenFile) -> None:
        """To be called after the document of `file` was edited."""
        self._start_check(file)

    def close(self, uri: str) -> None:
        file = self.files.pop(uri, None)
        for task in (file.check, file.details) if file is not None else ():
            if task is not None:
                task.cancel()

    def file_at(self, path: str) -> OpenFile | None:
        return next((f for f in self.files.values() if f.document.path == path), None)

    def chosen(self, path: str) -> Chosen:
        """What counts for a file: the settings, over those of its project, whose mistakes are told once."""
        project = Project()
        if os.path.isabs(path):  # a text that was never saved belongs to no project
            try:
                project = self._projects.of(Path(path))
            except ProjectError as error:
                if str(error) not in self._complaints:
                    self._complaints.add(str(error))
                    self._on_complaint(str(error))
        return self.settings.over(project)

    def recheck_all(self, besides: str | None = None) -> bool:
        """Ask everything again, after settings or files on disk have changed, but for the document `besides`.

        False if no other document is open.
        """
        files = [file for uri, file in self.files.items() if uri != besides]
        for file in files:
            file.outdated = True
            self._start_check(file)
        return bool(files)

    # --- analysis

    def _start_check(self, file: OpenFile) -> None:
        for task in (file.check, file.details):
            if task is not None:
                task.cancel()
        file.settled.clear()
        file.unavailable = False
        if not file.is_ours:
            # Not a file of ours: its syntax errors are told by the Python server beside us.
            self._take(file, FileAnswer(file.document.revision, (), ()))
            return
        file.check = asyncio.ensure_future(self._check(file))
        file.check.add_done_callback(lambda task: self._after_check(file, task))

    def _after_check(self, file: OpenFile, task: asyncio.Task[None]) -> None:
        """Let nobody wait for a check that failed by a bug of ours."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("the check of %s failed", file.document.path, exc_info=error)
            if file.check is task:
                file.unavailable = True
                file.settled.set()

    async def _check(self, file: OpenFile) -> None:
        document = file.document
        revision = document.revision
        last = self._carried(file)
        chosen = self.chosen(document.path)
        request = CheckRequest(
            document.path,
            file.source,
            chosen.target,
            chosen.specialisations,
            known=tuple(last.reports()) if last else (),
        )
        started = time.perf_counter()
        try:
            answer = await self._analysis.check(request)
        except AnalysisFailed as error:
            log.warning("no analysis of %s: %s", document.path, error)
            if not isinstance(error, AnalysisUnavailable):
                if revision == document.revision:
                    self._take(file, failed_answer(str(error), document.path, revision, last))
                return
            file.unavailable = True
            file.settled.set()
            self._on_unavailable(str(error))
            self._on_answer(file, file.stale)
            return
        if revision == document.revision:
            log.debug("checked %s in %.0f ms", document.path, 1000 * (time.perf_counter() - started))
            is_broken = file.cells.is_broken if file.cells is not None else None
            self._take(file, file_answer(answer, document.path, revision, last, is_broken))

    def _take(self, file: OpenFile, answer: FileAnswer) -> None:
        file.answer, file.outdated = answer, False
        file.settled.set()
        was_stale, file.stale = file.stale, False
        self._on_answer(file, was_stale)
        self._look_after_previews(file)
        wanted = tuple(k.memo_key for k in answer.kernels if k.may_have_details())
        if wanted and not answer.broken:
            file.details = asyncio.ensure_future(self._add_details(file, answer, wanted))

    async def _add_details(self, file: OpenFile, answer: FileAnswer, wanted: tuple[str, ...]) -> None:
        """Add what lowering knows of the kernels `wanted` to `answer`, unless a newer one takes its place."""
        await asyncio.sleep(DETAILS_DELAY_S)
        document = file.document
        chosen = self.chosen(document.path)
        request = DetailsRequest(document.path, file.source, chosen.target, chosen.specialisations, wanted)
        try:
            details = await self._analysis.details(request)
        except AnalysisFailed as error:
            log.info("no details of %s: %s", document.path, error)
            return
        if file.answer is not answer or not file.is_current:
            return
        before = self._shown(file)
        file.answer = with_details(answer, details, wanted)
        now = self._shown(file)
        if now != before:
            self._on_details(file, before, now)

    def _shown(self, file: OpenFile) -> Shown:
        hints = inlay_hints(self.kernels(file), 1, len(file.document.text))
        return Shown(tuple(self.problems(file)), tuple(self.lenses(file)), tuple(hints))

    def _carried(self, file: OpenFile) -> FileAnswer | None:
        """The last answer, carried to the text as it is now."""
        if file.answer is None:
            return None
        edits = file.document.edits_since(file.answer.revision)
        return None if edits is None else file.answer.carried(edits, file.document.revision)

    async def settle(self, file: OpenFile, limit_s: float | None = None) -> bool:
        """Wait until what is known is about the text as it is now. False when that takes too long."""
        if limit_s is None:
            limit_s = SETTLE_S if self._analysis.ready else SETTLE_AT_START_S
        deadline = time.monotonic() + limit_s
        while not file.is_current and not file.unavailable:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                file.stale = True
                return False
            try:
                await asyncio.wait_for(file.settled.wait(), remaining)
            except asyncio.TimeoutError:
                file.stale = True
                return False
        return file.is_current

    def kernels(self, file: OpenFile) -> list[KernelFacts]:
        """The facts of all kernels, where they stand now."""
        revision = file.document.revision
        if file.facts is None or file.facts[0] != revision or file.facts[1] is not file.answer:
            answer = self._carried(file)
            facts = [k.facts() for k in answer.kernels] if answer else []
            file.facts = (revision, file.answer, facts)
        return file.facts[2]

    def problems(self, file: OpenFile) -> list[Problem]:
        """Everything that is wrong with the file now, as far as it is wanted."""
        answer = self._carried(file)
        groups = [answer.problems, *(k.problems() for k in answer.kernels)] if answer else []
        found = [p for problems in once(groups) for p in problems]
        if not file.is_current:
            # Syntax errors of an older text would only get in the way of typing; those of this one are cheap.
            found = [p for p in found if p.rule != SYNTAX_ERROR.name]
            # A notebook's are known for each cell.
            problem = syntax_problem(file.document.path, file.document.text) if file.cells is None else None
            found += [problem] if problem and file.is_ours else []
        if file.cells is not None:
            found += file.cells.problems
        wants = self.chosen(file.document.path).rules.wants
        seen = [p.seen_from(file.document.path) for p in found]
        return [p for p in diagnostics(seen, self._run_problems(file)) if wants(p)]

    # --- lenses and runs

    def lenses(self, file: OpenFile) -> list[Lens]:
        """The lenses of every kernel, also of kernels that nothing is known of yet."""
        facts = self.kernels(file)
        found: list[Lens] = []
        for kernel in file.document.kernels():
            known = _facts_of(file.document, kernel, facts)
            name = known.qualified_name if known else kernel.qualified_name
            run = file.runs.get(name)
            last = run.result if run and run.fingerprint == _fingerprint(file.document, kernel) else None
            found.extend(lenses(file.document.first_line(kernel), name, known, last))
        return found

    async def run(self, file: OpenFile, kernel_name: str, report: Callable[[str], None]) -> RunResult:
        """Run & assert one kernel as it stands in the editor. Cancel the awaiting task to end it."""
        if not self.settings.trusted:
            return _no_run(
                kernel_name,
                "this workspace is not trusted, and a run executes its code: trust it to run kernels.",
            )
        report("waiting for the analysis")
        await self.settle(file, SETTLE_S)
        document = file.document
        facts = _named(self.kernels(file), kernel_name)
        kernel = next((k for k in document.kernels() if facts and _is_of(document, k, facts)), None)
        if facts is None or kernel is None:
            known = ", ".join(f.qualified_name for f in self.kernels(file)) or "none"
            return _no_run(kernel_name, f"{document.path} has no kernel {kernel_name} (known: {known})")
        if file.answer is not None and file.answer.broken:
            first = next(iter(file.answer.problems))
            return _no_run(facts.qualified_name, f"line {first.span.line}: {first.message}")
        fingerprint = _fingerprint(document, kernel)
        request = runner.RunRequest(
            path=document.path,
            text=file.source if file.cells is None else definitions(file.source),
            facts=facts,
            kernel_text=_with_comments_above(document, kernel),
            interpreter=self.settings.interpreter,
            timeout_s=self.settings.run_timeout_s,
        )
        # One at a time: two runs would measure each other.
        async with self._run_lock:
            result = await runner.run(request, report)
        file.runs[facts.qualified_name] = _Run(fingerprint, result)
        return result

    def _run_problems(self, file: OpenFile) -> list[Problem]:
        """The diagnostics of runs that failed, for kernels that have not been edited since."""
        if not file.runs:
            return []
        found: list[Problem] = []
        facts = self.kernels(file)
        for kernel in file.document.kernels():
            known = _facts_of(file.document, kernel, facts)
            run = file.runs.get(known.qualified_name if known else kernel.qualified_name)
            if run is not None and run.fingerprint == _fingerprint(file.document, kernel):
                problem = run_problem(run.result, file.document.span(kernel.name_start, kernel.name_end))
                found += [problem] if problem else []
        return found

    # --- previews

    async def generate(self, address: previews.PreviewAddress) -> previews.Preview:
        """The generated source of a kernel as it stands in the editor, else on disk. Raises PreviewFailed."""
        if address.target not in previews.TARGETS:
            known = ", ".join(previews.TARGETS)
            raise PreviewFailed(f"there is no target {address.target!r}: expected one of {known}")
        file = self.file_at(address.path)
        text = file.source if file else _read(address.path)
        short_name = address.kernel.rpartition(".")[2]
        chosen = self.chosen(address.path)
        request = GenerateRequest(
            address.path,
            text,
            address.kernel,
            previews.target_spec(address.target, chosen.target),
            chosen.choice(address.kernel, short_name),
        )
        try:
            answer = await self._analysis.generate(request)
        except AnalysisFailed as error:
            raise PreviewFailed(str(error)) from error
        if answer.source is None:
            raise PreviewFailed(answer.message or previews.problems_text(answer.problems))
        return previews.preview(answer.source)

    async def generate_and_watch(self, address: previews.PreviewAddress) -> previews.Preview:
        """The same, and the editor is told when it changes."""
        made = await self.generate(address)
        file = self.file_at(address.path)
        if file is not None:
            await self.settle(file)
            self._remember(file, address, made)
        return made

    async def show(self, address: previews.PreviewAddress) -> previews.Preview:
        """A generated document for the editor: never fails, but says why there is nothing to see."""
        file = self.file_at(address.path)
        if file is not None:
            await self.settle(file)
        shown = file.previews.get(address.uri) if file else None
        try:
            made = await self.generate(address)
        except PreviewFailed as error:
            if shown is not None and file is not None and file.answer is not None and file.answer.broken:
                return previews.outdated_preview(shown.preview, address, str(error).splitlines()[0])
            made = previews.failed_preview(address, str(error))
        if file is not None:
            self._remember(file, address, made)
        return made

    def _remember(self, file: OpenFile, address: previews.PreviewAddress, made: previews.Preview) -> None:
        kernel = self._kernel_answer(file, address.kernel)
        file.previews[address.uri] = _ShownPreview(kernel.memo_key if kernel else "", made)

    def _kernel_answer(self, file: OpenFile, name: str) -> KernelAnswer | None:
        kernels = file.answer.kernels if file.answer else ()
        return next((k for k in kernels if name in (k.qualified_name, k.report.facts.name)), None)

    def _look_after_previews(self, file: OpenFile) -> None:
        """Tell the editor which generated documents are no longer what it shows."""
        if file.answer is None or file.answer.broken:
            return
        for uri, shown in file.previews.items():
            address = previews.parse_preview_uri(uri)
            kernel = self._kernel_answer(file, address.kernel)
            memo_key = kernel.memo_key if kernel else ""
            if memo_key != shown.memo_key:
                shown.memo_key = memo_key
                self._on_preview_changed(uri)


def _named(kernels: list[KernelFacts], name: str) -> KernelFacts | None:
    exact = next((f for f in kernels if f.qualified_name == name), None)
    return exact or next((f for f in kernels if f.name == name), None)


def _facts_of(document: Document, kernel: KernelSlice, facts: list[KernelFacts]) -> KernelFacts | None:
    return next((f for f in facts if _is_of(document, kernel, f)), None)


def _is_of(document: Document, kernel: KernelSlice, facts: KernelFacts) -> bool:
    """Whether the facts are those of the kernel the parser found: the same name, or the same place."""
    if facts.qualified_name == kernel.qualified_name:
        return True
    index, span = document.index, facts.name_span
    start = index.offset(span.line - 1, span.column - 1)
    return kernel.start <= start < kernel.end


def _fingerprint(document: Document, kernel: KernelSlice) -> str:
    return hashlib.sha256(document.text_of(kernel).encode("utf-8", "replace")).hexdigest()


def _with_comments_above(document: Document, kernel: KernelSlice) -> str:
    """The kernel's text and the comment lines directly above it."""
    line, _ = document.index.place(kernel.start)
    first = line
    while first > 0 and document.index.line(first - 1).lstrip().startswith("#"):
        first -= 1
    return document.text[document.index.offset(first, 0) : kernel.end]


def _no_run(kernel: str, error: str) -> RunResult:
    return RunResult(kernel, False, "none", None, error=error)


def _read(path: str) -> str:
    """The text of a Python file on disk, by its own coding comment. Raises PreviewFailed."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe or a device may never end
            raise PreviewFailed(f"cannot read {path}: it is no regular file")
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise PreviewFailed(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:  # also when there is no coding comment and the first lines are not UTF-8
        encoding = "utf-8"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise PreviewFailed(
            f"{path} is not {error.encoding.upper()} (byte {error.start}: 0x{data[error.start]:02x}). "
            "Save it as UTF-8, or say its encoding in the first line: # -*- coding: latin-1 -*-"
        ) from error
    except (LookupError, UnicodeError) as error:  # `coding: base64`, and codecs that report no place
        raise PreviewFailed(f"{path} cannot be decoded: {error}") from error
