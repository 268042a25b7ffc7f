"""Every fix of every page and of every sample of a mistake is a real edit: it cures its problem, keeps the
comments, and makes nothing new; to make all of them comes to an end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnostics.fixing import faults_of_fix_all, fixings
from tests.diagnostics.test_literate import DOCS, all_fences, fence_id

WRONG = sorted((Path(__file__).parents[1] / "mistakes" / "wrong").glob("*.py"))
EXPECTED = [f for f in all_fences() if f.expected]
QUICK = [f for f in EXPECTED if f.page.parent == DOCS][::4]
FENCES = [pytest.param(f, id=fence_id(f), marks=() if f in QUICK else pytest.mark.slow) for f in EXPECTED]


def faults(text: str, target: str = "cuda:sm_90") -> list[str]:
    every = list(fixings(text, target))
    found = [fault for fixing in every for fault in fixing.faults()]
    return found + (faults_of_fix_all(text, target) if every else [])


@pytest.mark.parametrize("fence", FENCES)
def test_fixes_of_a_page(fence):
    found = faults(fence.text, fence.target)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_fixes_of_a_mistake(path: Path):
    found = faults(path.read_text(encoding="utf-8"))
    assert not found, "\n".join(found)
