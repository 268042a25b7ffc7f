"""Parsing a text that changes: the statements of its top level that did not change are not parsed again.

While somebody types in one kernel of a long file, parsing all of it is most of what reading it costs.
"""

from __future__ import annotations

import ast
import re
from collections import OrderedDict

from tilelang.parsing import parse

_MOST_PARTS = 1024
# A line that may begin a statement of the top level. What cannot stand alone there (`else:`, a function below
# its decorator, a closing bracket) stays with what is before it, or the part does not parse on its own.
_BEGIN = re.compile(r"^(?=[A-Za-z_@])(?!(?:else|elif|except|finally|case)\b)", re.MULTILINE)


class IncrementalParser:
    """Parses texts as `ast.parse` does, with the trees of unchanged parts taken from the texts before.

    A part is known by its text and its line, so the trees are shared and must not be changed.
    """

    def __init__(self) -> None:
        self._trees: OrderedDict[tuple[int, str], list[ast.stmt]] = OrderedDict()

    def parse(self, text: str) -> ast.Module:
        """The tree of `text`. Raises SyntaxError and ValueError as `ast.parse` does."""
        if "\r" in text or "\f" in text:  # line ends that are counted otherwise
            return parse(text)
        body: list[ast.stmt] = []
        for line, part in _parts(text):
            tree = self._trees.get((line, part))
            if tree is None:
                try:
                    # The empty lines give the nodes the lines that they have in the whole text.
                    tree = parse("\n" * (line - 1) + part).body
                except (SyntaxError, ValueError):
                    return parse(text)  # cut in the wrong place, or a mistake, which this one words
                self._trees[line, part] = tree
            self._trees.move_to_end((line, part))
            body += tree
        while len(self._trees) > _MOST_PARTS:
            self._trees.popitem(last=False)
        return ast.Module(body, [])


def _parts(text: str) -> list[tuple[int, str]]:
    """The text cut where a statement of the top level may begin, each part with its first line (from 1)."""
    cuts = [0]
    under_decorator = False
    for match in _BEGIN.finditer(text):
        at = match.start()
        if at > 0 and not under_decorator:
            cuts.append(at)
        under_decorator = text.startswith("@", at)
    parts, line = [], 1
    for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True):
        part = text[start:end]
        parts.append((line, part))
        line += part.count("\n")
    return parts
