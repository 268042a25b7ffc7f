"""Which copies a pipeline takes, and what it makes of them. That results stay right is shown in
tests/cuda.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tirx as X

from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.ir.hand_made import gemm_relu
from tilelang.ir import tile_ops
from tilelang.ops.copy import Copy
from tilelang.passes.plan_pipelines import SETTLED, PipelinePlan, plan_pipelines
from tilelang.passes.walk import loop_kind, walk


def statements(plan: PipelinePlan) -> list[Any]:
    return list(walk(plan.func.body))


def copies(plan: PipelinePlan) -> list[Copy]:
    return [
        Copy.read(s.value)
        for s in statements(plan)
        if isinstance(s, X.Evaluate) and tile_ops.is_call(s.value, tile_ops.COPY)
    ]


def allocated(plan: PipelinePlan) -> dict[str, list[int]]:
    return {
        str(s.buffer.name): [int(n) for n in s.buffer.shape]
        for s in statements(plan)
        if isinstance(s, X.AllocBuffer)
    }


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_each_tile_gets_as_many_versions_as_stages(stages: int) -> None:
    plan = plan_pipelines(gemm_relu(stages=stages))
    shapes = allocated(plan)
    assert shapes["A_shared"] == [stages, 128, 32]
    assert shapes["B_shared"] == [stages, 32, 128]
    assert [c.is_async for c in copies(plan)] == [True, True, True, True, False]  # the last one writes C


@pytest.mark.parametrize("stages", [0, 1])
def test_without_stages_nothing_is_versioned(stages: int) -> None:
    plan = plan_pipelines(gemm_relu(stages=stages))
    assert allocated(plan)["A_shared"] == [128, 32]
    assert not plan.versioned
    assert {loop_kind(s) for s in statements(plan) if isinstance(s, X.For)} == {"serial", "Parallel"}


def test_targets_without_asynchronous_copies_get_plain_loops() -> None:
    plan = plan_pipelines(gemm_relu(stages=3), asynchronous=False)
    assert allocated(plan)["A_shared"] == [128, 32]
    assert not any(c.is_async for c in copies(plan))


def test_the_steady_state_has_one_barrier_after_the_wait() -> None:
    plan = plan_pipelines(gemm_relu(stages=3))
    (loop,) = [s for s in statements(plan) if loop_kind(s) == "serial" and SETTLED in s.annotations]
    names = [str(s.value.op.name) if isinstance(s, X.Evaluate) else type(s).__name__ for s in loop.body.seq]
    assert names == ["tl.async_wait", "tl.sync", "IfThenElse", "tl.async_commit", "tl.gemm"]
    assert int(loop.body.seq[0].value.args[0].value) == 1


def test_a_short_loop_guards_its_prologue() -> None:
    plan = plan_pipelines(gemm_relu(k=32, stages=4))
    guarded = [s for s in statements(plan) if isinstance(s, X.IfThenElse)]
    assert len(guarded) == 2, "one in the prologue, one in the steady state"
    assert (
        len(
            [s for s in statements(plan_pipelines(gemm_relu(k=128, stages=4))) if isinstance(s, X.IfThenElse)]
        )
        == 1
    )


def test_spans_survive() -> None:
    plan = plan_pipelines(gemm_relu())
    assert [c.span.line for c in copies(plan)] == [15, 16, 15, 16, 22]


SIBLINGS = """
@tilelang.jit(out_idx=[1])
def siblings(second: int = 2):
    @T.prim_func
    def kernel(A: T.Tensor((8, 64), T.float32), B: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), T.float32)
            total = T.alloc_fragment((64,), T.float32)
            T.clear(total)
            for k in T.Pipelined(5, num_stages=2):
                T.copy(A[k, :], tile)
                for i in T.Parallel(64):
                    total[i] += tile[63 - i]
            for k in T.Pipelined(5, 8, num_stages=second):
                T.copy(A[k, :], tile)
                for i in T.Parallel(64):
                    total[i] += 10 * tile[63 - i]
            T.copy(total, B)

    return kernel
"""


@pytest.mark.parametrize(("second", "floats"), [(2, 2 * 64), (3, 5 * 64)])
def test_loops_of_as_many_stages_share_the_versions(second: int, floats: int) -> None:
    """The emulator would see the second loop's first copies race with the first loop's last reads."""
    lowered = lower_text(SIBLINGS, second=second)
    a, b = np.arange(512, dtype=np.float32).reshape(8, 64), np.zeros(64, np.float32)
    run(lowered, {"A": a, "B": b})
    assert np.array_equal(b, (a[:5].sum(0) + 10 * a[5:].sum(0))[::-1])
    assert lowered.plan.shared_bytes == 4 * floats
