"""From the protocol's types to ours: positions, changes of the text, file paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls import uris

from tilelang.diagnostics.span import Span
from tilelang_lsp.documents.document import Document, Replacement
from tilelang_lsp.documents.line_index import Encoding, LineIndex, column_from_units


def file_path(uri: str) -> str:
    """The path behind a document's URI; for one without a file (untitled:) a name that shows what it is."""
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return path or unquote(urlsplit(uri).path) or uri


def file_uri(path: str) -> str:
    return uris.from_fs_path(path) or Path(path).as_uri()


def place(index: LineIndex, position: types.Position, encoding: Encoding) -> tuple[int, int]:
    """(line, column) from 1, in code points."""
    column = column_from_units(index.line(position.line), position.character, encoding)
    return position.line + 1, column + 1


def span(document: Document, range_: types.Range, encoding: Encoding) -> Span:
    start, end = place(document.index, range_.start, encoding), place(document.index, range_.end, encoding)
    return Span(document.path, *start, *end)


def apply_changes(
    document: Document, changes: Sequence[types.TextDocumentContentChangeEvent], encoding: Encoding
) -> None:
    """Carry out the client's changes one after the other, each in the text that the one before left."""
    for change in changes:
        if isinstance(change, types.TextDocumentContentChangeWholeDocument):
            document.replace(Replacement(None, None, change.text))
        else:
            start, end = change.range.start, change.range.end
            document.replace(
                Replacement(
                    _offset(document.index, start, encoding),
                    _offset(document.index, end, encoding),
                    change.text,
                )
            )


def _offset(index: LineIndex, position: types.Position, encoding: Encoding) -> int:
    column = column_from_units(index.line(position.line), position.character, encoding)
    return index.offset(position.line, column)
