"""What is generated from the rules: the index of their pages, and VS Code's settings that offer their names.

A stale one fails; TILELANG_UPDATE=1 writes both anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tilelang.diagnostics.pages import index_page
from tilelang_lsp.settings import vscode_properties

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "rules" / "index.md"
PACKAGE = ROOT / "vscode-extension" / "package.json"


def test_index_lists_the_rules_as_they_are():
    if os.environ.get("TILELANG_UPDATE"):
        INDEX.write_text(index_page(), encoding="utf-8")
    assert INDEX.read_text(encoding="utf-8") == index_page(), "run with TILELANG_UPDATE=1"


def test_vs_code_offers_the_settings_as_they_are():
    manifest = json.loads(PACKAGE.read_text(encoding="utf-8"))
    manifest["contributes"]["configuration"]["properties"] = vscode_properties()
    fresh = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("TILELANG_UPDATE"):
        PACKAGE.write_text(fresh, encoding="utf-8")
    assert PACKAGE.read_text(encoding="utf-8") == fresh, "run with TILELANG_UPDATE=1"
