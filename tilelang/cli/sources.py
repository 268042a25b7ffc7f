"""Python files as text: finding them below folders, and reading them in the encoding they declare (PEP
263).
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.files import UNREADABLE_FILE
from tilelang.diagnostics.span import Span

# Folders that hold other people's code or caches; named on the command line they are walked all the same.
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}


class UnreadableError(Exception):
    """A file is no Python source text; `problem` says why and where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def find_python_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The given files, and Python files and notebooks below the given folders in alphabetical order, once."""
    seen: set[Path] = set()
    for path in paths:
        for file in _below(path) if path.is_dir() else (path,):
            real = file.resolve()
            if real not in seen:
                seen.add(real)
                yield file


def _below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(
            f
            for f in folders
            if f not in _SKIPPED
            and not f.startswith(".")
            and not os.path.exists(os.path.join(parent, f, "pyvenv.cfg"))
        )
        found = (Path(parent, f) for f in sorted(files) if f.endswith((".py", ".ipynb")))
        yield from (f for f in found if f.is_file())  # no pipe, no link to a device or to nothing


@dataclass(frozen=True)
class Source:
    """The text of a file, line ends as they are, and the encoding it was read in."""

    text: str
    encoding: str

    def encoded(self) -> bytes:
        """As it stands in a file. Raises UnicodeEncodeError."""
        return self.text.encode(self.encoding)


def read_source(path: Path) -> str:
    """The text of a file, line ends as \\n, without a byte order mark. Raises UnreadableError."""
    return normalised(read_file(path).text)


def normalised(text: str) -> str:
    """`text` with \\n for every line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_file(path: Path) -> Source:
    """A file as it is, but for its byte order mark. Raises UnreadableError."""
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # reading a pipe or a device may never end
            what = f"{path} is no regular file; give its text through standard input: `tilelang check -`"
            raise _unreadable(path, 1, 1, what)
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, 1, 1, f"{path} cannot be read: {error.strerror or error}") from None
    return decoded(path, data)


def decoded(path: Path, data: bytes) -> Source:
    """Bytes as the text of a Python file called `path`, by the encoding they declare. Raises
    UnreadableError.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise _unreadable(path, *_undecodable(data), _encoding_message(path, data, str(error))) from None
    if b"tilelang" not in data and b"tilelang" in data.replace(b"\0", b""):
        what = f"{path} holds null bytes, as files in UTF-16 do: Python reads none of those; save it as UTF-8"
        raise _unreadable(path, 1, 1, what)
    if "utf-16" in encoding.lower() or "utf-32" in encoding.lower():
        what = f"{path} declares {encoding}, which no Python file can be in; save it as UTF-8"
        raise _unreadable(path, 1, 1, what)
    try:
        return Source(data.decode(encoding), encoding)
    except LookupError as error:
        raise _unreadable(path, 1, 1, _encoding_message(path, data, str(error))) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        said = f"byte 0x{data[error.start]:02x} in line {line} is not {encoding} text"
        raise _unreadable(path, line, column, _encoding_message(path, data, said)) from None
    except UnicodeError as error:  # codecs that report no place
        raise _unreadable(path, 1, 1, _encoding_message(path, data, str(error))) from None


def _undecodable(data: bytes) -> tuple[int, int]:
    """Line and column of the first byte that is not UTF-8; the first character if there is none."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        begin = data.rfind(b"\n", 0, error.start) + 1
        column = len(data[begin : error.start].decode("utf-8", "replace")) + 1
        return data.count(b"\n", 0, error.start) + 1, column
    return 1, 1


def _encoding_message(path: Path, data: bytes, said: str) -> str:
    if b"\0" in data[:1024]:
        return f"{path} is no Python source text: it holds null bytes"
    if data.startswith(codecs.BOM_UTF8) and _undecodable(data) == (1, 1):
        return f"{path} begins with the byte order mark of UTF-8 and declares another encoding; remove one"
    return (
        f"{path} cannot be decoded: {said}. Save it as UTF-8, or declare its encoding in the first line, "
        "as in `# -*- coding: latin-1 -*-`"
    )


def _unreadable(path: Path, line: int, column: int, what: str) -> UnreadableError:
    return UnreadableError(UNREADABLE_FILE.at(Span(str(path), line, column, line, column + 1), what=what))
