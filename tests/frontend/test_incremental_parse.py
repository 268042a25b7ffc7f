"""The parser of the editor: what `ast.parse` says, for whatever is typed, and only what changed is parsed."""

from __future__ import annotations

import ast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.frontend.test_mutilated import SOURCES, Cut, cuts, mutilated
from tilelang.frontend.environments.incremental_parse import IncrementalParser

TEXT = '''"""Kernels."""
import tilelang

@tilelang.jit(
out_idx=[-1])
@other
def first(a):
    if a:
# a comment that ends nothing
        return """a text
def not_a_function():
"""
    else:
        return 2

if first:
    x = (1,
2)
else:
    x = 3
y = \\
    x
'''


def dump(parse, text: str) -> str:  # type: ignore[no-untyped-def]
    """The tree with all positions, or the mistake."""
    try:
        return ast.dump(parse(text), include_attributes=True)
    except SyntaxError as error:
        return f"{error.msg} at {error.lineno}:{error.offset}"
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return 2", "return 22"),  # inside a function
        ("import tilelang", "import tilelang\n"),  # everything below moves
        ('"""a text', "'a text"),  # a text that ends elsewhere
        ("2)", "2"),  # a bracket stays open
        ("else:\n    x", "x"),  # a part less
        ("@other", "@"),  # half-typed
        ("\n", "\r\n"),  # other line ends
        ("y =", "\0y ="),
        ("    x\n", "x\n"),  # a line that goes on in the margin
        (TEXT, ""),
    ],
)
def test_after_an_edit_it_says_what_ast_says(old: str, new: str):
    parser = IncrementalParser()
    for text in (TEXT, TEXT.replace(old, new), TEXT):
        assert dump(parser.parse, text) == dump(ast.parse, text)


def test_only_the_part_that_changed_is_parsed_again():
    parser = IncrementalParser()
    text = TEXT.replace("def not_a", "    def not_a").replace("out_idx", "    out_idx")
    before = parser.parse(text).body
    after = parser.parse(text.replace("return 2", "return 3")).body
    kept = [new is old for old, new in zip(before, after, strict=True)]
    assert kept == [True, True, False, True, True]


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SOURCES), st.lists(cuts, min_size=1, max_size=4))
def test_it_says_what_ast_says_whatever_is_typed(text: str, edits: list[list[Cut]]):
    parser = IncrementalParser()
    for edit in edits:
        text = mutilated(text, edit)
        assert dump(parser.parse, text) == dump(ast.parse, text)
