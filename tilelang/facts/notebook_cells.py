"""Cells of notebooks as Python: what IPython adds to the language is taken out, line by line.

`%matplotlib inline`, `!pip install x`, `k?` become `pass`; `files = !ls` binds a name to something unknown; a
cell under `%%bash` is a comment, one under `%%time` is Python. `%run`, magics of extensions and statements
that do not parse may bind any name: they become a star import of nothing known. No line changes its number.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from tilelang.parsing import parse

_CELL_MAGIC = re.compile(r"\s*%%(\w*)")
# Cells that run in the notebook's own Python, where the names they bind stay.
_PYTHON_CELLS = frozenset(("time", "capture", "prun"))
# Cells that bind no name of the notebook, and lines that do not; others (%run, %store, extensions') may.
_CLOSED_CELLS = frozenset(
    ("file", "html", "javascript", "js", "latex", "markdown", "svg", "timeit", "writefile")
)
_SHELLS = frozenset(("bash", "cmd", "perl", "python", "python3", "ruby", "script", "sh"))  # but for `--out x`
_CLOSED_MAGICS = frozenset(
    ("autoreload", "cd", "env", "load_ext", "ls", "matplotlib", "pip", "pwd", "sx", "system", "timeit", "who")
)
# `/f x`, `,f x` and `;f x` call `f`; no statement of Python begins so.
_MAGIC = re.compile(r"(?P<indent>\s*)([%!?/,;]|[\w.*%]+\?{1,2}\s*$)")
_NAMED = re.compile(r"\s*%+\s*(\w*)")
_BOUND = re.compile(r"(?P<targets>\s*[A-Za-z_*(\[][^=#]*?)\s*=\s*[%!](?!=)")
_OPEN = "from __magic__ import *"  # any name may come from there
_PART = re.compile(r"(?P<quote>'''|\"\"\"|'|\")|(?P<comment>#)|(?P<open>[(\[{])|(?P<close>[)\]}])")
_LONG = ("'''", '"""')
# What goes on with the statement above it; what begins none, in a bracket that may never have been opened.
_CONTINUES = re.compile(r"(elif|else|except|finally)\b")
_MOST_BROKEN = 20  # statements; a text with more of them is no Python that somebody is typing
_BEGINS = re.compile(r"[A-Za-z_@%!?*(\[{'\"/,;]")


@dataclass(frozen=True)
class ReadCell:
    """A cell as Python: `text` has as many lines as the cell. `error`: why not all of it is Python, and
    `broken` the lines that are none, (first, behind the last) from 0, which `text` has as comments.
    """

    text: str
    error: SyntaxError | None = None
    broken: tuple[tuple[int, int], ...] = ()


def readable_cell(lines: Sequence[str]) -> ReadCell:
    """The lines of a cell as Python. Of one that does not parse, the statements that do."""
    text = "\n".join(lines)
    if _syntax_error(text) is None:
        return ReadCell(text)
    first = next((line for line in lines if line.strip()), "")
    magic = _CELL_MAGIC.match(first)
    if magic is not None and magic[1] not in _PYTHON_CELLS:
        binds = magic[1] not in _CLOSED_CELLS and (magic[1] not in _SHELLS or "--" in first)
        return ReadCell("\n".join(_commented(lines, binds)))
    text = "\n".join(_without_magics(lines))
    error = _syntax_error(text)
    if error is None:
        return ReadCell(text)
    if magic is not None or first[:1].isspace():
        # IPython takes away the indentation of a whole cell; that would move columns.
        return ReadCell("\n".join(_commented(lines, True)))
    return _in_parts(lines, error)


# What runs for its effect: calls of kernels, plots, loops over sizes.
_EFFECTS = (ast.Expr, ast.For, ast.While, ast.With, ast.Assert, ast.Delete, ast.Raise)


def definitions(text: str) -> str:
    """The joined cells without what runs for its effect, line for line: imports, functions, classes and the
    names that are bound at the margin. A run of one kernel needs these and not the author's own calls.
    """
    try:
        body = parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return text
    lines = text.split("\n")
    for statement in body:
        magic = isinstance(statement, ast.ImportFrom) and statement.module == "__magic__"
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        # `x = 1; f(x)` is left as it is.
        alone = not any(s is not statement and first <= s.lineno <= last for s in body)
        if (isinstance(statement, _EFFECTS) and alone) or magic:
            lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(lines)


def _commented(lines: Sequence[str], binds: bool) -> list[str]:
    return [_OPEN if binds else "#", *("#" for _ in lines[1:])]


def _in_parts(lines: Sequence[str], error: SyntaxError) -> ReadCell:
    """A cell with a mistake: one statement is being typed, those before and after it are what they were."""
    found: list[str] = []
    broken: list[tuple[int, int]] = []
    while len(found) < len(lines):
        start = len(found)
        end = _end(lines, start)
        part = _part(lines[start:end]) if len(broken) < _MOST_BROKEN else None
        if part is None and len(broken) < _MOST_BROKEN:
            # What is open to the end of the cell has swallowed the statements below it.
            end = next((k for k in range(start + 1, end) if _begins(lines[k])), end)
            part = _part(lines[start:end])
        if part is None:
            part = _commented(lines[start:end], True)
            broken.append((start, end))
        found += part
    return ReadCell("\n".join(found), error, tuple(broken))


def _end(lines: Sequence[str], start: int) -> int:
    """Where a statement that begins at line `start` ends: where a line at the margin begins another."""
    place = _Place()
    decorated = lines[start].startswith("@")
    for k in range(start, len(lines)):
        if k > start and place.at_statement and _begins(lines[k]):
            if not decorated:
                return k
            decorated = lines[k].startswith("@")
        place.read(lines[k])
    return len(lines)


def _begins(line: str) -> bool:
    return _BEGINS.match(line) is not None and _CONTINUES.match(line) is None


def _part(lines: Sequence[str]) -> list[str] | None:
    """Lines of a cell as Python, None if they are none. What ends in a comma is an argument, if anything."""
    last = next((line for line in reversed(lines) if line.strip()), "")
    if last.rstrip().endswith(","):
        return None
    return next(
        (t for t in (list(lines), _without_magics(lines)) if _syntax_error("\n".join(t)) is None), None
    )


def _without_magics(lines: Sequence[str]) -> list[str]:
    """Magics stand where a statement begins: `% 3)` in an expression of several lines is none."""
    found: list[str] = []
    place = _Place()
    continued = False  # the line before is a magic and ends in a backslash
    for line in lines:
        begins = place.at_statement
        bound = _BOUND.match(line) if begins else None
        magic = _MAGIC.match(line) if begins else None
        if continued:
            found.append("#")
        elif bound is not None:
            found.append(f"{bound['targets']} = __magic__")
        elif magic is not None:
            found.append(magic["indent"] + ("pass" if _is_closed(line) else _OPEN))
        else:
            found.append(line)
            place.read(line)
            continue
        continued = line.endswith("\\")
    return found


def _is_closed(line: str) -> bool:
    """Whether the line of a magic binds no name."""
    named = _NAMED.match(line)
    if named is None or line.rstrip().endswith("?"):
        return True
    return named[1] in (_PYTHON_CELLS if _CELL_MAGIC.match(line) else _CLOSED_MAGICS)


class _Place:
    """Whether the text read so far ends inside brackets, a string, or a continued line."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote: str | None = None
        self._continued = False

    @property
    def at_statement(self) -> bool:
        return not self._depth and self._quote is None and not self._continued

    def read(self, line: str) -> None:
        position = 0
        while True:
            if self._quote is not None:
                end = _end_of_string(line, position, self._quote)
                if end is None:
                    if self._quote not in _LONG and not line.endswith("\\"):
                        self._quote = None
                    break
                self._quote, position = None, end
            part = _PART.search(line, position)
            if part is None or part["comment"]:
                break
            position = part.end()
            self._quote = part["quote"]
            if part["quote"] is None:
                self._depth = max(0, self._depth + (1 if part["open"] else -1))
        self._continued = self._quote is None and "#" not in line and line.endswith("\\")


def _end_of_string(line: str, start: int, quote: str) -> int | None:
    while (at := line.find(quote, start)) >= 0:
        slashes = len(line[:at]) - len(line[:at].rstrip("\\"))
        if slashes % 2 == 0:
            return at + len(quote)
        start = at + 1
    return None


def _syntax_error(text: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse(text)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error) or "the code is nested too deeply", (None, 1, 1, None))
    return None
