"""T.copy's extent rules, on hand-made regions."""

from __future__ import annotations

import pytest
from tvm import tirx as X

from tests.ir.hand_made import at, buffer
from tilelang.ir.prove import Prover
from tilelang.ir.values import Index, Region
from tilelang.ops.extents import copy_extents

N = X.Var("N", "int32")


def whole(shape: tuple, scope: str = "shared") -> Region:
    return Region(buffer("t", shape, "float16", scope, 1), None, at(1))


def part(shape: tuple, entries: tuple, scope: str = "global") -> Region:
    """`entries`: an integer is a point, a pair (start, extent) a slice."""
    indices = tuple(
        Index(e[0], e[1], at(1)) if isinstance(e, tuple) else Index(e, None, at(1)) for e in entries
    )
    return Region(buffer("A", shape, "float16", scope, 1), indices, at(1))


@pytest.mark.parametrize(
    ("src", "dst", "src_extents", "dst_extents"),
    [
        (whole((64, 32)), whole((64, 32)), (64, 32), (64, 32)),
        (part((512, 512), (3, 4)), whole((64, 32)), (64, 32), (64, 32)),
        (part((8, 512, 512), (1, 3, 4)), whole((64, 32)), (1, 64, 32), (64, 32)),
        (part((512,), (3,)), whole((1, 64)), (64,), (1, 64)),
        (part((512, 512), (3, 4)), whole((64, 1, 32)), (64, 32), (64, 1, 32)),
        (part((8, 64), (1, (0, 64))), whole((64,)), (1, 64), (64,)),
        (part((8, 64, 32), ((2, 1), (0, 64), (0, 32))), whole((64, 32)), (1, 64, 32), (64, 32)),
        (part((8, 512, 512), (1, (0, 64), 0)), whole((64, 32)), (1, 64, 32), (64, 32)),
        (whole((64, 32)), part((512, 512), (3, 4)), (64, 32), (64, 32)),
        (part((8,), (1,)), part((4, 4), (1, 2)), (1,), (1, 1)),
        (part((N,), ((0, N),)), whole((128,)), (128,), (128,)),
        (whole((128,)), part((N,), ((0, N),)), (128,), (128,)),
    ],
)
def test_what_is_covered(src: Region, dst: Region, src_extents: tuple, dst_extents: tuple):
    found = copy_extents(src, dst)
    assert found.mismatches == ()
    assert (found.src, found.dst) == (src_extents, dst_extents)


@pytest.mark.parametrize(
    ("src", "dst", "kind", "dims"),
    [
        (whole((64, 1)), whole((64, 64)), "shapes", (None, None)),
        (whole((1, 64)), whole((64,)), "shapes", (None, None)),
        (part((64, 1), ((0, 64), (0, 1))), whole((64, 64)), "unmatched", (None, 0)),
        (part((2, 64, 64), ((0, 2), (0, 64), (0, 64))), whole((64, 64)), "unmatched", (0, None)),
        (part((512,), (3,)), whole((2, 64)), "unmatched", (None, 0)),
        (part((512,), ((0, 64),)), whole((32,)), "source-larger", (0, 0)),
        (part((512,), ((0, 32),)), whole((64,)), "source-smaller", (0, 0)),
    ],
)
def test_what_does_not_fit(src: Region, dst: Region, kind: str, dims: tuple):
    (found,) = copy_extents(src, dst).mismatches
    assert (found.kind, found.src_dim, found.dst_dim) == (kind, *dims)


def test_symbols_that_may_be_equal_fit():
    m = X.Var("M", "int32")
    assert copy_extents(whole((m,), "global"), whole((N,), "global")).mismatches == ()
    assert copy_extents(whole((m,), "global"), whole((m + 1,)), Prover()).mismatches != ()
