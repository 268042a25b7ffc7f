"""Row-major tiles whose chunks change places, so that the threads of a warp do not wait for each other."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random
from tests.emulator.block import run
from tests.emulator.memory import poison

TRANSPOSE = """
@tilelang.jit
def transpose(X, dtype=T.float16):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((N, M), dtype)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=256) as (bx, by):
        tile = T.alloc_shared((64, 64), dtype)
        turned = T.alloc_shared((64, 64), dtype)
        T.copy(X[by * 64, bx * 64], tile)
        T.transpose(tile, turned)
        T.copy(turned, Y[bx * 64, by * 64])
    return Y
"""


@pytest.mark.parametrize(
    ("dtype", "rows"), [("float16", 8), ("float32", 4), ("int8", 16)], ids=["16 bits", "32 bits", "8 bits"]
)
@pytest.mark.parametrize(("m", "n"), [(64, 128), (70, 75)])
def test_a_tile_written_by_columns(rng: np.random.Generator, dtype: str, rows: int, m: int, n: int) -> None:
    lowered = lower_text(TRANSPOSE, M=m, N=n, dtype=f"T.{dtype}")
    assert lowered.layouts["tile"] == "row-major"
    assert f"exchanged by groups of {rows} rows" in lowered.layouts["turned"]
    x, y = random(rng, (m, n), dtype), poison((n, m), dtype)
    run(lowered, {"X": x, "Y": y})
    assert np.array_equal(y, x.T)


FADED = """
@tilelang.jit
def faded(K, S, O):
    K: T.Tensor((32, 64), T.float16)
    S: T.Tensor((32, 64), T.float32)
    O: T.Tensor((32, 32), T.float32)
    R: T.Tensor((32, 64), T.float16)
    with T.Kernel(1, threads=128):
        k = T.alloc_shared((32, 64), T.float16)
        s = T.alloc_shared((32, 64), T.float32)
        r = T.alloc_shared((32, 64), T.float16)
        T.copy(K, k)
        T.copy(S, s)
        for i, d in T.Parallel(32, 64):
            r[i, d] = T.if_then_else(i < 20, k[i, d] * s[i, d], 0)
        for i, j in T.Parallel(32, 32):
            total = T.alloc_var(T.float32, init=0)
            for d in T.serial(64):
                total += s[i, d] * r[j, d]
            O[i, j] = total
"""


def test_lanes_that_go_over_several_chunks(rng: np.random.Generator) -> None:
    """Eight float32 beside eight float16 are two chunks, which lie apart: two wide loads, under a condition
    too, for they are inside the tile whatever it says.
    """
    lowered = lower_text(FADED.replace("K, S, O", "K, S, O, R"))
    assert "exchanged" in lowered.layouts["s"]
    text = lowered.source.text
    assert "*(uint4*)&s_vec[0] = *(const uint4*)&s[" in text
    assert "*(uint4*)&s_vec[4] = *(const uint4*)&s[" in text
    k, s = random(rng, (32, 64), "float16"), random(rng, (32, 64), "float32")
    o, unused = poison((32, 32), "float32"), poison((32, 64), "float16")
    run(lowered, {"K": k, "S": s, "O": o, "R": unused})
    r = (k * s).astype(np.float16)
    r[20:] = 0
    np.testing.assert_allclose(o, s @ r.T.astype(np.float32), rtol=1e-4, atol=1e-4)


OTHERS = {
    "thread code": "tile[T.get_thread_binding() % 64, 0] = 0",
    "a reduction": "T.reduce_sum(tile, sums, dim=1)",
    "a view": "T.clear(T.reshape(tile, (4096,)))",
    "foreign code": 'T.call_extern("handle", "scale", T.address_of(tile[0, 0]))',
    "its author": "T.annotate_layout({tile: tilelang.layout.make_linear_layout(tile)})",
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_else_touches_a_tile_finds_its_rows_in_order(what: str) -> None:
    text = f"""
@tilelang.jit
def columns(X, Y):
    X: T.Tensor((64, 64), T.float32)
    Y: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), T.float32)
        sums = T.alloc_fragment((64,), T.float32)
        T.copy(X, tile)
        {OTHERS[what]}
        for i, j in T.Parallel(64, 64):
            Y[i, j] = tile[j, i]
"""
    assert lower_text(text).layouts["tile"] != lower_text(text.replace(OTHERS[what], "pass")).layouts["tile"]


def test_a_load_that_may_leave_its_tile_stays_under_its_condition() -> None:
    text = """
@tilelang.jit
def shifted(X, Y):
    X: T.Tensor((16, 64), T.float32)
    Y: T.Tensor((16, 64), T.float32)
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((16, 64), T.float32)
        T.copy(X, tile)
        for i, j in T.Parallel(16, 64):
            Y[i, j] = T.if_then_else(i < 12, tile[i + 4, j] + 1.0, 0.0)
"""
    moved = "*(uint4*)&tile_vec[0] = *(const uint4*)&tile["
    shifted = lower_text(text).source.text
    assert re.search(r"if \(.* < .*\) {\n *" + re.escape(moved), shifted)
    inside = lower_text(text.replace("i + 4", "i")).source.text
    assert moved in inside
    assert "if (" not in inside
