"""Kernels as people write them: `forms.md` and the files of `practice/` are understood, in silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Severity
from tilelang.frontend.environments.specialise import known_specialisations, trace_static
from tilelang.frontend.environments.static_module import StaticModule

HERE = Path(__file__).parent
PRELUDE = "import tilelang\nimport tilelang.language as T\n"
_FORM = re.compile(r"^## ([^\n]+)\n+```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRACTICE = sorted((HERE / "practice").glob("*.py"))
# Kernels whose parameters no reader can know, and why.
UNDECIDED = {"gate_kernel": "its only call goes through a defaultdict"}


def forms() -> list[tuple[str, str]]:
    page = (HERE / "forms.md").read_text(encoding="utf-8")
    return [(name, text) for name, text in _FORM.findall(page)]


def whole(text: str) -> str:
    return text if re.search(r"^(import|from) tilelang", text, re.MULTILINE) else PRELUDE + text


def findings(path: str, text: str) -> list[str]:
    """Errors and warnings, as lines."""
    report = check_source(path, text, "cuda:sm_90")
    loud = (Severity.ERROR, Severity.WARNING)
    return [f"{p.span.line}: [{p.rule}] {p.message}" for p in report.all_problems() if p.severity in loud]


def incomplete(path: str, text: str) -> list[str]:
    """Kernels of which something is not understood, with the values they were read under."""
    module = StaticModule(path, text)
    assert module.kernels
    found = []
    for kernel in module.kernels:
        for specialisation in known_specialisations(module, kernel):
            program = trace_static(module, kernel, specialisation=specialisation)
            if not program.complete:
                found.append(f"{kernel.qualified_name} under {specialisation.text()}: {program.missing}")
    return found


@pytest.mark.parametrize(("name", "text"), forms(), ids=[name for name, _ in forms()])
def test_a_form_is_understood(name: str, text: str):
    source = whole(text)
    assert findings("form.py", source) == []
    assert incomplete("form.py", source) == []


@pytest.mark.parametrize("path", PRACTICE, ids=lambda p: p.stem)
def test_kernels_of_practice_are_understood(path: Path):
    text = path.read_text(encoding="utf-8")
    assert findings(str(path), text) == []
    assert [line for line in incomplete(str(path), text) if line.split()[0] not in UNDECIDED] == []


def test_there_are_many_kernels():
    texts = [whole(text) for _, text in forms()] + [p.read_text(encoding="utf-8") for p in PRACTICE]
    assert sum(len(StaticModule("kernel.py", text).kernels) for text in texts) >= 60
