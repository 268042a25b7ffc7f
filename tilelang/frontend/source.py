"""Source text with its syntax tree, and the way from AST positions (UTF-8 bytes) to spans (code points
from 1).
"""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable
from functools import lru_cache

from tilelang.diagnostics.span import Span, text_lines
from tilelang.parsing import parse

Parse = Callable[[str], ast.Module]


class Source:
    """One file's text. `tree` is parsed on first use and raises SyntaxError as `ast.parse` does.

    parse: `ast.parse`, or what does the same faster for a text that was parsed before in another state.
    """

    def __init__(self, path: str, text: str, parse: Parse = parse) -> None:
        self.path = path
        self._parse = parse
        text = text.removeprefix("\ufeff")  # a byte order mark is no part of the text
        self.text = text
        self.lines = text_lines(text)
        self.has_walrus = ":=" in text
        self._ascii = text.isascii()
        self.touched: dict[int, frozenset[str]] = {}  # of statements of the tree: see `touched_names`
        self.late_imports: tuple[tuple[str, int], ...] | None = None  # of functions, once looked for
        self._tree: ast.Module | None = None
        self._place: Span | None = None

    def standing_at(self, place: Span, author: Source) -> Source:
        """The same text, all of whose nodes have one place: where `author` calls code of the language's own.

        The lines are the author's too, since that is where the place is.
        """
        other = copy.copy(self)
        other._place = place
        other.lines = author.lines
        return other

    @property
    def tree(self) -> ast.Module:
        if self._tree is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # Python says these itself
                self._tree = self._parse(self.text)
        return self._tree

    def span(self, node: ast.AST) -> Span:
        """The span of a node that has a position."""
        if self._place is not None:
            return self._place
        if self._ascii:
            return Span(
                self.path,
                node.lineno,  # type: ignore[attr-defined]
                node.col_offset + 1,  # type: ignore[attr-defined]
                node.end_lineno,  # type: ignore[attr-defined]
                node.end_col_offset + 1,  # type: ignore[attr-defined]
            )
        return Span(
            self.path,
            node.lineno,  # type: ignore[attr-defined]
            self.column(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            node.end_lineno,  # type: ignore[attr-defined]
            self.column(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def column(self, line: int, byte: int) -> int:
        """The code-point column (from 1) of a byte offset in a line."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return byte + 1
        return len(text.encode("utf-8")[:byte].decode("utf-8", "replace")) + 1

    def slice(self, span: Span) -> str:
        """The text of whole lines from the span's first to its last."""
        return "\n".join(self.lines[span.line - 1 : span.end_line])

    def find_word(self, word: str, line: int, end_line: int) -> Span | None:
        """The first occurrence of a name after `line`'s start, as a span; for names that ast gives no
        position.
        """
        if self._place is not None:
            return self._place
        for number in range(line, min(end_line, len(self.lines)) + 1):
            text = self.lines[number - 1]
            at = text.find(word)
            while at >= 0:
                before = text[at - 1] if at else " "
                after = text[at + len(word) : at + len(word) + 1] or " "
                if not (before.isalnum() or before in "_.") and not (after.isalnum() or after == "_"):
                    return Span(self.path, number, at + 1, number, at + 1 + len(word))
                at = text.find(word, at + 1)
        return None

    def name_span(self, node: ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) -> Span:
        """The name in `def name(...)`."""
        start = node.body[0].lineno if node.body else node.lineno
        found = self.find_word(node.name, node.lineno, max(start, node.lineno))
        return found or Span(self.path, node.lineno, node.col_offset + 1, node.lineno, node.col_offset + 2)

    def function_span(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Span:
        """From the first decorator to the last line."""
        whole = self.span(node)
        if not node.decorator_list:
            return whole
        first = self.span(node.decorator_list[0])
        return Span(self.path, first.line, max(1, first.column - 1), whole.end_line, whole.end_column)


@lru_cache(maxsize=256)
def live_source(path: str, text: str) -> Source:
    """The parsed file a live function comes from; one parse per text."""
    return Source(path, text)
