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
from tilelang_lsp.documents.notebook import CellPlace, Notebook


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


def place_in(
    document: Document, cell: CellPlace | None, position: types.Position, encoding: Encoding
) -> tuple[int, int]:
    """The same in the text of a notebook, for a position in one of its cells."""
    above = cell.first_line if cell is not None else 0
    return place(document.index, types.Position(position.line + above, position.character), encoding)


def span(document: Document, cell: CellPlace | None, range_: types.Range, encoding: Encoding) -> Span:
    start = place_in(document, cell, range_.start, encoding)
    return Span(document.path, *start, *place_in(document, cell, range_.end, encoding))


def notebook(params: types.DidOpenNotebookDocumentParams) -> Notebook:
    """A notebook as the client opens it."""
    path = file_path(params.notebook_document.uri)
    order = [c.document for c in params.notebook_document.cells]
    return Notebook(params.notebook_document.uri, path, order, _cells(params.cell_text_documents, path))


def apply_notebook_change(
    notebook: Notebook, change: types.NotebookDocumentCellChanges, encoding: Encoding
) -> None:
    """Carry out a change of the cells: which there are, and what they hold."""
    structure = change.structure
    if structure is not None:
        array = structure.array
        end = array.start + array.delete_count
        notebook.order[array.start : end] = [c.document for c in array.cells or ()]
        for closed in structure.did_close or ():
            notebook.cells.pop(closed.uri, None)
        notebook.cells.update(_cells(structure.did_open or (), notebook.path))
    for text in change.text_content or ():
        document = notebook.cells.get(text.document.uri)
        if document is not None:
            apply_changes(document, text.changes, encoding)
            document.version = text.document.version


def _cells(items: Sequence[types.TextDocumentItem], path: str) -> dict[str, Document]:
    return {
        item.uri: Document(item.uri, path, item.version, item.text)
        for item in items
        if item.language_id == "python"
    }


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
