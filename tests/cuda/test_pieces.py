"""Lanes that read fewer neighbours than there are lanes: one wide load, and the right element for each."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text
from tests.emulator.block import run

TEXT = """
@tilelang.jit
def k(A):
    A: T.Tensor((16, WIDTH), T.float16)
    B = T.empty((16, 64), T.float16)
    with T.Kernel(1, threads=32):
        a = T.alloc_shared((16, WIDTH), T.float16)
        b = T.alloc_shared((16, 64), T.float16)
        T.copy(A, a)
        for i, j in T.Parallel(16, 64):
            b[i, j] = a[i, PLACE] * 2 + SECOND
        T.copy(b, B)
    return B
"""

# (place, width of a row of A, whether neighbours are loaded together)
PLACES = [
    ("j // 2", 32, True),
    ("j // 4", 16, True),
    ("j // 2 + 2", 40, False),  # the pieces do not begin at multiples of their width
    ("j // 2 + 4", 40, True),
    ("(j + 1) // 2", 40, False),
    ("j // 4 * 2 + 1", 32, True),
    ("j // 8 * 2 + j % 2", 16, True),
    ("j // 2", 33, False),  # rows do not begin at multiples of the width
    ("63 - j", 64, False),
    ("j * 2 % 64", 64, False),
]


@pytest.mark.parametrize(("place", "width", "together"), PLACES)
def test_the_elements_are_those_of_the_places(place: str, width: int, together: bool) -> None:
    text = TEXT.replace("WIDTH", str(width)).replace("PLACE", place).replace("SECOND", "1")
    lowered = lower_text(text, "cuda:sm_80")
    body = lowered.source.text[lowered.source.text.index("a_vec") if "a_vec" in lowered.source.text else 0 :]
    assert ("*)&a_vec[0] = *(const" in body) is together
    a = np.arange(16 * width).reshape(16, width).astype(np.float16)
    b = np.zeros((16, 64), np.float16)
    run(lowered, {"A": a, "B": b})
    at = [eval(place, {"j": j}) for j in range(64)]
    assert np.array_equal(b, a[:, at] * np.float16(2) + np.float16(1))


def test_two_places_in_one_piece_are_loaded_once() -> None:
    second = "a[i, j // 4 * 2 + 1] * 3"
    text = TEXT.replace("WIDTH", "32").replace("PLACE", "j // 4 * 2").replace("SECOND", second)
    lowered = lower_text(text, "cuda:sm_80")
    assert lowered.source.text.count("*)&a_vec[0] = *(const") == 1
    a = np.random.default_rng(0).integers(-9, 9, (16, 32)).astype(np.float16)
    b = np.zeros((16, 64), np.float16)
    run(lowered, {"A": a, "B": b})
    at = np.arange(64) // 4 * 2
    assert np.array_equal(b, a[:, at] * np.float16(2) + a[:, at + 1] * np.float16(3))
