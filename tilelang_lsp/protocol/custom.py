"""The requests, notifications and commands beyond the standard protocol; `docs/protocol.md` documents them.

`vscode-extension/src/protocol.ts` names the same ones.
"""

from __future__ import annotations

from typing import Any

GENERATED_SOURCE = "tilelang/generatedSource"
GENERATED_SOURCE_CHANGED = "tilelang/generatedSourceChanged"
RUN_FINISHED = "tilelang/runFinished"

RUN_AND_ASSERT = "tilelang.runAndAssert"
EXPLAIN_RULE = "tilelang.explainRule"
SHOW_GENERATED_SOURCE = "tilelang.showGeneratedSource"
# Carried out by the client: the preview lenses of clients that said `preview: "client"`.
CLIENT_PREVIEW = "tilelang.preview"


def plain(value: Any) -> Any:
    """JSON as dicts and lists, whatever pygls made of it (objects of custom messages become tuples)."""
    if hasattr(value, "_asdict"):
        return {k: plain(v) for k, v in value._asdict().items()}
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return {k: plain(v) for k, v in vars(value).items()}
    return value


def text_field(data: Any, *path: str) -> str:
    """A text inside custom parameters. Raises ValueError that names what is missing."""
    value = data
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected a text at {'.'.join(path)}")
    return value
