"""What a quick fix must do, whatever its rule: the text still parses, the problem is gone, none is new."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tilelang.analysis.check import check_source
from tilelang.diagnostics.fixes import apply_edits, sure_fixes
from tilelang.diagnostics.problem import Edit, Fix, Problem, Severity

PATH = "kernel.py"
# A fix can make room for another one; so many times at most.
_ROUNDS = 8
# What is unknown is not judged: a call of a name that nobody knows has neither arguments nor results, and
# what Python makes of an element shows when it is one.
_HIDES = {
    ("unknown-language-name", "bad-arguments"),
    ("unknown-language-name", "nothing-written"),
    ("tile-as-scalar", "python-bool"),
}
# With its line, or because the comment is what is mended.
_REMOVES_COMMENTS = ("unused-ignore", "never-read", "const-unused", "unknown-specialisation")
_GRAVE = (Severity.ERROR, Severity.WARNING)


@dataclass(frozen=True)
class Fixing:
    """One fix of one problem of a module: the problems of the text before and after its edits."""

    text: str
    problem: Problem
    fix: Fix
    before: tuple[Problem, ...]
    target: str = "cuda:sm_90"

    def faults(self) -> list[str]:
        """What is wrong with the fix; empty for a good one."""
        after = apply_edits(self.text, self.fix.edits)
        name = f"{self.problem.span.line}: [{self.problem.rule}] {self.fix.title}"
        if after == self.text:
            return [f"{name}: changes nothing"]
        if _parses(self.text) and not _parses(after):
            return [f"{name}: the text does not parse any more"]
        found = problems(after, self.target)
        faults = []
        lost = _comments(self.text) - _comments(after)
        if lost and self.problem.rule not in _REMOVES_COMMENTS and not self._removes_line_of(lost):
            faults.append(f"{name}: the comment {' '.join(lost)} is lost")
        if any(self._is_same(p) for p in found) and not self._fewer(found):
            faults.append(f"{name}: the problem is still there")
        known = Counter((p.rule, *_moved(p, self.fix.edits)) for p in self.before)
        for p in found:
            if p.severity not in _GRAVE or self._is_known(p, known):
                continue
            if (self.problem.rule, p.rule) not in _HIDES:
                faults.append(f"{name}: makes {p.span.line}: {said(p)}")
        return faults

    def _is_same(self, p: Problem) -> bool:
        """At its place; where that was rewritten, in its words."""
        at = (self.problem.span.line, self.problem.span.column)
        rewritten = any(
            (e.span.line, e.span.column) < at < (e.span.end_line, e.span.end_column) for e in self.fix.edits
        )
        there = (p.span.line, p.span.column) == _moved(self.problem, self.fix.edits)
        return p.rule == self.problem.rule and there and (not rewritten or p.message == self.problem.message)

    def _removes_line_of(self, lost: Counter[str]) -> bool:
        """Whether what is lost is the note beside what the fix removes."""
        lines = self.text.split("\n")
        whole = [e.span for e in self.fix.edits if not e.new_text and e.span.column == e.span.end_column == 1]
        gone = "\n".join(line for s in whole for line in lines[s.line - 1 : s.end_line - 1])
        return self.fix.title.startswith("Remove") and all(comment in gone for comment in lost)

    def _fewer(self, found: list[Problem]) -> bool:
        """Whether the rule is left with fewer: what followed the problem may have moved to its place."""
        before, after = (
            sum(p.rule == self.problem.rule for p in problems) for problems in (self.before, found)
        )
        return after < before

    def _is_known(self, p: Problem, known: Counter[tuple[str, int, int]]) -> bool:
        key = (p.rule, p.span.line, p.span.column)
        known[key] -= 1
        return known[key] >= 0


def fixings(text: str, target: str = "cuda:sm_90") -> Iterator[Fixing]:
    """Every fix of every problem of a module."""
    before = tuple(problems(text, target))
    for problem in before:
        for fix in problem.fixes:
            yield Fixing(text, problem, fix, before, target)


def problems(text: str, target: str = "cuda:sm_90") -> list[Problem]:
    return check_source(PATH, text, target).all_problems()


def said(p: Problem) -> str:
    return f"{p.severity.value}[{p.rule}] {p.message}"


def faults_of_fix_all(text: str, target: str = "cuda:sm_90") -> list[str]:
    """What is wrong with making all sure fixes, round by round, as `tilelang check --fix` does."""
    first, fixes = text, []
    for _ in range(_ROUNDS):
        fixes = sure_fixes(problems(text, target), PATH)
        if not fixes:
            return []
        text = apply_edits(text, [e for f in fixes for e in f.edits])
        if _parses(first) and not _parses(text):
            return [f"the text does not parse after {[f.title for f in fixes]}"]
    return [f"fix-all never comes to an end: {[f.title for f in fixes]}"]


def _comments(text: str) -> Counter[str]:
    """The comments of a module; none where it cannot be read."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, tokenize.TokenError):
        return Counter()
    return Counter(t.string for t in tokens if t.type == tokenize.COMMENT)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _moved(problem: Problem, edits: tuple[Edit, ...]) -> tuple[int, int]:
    """Where the first character of a problem's place is after edits; of one that was rewritten, where that
    begins.
    """
    at = (problem.span.line, problem.span.column)
    for edit in sorted(edits, key=lambda e: e.span, reverse=True):
        begin = (edit.span.line, edit.span.column)
        end = (edit.span.end_line, edit.span.end_column)
        if begin > at or (begin == at and begin != end):
            continue
        if at < end:
            at = begin
            continue
        added = edit.new_text.split("\n")
        line = at[0] + len(added) - 1 - (end[0] - begin[0])
        first = begin[1] if len(added) == 1 else 1
        at = (line, at[1] if at[0] != end[0] else first + len(added[-1]) + at[1] - end[1])
    return at
