"""Numbers, texts and containers that no kernel is made of: computing them would stop the editor."""

from __future__ import annotations

import ast
import re
from typing import Any

_MAX_BITS = 4096
_MAX_TEXT = 1_000_000
_SIZED = (str, list, tuple, bytes)
# What asks for a text as wide as it says: "%99999d".
WIDE = re.compile(r"\d{5}")


def too_large(kind: type[ast.operator], a: Any, b: Any) -> bool:
    """Whether the result could be too large for an editor to compute."""
    if isinstance(a, int) and isinstance(b, int):
        if kind is ast.Pow:
            return abs(b) * a.bit_length() > _MAX_BITS
        if kind is ast.LShift:
            return b > _MAX_BITS
        return kind is ast.Mult and a.bit_length() + b.bit_length() > _MAX_BITS
    if kind is ast.Add and isinstance(a, _SIZED) and isinstance(b, _SIZED):
        return len(a) + len(b) > _MAX_TEXT
    if kind is ast.Mod and isinstance(a, str):
        return WIDE.search(a) is not None
    if kind is ast.Mult:
        for text, count in ((a, b), (b, a)):
            if isinstance(text, _SIZED) and isinstance(count, int):
                return _deep_length(text) * count > _MAX_TEXT
    return False


def _deep_length(text: Any) -> int:
    """How many elements Python goes through to compare or show a container, those of its parts included."""
    inner = text[0] if isinstance(text, list | tuple) and text else None
    return len(text) * (max(1, _deep_length(inner)) if isinstance(inner, list | tuple) else 1)
