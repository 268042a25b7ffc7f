"""Documents: lines, encodings, edits, incremental parse, where the kernels are."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lsp.marked import span_of, text_at
from tilelang.frontend.environments.static_module import StaticModule
from tilelang_lsp.documents.document import Document, Replacement
from tilelang_lsp.documents.edits import carried, is_empty, smallest_replacement
from tilelang_lsp.documents.line_index import LineIndex, column_from_units, units_from_column
from tilelang_lsp.documents.syntax_errors import syntax_problem
from tilelang_lsp.documents.syntax_tree import SyntaxTree

KERNELS = """\
import tilelang as tl
import tilelang.language as T


@tl.jit
def first(A):
    pass


@tl.jit(out_idx=[-1])
def factory(M, N):
    @T.prim_func
    def inner(A: T.Tensor((M, N), "float16")):
        pass

    return inner
"""


def document(text: str) -> Document:
    return Document("file:///k.py", "k.py", 1, text)


def names(text: str) -> list[str]:
    return [k.qualified_name for k in document(textwrap.dedent(text)).kernels()]


class TestLines:
    def test_only_newlines_end_lines(self):
        text = "a\x0cb\x1cc\x85d\u2028e\nf\r\ng\rh"
        index = LineIndex(text)
        assert [index.line(i) for i in range(index.n_lines)] == ["a\x0cb\x1cc\x85d\u2028e", "f", "g", "h"]

    def test_places_past_the_end_are_moved_back(self):
        index = LineIndex("ab\ncd")
        assert index.offset(0, 99) == 2
        assert index.offset(9, 0) == 5
        assert index.place(4) == (1, 1)

    @pytest.mark.parametrize(("encoding", "units"), [("utf-8", 7), ("utf-16", 4), ("utf-32", 3)])
    def test_columns_behind_wide_characters(self, encoding, units):
        line = "é😀x = 1"
        assert units_from_column(line, 3, encoding) == units
        assert column_from_units(line, units, encoding) == 3

    @given(st.text(), st.sampled_from(["utf-8", "utf-16", "utf-32"]), st.data())
    def test_columns_there_and_back(self, line, encoding, data):
        column = data.draw(st.integers(0, len(line)))
        assert column_from_units(line, units_from_column(line, column, encoding), encoding) == column


class TestEdits:
    def test_a_line_inserted_above_moves_a_span(self):
        doc = document("x = 1\ny = wrong\n")
        span = span_of(doc.text, "wrong")
        doc.replace(Replacement(0, 0, "import os\n"))
        assert text_at(doc.text, carried(span, doc.edits_since(0))) == "wrong"

    def test_typing_before_and_behind_a_span_leaves_its_text(self):
        doc = document("y = wrong\n")
        span = span_of(doc.text, "wrong")
        doc.replace(Replacement(4, 4, "f("))
        doc.replace(Replacement(11, 11, ")"))
        assert doc.text == "y = f(wrong)\n"
        assert text_at(doc.text, carried(span, doc.edits_since(0))) == "wrong"

    def test_a_replaced_span_becomes_empty(self):
        doc = document("y = wrong\n")
        span = span_of(doc.text, "wrong")
        doc.replace(Replacement(4, 9, "right"))
        assert is_empty(carried(span, doc.edits_since(0)))

    def test_typing_inside_a_span_makes_it_longer(self):
        doc = document("y = wrong\n")
        span = span_of(doc.text, "wrong")
        doc.replace(Replacement(6, 6, "\n"))
        assert text_at(doc.text, carried(span, doc.edits_since(0))) == "wr\nong"

    @given(st.text("ab\n", max_size=30), st.text("ab\n", max_size=30))
    def test_smallest_replacement_leads_to_the_new_text(self, old, new):
        start, end, text = smallest_replacement(old, new)
        assert old[:start] + text + old[end:] == new
        assert not (text and end > start and (text[0] == old[start] or text[-1] == old[end - 1]))

    @given(st.text("abc\n", min_size=5, max_size=60), st.data())
    def test_carried_spans_keep_their_text_when_edits_are_elsewhere(self, text, data):
        doc = document(text[:10] + "<span>" + text[10:])
        span = span_of(doc.text, "<span>")
        for _ in range(3):
            at = doc.text.index("<span>")
            before = data.draw(st.booleans())
            low, high = (0, at) if before else (at + 6, len(doc.text))
            start = data.draw(st.integers(low, high))
            end = data.draw(st.integers(start, high))
            doc.replace(Replacement(start, end, data.draw(st.text("xyz\n", max_size=5))))
        assert text_at(doc.text, carried(span, doc.edits_since(0))) == "<span>"

    def test_edits_too_long_ago_are_not_known(self):
        doc = document("")
        for _ in range(2500):
            doc.replace(Replacement(0, 0, "x"))
        assert doc.edits_since(0) is None
        assert len(doc.edits_since(2400)) == 100


class TestParse:
    @given(st.data())
    def test_incremental_equals_from_scratch(self, data):
        doc = document(KERNELS)
        for _ in range(data.draw(st.integers(1, 4))):
            start = data.draw(st.integers(0, len(doc.text)))
            end = data.draw(st.integers(start, min(len(doc.text), start + 30)))
            new = data.draw(st.sampled_from(["", "x", "\n", "é", "    ", "@tl.jit\ndef q(A): pass\n", "("]))
            doc.replace(Replacement(start, end, new))
            assert str(doc._tree.root) == str(SyntaxTree(doc.text).root)
            if not doc._tree.is_broken:
                assert doc.kernels() == document(doc.text).kernels()

    def test_half_typed_code_keeps_the_other_kernels(self):
        at = KERNELS.index("    pass") + 8
        doc = document(KERNELS)
        assert len(doc.kernels()) == 2
        doc.replace(Replacement(at, at, "\n    x = T.alloc_shared((64, "))
        assert [k.qualified_name for k in doc.kernels()] == ["first", "factory"]
        assert doc.text_of(doc.kernels()[1]).startswith("@tl.jit(out_idx=[-1])\ndef factory")

    def test_syntax_errors_have_places(self):
        problem = syntax_problem("k.py", "def f(:\n    pass\n")
        assert problem.rule == "syntax-error"
        assert (problem.span.line, problem.span.column) == (1, 7)
        assert syntax_problem("k.py", "x = 1\n") is None

    def test_a_missing_block_is_marked_where_it_is_missing(self):
        text = "def f():\n    with g():\n\n\ndef other():\n    pass\n"
        problem = syntax_problem("k.py", text)
        assert (problem.span.line, problem.span.column, problem.span.end_column) == (2, 5, 14)
        assert StaticModule("k.py", text).problems == [problem]

    @pytest.mark.parametrize("text", ["\x00", "(" * 5000, "x = '\ud800'"])
    def test_texts_that_python_refuses_give_a_problem_or_nothing(self, text):
        document(text)
        problem = syntax_problem("k.py", text)
        assert problem is None or problem.rule == "syntax-error"


class TestKernels:
    def test_slices(self):
        doc = document(KERNELS)
        assert [(k.qualified_name, k.style) for k in doc.kernels()] == [
            ("first", "eager"),
            ("factory", "lazy"),
        ]
        first = doc.kernels()[0]
        assert doc.text_of(first).startswith("@tl.jit\ndef first")
        assert doc.text[first.name_start : first.name_end] == "first"

    @pytest.mark.parametrize(
        "spelling",
        [
            "import tilelang\n@tilelang.jit\ndef k(): pass",
            "import tilelang as tl\n@tl.jit(out_idx=[-1])\ndef k(): pass",
            "from tilelang import jit\n@jit\ndef k(): pass",
            "from tilelang import jit as j\n@j()\ndef k(): pass",
            "from tilelang import *\n@jit\ndef k(): pass",
            "import tilelang\nmine = tilelang.jit(target='cuda')\n@mine\ndef k(): pass",
            "import tilelang\n@tilelang.autotune(configs=[])\n@tilelang.jit\ndef k(): pass",
            "import tilelang.language as T\n@T.prim_func\ndef k(): pass",
            "from tilelang import language as T\n@T.prim_func\ndef k(): pass",
            "from tilelang.language import prim_func\n@prim_func\ndef k(): pass",
            "try:\n    import tilelang\nexcept ImportError:\n    pass\n@tilelang.jit\ndef k(): pass",
            "import tilelang\nif True:\n    @tilelang.jit\n    def k(): pass",
        ],
    )
    def test_import_spellings(self, spelling):
        assert names(spelling) == ["k"]

    @pytest.mark.parametrize(
        "other",
        [
            "import numba\n@numba.jit\ndef k(): pass",
            "from numba import jit\n@jit\ndef k(): pass",
            "import tilelang\ndef k(): pass",
            "import tilelang\n@tilelang.something\ndef k(): pass",
            "@jit\ndef k(): pass",
        ],
    )
    def test_what_is_no_kernel(self, other):
        assert names(other) == []

    def test_methods_and_factories_are_named_by_what_they_stand_in(self):
        assert names("""
            import tilelang
            import tilelang.language as T

            class Ops:
                @tilelang.jit
                def gemm(self): pass

            def build(M):
                @T.prim_func
                def main(): pass
                return main

            class Outer:
                def build(self):
                    @T.prim_func
                    def main(): pass
        """) == ["Ops.gemm", "build", "Outer.build"]
