"""Size expressions of launch plans: what they compute, what they refuse, how they are solved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.runtime.sizes import compile_size


def test_numbers_symbols_and_operators():
    assert compile_size(7).evaluate({}) == 7
    assert compile_size("M").evaluate({"M": 5}) == 5
    assert compile_size("(M + 127) // 128 * 2 - M % 3").evaluate({"M": 130}) == 4 - 1
    assert compile_size("min(M, 4) + max(M, N)").evaluate({"M": 3, "N": 9}) == 12
    assert compile_size("M > 2").evaluate({"M": 3}) == 1
    assert compile_size("(M + N) * 2").symbols == ("M", "N")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "M.real",
        "M[0]",
        "open('x')",
        "lambda: 1",
        "1.5",
        "'a'",
        "M ** 9",
        "[M]",
        "M if M else N",
    ],
)
def test_anything_but_arithmetic_is_refused(text):
    with pytest.raises(ValueError, match="launch plan cannot"):
        compile_size(text)


def test_names_of_builtins_are_symbols_only():
    with pytest.raises(KeyError):
        compile_size("abs").evaluate({})


@given(st.integers(1, 9), st.integers(0, 50), st.integers(0, 1000))
def test_a_linear_size_is_solved(scale, offset, value):
    size = compile_size(f"M * {scale} + {offset}")
    assert size.solve("M", size.evaluate({"M": value}), {}) == value


def test_what_no_integer_makes_or_is_not_linear_has_no_solution():
    assert compile_size("M * 2").solve("M", 5, {}) is None
    assert compile_size("M * M").solve("M", 4, {}) is None
    assert compile_size("M // 2").solve("M", 4, {}) is None
    assert compile_size("M + N").solve("M", 9, {"N": 4}) == 5
