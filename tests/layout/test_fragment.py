"""Fragments are exact: every element has owners, the inverse finds it again, derived layouts agree with their
source.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.layout.fragment import (
    Digit,
    Fragment,
    Replica,
    partition,
    partition_rows,
    replicated,
)
from tilelang.layout.instruction import MMA_A, MMA_B, MMA_C, accumulator, operand_a, operand_b

sizes = st.integers(1, 40)
shapes = st.lists(sizes, min_size=1, max_size=3).map(tuple)
threads = st.sampled_from([1, 2, 32, 64, 96, 128])
vectors = st.sampled_from([1, 2, 4, 8])


def check_bijective(f: Fragment) -> None:
    """Every element sits in exactly `replicas` threads, in one register each, and the maps agree with the
    table.
    """
    total = math.prod(f.shape)
    held = f.table[f.table >= 0]
    assert held.size == total * f.replicas
    assert np.array_equal(np.unique(held), np.arange(total))
    grid = np.meshgrid(*[np.arange(n) for n in f.shape], indexing="ij")
    parts = [g.ravel() for g in grid]
    thread = np.broadcast_to(f.thread(parts), (total,))
    register = np.broadcast_to(f.register(parts), (total,))
    assert np.array_equal(f.table[thread, register], np.arange(total))
    assert (np.broadcast_to(f.replica(thread), (total,)) == 0).all()


@settings(max_examples=150, deadline=None)
@given(shapes, threads, vectors)
def test_partitions_are_bijective(shape: tuple[int, ...], count: int, vector: int) -> None:
    for f in (
        partition(shape, count, vector),
        partition_rows(shape, count, vector),
        replicated(shape, count),
    ):
        assert f.threads == count
        check_bijective(f)


@settings(max_examples=100, deadline=None)
@given(st.lists(sizes, min_size=2, max_size=3).map(tuple), threads, vectors, st.data())
def test_a_reduced_layout_holds_each_row_where_its_elements_are(shape, count, vector, data) -> None:
    f = partition_rows(shape, count, vector)
    dim = data.draw(st.integers(0, len(shape) - 1))
    r = f.reduce(dim)
    assert r is not None and r.threads == f.threads
    check_bijective(r)
    for thread in range(0, f.threads, max(1, f.threads // 7)):
        elements = [np.unravel_index(x, shape) for x in f.table[thread] if x >= 0]
        rows = {e[:dim] + e[dim + 1 :] for e in elements}
        held = {np.unravel_index(x, r.shape) for x in r.table[thread] if x >= 0}
        assert {tuple(map(int, x)) for x in rows} <= {tuple(map(int, x)) for x in held}


def test_the_partition_formula() -> None:
    f = partition((16, 64), 128, 4)
    i, j = np.meshgrid(np.arange(16), np.arange(64), indexing="ij")
    flat = i * 64 + j
    assert np.array_equal(f.thread((i, j)), flat // 4 % 128)
    assert np.array_equal(f.register((i, j)), flat // 512 * 4 + flat % 4)


def test_few_elements_are_repeated() -> None:
    f = partition((64,), 128)
    assert (f.replicas, f.registers) == (2, 1)
    assert [int(f.replica(t)) for t in (0, 63, 64, 127)] == [0, 0, 1, 1]


def test_transposed_selection() -> None:
    f = partition_rows((16, 32), 64, 4)
    t = f.select((1, 0))
    assert t is not None and t.shape == (32, 16)
    i, j = np.meshgrid(np.arange(16), np.arange(32), indexing="ij")
    assert np.array_equal(f.thread((i, j)), t.thread((j, i)))
    assert np.array_equal(f.register((i, j)), t.register((j, i)))


def test_a_broken_radix_system_is_refused() -> None:
    with pytest.raises(ValueError, match="must have stride 4"):
        Fragment((8,), (Digit(1, 4, "thread", 1), Digit(2, 2, "register", 1)))
    with pytest.raises(ValueError, match="gap or overlap"):
        Fragment((8,), (Digit(1, 4, "thread", 2), Digit(4, 2, "register", 1)))
    with pytest.raises(ValueError, match="4 positions for 8"):
        Fragment((8,), (Digit(1, 4, "thread", 1),))


def test_equal_layouts_written_differently() -> None:
    one = Fragment((16,), (Digit(1, 16, "thread", 1),))
    two = Fragment((16,), (Digit(1, 4, "thread", 1), Digit(4, 4, "thread", 4)))
    assert one.equal(two)
    assert not one.equal(Fragment((16,), (Digit(1, 4, "thread", 4), Digit(4, 4, "thread", 1))))


@pytest.mark.parametrize("grid", [(1, 1), (2, 2), (4, 1), (1, 4), (3, 1)])
@pytest.mark.parametrize("mn", [(1, 1), (2, 3), (4, 8)])
def test_accumulators_follow_the_ptx_tables(grid: tuple[int, int], mn: tuple[int, int]) -> None:
    """PTX ISA 9.7.15.5: lane = i % 8 * 4 + j % 8 // 2; c0, c1 in row `group`, c2, c3 eight rows below."""
    mw, nw = grid
    m, n = 16 * mn[0] * mw, 8 * mn[1] * nw
    f = accumulator(m, n, mw, nw)
    check_bijective(f)
    i, j = np.meshgrid(np.arange(m), np.arange(n), indexing="ij")
    wm, wn = m // mw, n // nw
    lane = i % 8 * 4 + j % 8 // 2
    assert np.array_equal(f.thread((i, j)), ((j // wn) * mw + i // wm) * 32 + lane)
    slot = ((i % wm) // 16) * (wn // 2) + ((j % wn) // 8) * 4 + ((i % 16) // 8) * 2 + j % 2
    assert np.array_equal(np.broadcast_to(f.register((i, j)), slot.shape), slot)


# One instruction tile, element by element, from the figures of PTX ISA 9.7.15: (row, column) of register r in
# lane l.
def a_element(bits: int, lane: int, r: int) -> tuple[int, int]:
    g, t = divmod(lane, 4)
    if bits == 16:
        return g + 8 * (r // 2 % 2), t * 2 + r % 2 + 8 * (r // 4)
    if bits == 8:
        return g + 8 * (r // 4 % 2), t * 4 + r % 4 + 16 * (r // 8)
    return g + 8 * (r % 2), t + 4 * (r // 2)


def b_element(bits: int, lane: int, r: int) -> tuple[int, int]:
    g, t = divmod(lane, 4)
    if bits == 16:
        return t * 2 + r % 2 + 8 * (r // 2), g
    if bits == 8:
        return t * 4 + r % 4 + 16 * (r // 4), g
    return t + 4 * r, g


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("grid", [(1, 1), (2, 2), (1, 4), (4, 1)])
def test_operands_follow_the_ptx_tables(bits: int, transposed: bool, grid: tuple[int, int]) -> None:
    mw, nw = grid
    k_tile = 256 // bits
    k_tiles, m_tiles, n_tiles = 2, 2, 3
    a = operand_a(16 * m_tiles * mw, k_tile * k_tiles, mw, nw, MMA_A[bits], transposed)
    b = operand_b(k_tile * k_tiles, 8 * n_tiles * nw, mw, nw, MMA_B[bits], transposed)
    check_bijective(a)
    check_bijective(b)
    per_a, per_b = MMA_A[bits].registers, MMA_B[bits].registers
    for lane in range(32):
        for wi in range(mw):
            for wj in range(nw):
                thread = (wj * mw + wi) * 32 + lane
                for tile in range(m_tiles * k_tiles):
                    for r in range(per_a):
                        row, col = a_element(bits, lane, r)
                        at = (wi * 16 * m_tiles + tile // k_tiles * 16 + row, tile % k_tiles * k_tile + col)
                        want = np.ravel_multi_index(at[::-1] if transposed else at, a.shape)
                        assert a.table[thread, tile * per_a + r] == want
                for tile in range(n_tiles * k_tiles):
                    for r in range(per_b):
                        row, col = b_element(bits, lane, r)
                        at = (tile % k_tiles * k_tile + row, wj * 8 * n_tiles + tile // k_tiles * 8 + col)
                        want = np.ravel_multi_index(at[::-1] if transposed else at, b.shape)
                        assert b.table[thread, tile * per_b + r] == want


def test_c_of_one_gemm_is_a_of_the_next_in_attention() -> None:
    """The accumulator of 16-bit steps can be read as the A operand of the same warps: same lanes hold the
    same rows.
    """
    c, a = accumulator(64, 64, 4, 1), operand_a(64, 64, 4, 1, MMA_A[16])
    i, j = np.meshgrid(np.arange(64), np.arange(64), indexing="ij")
    assert np.array_equal(c.thread((i, j)), a.thread((i, j)))
    assert MMA_C.registers == 4 and Replica(1, 1).extent == 1
