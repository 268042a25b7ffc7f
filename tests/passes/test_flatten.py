"""Offsets into flat buffers, also those past 2^31."""

from __future__ import annotations

import pytest

from tests.cuda.kernels import lower_text

LARGE = """
@tilelang.jit
def k(A, B):
    A: T.Tensor((3, 50000, 50000), T.int8)
    B: T.Tensor((3, 64), T.int8)
    with T.Kernel(3, threads=64) as bx:
        for i in T.Parallel(64):
            B[bx, i] = A[bx, 49999, 49936 + i]
"""

STRIDED = """
@tilelang.jit
def k(A, B, s: int = 4_900_000_000):
    A: T.StridedTensor((3, 64), (s, 1), T.int8)
    B: T.Tensor((3, 64), T.int8)
    with T.Kernel(3, threads=64) as bx:
        for i in T.Parallel(64):
            B[bx, i] = A[bx, i]
"""


@pytest.mark.parametrize("target", ["cuda:sm_80", "hip:gfx942", "metal"])
@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (
            LARGE,
            (50000 * 50000, 49999 * 50000 + 49936),
        ),  # a stride, and a constant part that int32 would wrap
        (LARGE.replace("3, 50000, 50000", "50000, 50000").replace("bx, 49999,", "49999,"), (2499999936,)),
        (STRIDED, (4_900_000_000,)),
    ],
    ids=["rank 3", "rank 2", "strided"],
)
def test_offsets_past_int32_are_whole(target: str, text: str, numbers: tuple[int, ...]):
    source = lower_text(text, target).source.text
    assert all(f"{n}L" in source for n in numbers), source
    assert "- 1" not in source


def test_offsets_of_ordinary_tensors_stay_int32():
    source = lower_text(
        LARGE.replace("50000", "500").replace("49999", "499").replace("49936", "436")
    ).source.text
    assert "long" not in source
