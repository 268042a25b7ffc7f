"""Which branches and loops a team takes as one although values of its threads decide them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tilelang.diagnostics.error import KernelError

SCHEDULED = """
SHAPE = (8, 64, 64)

@T.prim_func
def main(A: T.Tensor(SHAPE, "float16"), Next: T.Tensor((1,), "int32"), B: T.Tensor(SHAPE, "float16")):
    with T.Kernel(2, threads=256) as bx:
        tx = T.get_thread_binding()
        tile = T.alloc_shared((64, 64), "float16")
        item = T.alloc_shared((1,), "int32")
        full = T.alloc_barrier(32)
        free = T.alloc_barrier(128)
        work = T.alloc_local([1], "int32")
        n = T.alloc_var("int32", init=0)
        if tx >= 128 and tx < 160:
            if tx == 128:
                work[0] = T.atomic_add(Next[0], 1, return_prev=True)
            SHARED_WORK
            while work[0] < 8:
                T.mbarrier_wait_parity(free, (n % 2) ^ 1)
                item[0] = work[0]
                T.tma_copy(A[work[0], 0:64, 0:64], tile, barrier=full)
                T.mbarrier_arrive(full)
                n += 1
                if tx == 128:
                    work[0] = T.atomic_add(Next[0], 1, return_prev=True)
                SHARED_WORK
            T.mbarrier_wait_parity(free, (n % 2) ^ 1)
            item[0] = -1
            T.mbarrier_arrive(full)
        if tx < 128:
            T.mbarrier_wait_parity(full, 0)
            work[0] = item[0]
            while work[0] >= 0:
                for i, j in T.Parallel(64, 64):
                    B[work[0], i, j] = tile[i, j] * 2
                T.mbarrier_arrive(free)
                n += 1
                T.mbarrier_wait_parity(full, n % 2)
                work[0] = item[0]
"""
SHUFFLE = "work[0] = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), work[0], 0, 32, 32)"


def test_work_that_one_lane_fetches_and_consumers_read() -> None:
    lowered = lower_text(SCHEDULED.replace("SHARED_WORK", SHUFFLE), "cuda:sm_90")
    a = np.random.default_rng(0).standard_normal((8, 64, 64)).astype(np.float16)
    b, counter = np.zeros_like(a), np.zeros(1, np.int32)
    run(lowered, {"A": a, "Next": counter, "B": b})
    np.testing.assert_array_equal(b, 2 * a)
    assert counter[0] == 8 + 2  # each block asked once more


@pytest.mark.parametrize(
    "instead",
    ["pass", "work[0] = work[0] + tx", SHUFFLE.replace("0, 32, 32)", "tx % 2, 32, 32)")],
    ids=["what one lane fetched", "by lane", "from two lanes"],
)
def test_lanes_with_numbers_of_their_own_share_nothing_out(instead: str) -> None:
    with pytest.raises(KernelError, match=r"T\.tma_copy is done by many threads together"):
        lower_text(SCHEDULED.replace("SHARED_WORK", instead), "cuda:sm_90")


LEFT = """
@T.prim_func
def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as bx:
        tx = T.get_thread_binding()
        tile = T.alloc_shared((64,), "float32")
        n = T.alloc_var("int32", init=0)
        if tx < 32:
            n = T.warp_reduce_sum(tx)
            while n > 0:
                n = n - 100
                if tx < LIMIT:
                    break
                T.copy(A, tile)
                T.copy(tile, B)
"""


def test_a_loop_that_some_leave_is_not_taken_as_one() -> None:
    with pytest.raises(KernelError, match="done by many threads together"):
        lower_text(LEFT.replace("LIMIT", "5"), "cuda:sm_90")


SET_BY_SOME = """
@T.prim_func
def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as bx:
        tx = T.get_thread_binding()
        tile = T.alloc_shared((64,), "float32")
        n = T.alloc_var("int32", init=0)
        if tx < 5:
            n = 1
        if n == 1:
            T.copy(A, tile)
            T.copy(tile, B)
"""


def test_a_branch_by_what_some_have_set_is_not_taken_as_one() -> None:
    with pytest.raises(KernelError, match="done by many threads together"):
        lower_text(SET_BY_SOME, "cuda:sm_90")


STORED_BY_EACH = """
@T.prim_func
def main(B: T.Tensor((2,), "float32")):
    with T.Kernel(1, threads=64) as bx:
        tx = T.get_thread_binding()
        n = T.alloc_var("int32", init=0)
        if tx >= 63:
            n = 1
        if tx >= 62:
            B[n] = 3.0
        for k in T.serial(2):
            if tx >= 62:
                n = 1 - n
        WRITE
"""


@pytest.mark.parametrize("write", ["B[n] = 5.0", "for v in T.vectorized(1):\n            B[n + v] = 5.0"])
def test_every_thread_stores_where_its_number_says_that_only_some_have_set(write: str) -> None:
    lowered = lower_text(STORED_BY_EACH.replace("WRITE", write), "cuda:sm_90")
    b = np.zeros(2, np.float32)
    run(lowered, {"B": b})
    np.testing.assert_array_equal(b, [5, 5])


def test_values_that_a_parallel_loop_leaves_differ() -> None:
    text = SET_BY_SOME.replace(
        "if tx < 5:\n            n = 1", "for i in T.Parallel(64):\n            n = i % 2"
    )
    with pytest.raises(KernelError):
        lower_text(text, "cuda:sm_90")


LEFT_WITH_NUMBERS = """
@T.prim_func
def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as bx:
        tx = T.get_thread_binding()
        tile = T.alloc_shared((64,), "float32")
        n = T.alloc_var("int32", init=0)
        for k in T.serial(4):
            n = tx
            if A[k] > 0:
                break
            n = 0
        if n < 5:
            T.copy(A, tile)
            T.copy(tile, B)
"""


def test_what_a_loop_is_left_with_counts() -> None:
    with pytest.raises(KernelError, match="done by many threads together"):
        lower_text(LEFT_WITH_NUMBERS, "cuda:sm_90")


RESCALED = """
@T.prim_func
def main(A: T.Tensor((64, 64), "float32"), S: T.Tensor((64,), "float32"), B: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        acc = T.alloc_fragment((64, 64), "float32")
        other = T.alloc_fragment((64, 64), "float32")
        scale = T.alloc_fragment((64,), "float32")
        moved = T.alloc_var("int32", init=0)
        T.copy(A, acc)
        T.copy(S, scale)
        for i in T.Parallel(64):
            if scale[i] != 1.0:
                moved = 1
        if moved == 1:
            WORK
        T.copy(acc, B)
"""
RESCALE = "for i, j in T.Parallel(64, 64):\n                acc[i, j] *= scale[i]"


def test_threads_that_found_a_reason_scale_what_they_hold() -> None:
    lowered = lower_text(RESCALED.replace("WORK", RESCALE), "cuda:sm_90")
    rng = np.random.default_rng(0)
    a = rng.standard_normal((64, 64)).astype(np.float32)
    s = np.where(rng.random(64) < 0.1, 0.5, 1.0).astype(np.float32)
    b = np.zeros_like(a)
    run(lowered, {"A": a, "S": s, "B": b})
    np.testing.assert_array_equal(b, a * s[:, None])


@pytest.mark.parametrize("work", ["T.copy(A, B)", "T.reduce_sum(acc, scale, dim=1)"])
def test_what_threads_do_together_is_not_for_those_that_found_a_reason(work: str) -> None:
    with pytest.raises(KernelError, match="done by many threads together"):
        lower_text(RESCALED.replace("WORK", work), "cuda:sm_90")
