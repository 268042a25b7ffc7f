"""Shared-memory layouts: one place per element, chunks stay whole, ldmatrix and cp.async meet no bank
conflict.
"""

from __future__ import annotations

import numpy as np
import pytest

from tilelang.layout.banks import TileAccess, conflict_degree, fewest_turns
from tilelang.layout.shared import linear, matrix_operand, spreads

SHAPES = [((128, 32), 16), ((32, 128), 16), ((64, 64), 16), ((64, 16), 16), ((32, 64), 32), ((64, 32), 8),
          ((24, 40), 16), ((16, 144), 16), ((3, 32, 128), 16)]  # fmt: skip


def offsets(layout) -> np.ndarray:
    grid = np.meshgrid(*[np.arange(n) for n in layout.shape], indexing="ij")
    return layout.offset(grid)


@pytest.mark.parametrize(("shape", "bits"), SHAPES)
def test_every_element_has_its_own_place(shape: tuple[int, ...], bits: int) -> None:
    for layout in (linear(shape, bits), matrix_operand(shape, bits)):
        found = offsets(layout).ravel()
        assert np.unique(found).size == found.size
        assert found.min() == 0 and found.max() < layout.elements


@pytest.mark.parametrize(("shape", "bits"), SHAPES)
def test_runs_are_contiguous(shape: tuple[int, ...], bits: int) -> None:
    layout = matrix_operand(shape, bits)
    run = min(layout.run, 16 * 8 // bits)
    found = offsets(layout).reshape(-1, shape[-1] // run, run)
    assert (np.diff(found, axis=2) == 1).all()
    assert (found[..., 0] % run == 0).all() or layout.row_step % run


def test_the_ladder_of_swizzles() -> None:
    kinds = [matrix_operand(s, b).describe() for s, b in SHAPES]
    assert kinds[:6] == ["64-byte swizzle", "128-byte swizzle", "128-byte swizzle", "32-byte swizzle",
                         "128-byte swizzle", "32-byte swizzle"]  # fmt: skip
    assert kinds[6] == "row-major"  # 80 bytes: rows fall into different banks by themselves
    assert kinds[7] == "32-byte swizzle"


@pytest.mark.parametrize(("shape", "bits"), SHAPES)
def test_ldmatrix_reads_without_conflicts(shape: tuple[int, ...], bits: int) -> None:
    layout = matrix_operand(shape, bits)
    run = 16 * 8 // bits
    rows, columns = shape[-2:]
    lead = (0,) * (len(shape) - 2)
    for column in range(0, columns, run):
        for row in range(0, rows - 7, 8):
            addresses = [int(layout.offset((*lead, row + r, column))) * bits // 8 for r in range(8)]
            assert conflict_degree(addresses, 16) == 1


def test_without_a_swizzle_ldmatrix_would_conflict() -> None:
    layout = linear((128, 32), 16)
    addresses = [int(layout.offset((r, 0))) * 2 for r in range(8)]
    assert conflict_degree(addresses, 16) == 4


@pytest.mark.parametrize(
    ("shape", "bits"), [((64, 64), 16), ((4, 16, 32), 32), ((24, 40), 16), ((8, 256), 8)]
)
def test_spread_rows_keep_their_elements(shape: tuple[int, ...], bits: int) -> None:
    """Chunks change places within their row only, so each row stays where it is."""
    for layout in spreads(shape, bits):
        places = offsets(layout)
        assert np.array_equal(np.sort(places.ravel()), np.arange(places.size))
        assert np.array_equal(places // shape[-1], offsets(linear(shape, bits)) // shape[-1])


def test_rows_without_two_chunks_have_nothing_to_exchange() -> None:
    assert spreads((64, 8), 16) == [], "one chunk"
    assert spreads((64, 66), 16) == [], "rows that begin in the middle of one"
    assert spreads((64,), 16) == [], "one row"


def test_a_column_is_spread_over_the_banks() -> None:
    """Eight threads write eight rows apart, as a transposed copy of float16 does."""
    column = TileAccess((8 * (np.arange(32) % 8), np.arange(32) // 8), 1, 1)
    plain = linear((64, 64), 16)
    assert fewest_turns(plain, [column]).every == 8
    row = TileAccess((np.full(32, 3), np.arange(32)), 1, 1)
    assert fewest_turns(plain, [row]) is plain, "no conflict"
    assert fewest_turns(plain, [column, *[row] * 20]) is plain, "what it saves is a trifle"
