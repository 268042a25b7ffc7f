"""The emulator notices what it is there for: each test breaks a right kernel in one way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import ir
from tvm import tirx as X

from tests.cuda.kernels import lower_example, lower_text
from tests.emulator.block import run
from tests.emulator.memory import EmulationError, poison
from tilelang.ir import tile_ops
from tilelang.passes.walk import remake
from tilelang.targets.lowered import LoweredKernel

TRANSPOSE = """
@tilelang.jit
def through_shared(A):
    N = T.const("N")
    A: T.Tensor((N, N), "float32")
    B = T.empty((N, N), "float32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((N, N), "float32")
        T.copy(A, s)
        for i, j in T.Parallel(N, N):
            B[i, j] = s[j, i]
    return B
"""


def changed(lowered: LoweredKernel, change: Callable[[Any], Any]) -> LoweredKernel:
    """The kernel with `change` applied to every Evaluate statement; None leaves it out."""

    def visit(stmt: Any) -> Any:
        return change(stmt) if isinstance(stmt, X.Evaluate) else remake(stmt, visit)

    return dataclasses.replace(lowered, func=lowered.func.with_body(visit(lowered.func.body)))


def without(name: str) -> Callable[[Any], Any]:
    return lambda stmt: None if tile_ops.is_call(stmt.value, name) else stmt


def gemm_tensors(m: int = 64, n: int = 64, k: int = 96) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s).astype(np.float16) for s in ((m, k), (k, n)))
    return {"A": a, "B": b, "C": poison((m, n), "float16")}


def gemm() -> LoweredKernel:
    return lower_example("quickstart", M=64, N=64, K=96, block_M=64, block_N=64, block_K=32)


def test_a_missing_barrier_is_a_race() -> None:
    lowered = lower_text(TRANSPOSE, N=16)
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    b = poison((16, 16), "float32")
    assert run(lowered, {"A": a, "B": b}).barriers == 1
    assert np.array_equal(b, a.T)
    with pytest.raises(EmulationError, match="race"):
        run(changed(lowered, without("tl.sync")), {"A": a, "B": b})


def test_a_pipeline_without_its_barrier_is_a_race() -> None:
    with pytest.raises(EmulationError, match="race"):
        run(changed(gemm(), without("tl.sync")), gemm_tensors())


def test_waiting_for_too_few_copies_is_noticed() -> None:
    def one_more(stmt: Any) -> Any:
        if not tile_ops.is_call(stmt.value, "tl.cuda.cp_async_wait"):
            return stmt
        count = int(stmt.value.args[0].value) + 1
        return X.Evaluate(tile_ops.call("tl.cuda.cp_async_wait", [X.const(count, "int32")]))

    with pytest.raises(EmulationError, match="while an asynchronous copy fills it"):
        run(changed(gemm(), one_more), gemm_tensors())


def test_a_missing_guard_is_out_of_bounds() -> None:
    lowered = lower_example("vector_add", N=1000)

    def unguarded(stmt: Any) -> Any:
        return unguarded(stmt.then_case) if isinstance(stmt, X.IfThenElse) else remake(stmt, unguarded)

    broken = dataclasses.replace(lowered, func=lowered.func.with_body(unguarded(lowered.func.body)))
    x = np.zeros(1000, np.float32)
    with pytest.raises(EmulationError, match=r"\[1023\] of 1000"):
        run(broken, {"A": x, "B": x, "C": x.copy()})


def test_a_barrier_that_some_threads_skip_is_noticed() -> None:
    lowered = lower_text(TRANSPOSE, N=16)
    thread = next(v for v in _thread_variables(lowered.func.body))

    def guarded(stmt: Any) -> Any:
        return X.IfThenElse(thread < 32, stmt, None) if tile_ops.is_call(stmt.value, "tl.sync") else stmt

    a = np.zeros((16, 16), np.float32)
    with pytest.raises(EmulationError, match="only some threads"):
        run(changed(lowered, guarded), {"A": a, "B": a.copy()})


def _thread_variables(stmt: Any) -> list[ir.Var]:
    if not isinstance(stmt, X.AttrStmt):
        return []
    own = [stmt.node.var] if str(stmt.node.thread_tag) == "threadIdx.x" else []
    return own + _thread_variables(stmt.body)
