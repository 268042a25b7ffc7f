"""`# tilelang: ignore[gemm-shape]`: silencing the problems of a line, and reporting comments that silence
nothing.

A comment counts for the line it stands on; alone on a line, for the next line of code. `# tilelang: ignore`
without rules silences everything there.
"""

from __future__ import annotations

import bisect
import difflib
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.registry import RULES
from tilelang.diagnostics.rules.files import UNKNOWN_IGNORED_RULE, UNUSED_BARE_IGNORE, UNUSED_IGNORE
from tilelang.diagnostics.span import Span, text_lines

_COMMENT = re.compile(r"#\s*tilelang:\s*ignore(?:\[([^\]\n]*)\])?")
_NO_CODE = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)


@dataclass(frozen=True)
class Ignore:
    """One comment. `rules` are its rule names with their places, empty for all rules; `line` is the line it
    is for.
    """

    line: int
    rules: tuple[tuple[str, Span], ...]
    span: Span

    def covers(self, problem: Problem) -> bool:
        """Whether it silences `problem`: of a named rule, and beginning or ending on the line of its file."""
        named = not self.rules or any(problem.rule == rule for rule, _ in self.rules)
        return named and self.stands_at(problem)

    def stands_at(self, problem: Problem) -> bool:
        """Whether the problem is in the same file, and begins or ends on the line."""
        lines = (problem.span.line, problem.span.end_line)
        return self.line in lines and self.span.path == problem.span.path


def find_ignores(path: str, text: str, lines: tuple[int, int] | None = None) -> list[Ignore]:
    """All ignore comments of a file, or of its lines (first, last), in order.

    Text that does not tokenize is read as far as it does.
    """
    offset = 0
    if lines is not None:
        offset = lines[0] - 1
        text = "\n".join(text_lines(text)[offset : lines[1]])
    if _COMMENT.search(text) is None:
        return []
    comments, with_code = _tokens(text)
    code_lines = sorted(with_code)
    found = []
    for line, column, comment in comments:
        match = _COMMENT.search(comment)
        if match is None:
            continue
        at = bisect.bisect_left(code_lines, line)  # its own line, or the next one with code
        target = code_lines[at] if at < len(code_lines) else line
        here = line + offset
        span = Span(path, here, column + match.start(), here, column + match.end())
        found.append(Ignore(target + offset, tuple(_rules(match, path, here, column)), span))
    return found


def apply_ignores(
    path: str,
    text: str,
    problems: Iterable[Problem],
    *,
    lines: tuple[int, int] | None = None,
    unsure: Sequence[tuple[int, int]] = (),
) -> list[Problem]:
    """`problems` without the silenced ones, and with one more for each comment that silences nothing.

    lines: the range (first, last) that `problems` are about, such as a kernel; comments elsewhere do not
    count.
    unsure: ranges that were not checked fully, or are dealt with separately; comments there are not called
    unused.
    """
    ignores = find_ignores(path, text, lines)
    problems = list(problems)
    kept = _uncovered(problems, ignores)
    for ignore in ignores:
        if not any(first <= ignore.line <= last for first, last in unsure):
            kept.extend(_unused(ignore, problems, text))
    return kept


def not_silenced(path: str, text: str, problems: Sequence[Problem]) -> list[Problem]:
    """`problems` without the silenced ones; comments that silence nothing are not looked for."""
    return _uncovered(problems, find_ignores(path, text) if problems else [])


def _uncovered(problems: Iterable[Problem], ignores: Sequence[Ignore]) -> list[Problem]:
    if not ignores:
        return list(problems)
    at_line: dict[int, list[Ignore]] = {}
    for ignore in ignores:
        at_line.setdefault(ignore.line, []).append(ignore)
    return [
        p
        for p in problems
        if not any(i.covers(p) for line in (p.span.line, p.span.end_line) for i in at_line.get(line, ()))
    ]


def _tokens(text: str) -> tuple[list[tuple[int, int, str]], set[int]]:
    """Comments as (line, column from 1, text), and the lines that hold code."""
    comments: list[tuple[int, int, str]] = []
    code_lines: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comments.append((token.start[0], token.start[1] + 1, token.string))
            elif token.type not in _NO_CODE and token.string:
                code_lines.update(range(token.start[0], token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):
        pass  # a half-typed file: what came before the break is enough, the break itself is reported as such
    return comments, code_lines


def _rules(match: re.Match[str], path: str, line: int, column: int) -> Iterator[tuple[str, Span]]:
    if match.group(1) is None:
        return
    for name in re.finditer(r"[^\s,]+", match.group(1)):
        start = column + match.start(1) + name.start()
        yield name.group(), Span(path, line, start, line, start + len(name.group()))


def _unused(ignore: Ignore, problems: list[Problem], text: str) -> Iterator[Problem]:
    here = [p for p in problems if ignore.stands_at(p)]
    if not ignore.rules:
        if not here:
            yield UNUSED_BARE_IGNORE.at(ignore.span, fixes=(_removal(ignore, text),), tags=("unnecessary",))
        return
    unused = [(rule, span) for rule, span in ignore.rules if not any(p.rule == rule for p in here)]
    fixes = (_removal(ignore, text),) if len(unused) == len(ignore.rules) else ()
    for rule, span in unused:
        if rule in RULES:
            if RULES[rule].by_lowering:
                continue
            yield UNUSED_IGNORE.at(span, rule=rule, fixes=fixes, tags=("unnecessary",))
        else:
            near = difflib.get_close_matches(rule, RULES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            meant = near and any(p.rule == near[0] for p in here)
            mends = (Fix(f"Change to {near[0]}", (Edit(span, near[0]),)),) if meant else fixes
            yield UNKNOWN_IGNORED_RULE.at(span, rule=rule, hint=hint, fixes=mends, tags=("unnecessary",))


def _removal(ignore: Ignore, text: str) -> Fix:
    """Remove the comment and the blanks before it."""
    line = text.split("\n")[ignore.span.line - 1]
    blanks = len(line[: ignore.span.column - 1]) - len(line[: ignore.span.column - 1].rstrip())
    span = ignore.span
    edit = Edit(Span(span.path, span.line, span.column - blanks, span.end_line, span.end_column), "")
    return Fix("Remove the unused ignore comment", (edit,))
