"""The maps of `mma` and `ldmatrix` as functions of indices: one place for each element, and inverses."""

from __future__ import annotations

import itertools
import re

import pytest
from tvm import tirx as X

import tilelang.cuda.intrinsics.layout.mma_layout as maps

TO_SHARED = [n for n in maps.__all__ if re.match(r"(mma|ldmatrix)\w*_to_shared", n)]
FROM_SHARED = [n for n in maps.__all__ if n.startswith("shared_")]


def sizes(name):
    """Extents of the two sides in a map's name: "..._32x8_to_shared_16x16_..."."""
    found = [tuple(map(int, pair)) for pair in re.findall(r"(\d+)x(\d+)", name)]
    return found[0], found[1]


@pytest.mark.parametrize("name", [n for n in TO_SHARED + FROM_SHARED if not n.startswith("ldmatrix")])
def test_each_element_has_one_place(name):
    given, made = sizes(name)
    function = getattr(maps, name)
    expected = set(itertools.product(range(made[0]), range(made[1])))
    # The tile of some names has its dimensions in the other order than the arguments.
    orders = (given, given[::-1]) if name.startswith("shared_") else (given,)
    places = [{function(a, b) for a, b in itertools.product(range(m), range(n))} for m, n in orders]
    assert expected in places


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ("mma_load_a_32x4_to_shared_16x8_layout", "shared_16x8_to_mma_a_32x4_layout"),
        ("mma_load_b_32x4_to_shared_16x8_layout", "shared_16x8_to_mma_b_32x4_layout"),
        ("mma_load_a_32x8_to_shared_16x16_layout", "shared_16x16_to_mma_32x8_layout_sr_a"),
        ("mma_load_b_32x8_to_shared_16x16_layout", "shared_16x16_to_mma_32x8_layout_sr_b"),
        ("mma_load_a_32x16_to_shared_16x32_layout", "shared_16x32_to_mma_a_32x16_layout"),
        ("mma_load_b_32x16_to_shared_16x32_layout", "shared_16x32_to_mma_b_32x16_layout"),
    ],
)
def test_they_undo_each_other(there, back):
    threads, registers = sizes(there)[0]
    for thread, register in itertools.product(range(threads), range(registers)):
        assert getattr(maps, back)(*getattr(maps, there)(thread, register)) == (thread, register)


def test_the_second_form_has_the_dimensions_exchanged():
    rs, sr = maps.shared_16x16_to_mma_32x8_layout_rs_a, maps.shared_16x16_to_mma_32x8_layout_sr_a
    assert all(rs(i, j) == sr(j, i) for i, j in itertools.product(range(16), range(16)))


def test_an_accumulator_by_the_manual():
    # PTX ISA, "Matrix Fragments for mma.m16n8k16": rows by lane / 4 and i >= 2
    for lane, i in itertools.product(range(32), range(4)):
        place = maps.mma_store_32x8_to_shared_16x16_layout(lane, i)
        assert place == (lane // 4 + 8 * (i >= 2), lane % 4 * 2 + (i & 1))


def test_formulas():
    thread = X.Var("t", "int32")
    row, column = maps.ldmatrix_32x8_to_shared_16x16_layout(thread, 3)
    assert (str(row), str(column)) == ("t % 16", "t // 16 * 8 + 3")
