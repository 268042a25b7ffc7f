"""The nearest known name for a misspelt one, as words for a message and as an edit."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from tilelang.diagnostics.problem import Edit, Fix
from tilelang.diagnostics.span import Span


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, None if none is near."""
    candidates = sorted({k for k in known if not k.startswith("__")})
    lowered = {k.lower(): k for k in candidates}
    if name.lower() in lowered and lowered[name.lower()] != name:
        return lowered[name.lower()]
    longer = [k for k in candidates if k.lower().endswith(f"_{name.lower()}")]
    if len(longer) == 1:  # `stages` is `num_stages`, although `stage` has more letters in common
        return longer[0]
    found = difflib.get_close_matches(name, candidates, n=1, cutoff=0.7)
    return found[0] if found else None


def hint(near: str | None, prefix: str = "") -> str:
    """`; did you mean `x`?`, or nothing."""
    return f"; did you mean `{prefix}{near}`?" if near else ""


def replacement(near: str | None, span: Span) -> tuple[Fix, ...]:
    """The fix that writes the near name at `span`."""
    if near is None:
        return ()
    return (Fix(f"Change to `{near}`", (Edit(span, near),)),)
