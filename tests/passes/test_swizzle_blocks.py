"""Another order of blocks runs every block once, and neighbours in time share rows or columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx as X

from tests.ir.hand_made import gemm_relu
from tilelang.ir.evaluate import evaluate
from tilelang.passes.swizzle_blocks import BLOCK_SWIZZLE, swizzle_blocks
from tilelang.passes.walk import walk


def order(width: int, height: int, attribute: str) -> np.ndarray:
    """[launched block] -> (x, y) that it works on, launched ones counted x first."""
    func = gemm_relu(m=height * 128, n=width * 128).with_attr(BLOCK_SWIZZLE, attribute)
    changed = swizzle_blocks(func)
    binds = [s for s in walk(changed.body) if isinstance(s, X.Bind)]
    launched = [
        s.node.var
        for s in walk(changed.body)
        if isinstance(s, X.AttrStmt) and str(s.node.thread_tag).startswith("blockIdx")
    ]
    y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    env = {v.__chandle__(): value.ravel() for v, value in zip(launched, (x, y), strict=True)}
    values = {str(b.var.name): np.broadcast_to(evaluate(b.value, env), (width * height,)) for b in binds}
    return np.stack([values["bx"], values["by"]], axis=1)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 6), st.sampled_from(["row", "column"]))
def test_every_block_runs_once(width: int, height: int, size: int, kind: str) -> None:
    found = {tuple(map(int, p)) for p in order(width, height, f"{kind}:{size}")}
    assert found == {(x, y) for x in range(width) for y in range(height)}


def test_a_panel_of_rows_is_walked_down_first() -> None:
    assert order(4, 4, "row:2")[:4].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert order(4, 4, "column:2")[:4].tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]


def test_an_unreadable_attribute_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 'row:N'"):
        swizzle_blocks(gemm_relu().with_attr(BLOCK_SWIZZLE, "diagonal:4"))
