"""Proofs are three-valued: what is not proven stays unknown; symbols are related to nothing."""

from __future__ import annotations

import pytest
from tvm import tirx as X

from tilelang.ir.prove import Prover, free_vars, positive_symbols, substitute
from tilelang.ir.values import Unknown

M, N, i, j = (X.Var(name, "int32") for name in "MNij")


def test_integers_are_decided():
    prover = Prover()
    assert prover.equal(3, 3) is True
    assert prover.equal(3, 4) is False
    assert prover.less(3, 4) is True
    assert prover.at_least(4, 5) is False


def test_symbols_are_related_to_nothing():
    prover = Prover(positive=[M, N])
    assert prover.equal(M, N) is None
    assert prover.less(M, N) is None
    assert prover.equal(M, 64) is None


def test_equal_expressions_are_equal_however_they_are_written():
    prover = Prover()
    assert prover.equal(M + 1, 1 + M) is True
    assert prover.equal((M + 2) * 4 - M * 4, 8) is True
    assert prover.equal(M, M + 1) is False


def test_positive_only_if_used_as_an_extent():
    assert Prover().at_least(M, 1) is None
    assert Prover(positive=[M]).at_least(M, 1) is True
    assert Prover(positive=[M]).equal(M, 0) is False
    assert [v.name for v in positive_symbols([(M, 4), (N + 1,)])] == ["M"]


def test_unknown_decides_nothing():
    unknown = Unknown("no value")
    assert Prover().equal(unknown, 3) is None
    assert Prover().less(3, unknown) is None


def test_ranges_bound_variables():
    prover = Prover(ranges={i: (0, 128)})
    assert prover.less(i, 128) is True
    assert prover.less(i, 127) is None
    assert prover.bounds(i * 2 + 1) == (1, 255)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(i + 1, {1, 128}), (i * 2 - j, {-3, 0, 251, 254}), (X.floormod(i + 1, 128), {0, 1}), (7, {7})],
)
def test_extremes_are_values_that_are_taken(value: object, expected: set[int]):
    varying = {i: (0, 128), j: (0, 4)}
    assert set(Prover(ranges=varying).extremes(value, varying)) == expected


def test_free_variables_and_substitution():
    buffer = X.decl_buffer((4,), "int32", "b")
    value = X.floordiv(M + i * 2, 3) + buffer[j]
    assert free_vars(value) == {M, i, j, buffer}
    assert free_vars(7) == set()
    assert Prover().simplify(substitute(M + i, {M: 5, i: 6})) == 11
