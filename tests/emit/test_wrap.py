"""Breaking long statements."""

from __future__ import annotations

import re

import pytest

from tilelang.targets.emit.wrap import wrap


@pytest.mark.parametrize(
    "text",
    [
        "    f(&A[(a + b) * 128 + c], g(x, y), B[i, j] + 17, something_long_enough_to_break);",
        "    C[(a + b) * 128 + c] = condition_one && condition_two ? A[(a + b) * 128 + c] : half(0.0f);",
        "    if (row_number * 128 + thread < M && column_number * 128 + lane < N && third < K) {",
        "    } else if (row_number * 128 + thread < M && column_number * 128 + lane < N) {",
        "    unbreakable_unbreakable_unbreakable_unbreakable_unbreakable_unbreakable_unbreakable++;",
    ],
)
def test_only_blanks_change_and_lines_fit(text: str) -> None:
    lines = wrap(text, 60)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)
    if "unbreakable" in text:
        assert lines == [text]
    else:
        assert len(lines) > 1
        assert all(len(line) <= 60 for line in lines), lines
        assert all(line.startswith("        ") for line in lines[1:])


def test_arguments_are_kept_whole() -> None:
    text = "  cp_async_16(&A_shared[(k + 2) % 3 * 4096 + tx], &A[by * 131072 + tx / 4 * 1024]);"
    assert wrap(text, 60) == [
        "  cp_async_16(&A_shared[(k + 2) % 3 * 4096 + tx],",
        "      &A[by * 131072 + tx / 4 * 1024]);",
    ]
