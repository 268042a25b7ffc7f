"""The rule pages, `docs/rules/<rule>.md`: found in a checkout of the sources and in an installed wheel."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from tilelang.diagnostics.registry import RULES

_DISTRIBUTION = "tilelang-lsp"
_IN_SOURCES = Path(__file__).resolve().parents[2] / "docs" / "rules"


def rule_page(rule: str) -> str | None:
    """The Markdown page of a rule, None where the pages are not installed."""
    path = _find(f"{rule}.md")
    return None if path is None else path.read_text(encoding="utf-8")


def index_page() -> str:
    """`docs/rules/index.md`: all rules by family, each with its level and summary, linked to its page."""
    lines = [
        "# Rules",
        "",
        "Generated from the rules; `tests/diagnostics/test_rule_index.py` refreshes it.",
        "",
    ]
    families = dict.fromkeys(rule.family for rule in RULES.values())
    for family in families:
        lines += [f"## {family}", "", "| rule | level | |", "|---|---|---|"]
        lines += [
            f"| [{r.name}]({r.name}.md) | {r.level.value} | {r.summary} |"
            for r in sorted(RULES.values(), key=lambda r: r.name)
            if r.family == family
        ]
        lines.append("")
    return "\n".join(lines)


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
