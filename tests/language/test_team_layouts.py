"""Annotated fragments of a team, which count the block's threads or the team's; layouts made of others; the
registers of a fragment in foreign code.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text
from tests.emulator.block import run

KERNEL = """
def accumulator(first):
    return T.Fragment(
        [64, 32],
        forward_thread_fn=lambda i, j: first + i // 16 * 32 + i % 8 * 4 + j % 8 // 2,
        forward_index_fn=lambda i, j: j // 8 * 4 + i % 16 // 8 * 2 + j % 2,
    )

def moved(base, first):
    return T.Fragment(
        [64, 32],
        forward_thread_fn=lambda i, j: base.map_forward_thread([i, j])[0] + first,
        forward_index_fn=lambda i, j: base.map_forward_index([i, j]),
    )

@T.prim_func
def main(A: T.Tensor((128, 32), "float32"), B: T.Tensor((2, 16, 128), "float32")):
    with T.Kernel(1, threads=256) as bx:
        tx = T.get_thread_binding()
        for team in (0, 1):
            with T.ws(team):
                tile = T.alloc_fragment((64, 32), "float32")
                T.annotate_layout({tile: LAYOUT})
                T.copy(A[team * 64, 0], tile)
                for i, j in T.Parallel(64, 32):
                    tile[i, j] = tile[i, j] * 2
                for i, j in T.Parallel(64, 32):
                    register = j // 8 * 4 + i % 16 // 8 * 2 + j % 2
                    B[team, register, i // 16 * 32 + i % 8 * 4 + j % 8 // 2] = tile[i, j]
"""


@pytest.mark.parametrize(
    "layout",
    ["accumulator(0)", "accumulator(128 * team)", "moved(accumulator(0), 128 * team)"],
    ids=["in the team", "in the block", "of another"],
)
def test_layouts_number_the_threads_of_a_team_or_of_the_block(layout: str) -> None:
    lowered = lower_text(KERNEL.replace("LAYOUT", layout), "cuda:sm_90")
    a = np.random.default_rng(0).standard_normal((128, 32), dtype=np.float32)
    b = np.zeros((2, 16, 128), np.float32)
    run(lowered, {"A": a, "B": b})
    i, j = np.meshgrid(np.arange(64), np.arange(32), indexing="ij")
    registers, threads = j // 8 * 4 + i % 16 // 8 * 2 + j % 2, i // 16 * 32 + i % 8 * 4 + j % 8 // 2
    want = np.zeros_like(b)
    for team in range(2):
        want[team][registers, threads] = 2 * a[team * 64 : team * 64 + 64]
    np.testing.assert_array_equal(b, want)
    source = lowered.source.text
    assert "shared" not in source  # every thread stores what it holds


FOREIGN = """
SOURCE = "__device__ void put(float* own, float* out) { for (int k = 0; k < 4; ++k) out[k] = own[k]; }"

@T.prim_func
def main(A: T.Tensor((32, 16), "float32"), B: T.Tensor((512,), "float32")):
    with T.Kernel(1, threads=128) as bx:
        tx = T.get_thread_binding()
        T.import_source(SOURCE)
        tile = T.alloc_fragment((32, 16), "float32")
        for i, j in T.Parallel(32, 16):
            tile[i, j] = A[i, j] * 2
        T.call_extern("handle", "put", T.address_of(tile[0, 0]), T.address_of(B[tx * 4]))
"""


def test_foreign_code_gets_the_registers_of_each_thread() -> None:
    source = lower_text(FOREIGN, "cuda:sm_90").source.text
    assert "float tile[4];" in source
    assert "put(tile, &B[tx * 4]);" in source
