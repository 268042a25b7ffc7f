"""What was computed before: kernel reports by content, so that an edit elsewhere costs nothing."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.diagnostics.span import Span
from tilelang.facts.reports import GeneratedSource, KernelReport

# About ten files of ten kernels, each seen in some versions; a report takes some tens of kilobytes.
_CAPACITY = 400


@dataclass(frozen=True)
class MemoReport:
    """A report and the line at which its kernel began when it was made."""

    report: KernelReport
    line: int


class Memo:
    """Least-recently-used store of reports (also those with details) and generated sources."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._reports: OrderedDict[str, MemoReport] = OrderedDict()
        self._sources: OrderedDict[str, GeneratedSource] = OrderedDict()

    def report(self, key: str, line: int) -> MemoReport | None:
        """The report under `key`, for a kernel that now begins at `line`.

        A report that points outside its kernel (at a constant above it, say) holds only where it was made:
        what is outside does not move along with the kernel.
        """
        found = self._reports.get(key)
        if found is None or (found.line != line and not is_self_contained(found.report)):
            return None
        self._reports.move_to_end(key)
        return found

    def keep_report(self, key: str, entry: MemoReport) -> None:
        self._reports[key] = entry
        if len(self._reports) > self._capacity:
            self._reports.popitem(last=False)

    def source(self, key: str) -> GeneratedSource | None:
        return self._sources.get(key)

    def keep_source(self, key: str, source: GeneratedSource) -> None:
        self._sources[key] = source
        if len(self._sources) > self._capacity // 4:
            self._sources.popitem(last=False)


def memo_key(*parts: str, choice: Mapping[str, str]) -> str:
    """One short name for everything a result depends on."""
    digest = hashlib.sha256()
    for part in (*parts, *(f"{k}={v}" for k, v in sorted(choice.items()))):
        digest.update(part.encode("utf-8", "backslashreplace"))
        digest.update(b"\0")
    return digest.hexdigest()[:24]


def is_self_contained(report: KernelReport) -> bool:
    """Whether all its places lie in the kernel, so that they move along with it."""
    whole = report.facts.span
    return all(
        _within(span, whole)
        for problem in report.problems
        for span in (
            problem.span,
            *(r.span for r in problem.related),
            *(e.span for f in problem.fixes for e in f.edits),
        )
    )


def _within(span: Span, whole: Span) -> bool:
    return span.path == whole.path and whole.line <= span.line and span.end_line <= whole.end_line
