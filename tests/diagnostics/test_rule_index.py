"""The index of the rule pages is generated: a stale one fails. TILELANG_UPDATE=1 writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

from tilelang.diagnostics.pages import index_page

INDEX = Path(__file__).parents[2] / "docs" / "rules" / "index.md"


def test_index_lists_the_rules_as_they_are():
    if os.environ.get("TILELANG_UPDATE"):
        INDEX.write_text(index_page(), encoding="utf-8")
    assert INDEX.read_text(encoding="utf-8") == index_page(), "run with TILELANG_UPDATE=1"
