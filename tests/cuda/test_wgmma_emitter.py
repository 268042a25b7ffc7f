"""T.WGMMATensorCoreIntrinEmitter and the layouts that emitters give: they are those of the instructions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import tilelang.language as T
from tests.cuda.kernels import lower_text
from tilelang.arch.warp_partition import WarpPartition
from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import TensorCoreIntrinEmitter
from tilelang.layout.gemm_operands import gemm_fragments

# warps along M and N, rows and columns of a warp, dtype of the operands, K
SIZES = [
    (4, 1, 16, 16, "float16", 32),
    (4, 2, 16, 24, "float16", 16),
    (8, 1, 16, 8, "float8_e4m3fn", 32),
    (4, 1, 16, 16, "float32", 8),
]


@dataclass
class Tile:
    """What an emitter asks a buffer for."""

    shape: tuple[int, ...]


def same(made, fragment) -> bool:
    """Whether a layout of the language puts elements where `fragment` has them: every third of every third
    row, so that all digits of both are met.
    """
    rows, columns = fragment.shape
    return made.replicate_size == fragment.replicas and all(
        made.map_forward_thread([i, j]) == [int(fragment.thread((i, j)))]
        and made.map_forward_index([i, j]) == [int(fragment.register((i, j)))]
        for i in range(0, rows, 3)
        for j in range(i % 3, columns, 3)
    )


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["wgmma", "cuda"])
def test_layouts_of_fragments(kind, size):
    down, across, rows, columns, dtype, depth = size
    cls = TensorCoreIntrinEmitter if kind == "wgmma" else T.TensorCoreIntrinEmitter
    e = cls(dtype, dtype, "float32", False, True, down, across, rows, columns, depth)
    m, n, bits = down * rows, across * columns, 256 // e.micro_size_k
    want = gemm_fragments(
        kind, (m, n, depth), (False, True), WarpPartition(down, across), bits, e.micro_size_k
    )
    assert same(e.make_mma_store_layout(Tile((m, n))), want.c)
    assert same(e.make_mma_load_layout(Tile((m, depth))), want.a)
    if kind == "cuda" and depth == e.micro_size_k:
        assert same(e.make_mma_load_layout(Tile((n, depth)), "B"), want.b)


def test_layouts_of_operands_that_lie_the_other_way():
    e = T.TensorCoreIntrinEmitter("float16", "float16", "float32", True, False, 2, 2, 16, 16, 16)
    want = gemm_fragments("cuda", (32, 32, 16), (True, False), WarpPartition(2, 2), 16, 16)
    assert same(e.make_mma_load_layout(Tile((16, 32))), want.a)
    assert same(e.make_mma_load_layout(Tile((16, 32)), "B"), want.b)


def test_steps_of_k_come_one_after_the_other():
    """As `mma(..., k_inner)` counts them: registers of all rows of a step, then those of the next."""
    e = T.TensorCoreIntrinEmitter("float16", "float16", "float32", False, True, 1, 1, 32, 16, 32)
    made = e.make_mma_load_layout(Tile((32, 32)))
    first = [made.map_forward_index([i, k])[0] for k in (0, 16) for i in (0, 16)]
    assert first == [(k * e.warp_rows + i) * e.local_size_a for k in range(2) for i in range(2)]


def test_wgmma_takes_groups_of_warps_and_b_from_shared_memory():
    with pytest.raises(ValueError, match='only "A"'):
        TensorCoreIntrinEmitter(block_row_warps=4, warp_row_tiles=16).make_mma_load_layout(Tile((8, 16)), "B")
    with pytest.raises(ValueError, match="groups of 4 warps; 2 along M"):
        TensorCoreIntrinEmitter(block_row_warps=2, warp_row_tiles=16)


PRODUCT = """
from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import TensorCoreIntrinEmitter as Emitter

@tilelang.jit
def product(A, B, n=64, k=64):
    A: T.Tensor((64, k), "float16")
    B: T.Tensor((n, k), "float16")
    C = T.empty((64, n), "float32")
    e = Emitter("float16", "float16", "float32", False, True, 4, 1, 16, n, k)
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((64, k), "float16")
        b = T.alloc_shared((n, k), "float16")
        c = T.alloc_fragment((64, n), "float32")
        T.annotate_layout({c: e.make_mma_store_layout(c)})
        T.copy(A, a)
        T.copy(B, b)
        e.wgmma_fence_c(c)
        e.wgmma(a, b, c, clear_accum=True)
        T.copy(c, C)
    return C
"""


def test_a_product_in_the_layout_of_the_emitter():
    text = lower_text("import tilelang\nimport tilelang.language as T\n" + PRODUCT, "cuda:sm_90").source.text
    assert "wgmma_1x64x64_4x16_f16_f32_ssnn" in text and "wgmma_wait<0>" in text


FRAME = """
import tilelang
import tilelang.language as T
from tilelang.language.kernel import KernelLaunchFrame

@T.macro
def rows(A, B):
    here = KernelLaunchFrame.Current()
    threads, y, z = here.get_thread_extents()
    if threads % 32 or y * z != 1:
        raise ValueError("whole warps along x")
    block, thread = here.get_block_binding(0), here.threads[0]
    B[block, thread] = A[block, threads - 1 - thread] + here.num_threads + here.get_block_extents()[0]

@tilelang.jit
def turned(A):
    A: T.Tensor((3, 64), "int32")
    B = T.empty((3, 64), "int32")
    with T.Kernel(3, threads=64):
        rows(A, B)
    return B
"""


def test_a_macro_asks_for_the_launch_it_stands_in():
    import numpy as np

    from tests.emulator.block import run

    a, b = np.arange(192, dtype=np.int32).reshape(3, 64), np.zeros((3, 64), np.int32)
    run(lower_text(FRAME), {"A": a, "B": b})
    assert (b == a[:, ::-1] + 67).all()
