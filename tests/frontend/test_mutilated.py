"""Kernels mutilated by chance: what is left half-done gets an answer, in time, and no failure of ours."""

from __future__ import annotations

import ast
import re
import time
from pathlib import Path

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.frontend.test_forms import PRACTICE, forms, whole
from tilelang.analysis.check import check_source
from tilelang.frontend.environments.static_module import StaticModule

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
SOURCES = [whole(text) for _, text in forms()]
SOURCES += [path.read_text(encoding="utf-8") for path in (*PRACTICE, *EXAMPLES)]
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")


def tokens(text: str) -> list[str]:
    return _TOKENS.findall(text)


WORDS = tokens(
    "()[]:,.*=+/%@ T None 0 1 1.5 A bx in not if for def return lambda copy gemm self float16 range len "
    "yield await global raise try with class pass break continue assert while"
)
SECONDS = 60  # a bound that no machine in use exceeds, and an endless loop does


def without_lines(text: str, at: int, count: int) -> str:
    lines = text.split("\n")
    start = at % len(lines)
    return "\n".join(lines[:start] + lines[start + count :])


def swapped_lines(text: str, at: int, count: int) -> str:
    lines = text.split("\n")
    one, two = at % len(lines), (at + count) % len(lines)
    lines[one], lines[two] = lines[two], lines[one]
    return "\n".join(lines)


def without_tokens(text: str, at: int, count: int) -> str:
    parts = tokens(text)
    start = at % max(len(parts), 1)
    return "".join(parts[:start] + parts[start + count :])


def another_word(text: str, at: int, count: int) -> str:
    parts = tokens(text)
    if not parts:
        return text
    parts[at % len(parts)] = f" {WORDS[count % len(WORDS)]} "
    return "".join(parts)


def another_name(text: str, at: int, count: int) -> str:
    parts = tokens(text)
    names = [k for k, part in enumerate(parts) if part.isidentifier()]
    if not names:
        return text
    parts[names[at % len(names)]] = parts[names[(at * 31 + count) % len(names)]]
    return "".join(parts)


def another_number(text: str, at: int, count: int) -> str:
    parts = tokens(text)
    numbers = [k for k, part in enumerate(parts) if part.isdigit()]
    if numbers:
        choices = ("0", "1", "3", "7", "128", "4096", "1000000000000", "-1", "2.5", "None", "'a'")
        parts[numbers[at % len(numbers)]] = choices[count % len(choices)]
    return "".join(parts)


CUTS = (without_lines, swapped_lines, without_tokens, another_word, another_name, another_number)
Cut = tuple[int, int, int]
cuts = st.lists(
    st.tuples(st.integers(0, len(CUTS) - 1), st.integers(0, 10**6), st.integers(1, 40)),
    min_size=1,
    max_size=3,
)


def mutilated(text: str, chosen: list[Cut]) -> str:
    for kind, at, count in chosen:
        if text.strip():  # nothing is left to cut
            text = CUTS[kind](text, at, count)
    return text


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def check_answer(text: str) -> None:
    """An answer comes in time, is about lines of the text, and confesses no failure of ours."""
    start = time.process_time()
    report = check_source("kernel.py", text, "cuda:sm_90")
    assert time.process_time() - start < SECONDS
    last = text.count("\n") + 1
    for problem in report.all_problems():
        assert problem.rule != "internal-error", problem.message
        assert 1 <= problem.span.line <= problem.span.end_line <= last, problem
        for fix in problem.fixes:
            assert all(1 <= e.span.line <= e.span.end_line <= last + 1 for e in fix.edits)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SOURCES), cuts)
def test_kernels_that_are_still_python_get_an_answer(text: str, chosen: list[Cut]):
    changed = mutilated(text, chosen)
    assume(is_python(changed))
    check_answer(changed)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SOURCES), cuts)
def test_text_that_is_no_python_is_one_problem_or_none(text: str, chosen: list[Cut]):
    changed = mutilated(text, chosen)
    module = StaticModule("kernel.py", changed)
    if module.tree is None:
        assert len(module.problems) == 1 and module.kernels == []
    else:
        assert is_python(changed) and module.problems == []
