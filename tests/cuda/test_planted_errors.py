"""Errors planted in the compiler are found without a GPU: each makes the emulator or the oracle object.

Every fault breaks one place in a way that has really happened to somebody: a prefetch into the wrong stage, a
barrier that is missing, a swizzle that is lost. The kernels are right with the compiler as it is, and one of
them goes wrong with the fault. So a change that makes such an error does not pass the tests.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.cuda.kernels import lower_example, random, run_text
from tests.cuda.planted import Fault, FoundError, nothing, same
from tests.emulator.block import Statistics, run
from tests.emulator.memory import poison
from tilelang.layout import gemm_operands, shared
from tilelang.layout.instruction import InstructionTile, Step
from tilelang.passes import guard_bounds, plan_pipelines, plan_shared
from tilelang.targets.cuda.ops import gemm_choice
from tilelang.targets.simt import place
from tilelang.targets.simt.ops import reduce

from tvm import tirx as X  # isort: skip


COLUMN_SUMS = """
@tilelang.jit
def column_sums(X):
    X: T.Tensor((40, 56), T.float32)
    Y = T.empty((56,), T.float32)
    with T.Kernel(1, threads=128):
        x = T.alloc_fragment((40, 56), T.float32)
        y = T.alloc_fragment((56,), T.float32)
        T.copy(X, x)
        T.reduce_sum(x, y, dim=0)
        T.copy(y, Y)
    return Y
"""


def gemm(m: int = 100, n: int = 72, k: int = 200) -> Statistics:
    """The quickstart with ragged edges against numpy; its tiles promise reads without bank conflicts."""
    rng = np.random.default_rng(0)
    a, b, c = random(rng, (m, k), "float16"), random(rng, (k, n), "float16"), poison((m, n), "float16")
    lowered = lower_example("quickstart", M=m, N=n, K=k, block_M=64, block_N=64, block_K=32)
    statistics = run(lowered, {"A": a, "B": b, "C": c})
    same(c, np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0))
    if statistics.ldmatrix_conflicts != 1:
        raise FoundError(f"ldmatrix takes {statistics.ldmatrix_conflicts} times as long")
    return statistics


def softmax(m: int = 6, n: int = 1000) -> Statistics:
    """Rows that are reduced across the warps of a block."""
    x, y = random(np.random.default_rng(0), (m, n), "float32"), poison((m, n), "float32")
    statistics = run(lower_example("softmax", M=m, N=n), {"X": x, "Y": y})
    e = np.exp(x - x.max(axis=1, keepdims=True))
    same(y, e / e.sum(axis=1, keepdims=True))
    return statistics


def column_sums() -> Statistics:
    """Sums over an extent that is no multiple of the threads."""
    x, y = random(np.random.default_rng(0), (40, 56), "float32"), poison(56, "float32")
    statistics = run_text(COLUMN_SUMS, {"X": x, "Y": y})
    same(y, x.sum(axis=0))
    return statistics


def swapped_registers(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Neighbouring elements in neighbouring threads instead of neighbouring registers."""
    (pair, _, _), (lanes, _, _) = steps
    return ((lanes, "thread", 1), (pair, "register", 1))


FAULTS = {
    # stages of the pipeline
    "a prefetch into the stage that is being read": Fault(
        plan_pipelines,
        "_modulo",
        lambda modulo: lambda number, stages: modulo(number, max(1, stages - 1)),
        gemm,
    ),
    "a wait that leaves one copy too many in flight": Fault(
        plan_pipelines,
        "_wait",
        lambda wait: lambda in_flight, at: wait(in_flight + 1, at),
        gemm,
    ),
    "copies that are never committed": Fault(plan_pipelines, "_commit", lambda _: nothing, gemm),
    "every stage reads the same version": Fault(
        plan_pipelines,
        "read_version",
        lambda read: lambda stmt, versions, version: read(stmt, versions, X.IntImm("int32", 0)),
        gemm,
    ),
    # barriers
    "no barrier between the steps of the pipeline": Fault(
        plan_pipelines, "_barrier", lambda _: nothing, gemm
    ),
    "no barrier around what threads exchange": Fault(
        place, "insert_sync", lambda _: lambda func, *_: func, softmax
    ),
    # guards
    "accesses that nothing guards": Fault(guard_bounds, "missing_bounds", lambda _: lambda *_: [], gemm),
    "a guard that lets one row too many pass": Fault(
        guard_bounds,
        "missing_bounds",
        lambda missing: (
            lambda *given: [X.LE(c.a, c.b) if isinstance(c, X.LT) else c for c in missing(*given)]
        ),
        gemm,
    ),
    "guards that look at the last dimension only": Fault(
        guard_bounds,
        "missing_bounds",
        lambda missing: lambda *given: missing(*given)[-1:],
        gemm,
    ),
    # layouts
    "a swizzle that puts two chunks in one place": Fault(shared, "_xor", lambda _: lambda a, b: a | b, gemm),
    "a swizzle that is lost": Fault(
        gemm_choice,
        "shared_operand",
        lambda _: lambda kind, shape, bits: shared.linear(shape, bits),
        gemm,
    ),
    "an accumulator whose warps take turns along the rows": Fault(
        gemm_operands,
        "accumulator",
        lambda made: lambda *given: made(*given[:-1], not given[-1]),
        gemm,
    ),
    "an accumulator with its pairs of columns in other registers": Fault(
        gemm_operands,
        "MMA_C",
        lambda tile: InstructionTile(tile.rows, swapped_registers(tile.columns)),
        gemm,
    ),
    "tiles that lie upon each other": Fault(plan_shared, "_first_fit", lambda _: lambda life, taken: 0, gemm),
    # predicates
    "a reduction that takes in what lies outside": Fault(
        reduce, "_when", lambda _: lambda condition, stmt, span: stmt, column_sums
    ),
    "prefetches beyond the end of a short loop": Fault(
        plan_pipelines,
        "_when",
        lambda _: lambda condition, stmts, loop, ahead: plan_pipelines.seq(stmts),
        lambda: gemm(k=32),
    ),
}


@pytest.mark.parametrize("kernel", [gemm, softmax, column_sums, lambda: gemm(k=32)])
def test_without_a_fault_nobody_objects(kernel: Callable[[], Statistics]) -> None:
    kernel()


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_error_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    FAULTS[name].must_be_found(monkeypatch)
