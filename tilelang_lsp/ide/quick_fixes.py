"""Quick fixes: the edits a problem brings along, all of them at once, and silencing a rule on its line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tilelang.diagnostics.fixes import sure_fixes
from tilelang.diagnostics.problem import Edit, Problem
from tilelang.diagnostics.registry import RULES
from tilelang.diagnostics.rules.internal import ANALYSIS_FAILED
from tilelang.diagnostics.span import Span
from tilelang_lsp.documents.edits import is_empty
from tilelang_lsp.documents.line_index import LineIndex
from tilelang_lsp.ide.places import overlaps
from tilelang_lsp.ide.run_report import RUN_RULES

# Not findings about the code as written: there is nothing to silence.
_NOT_IGNORABLE = {"syntax-error", ANALYSIS_FAILED.name, *RUN_RULES}
_IGNORE = re.compile(r"#\s*tilelang:\s*ignore\[([^\]]*)\]")


@dataclass(frozen=True)
class QuickFix:
    """A titled set of edits that solves `problem`. `preferred`: what "fix it" without asking should do."""

    title: str
    problem: Problem
    edits: tuple[Edit, ...]
    preferred: bool = False


def quick_fixes(problems: Iterable[Problem], index: LineIndex, place: Span) -> list[QuickFix]:
    """The fixes of all problems that touch `place`, real ones before ignores."""
    fixes: list[QuickFix] = []
    ignores: list[QuickFix] = []
    for problem in problems:
        if not overlaps(problem.span, place):
            continue
        usable = [f for f in problem.fixes if not _lost(f.edits)]
        for number, fix in enumerate(usable):
            fixes.append(QuickFix(fix.title, problem, fix.edits, preferred=number == 0 and len(usable) == 1))
        if problem.rule not in _NOT_IGNORABLE:
            ignores.append(_ignore(problem, index))
    return fixes + ignores


def fix_all(problems: Iterable[Problem], path: str) -> tuple[Edit, ...]:
    """The edits of all fixes in the file that leave no choice, none touching another."""
    problems = list(problems)
    alive = [p for p in problems if p.fixes and not any(_lost(f.edits) for f in p.fixes)]
    return tuple(edit for fix in sure_fixes(alive, path) for edit in fix.edits)


def rules_at(problems: Iterable[Problem], place: Span) -> list[str]:
    """The rules of the problems that touch `place`, each once: those whose pages can be shown."""
    return list(dict.fromkeys(p.rule for p in problems if overlaps(p.span, place) and p.rule in RULES))


def _lost(edits: Iterable[Edit]) -> bool:
    """Whether typing has replaced the text an edit is about: there is nothing left to delete."""
    return any(is_empty(e.span) and not e.new_text for e in edits)


def _ignore(problem: Problem, index: LineIndex) -> QuickFix:
    line = problem.span.end_line
    text = index.line(line - 1)
    found = _IGNORE.search(text)
    if found:
        column = found.end(1) + 1
        edit = Edit(Span(problem.span.path, line, column, line, column), f", {problem.rule}")
    else:
        column = len(text) + 1
        edit = Edit(
            Span(problem.span.path, line, column, line, column), f"  # tilelang: ignore[{problem.rule}]"
        )
    return QuickFix(f"Ignore {problem.rule} on this line", problem, (edit,))
