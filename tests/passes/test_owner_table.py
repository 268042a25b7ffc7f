"""Which thread touches which element: the table that barriers are set by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilelang.ir.teams import Team
from tilelang.passes.owner_table import MANY, NOBODY, Threads, owner_table

from tvm import tirx as X  # isort: skip

THREAD, LOOP, UNKNOWN = X.Var("tx", "int32"), X.Var("i", "int32"), X.Var("n", "int32")
TILE = X.decl_buffer((8,), "float32", "tile", scope="shared")


def owners(index: Any, team: Team | None = None) -> list[int] | None:
    """Of the 8 elements, in a block of 4 threads, inside a loop of 2."""
    threads = Threads({THREAD.__chandle__(): 4}, team)
    found = owner_table(X.BufferLoad(TILE, [index]), TILE, threads, {LOOP.__chandle__(): 2})
    return None if found is None else found.tolist()


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (lambda: THREAD, [0, 1, 2, 3, NOBODY, NOBODY, NOBODY, NOBODY]),
        (lambda: THREAD * 2 + LOOP, [0, 0, 1, 1, 2, 2, 3, 3]),
        (lambda: THREAD + LOOP * 4, [0, 1, 2, 3, 0, 1, 2, 3]),
        (lambda: THREAD + LOOP, [0, MANY, MANY, MANY, 3, NOBODY, NOBODY, NOBODY]),
        (lambda: THREAD // 4, [MANY, *[NOBODY] * 7]),
        (lambda: X.Ramp(THREAD * 2, 1, 2), [0, 0, 1, 1, 2, 2, 3, 3]),
    ],
    ids=["one each", "two neighbours", "two apart", "overlapping", "the same for all", "wide"],
)
def test_owners_of_elements(index: Callable[[], Any], expected: list[int]) -> None:
    assert owners(index()) == expected


def test_only_a_team_comes() -> None:
    assert owners(THREAD, Team(2, 2)) == [NOBODY, NOBODY, 2, 3, *[NOBODY] * 4]


def test_what_depends_on_anything_else_is_not_known() -> None:
    assert owners(THREAD + UNKNOWN) is None


def test_loops_that_the_index_does_not_name_change_nothing() -> None:
    around = [X.Var(f"u{k}", "int32") for k in range(70)]  # more than an array has dimensions
    loops = {v.__chandle__(): 2 for v in around}
    found = owner_table(X.BufferLoad(TILE, [THREAD]), TILE, Threads({THREAD.__chandle__(): 4}), loops)
    assert found is not None
    assert found.tolist() == [0, 1, 2, 3, *[NOBODY] * 4]


def test_names_stand_for_what_they_were_given() -> None:
    place, twice = X.Var("place", "int32"), X.Var("twice", "int32")
    named = {place.__chandle__(): twice + LOOP, twice.__chandle__(): THREAD * 2}
    threads = Threads({THREAD.__chandle__(): 4}, named=named)
    found = owner_table(X.BufferLoad(TILE, [place]), TILE, threads, {LOOP.__chandle__(): 2})
    assert found is not None
    assert found.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
