"""The rule pages, `docs/rules/<rule>.md`: found in a checkout of the sources and in an installed wheel."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

_DISTRIBUTION = "tilelang-lsp"
_IN_SOURCES = Path(__file__).resolve().parents[2] / "docs" / "rules"


def rule_page(rule: str) -> str | None:
    """The Markdown page of a rule, None where the pages are not installed."""
    path = _find(f"{rule}.md")
    return None if path is None else path.read_text(encoding="utf-8")


def _find(name: str) -> Path | None:
    if (_IN_SOURCES / name).is_file():
        return _IN_SOURCES / name
    try:
        files = importlib.metadata.files(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    # A wheel carries the pages as data, in share/tilelang/rules of its environment.
    found = next((f for f in files if f.parts[-3:] == ("tilelang", "rules", name)), None)
    path = Path(str(found.locate())) if found else None
    return path if path is not None and path.is_file() else None
