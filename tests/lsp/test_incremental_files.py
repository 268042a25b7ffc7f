"""Edits of imported files: after any of them the server knows what a fresh analysis would say."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lsp.test_engine import Recorder
from tests.lsp.test_incremental import RealCompiler, known_of
from tilelang.frontend.environments.incremental_parse import IncrementalParser
from tilelang.frontend.environments.static_module import StaticModule
from tilelang_lsp.documents.document import Document, Replacement
from tilelang_lsp.engine.answers import FileAnswer, file_answer
from tilelang_lsp.engine.messages import CheckAnswer, CheckRequest
from tilelang_lsp.engine.worker import Worker

MAIN = """\
import tilelang
import tilelang.language as T
from sizes import BLOCK
import helpers
from pkg.tiles import load
try:
    from extra import WIDE
except ImportError:
    WIDE = 8


def pick():
    from late import DEPTH
    return DEPTH


@tilelang.jit
def first(A):
    A: T.Tensor((64, 64), T.float16)
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((BLOCK, 64), T.float16)
        load(A, s)


@tilelang.jit
def second(A, n: int = 2):
    A: T.Tensor((64, 64), T.float16)
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((helpers.rows(n), 64), T.float16)
        T.copy(A, s)


@tilelang.jit
def third(A):
    from late import DEPTH
    import helpers as h
    A: T.Tensor((64, 64), T.float16)
    with T.Kernel(1, threads=128) as bx:
        f = T.alloc_shared((DEPTH, pick()), T.float16)
        g = T.alloc_shared((h.rows(32), WIDE * 8), T.float16)
        T.copy(A, f)
        T.copy(A, g)


def main():
    import choices
    second(None, choices.N)
"""
LOAD = "import tilelang.language as T\n{}@T.macro\ndef load(a, b):\n    {}\n"
# What the files may hold; None: they are not there.
FILES = {
    "sizes.py": ("BLOCK = 64\n", "BLOCK = 32\n", "BLOCK = (\n", "from base import BLOCK\n", None),
    "base.py": ("BLOCK = 64\n", "BLOCK = 16\n", None),
    "helpers.py": (
        "def rows(n):\n    return n * 2\n",
        "\n\ndef rows(n):\n    return n * 32\n",
        "def rows(n)\n",
        "def rows(n):\n    from base import BLOCK\n    return BLOCK\n",
        None,
    ),
    "pkg/__init__.py": ("", "from .tiles import load\n", None),
    "pkg/tiles.py": (
        LOAD.format("", "T.copy(a, b)"),
        LOAD.format("\n\n", "T.coppy(a, b)"),
        LOAD.format("from ..sizes import BLOCK\nfrom base import *\n", "T.copy(a[0:BLOCK, 0:64], b)"),
        None,
    ),
    "extra.py": ("WIDE = 8\n", "WIDE = 4\n", None),
    "late.py": ("DEPTH = 64\n", "DEPTH = 32\n", "DEPTH = 1 / 0\n", None),
    "choices.py": ("N = 32\n", "N = 3\n", None),
    "pyproject.toml": ("", None),
}
EDITS = (
    ("import tilelang\n", "import tilelang\n\n"),
    ("\n\n\n", "\n\n"),
    ("BLOCK, 64", "BLOCK, 63"),
    ("from sizes import BLOCK", "from base import BLOCK"),
    ("from base import BLOCK", "from sizes import BLOCK"),
    ("import helpers\n", "import helper\n"),
    ("import helper\n", "import helpers\n"),
    ("load(A, s)\n", "load(A, s\n"),
    ("load(A, s\n", "load(A, s)\n"),
    ("return DEPTH", "return DEPTH * 2"),
)
WRITES = st.sampled_from(sorted(FILES)).flatmap(
    lambda name: st.tuples(st.just("write"), st.just(name), st.sampled_from(FILES[name]))
)
MOVES = st.tuples(st.just("move"), st.sampled_from(sorted(FILES)), st.sampled_from(sorted(FILES)))
CHANGES = st.one_of(WRITES, MOVES, st.sampled_from(EDITS).map(lambda e: ("edit", *e)))


class Editor(RealCompiler):
    """The compiler as an analysis process has it."""

    def __init__(self) -> None:
        self._parse = IncrementalParser().parse

    def module(self, path: str, text: str) -> StaticModule:
        return StaticModule(path, text, parse=self._parse)


class Analysis:
    """One analysis process' worker, asked directly."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.out = Recorder()
        self.worker = Worker(Editor(), self.out)
        self.next_id = 1

    def check(self, text: str, known: tuple[str, ...] = ()) -> CheckAnswer:
        request = CheckRequest(self.path, text, "cuda:sm_90", known=known)
        self.worker.receive({"method": "check", "id": self.next_id, **request.to_json()})
        while not [m for m in self.out.of("answer") if m["id"] == self.next_id]:
            self.worker.turn()
        self.next_id += 1
        return CheckAnswer.from_json(self.out.of("answer")[-1]["result"])


def write(folder: Path, name: str, text: str | None) -> None:
    path = folder / name
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def move(folder: Path, old: str, new: str) -> None:
    if (folder / old).exists() and (folder / new).parent.exists():
        os.replace(folder / old, folder / new)


def check_edits(changes: list[tuple[str, str, str | None]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = str(folder / "main.py")
        for file, texts in FILES.items():
            write(folder, file, texts[0])
        document, analysis = Document("file:///main.py", path, 1, MAIN), Analysis(path)
        answer = file_answer(analysis.check(MAIN), path, 0, None)
        for kind, one, other in changes:
            if kind == "write":
                write(folder, one, other)
            elif kind == "move":
                move(folder, one, str(other))
            elif (start := document.text.find(one)) >= 0:
                document.replace(Replacement(start, start + len(one), str(other)))
            answer = after(analysis, document, path, answer)
            fresh = file_answer(Analysis(path).check(document.text), path, document.revision, None)
            assert (answer.broken, answer.problems) == (fresh.broken, fresh.problems)
            if not answer.broken:
                assert known_of(answer) == known_of(fresh)


def after(analysis: Analysis, document: Document, path: str, before: FileAnswer) -> FileAnswer:
    """What is known after a change."""
    edits = document.edits_since(before.revision)
    assert edits is not None
    last = before.carried(edits, document.revision)
    checked = analysis.check(document.text, tuple(last.reports()))
    return file_answer(checked, path, document.revision, last)


@given(st.lists(CHANGES, min_size=1, max_size=6))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_edits_of_any_file_equal_from_scratch(changes: list[tuple[str, str, str | None]]):
    check_edits(changes)


@pytest.mark.slow
@given(st.lists(CHANGES, min_size=4, max_size=16))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_many_edits_of_any_file_equal_from_scratch(changes: list[tuple[str, str, str | None]]):
    check_edits(changes)


@pytest.mark.parametrize(
    "changes",
    [
        [("write", "late.py", "DEPTH = 32\n")],  # which a function imports
        [("write", "choices.py", "N = 3\n")],  # which decides how a kernel is called
        [("write", "helpers.py", FILES["helpers.py"][3]), ("write", "base.py", "BLOCK = 16\n")],
        [("edit", "import tilelang\n", "import tilelang\n\n")],  # moves nothing in imported files
        [("write", "pkg/tiles.py", FILES["pkg/tiles.py"][1]), ("edit", "\n\n\n", "\n\n")],
        [("write", "sizes.py", None), ("write", "sizes.py", "BLOCK = 32\n")],
        [("move", "base.py", "sizes.py")],
    ],
    ids=lambda c: "-".join(str(part) for part in c[-1][:2]).strip(),
)
def test_what_once_was_stale(changes: list[tuple[str, str, str | None]]):
    check_edits(changes)
