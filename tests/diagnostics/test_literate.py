"""Every page of `docs/rules` and every test page beside this file holds: what it says fires, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnostics.literate import Fence, disagreements, fences
from tilelang.diagnostics.registry import RULES

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "rules"
# No module in a page can show these: the first is about the bytes of a file, the second and third about
# failures of the compiler, the others about runs that the editor starts. Their test pages name their tests.
NOT_IN_A_MODULE = {"unreadable-file", "internal-error", "analysis-failed", "run-mismatch", "run-failed"}


def pages(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.glob("*.md")) if p.stem in RULES]


def all_fences() -> list[Fence]:
    return [f for folder in (DOCS, HERE) for page in pages(folder) for f in fences(page)]


def fence_id(fence: Fence) -> str:
    return f"{fence.page.parent.name}/{fence.page.stem}:{fence.offset}"


@pytest.mark.parametrize("fence", all_fences(), ids=fence_id)
def test_fence(fence: Fence):
    found = disagreements(fence)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", [*pages(DOCS), *pages(HERE)], ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_page_shows_a_hit_and_a_near_miss(page: Path):
    if page.stem in NOT_IN_A_MODULE:
        return
    fires = [any(e.rule == page.stem for e in f.expected) for f in fences(page)]
    assert any(fires), "no example fires"
    assert not all(fires), "no near miss stays silent"
