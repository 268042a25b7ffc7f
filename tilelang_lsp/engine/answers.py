"""The last good answer for a file, and how it is carried to the text as it is now."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.rules.internal import ANALYSIS_FAILED, FILE_LOST
from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import KernelFacts
from tilelang.facts.reports import KernelReport
from tilelang_lsp.documents.edits import TextEdit, carried, is_empty
from tilelang_lsp.engine.memo import is_self_contained
from tilelang_lsp.engine.messages import CheckAnswer, CheckedKernel, DetailsAnswer

Carry = Callable[[Span], Span]

# Typing in a file that does not parse piles edits up on the last good answer.
_MAX_EDITS = 64


@dataclass(frozen=True)
class KernelAnswer:
    """What is known of one kernel: a report, the lines it moved since, the edits that no analysis has seen.

    `memo_key` is "" once the report is no longer the one that analysis made. `detailed`: lowering has been
    asked too, so there is nothing more to know.
    """

    qualified_name: str
    memo_key: str
    report: KernelReport
    report_line: int
    lines: int = 0
    edits: tuple[TextEdit, ...] = ()
    detailed: bool = False

    def problems(self) -> list[Problem]:
        """Its problems where they stand now; those whose place was replaced are left out."""
        return [
            p for p in (carry_problem(p, self._carry) for p in self.report.problems) if not is_empty(p.span)
        ]

    def facts(self) -> KernelFacts:
        """Its facts where they stand now; places that were replaced are empty."""
        if not self.lines and not self.edits:
            return self.report.facts
        return carry_facts(self.report.facts, self._carry)

    def after(self, edits: tuple[TextEdit, ...]) -> KernelAnswer:
        """The same after further edits. Long lists of them are carried out, so that answers stay fast."""
        if len(self.edits) + len(edits) <= _MAX_EDITS:
            return replace(self, edits=(*self.edits, *edits))
        late = replace(self, edits=(*self.edits, *edits))
        return replace(
            self, memo_key="", report=KernelReport(late.facts(), tuple(late.problems())), lines=0, edits=()
        )

    def may_have_details(self) -> bool:
        """Whether lowering could add something: a kernel with errors is not lowered, nor one whose text has
        changed since.
        """
        has_errors = any(p.severity is Severity.ERROR for p in self.report.problems)
        return bool(self.memo_key) and not self.edits and not self.detailed and not has_errors

    def span(self) -> Span:
        """Where the kernel stands now."""
        return self._carry(self.report.facts.span)

    def _carry(self, span: Span) -> Span:
        if span.path != self.report.facts.span.path:
            return span  # in a file that was imported, which no edit of this one moves
        return carried(span.shifted(self.lines) if self.lines else span, self.edits)


@dataclass(frozen=True)
class FileAnswer:
    """What is known of a file at `revision` of its text. `broken`: kernels are those of an earlier text."""

    revision: int
    kernels: tuple[KernelAnswer, ...]
    problems: tuple[Problem, ...]
    broken: bool = False

    def carried(self, edits: tuple[TextEdit, ...], revision: int) -> FileAnswer:
        """The same answer for a later revision, `edits` after this one."""
        if not edits:
            return replace(self, revision=revision)
        problems = (carry_problem(p, _carry_in(p.span.path, edits)) for p in self.problems)
        return FileAnswer(
            revision,
            tuple(k.after(edits) for k in self.kernels),
            tuple(p for p in problems if not is_empty(p.span)),
            self.broken,
        )

    def reports(self) -> dict[str, KernelAnswer]:
        """The kernels by memo key: what need not be sent again.

        A detailed report that points outside its kernel is not among them: only the analysis of the new text
        says whether it still holds.
        """
        return {
            k.memo_key: k
            for k in self.kernels
            if k.memo_key and not (k.detailed and not is_self_contained(k.report))
        }


def file_answer(
    answer: CheckAnswer,
    path: str,
    revision: int,
    last: FileAnswer | None,
    is_broken: Callable[[int], bool] | None = None,
) -> FileAnswer:
    """The new answer for `revision`. `last`, carried to it, fills in what is not sent again or not known.

    is_broken: of a text that was read but for some lines, whether a line, from 0, is one of them; what was
    known of kernels there stays.
    """
    if answer.broken:
        return FileAnswer(revision, last.kernels if last else (), answer.problems, broken=True)
    held = last.reports() if last else {}
    kernels: list[KernelAnswer] = []
    problems = list(answer.problems)
    for checked in answer.kernels:
        kernel = _kernel_answer(checked, held)
        if kernel is not None:
            kernels.append(kernel)
        if checked.failure is not None:
            problems.append(_failure(checked, path))
    if is_broken is not None and last is not None:
        names = {k.qualified_name for k in kernels}
        before = [(k, k.span()) for k in last.kernels if k.qualified_name not in names]
        kernels += [k for k, span in before if not is_empty(span) and is_broken(span.line - 1)]
        kernels.sort(key=lambda k: k.span().line)
    return FileAnswer(revision, tuple(kernels), tuple(problems))


def failed_answer(why: str, path: str, revision: int, last: FileAnswer | None) -> FileAnswer:
    """The answer where the analysis of the whole text failed: what was known stays, and the file says why."""
    problem = FILE_LOST.at(
        Span(path, 1, 1, 1, 2), severity=Severity.WARNING, file=path, why=f"failed ({why})"
    )
    return FileAnswer(revision, last.kernels if last else (), (problem,), broken=True)


def _kernel_answer(checked: CheckedKernel, held: dict[str, KernelAnswer]) -> KernelAnswer | None:
    if checked.failure is not None:
        return None
    report, report_line, detailed = checked.report, checked.report_line, False
    if report is None:
        before = held.get(checked.memo_key)
        if before is None:
            return None
        report, report_line, detailed = before.report, before.report_line, before.detailed
    return KernelAnswer(
        checked.qualified_name,
        checked.memo_key,
        report,
        report_line,
        checked.line - report_line,
        detailed=detailed,
    )


def with_details(answer: FileAnswer, details: DetailsAnswer, wanted: Collection[str]) -> FileAnswer:
    """`answer` with the details of the same text, which were asked for the memo keys `wanted`."""
    found = {k.memo_key: k for k in details.kernels}

    def detailed(kernel: KernelAnswer) -> KernelAnswer:
        if kernel.memo_key not in wanted:
            return kernel
        more = found.get(kernel.memo_key)
        if more is None or more.report is None:
            return replace(kernel, detailed=True)
        return replace(
            kernel,
            report=more.report,
            report_line=more.report_line,
            lines=more.line - more.report_line,
            detailed=True,
        )

    return replace(answer, kernels=tuple(map(detailed, answer.kernels)))


def _failure(checked: CheckedKernel, path: str) -> Problem:
    span = Span(path, checked.line, 1, checked.line + 1, 1)
    return ANALYSIS_FAILED.at(span, kernel=checked.qualified_name, failure=checked.failure)


def _carry_in(path: str, edits: tuple[TextEdit, ...]) -> Carry:
    return lambda span: carried(span, edits) if span.path == path else span


def carry_problem(problem: Problem, carry: Carry) -> Problem:
    """`problem` with all its places carried along."""
    return replace(
        problem,
        span=carry(problem.span),
        related=tuple(replace(r, span=carry(r.span)) for r in problem.related),
        fixes=tuple(
            replace(f, edits=tuple(replace(e, span=carry(e.span)) for e in f.edits)) for f in problem.fixes
        ),
    )


def carry_facts(facts: KernelFacts, carry: Carry) -> KernelFacts:
    """`facts` with all their places carried along."""
    return replace(
        facts,
        span=carry(facts.span),
        name_span=carry(facts.name_span),
        buffers=tuple(replace(b, span=carry(b.span), name_span=carry(b.name_span)) for b in facts.buffers),
        uses=tuple(replace(u, span=carry(u.span)) for u in facts.uses),
        ops=tuple(replace(o, span=carry(o.span), callee_span=carry(o.callee_span)) for o in facts.ops),
        loops=tuple(replace(x, span=carry(x.span)) for x in facts.loops),
        launch=replace(facts.launch, span=carry(facts.launch.span)) if facts.launch else None,
    )
