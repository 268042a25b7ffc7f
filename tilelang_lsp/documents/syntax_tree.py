"""The incremental parse of one text: survives half-typed code and costs about a millisecond per edit."""

from __future__ import annotations

from functools import lru_cache

from tree_sitter import Language, Node, Parser, Point, Tree


@lru_cache(maxsize=1)
def python_language() -> Language:
    import tree_sitter_python  # late: it imports importlib.resources, and `initialize` must be answered first

    return Language(tree_sitter_python.language())


class SyntaxTree:
    """A tree-sitter tree and the bytes it was parsed from. Offsets given to it are code points."""

    def __init__(self, text: str) -> None:
        self._parser = Parser(python_language())
        self._bytes = _encode(text)
        self._tree: Tree = self._parser.parse(self._bytes)

    @property
    def root(self) -> Node:
        return self._tree.root_node

    @property
    def is_broken(self) -> bool:
        """Whether some of the text could not be understood. (Not every syntax error shows here.)"""
        return self._tree.root_node.has_error

    def replace(self, old_text: str, start: int, end: int, new_text: str, new_whole: str) -> None:
        """Take in that `old_text[start:end]` became `new_text`, which makes `new_whole`."""
        start_byte = _bytes_before(old_text, start)
        old_end_byte = start_byte + len(_encode(old_text[start:end]))
        new_bytes = _encode(new_whole)
        new_end_byte = start_byte + len(_encode(new_text))
        self._tree.edit(
            start_byte=start_byte,
            old_end_byte=old_end_byte,
            new_end_byte=new_end_byte,
            start_point=_point(self._bytes, start_byte),
            old_end_point=_point(self._bytes, old_end_byte),
            new_end_point=_point(new_bytes, new_end_byte),
        )
        self._bytes = new_bytes
        self._tree = self._parser.parse(new_bytes, self._tree)

    def text_of(self, node: Node) -> str:
        return self._bytes[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def offset_of(self, byte: int) -> int:
        """Code point offset of a byte offset of this text."""
        return byte if len(self._bytes) == 0 else len(self._bytes[:byte].decode("utf-8", "replace"))


def _encode(text: str) -> bytes:
    # An editor may send half of a surrogate pair; one "?" per half keeps offsets in step.
    return text.encode("utf-8", "replace")


def _bytes_before(text: str, offset: int) -> int:
    return offset if text.isascii() else len(_encode(text[:offset]))


def _point(data: bytes, byte: int) -> Point:
    last_break = data.rfind(b"\n", 0, byte)
    return Point(data.count(b"\n", 0, byte), byte - last_break - 1)
