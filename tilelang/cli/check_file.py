"""One file of `tilelang check`: its problems, fixes made, its text written back with facts. Plain in and out,
so that it can be done in another process.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tilelang.arch.target import Target
from tilelang.cli.sources import normalised
from tilelang.diagnostics.fixes import apply_edits, sure_fixes
from tilelang.diagnostics.problem import Fix, Problem, Severity
from tilelang.diagnostics.rules.internal import FILE_LOST
from tilelang.diagnostics.span import Span
from tilelang.facts.annotated import annotated
from tilelang.facts.project import Project

_LOG = logging.getLogger(__name__)

if TYPE_CHECKING:
    from tilelang.facts.reports import FileReport, KernelReport
    from tilelang.frontend.environments.static_module import KernelSource, StaticModule

# A fix can make room for another one, as the removal of a name makes its import unused; this many times.
_ROUNDS = 8


@dataclass(frozen=True)
class CheckTask:
    """A file to check: its path, its text with line ends as they are, and what is wanted."""

    path: str
    text: str
    target: Target
    project: Project
    fix: bool = False
    annotate: bool = False


@dataclass(frozen=True)
class Checked:
    """What was found. `text`: as it is after fixes, line ends as they were."""

    path: str
    problems: list[Problem]
    text: str
    fixed: Counter[str] = field(default_factory=Counter)  # rule -> how often
    annotated: str | None = None
    kernels: tuple[str, ...] = ()  # qualified names


def check_file(task: CheckTask) -> Checked:
    """Check one file, fix it, and check it again until nothing is left to fix. Nothing of it is executed.

    What fails as a whole is said as a bug of ours, at the first line, so that other files get their answer.
    """
    try:
        return _checked(task)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other files are checked
        _LOG.exception("the analysis of %s failed", task.path)
        return lost(task, f"failed with {type(error).__name__}: {error}".partition("\n")[0])


def lost(task: CheckTask, why: str) -> Checked:
    """A file that could not be checked, because its process `why` (such as `ended by signal 11`)."""
    problem = FILE_LOST.at(Span(task.path, 1, 1, 1, 2), severity=Severity.WARNING, file=task.path, why=why)
    return Checked(task.path, [problem], task.text)


def _checked(task: CheckTask) -> Checked:
    text, fixed = task.text, Counter[str]()
    report = _report(task, text)
    problems = _wanted(task, report)
    for _ in range(_ROUNDS if task.fix else 0):
        fixes = sure_fixes(problems, task.path)
        if not fixes:
            break
        new_text = apply_edits(text, [edit for fix in fixes for edit in fix.edits])
        new_report = _report(task, new_text)
        after = _wanted(task, new_report)
        if any(p.rule == "syntax-error" for p in after):
            break  # the edit met text it was not made for; the problem stays reported
        fixed.update(_rules(problems, fixes))
        text, report, problems = new_text, new_report, after
    names = tuple(k.facts.qualified_name for k in report.kernels)
    checked = Checked(task.path, problems, text, fixed, kernels=names)
    if not task.annotate:
        return checked
    facts = [k.facts for k in report.kernels]
    return replace(checked, annotated=annotated(normalised(text), facts, problems))


def _report(task: CheckTask, text: str) -> FileReport:
    from tilelang.analysis.check import check_source
    from tilelang.jit.details import detailed_report

    def report(module: StaticModule, kernel: KernelSource, target: Target) -> KernelReport:
        choice = task.project.choice(kernel.qualified_name, kernel.name)
        return detailed_report(module, kernel, target, choice)

    return check_source(task.path, normalised(text), task.target, report)


def _wanted(task: CheckTask, report: FileReport) -> list[Problem]:
    return [p for p in report.all_problems() if task.project.rules.prints(p)]


def _rules(problems: list[Problem], fixes: list[Fix]) -> list[str]:
    """The rule of each fix."""
    return [next(p.rule for p in problems if fix in p.fixes) for fix in fixes]
