"""Layouts that inference chooses, where a reader would expect them; that all uses agree is checked by the
pass itself.
"""

from __future__ import annotations

from tvm import tirx as X

from tests.cuda.kernels import lower_text
from tests.ir.hand_made import gemm_relu, vector_add
from tilelang.arch.target import parse_target
from tilelang.layout.fragment import partition
from tilelang.passes.infer_layouts import infer_layouts
from tilelang.passes.loop_layouts import partition_plain, serves
from tilelang.passes.plan_pipelines import plan_pipelines
from tilelang.targets.cuda.ops.gemm_choice import gemm_layouts
from tilelang.targets.simt.expand import expand_elementwise

RULE = gemm_layouts(parse_target("cuda:sm_80"))


def inferred(func: X.PrimFunc) -> dict[str, str]:
    tiles = expand_elementwise(plan_pipelines(func).func)
    return infer_layouts(tiles, 128, RULE, "cuda:sm_80").describe()


def test_a_gemm_pins_its_operands() -> None:
    assert inferred(gemm_relu()) == {
        "A_shared": "64-byte swizzle",
        "B_shared": "128-byte swizzle",
        "C_local": "128 elements in each of 128 threads",
    }


def test_a_loop_over_memory_keeps_all_threads_busy() -> None:
    layouts = infer_layouts(vector_add(), 128, RULE, "cuda:sm_80")
    (loop,) = layouts.loops.values()
    assert loop.registers == 1, "128 elements for 128 threads: no vectors"
    assert partition_plain((4096,), 128, 4).digits[0].extent == 4
    assert partition_plain((1000,), 128, 8).digits[0].extent == 8


def test_a_reduced_row_is_held_by_the_threads_of_the_row() -> None:
    text = """
@tilelang.jit
def rows(A):
    A: T.Tensor((8, 64), "float32")
    B = T.empty((8,), "float32")
    with T.Kernel(1, threads=128):
        a = T.alloc_fragment((8, 64), "float32")
        b = T.alloc_fragment((8,), "float32")
        T.copy(A, a)
        T.reduce_sum(a, b, dim=1)
        T.copy(b, B)
    return B
"""
    lowered = lower_text(text)
    assert lowered.layouts["a"] == "4 elements in each of 128 threads"
    assert lowered.layouts["b"] == "1 element in each of 128 threads, every element in 16 threads"


def test_ownership_is_checked_element_by_element() -> None:
    i = X.Var("i", "int32")
    whole, loop = partition((128,), 128), partition((128,), 128)
    assert serves(loop, (i,), {}, (i,), whole, True)
    assert not serves(loop, (i,), {}, ((i + 1) % 128,), whole, False), "another thread's element"
    few = partition((64,), 128)  # every element in two threads
    half = partition((64,), 128).with_shape((64,))
    assert serves(half, (i,), {}, (i,), few, True)
    single = partition_plain((64,), 128, 1)
    assert serves(single, (i,), {}, (i,), few, False)
    assert not serves(single, (i,), {}, (i,), few, True), "the other copy would be left stale"


def test_a_sum_of_reduced_rows_follows_the_reduction() -> None:
    """The accumulator has no layout of its own: it stays with the threads of the row, which need not meet."""
    text = """
@tilelang.jit
def rows(A, B):
    A: T.Tensor((4, 2048), "float16")
    B: T.Tensor((4,), "float32")
    with T.Kernel(1, threads=128):
        tile = T.alloc_fragment((4, 256), "float32")
        part = T.alloc_fragment((4,), "float32")
        total = T.alloc_fragment((4,), "float32")
        T.clear(total)
        for k in T.serial(8):
            for i, j in T.Parallel(4, 256):
                tile[i, j] = A[i, k * 256 + j]
            T.reduce_sum(tile, part, dim=1)
            for i in T.Parallel(4):
                total[i] += part[i]
        T.copy(total, B)
"""
    lowered = lower_text(text)
    assert lowered.layouts["tile"] == "8 elements in each of 128 threads"
    assert lowered.layouts["part"] == "1 element in each of 128 threads, every element in 32 threads"
    assert lowered.layouts["total"] == lowered.layouts["part"]
    assert "__syncthreads" not in lowered.source.text
