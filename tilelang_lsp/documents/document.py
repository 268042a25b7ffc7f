"""One open file: its text, version, line index, parse tree and the edits since it was analysed."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
        self._moves: list[tuple[int, int, int]] = []  # (start, end, new length) of edits since `_kernels`
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
        self._moves.append((start, end, len(new_text)))
        self.revision += 1
        if len(self._moves) > _MAX_EDITS:
            self.kernels()  # nobody asked for long
        if len(self._edits) > _MAX_EDITS:
            del self._edits[: _MAX_EDITS // 2]
            self._first_edit += _MAX_EDITS // 2

    def edits_since(self, revision: int) -> tuple[TextEdit, ...] | None:
        """The edits made after `revision`; None if that is too long ago."""
        skip = revision - self._first_edit
        return tuple(self._edits[skip:]) if skip >= 0 else None

    def kernels(self) -> list[KernelSlice]:
        """Where the kernels are now; computed once per edit.

        An open parenthesis swallows what follows it: while the text is broken, kernels that were there before
        and cannot be found now stay, moved along.
        """
        if self._kernels is None or self._kernels[0] != self.revision:
            found = find_kernels(self._tree)
            if self._tree.is_broken and self._kernels is not None:
                names = {k.qualified_name for k in found}
                before = (self._moved(k) for k in self._kernels[1] if k.qualified_name not in names)
                found = sorted(
                    [*found, *(k for k in before if k.name_start < k.name_end)], key=lambda k: k.start
                )
            self._kernels, self._moves = (self.revision, found), []
        return self._kernels[1]

    def _moved(self, kernel: KernelSlice) -> KernelSlice:
        places = [kernel.start, kernel.end, kernel.name_start, kernel.name_end]
        for start, end, length in self._moves:
            places = [p if p <= start else p - end + start + length if p >= end else start for p in places]
        return replace(kernel, start=places[0], end=places[1], name_start=places[2], name_end=places[3])

    def span(self, start: int, end: int) -> Span:
        """The span of two code point offsets."""
        line, column = self.index.place(start)
        end_line, end_column = self.index.place(end)
        return Span(self.path, line + 1, column + 1, end_line + 1, end_column + 1)

    def first_line(self, kernel: KernelSlice) -> Span:
        """The line on which a kernel begins, from there to its end."""
        line, column = self.index.place(kernel.start)
        end = len(self.index.line(line))
        return Span(self.path, line + 1, column + 1, line + 1, end + 1)

    def text_of(self, kernel: KernelSlice) -> str:
        return self.text[kernel.start : kernel.end]


def _from_one(place: tuple[int, int]) -> tuple[int, int]:
    return place[0] + 1, place[1] + 1
