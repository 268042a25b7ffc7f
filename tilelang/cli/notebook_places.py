"""Where a place in a cell stands in the notebook's own text, the JSON, for reports that know files only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tilelang.diagnostics.span import Span, cell_of

_SPACE = re.compile(r"[ \t\n\r]*")
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.", re.DOTALL)
_DECODER = json.JSONDecoder()


class NotebookPlaces:
    """Reads each notebook once."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, dict[int, list[int]]] | None] = {}

    def __call__(self, span: Span) -> Span | None:
        """The range of the JSON in which the text of a cell's range stands; None if it cannot be found."""
        file, number = cell_of(span.path)
        if file not in self._files:
            self._files[file] = _read(file)
        found = self._files[file]
        if found is None or number is None:
            return None
        text, cells = found
        strings = cells.get(number, [])
        start = _offset(text, strings, span.line, span.column)
        end = _offset(text, strings, span.end_line, span.end_column)
        if start is None or end is None:
            return None
        return Span(file, *_line_and_column(text, start), *_line_and_column(text, max(start, end)))


def _read(file: str) -> tuple[str, dict[int, list[int]]] | None:
    try:
        text = Path(file).read_text(encoding="utf-8")
        return text, dict(_cells(text))
    except (OSError, ValueError, IndexError, RecursionError):
        return None


def sources_of(text: str) -> dict[int, tuple[int, int]]:
    """Number of a code cell from 1 -> where the JSON of its source stands in a notebook's text."""
    found: dict[int, tuple[int, int]] = {}
    for name, at in _entries(text, _skip(text, 0)):
        for number, (_, cell) in enumerate(_entries(text, at), 1) if name == "cells" else ():
            for key, source in _entries(text, cell):
                if key == "source":
                    found[number] = source, _DECODER.raw_decode(text, source)[1]
    return found


def _cells(text: str) -> Iterator[tuple[int, list[int]]]:
    """Number of a cell from 1 -> where the strings of its source begin, behind the quote."""
    for name, at in _entries(text, _skip(text, 0)):
        if name != "cells":
            continue
        for number, (_, cell) in enumerate(_entries(text, at), 1):
            for key, source in _entries(text, cell):
                if key == "source":
                    parts = [p for _, p in _entries(text, source)] if text[source] == "[" else [source]
                    yield number, [p + 1 for p in parts if text[p] == '"']


def _entries(text: str, at: int) -> Iterator[tuple[str, int]]:
    """(key, where the value begins) of the object or list that begins at `at`; keys of a list are empty."""
    if text[at] not in "{[":
        return
    keyed = text[at] == "{"
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        key = ""
        if keyed:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # behind the colon
        yield key, at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _offset(text: str, strings: list[int], line: int, column: int) -> int | None:
    """Where the character at a line and column of a cell stands in the JSON."""
    for k, start in enumerate(strings):
        at, end = start, _DECODER.raw_decode(text, start - 1)[1] - 1
        while at < end:
            if line == 1 and column == 1:
                return at
            escape = _ESCAPE.match(text, at)
            width = 1 if escape is None else escape.end() - at
            if text[at : at + width] == "\\n":
                if line == 1:
                    return at  # the end of the line
                line -= 1
            elif line == 1:
                column -= 1
            at += width
        if line == 1 and column == 1 and k == len(strings) - 1:
            return at
    return None


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
