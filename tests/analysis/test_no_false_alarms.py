"""No error and no warning on a correct kernel, whatever the target: what a target lacks is named as such.

Correct are the examples and the kernels that the mutation benchmark breaks: tests run both against torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Severity

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted([*(ROOT / "examples").rglob("*.py"), *(ROOT / "benchmarks/mutation/kernels").glob("*.py")])
TARGETS = (
    "cuda:sm_75",
    "cuda:sm_80",
    "cuda:sm_89",
    "cuda:sm_90",
    "cuda:sm_120",
    "hip:gfx90a",
    "hip:gfx942",
    "metal",
    "cpu",
)
# What is right elsewhere and cannot be done here; each of these messages names the target.
LACKS = frozenset(
    {
        "unsupported-gemm",
        "missing-dtype",
        "missing-on-target",
        "shared-memory-budget",
        "gemm-dtype",
        "atomic-dtype",
    }
)
EVERYTHING = frozenset({"cuda:sm_90", "cpu"})  # the default target, and the one on which all tests run


def test_there_are_examples():
    assert len(EXAMPLES) >= 8


def _pairs() -> Iterator[Any]:
    """Every file with every target. Examples by topic are many: only some of their pairs run every time."""
    others = [t for t in TARGETS if t not in EVERYTHING]
    for k, path in enumerate(EXAMPLES):
        by_topic = path.parent.parent.name == "examples"
        for target in TARGETS:
            rare = by_topic and target not in EVERYTHING and target != others[k % len(others)]
            name = f"{path.relative_to(ROOT).as_posix()}-{target}"
            yield pytest.param(path, target, id=name, marks=[pytest.mark.slow] if rare else [])


@pytest.mark.parametrize(("path", "target"), _pairs())
def test_examples_are_silent(path: Path, target: str):
    found = check_source(str(path), path.read_text(encoding="utf-8"), target).all_problems()
    grave = [p for p in found if p.severity in (Severity.ERROR, Severity.WARNING)]
    named = target.partition(":")[0]
    alarms = [
        f"{p.span.line}: {p.severity.value} [{p.rule}] {p.message}"
        for p in grave
        if target in EVERYTHING or p.rule not in LACKS or named not in p.message
    ]
    assert alarms == []
