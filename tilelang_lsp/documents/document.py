"""One open file: its text, version, line index, parse tree and the edits since it was analysed."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.diagnostics.span import Span
from tilelang_lsp.documents.edits import TextEdit, smallest_replacement
from tilelang_lsp.documents.kernel_discovery import KernelSlice, find_kernels
from tilelang_lsp.documents.line_index import LineIndex
from tilelang_lsp.documents.syntax_tree import SyntaxTree

# More keystrokes than this between two analyses means the old answer is no longer worth carrying along.
_MAX_EDITS = 2000


@dataclass(frozen=True)
class Replacement:
    """One change: code point offsets of what is replaced (both None: everything), and the new text."""

    start: int | None
    end: int | None
    text: str


class Document:
    """An open text. `revision` counts every single edit, `version` is the client's number."""

    def __init__(self, uri: str, path: str, version: int, text: str) -> None:
        self.uri = uri
        self.path = path
        self.version = version
        self.revision = 0
        self.index = LineIndex(text)
        self._tree = SyntaxTree(text)
        self._kernels: tuple[int, list[KernelSlice]] | None = None
        self._edits: list[TextEdit] = []
        self._first_edit = 0  # revision before the oldest edit that is kept

    @property
    def text(self) -> str:
        return self.index.text

    def replace(self, change: Replacement) -> None:
        """Carry out one change."""
        old = self.text
        if change.start is None or change.end is None:
            start, end, new_text = smallest_replacement(old, change.text)
        else:
            start, end, new_text = change.start, max(change.start, change.end), change.text
        whole = old[:start] + new_text + old[end:]
        old_index, self.index = self.index, LineIndex(whole)
        self._tree.replace(old, start, end, new_text, whole)
        self._edits.append(
            TextEdit(
                _from_one(old_index.place(start)),
                _from_one(old_index.place(end)),
                _from_one(self.index.place(start + len(new_text))),
            )
        )
        self.revision += 1
        if len(self._edits) > _MAX_EDITS:
            del self._edits[: _MAX_EDITS // 2]
            self._first_edit += _MAX_EDITS // 2

    def edits_since(self, revision: int) -> tuple[TextEdit, ...] | None:
        """The edits made after `revision`; None if that is too long ago."""
        skip = revision - self._first_edit
        return tuple(self._edits[skip:]) if skip >= 0 else None

    def kernels(self) -> list[KernelSlice]:
        """Where the kernels are now; computed once per edit."""
        if self._kernels is None or self._kernels[0] != self.revision:
            self._kernels = (self.revision, find_kernels(self._tree))
        return self._kernels[1]

    def span(self, start: int, end: int) -> Span:
        """The span of two code point offsets."""
        line, column = self.index.place(start)
        end_line, end_column = self.index.place(end)
        return Span(self.path, line + 1, column + 1, end_line + 1, end_column + 1)

    def text_of(self, kernel: KernelSlice) -> str:
        return self.text[kernel.start : kernel.end]


def _from_one(place: tuple[int, int]) -> tuple[int, int]:
    return place[0] + 1, place[1] + 1
