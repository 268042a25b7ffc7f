"""Every page of `docs/rules` and every test page beside this file holds: what it says fires, and no more."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.diagnostics.literate import Fence, disagreements, fences
from tilelang.diagnostics.registry import RULES

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "rules"
ROOT = HERE.parents[1]
# No module in a page can show these: the first is about the bytes of a file, the second and third about
# failures of the compiler, the others about runs that the editor starts. Their test pages name their tests,
# the members under «Fires», the near misses under «Stays silent».
NOT_IN_A_MODULE = {"unreadable-file", "internal-error", "analysis-failed", "run-mismatch", "run-failed"}


def pages(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.glob("*.md")) if p.stem in RULES]


def all_fences() -> list[Fence]:
    return [f for folder in (DOCS, HERE) for page in pages(folder) for f in fences(page)]


def named_tests(page: Path, heading: str) -> list[str]:
    """The tests, `path/to/file.py::test_name`, that a page lists under a heading."""
    section = page.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"`(tests/[\w/]+\.py::test_\w+)", section)


def is_a_test(name: str) -> bool:
    path, _, function = name.partition("::")
    file = ROOT / path
    return file.is_file() and any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    )


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


@pytest.mark.parametrize("rule", sorted(set(RULES) - NOT_IN_A_MODULE))
def test_rule_is_shown_by_three_members_and_three_near_misses(rule: str):
    shown = [f for folder in (DOCS, HERE) for f in fences(folder / f"{rule}.md")]
    members = {(f.page, f.offset + e.line) for f in shown for e in f.expected if e.rule == rule}
    near_misses = {(f.page, f.offset + line) for f in shown for line in f.silent}
    assert len(members) >= 3, f"{len(members)} members: lines with `# {{severity}}: [{rule}] ...`"
    assert len(near_misses) >= 3, f"{len(near_misses)} near misses: lines with `# silent: <why>`"


@pytest.mark.parametrize("rule", sorted(NOT_IN_A_MODULE))
def test_rule_outside_modules_names_three_tests_of_both_kinds(rule: str):
    fires, silent = (named_tests(HERE / f"{rule}.md", heading) for heading in ("Fires", "Stays silent"))
    assert len(set(fires)) >= 3 and len(set(silent)) >= 3, f"fires: {fires}, stays silent: {silent}"
    assert not [name for name in fires + silent if not is_a_test(name)]
