"""Long statements over several lines, broken where a reader would: between arguments, after `=`, at `?`."""

from __future__ import annotations

import re

WIDTH = 110
_STEP = "    "


def wrap(text: str, width: int = WIDTH) -> list[str]:
    """The statement `text` (with its indentation), broken into lines of at most `width` where it can be."""
    if len(text) <= width:
        return [text]
    indent = text[: len(text) - len(text.lstrip())]
    deeper = indent + _STEP
    for cut in (_assignment, _arguments, _condition, _choice, _index):
        first, *rest = cut(text)
        if rest:
            return _fill(first, rest, deeper, width)
    return [text]


def _fill(first: str, rest: list[str], indent: str, width: int) -> list[str]:
    """Pieces after each other, a new line where the next does not fit; long ones are broken further."""
    lines, current = [], first
    for piece in rest:
        joined = f"{current} {piece}"
        if len(joined) <= width:
            current = joined
        else:
            lines.append(current)
            current = indent + piece
    lines.append(current)
    return [part for line in lines for part in wrap(line, width)]


def _assignment(text: str) -> list[str]:
    at = _top_level(text, " = ")
    return [text[: at[0] + 2], text[at[0] + 3 :]] if at and not text.lstrip().startswith("for ") else [text]


def _arguments(text: str) -> list[str]:
    """`f(` with the first argument, then the others."""
    call = re.fullmatch(r"(\s*[\w<>]+\()(.*)(\);)", text)
    if call is None:
        return [text]
    head, inside, tail = call.groups()
    at = _top_level(inside, ", ")
    pieces = _cut(inside, at, 1)
    return [f"{head}{pieces[0]}", *pieces[1:-1], f"{pieces[-1]}{tail}"] if len(pieces) > 1 else [text]


def _condition(text: str) -> list[str]:
    """The conjuncts of an `if`."""
    condition = re.fullmatch(r"(.*\bif \()(.*)(\) \{)", text)
    if condition is None:
        return [text]
    head, inside, tail = condition.groups()
    pieces = _cut(inside, _top_level(inside, " && "), 3)
    return [f"{head}{pieces[0]}", *pieces[1:-1], f"{pieces[-1]}{tail}"] if len(pieces) > 1 else [text]


def _index(text: str) -> list[str]:
    """The summands of the longest index, each with its `+` before it."""
    spans, opened = [], []
    for k, c in enumerate(text):
        if c == "[":
            opened.append(k)
        elif c == "]" and opened and len(opened) == 1:
            spans.append((k - opened[0], opened[0] + 1, k))
        if c == "]" and opened:
            opened.pop()
    if not spans:
        return [text]
    _, begin, end = max(spans)
    first, *rest = _cut(text[begin:end], _top_level(text[begin:end], " + "), 0)
    return [text[:begin] + first, *rest[:-1], rest[-1] + text[end:]] if rest else [text]


def _choice(text: str) -> list[str]:
    """`condition ? a : b` before its signs."""
    at = [k for k in _top_level(text, " ? ") if text[:k].strip()]  # not at a sign that begins the line
    if not at:
        return [text]
    colon = [k for k in _top_level(text, " : ") if k > at[0]]
    cuts = [at[0], *colon[-1:]]
    return [text[: cuts[0]], *(text[a + 1 : b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True))]


def _cut(text: str, places: list[int], keep: int) -> list[str]:
    """`text` cut after the first `keep` characters of the separators at `places`."""
    pieces, start = [], 0
    for at in places:
        pieces.append(text[start : at + keep])
        start = at + keep + 1
    return [*pieces, text[start:]]


def _top_level(text: str, separator: str) -> list[int]:
    """Where `separator` stands outside parentheses, brackets and string literals."""
    depth, found = 0, []
    quoted = False
    for k, c in enumerate(text):
        if c == '"' and (k == 0 or text[k - 1] != "\\"):
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif depth == 0 and text.startswith(separator, k):
            found.append(k)
    return found
