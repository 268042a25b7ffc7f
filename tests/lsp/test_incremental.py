"""Edits: what the server knows after any edits is what a fresh analysis of the text would say."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lsp.test_engine import Recorder
from tilelang.analysis.check import check_kernel
from tilelang.frontend.environments.static_module import StaticModule
from tilelang_lsp.documents.document import Document, Replacement
from tilelang_lsp.engine.answers import FileAnswer, file_answer
from tilelang_lsp.engine.messages import CheckAnswer, CheckRequest
from tilelang_lsp.engine.worker import Worker

TEXT = '''\
"""Three kernels, a constant and a helper."""

import tilelang
import tilelang.language as T

BLOCK = 64


def rows(n):
    return n * 2


@tilelang.jit
def first(A):
    A: T.Tensor((64, 64), T.float16)
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((BLOCK, 64), T.float16)
        T.copy(A, s)


# tilelang: specialize(n=32)
@tilelang.jit
def second(A, n: int):
    A: T.Tensor((64, 64), T.float16)
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((rows(n), 64), T.float16)
        T.copy(A, s)


@tilelang.jit
def third(A, B):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    with T.Kernel(1, threads=128) as bx:
        f = T.alloc_fragment((64, 64), T.float16)
        T.copy(A, f)
        T.copy(f, B)
'''

# (what to replace, with what): a constant that others use, shapes, comments, half-typed code and its repair.
EDITS = (
    ("BLOCK = 64", "BLOCK = 32"),
    ("BLOCK = 32", "BLOCK = 64"),
    ("return n * 2", "return n * 3"),
    ("return n * 3", "return n * 2"),
    ("n=32", "n=16"),
    ("n=16", "n=32"),
    ("import tilelang\n", "import tilelang\n\n"),
    ("\n\n\n", "\n\n"),
    ("BLOCK, 64", "BLOCK, 63"),
    ("BLOCK, 63", "BLOCK, 64"),
    ("T.copy(f, B)", "T.copy(f, B"),
    ("T.copy(f, B\n", "T.copy(f, B)\n"),
    ("def third(A, B)", "def renamed(A, B)"),
    ("        T.copy(A, f)\n", "        # é😀\n        T.copy(A, f)\n"),
    ("# tilelang: specialize", "# tilelang:  specialize"),
)


class RealCompiler:
    """The compiler as it is in this process: without keeping torch out, which other tests need."""

    def module(self, path: str, text: str) -> StaticModule:
        return StaticModule(path, text)

    def check_kernel(self, module, kernel, target, choice):
        return check_kernel(module, kernel, target, choice)

    def generate_source(self, path, text, kernel, target, choice):
        raise NotImplementedError("no previews here")

    def warm_up(self) -> Iterator[None]:
        yield from ()


class Analysis:
    """One analysis process' worker, asked directly."""

    def __init__(self) -> None:
        self.out = Recorder()
        self.worker = Worker(RealCompiler(), self.out)
        self.next_id = 1

    def check(self, text: str, known: tuple[str, ...] = ()) -> CheckAnswer:
        request = CheckRequest("k.py", text, "cuda:sm_90", known=known)
        self.worker.receive({"method": "check", "id": self.next_id, **request.to_json()})
        while not [m for m in self.out.of("answer") if m["id"] == self.next_id]:
            self.worker.turn()
        self.next_id += 1
        return CheckAnswer.from_json(self.out.of("answer")[-1]["result"])


def known_of(answer: FileAnswer) -> list[tuple[object, object]]:
    return [(k.facts(), k.problems()) for k in answer.kernels]


@given(st.lists(st.sampled_from(EDITS), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_incremental_equals_from_scratch(edits: list[tuple[str, str]]):
    document = Document("file:///k.py", "k.py", 1, TEXT)
    analysis = Analysis()
    answer = file_answer(analysis.check(TEXT), "k.py", 0, None)
    for old, new in edits:
        start = document.text.find(old)
        if start < 0:
            continue
        document.replace(Replacement(start, start + len(old), new))
        last = answer.carried(document.edits_since(answer.revision), document.revision)
        checked = analysis.check(document.text, tuple(last.reports()))
        answer = file_answer(checked, "k.py", document.revision, last)
        fresh = file_answer(Analysis().check(document.text), "k.py", document.revision, None)
        assert answer.broken == fresh.broken
        assert answer.problems == fresh.problems
        if answer.broken:
            assert len(answer.kernels) == 3  # the last good answer
        else:
            assert known_of(answer) == known_of(fresh)


KEYS = st.tuples(
    st.integers(0, len(TEXT) - 1),
    st.integers(0, 3),
    st.sampled_from(["", "6", "T", "(", ")", "\n", " ", "#", "é"]),
)


@given(st.lists(KEYS, min_size=1, max_size=12))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_keystrokes_and_their_undoing_equal_from_scratch(keys: list[tuple[int, int, str]]):
    """Characters typed and deleted anywhere, each analysed; then all of it undone, last one first."""
    document = Document("file:///k.py", "k.py", 1, TEXT)
    analysis = Analysis()
    answer = file_answer(analysis.check(TEXT), "k.py", 0, None)
    undo: list[Replacement] = []
    changes = [*keys, *[None] * len(keys)]
    for key in changes:
        if key is None:
            change = undo.pop()
        else:
            start, length, new = key
            start = min(start, len(document.text))
            removed = document.text[start : start + length]
            change = Replacement(start, start + len(removed), new)
            undo.append(Replacement(start, start + len(new), removed))
        document.replace(change)
        last = answer.carried(document.edits_since(answer.revision), document.revision)
        checked = analysis.check(document.text, tuple(last.reports()))
        answer = file_answer(checked, "k.py", document.revision, last)
        fresh = file_answer(Analysis().check(document.text), "k.py", document.revision, None)
        assert (answer.broken, answer.problems) == (fresh.broken, fresh.problems)
        if not answer.broken:
            assert known_of(answer) == known_of(fresh)
    assert document.text == TEXT
