"""The kernels of `wrong/` and `valid/`: marked lines are reported, no error elsewhere, no false alarm."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Problem, Severity

HERE = Path(__file__).parent
TARGET = "cuda:sm_90"
_MARK = re.compile(r"#~\s*(or|error|warning|hint)\b")


def problems(path: Path) -> list[Problem]:
    return check_source(str(path), path.read_text(encoding="utf-8"), TARGET).all_problems()


def marks(path: Path) -> tuple[Severity, set[int]]:
    """The least severity that is asked for, and the lines of which one must have it."""
    severity, lines = None, set()
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        match = _MARK.search(line)
        if match is not None:
            lines.add(number)
            if match.group(1) != "or":
                severity = Severity(match.group(1))
    assert severity is not None, f"{path.name} marks nothing"
    return severity, lines


@pytest.mark.parametrize("path", sorted((HERE / "wrong").glob("*.py")), ids=lambda p: p.stem)
def test_wrong_kernel_is_reported_where_it_is_wrong(path: Path):
    severity, lines = marks(path)
    found = problems(path)
    shown = [f"{p.span.line}: {p.severity.value} [{p.rule}] {p.message}" for p in found]
    assert any(p.span.line in lines and p.severity.rank <= severity.rank for p in found), shown
    assert not [p for p in found if p.severity is Severity.ERROR and p.span.line not in lines], shown


@pytest.mark.parametrize("path", sorted((HERE / "valid").glob("*.py")), ids=lambda p: p.stem)
def test_valid_kernel_stays_silent(path: Path):
    grave = [p for p in problems(path) if p.severity in (Severity.ERROR, Severity.WARNING)]
    assert grave == []
