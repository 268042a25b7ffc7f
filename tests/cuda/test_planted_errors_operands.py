"""Errors planted in how operands are read: flags of a gemm, ldmatrix, lanes of wide accesses, numbers of half
a byte, phases of barriers, gathers that run ahead. The emulator or the oracle finds each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, run_text
from tests.cuda.planted import Fault, FoundError, same
from tests.cuda.test_pipelined_gathers import ROWS
from tests.cuda.test_planted_errors_hopper import split_in_roles
from tests.cuda.test_wgmma import gemm_text
from tests.emulator.block import run
from tests.emulator.memory import poison
from tests.ops.test_gemm_sp import FORMS
from tilelang.ops.gemm import Gemm
from tilelang.passes import gathers, pack_halves, parallel_loop, tile_ring
from tilelang.targets.cuda.ops import copy as cuda_copy
from tilelang.targets.cuda.ops import gemm as cuda_gemm
from tilelang.targets.cuda.ops import metadata, wgmma
from tilelang.targets.simt.ops import vectorized
from tilelang.utils.sparse import compress, random_sparse

from tvm import tirx as X  # isort: skip

PACKED = """
@tilelang.jit
def packed(A):
    A: T.Tensor((16, 64), T.int8)
    Q = T.empty((16, 64), T.int4)
    with T.Kernel(1, threads=32):
        for i, j in T.Parallel(16, 64):
            Q[i, j] = T.cast(A[i, j], T.int4)
    return Q
"""

# Two scales for the lanes of one wide access.
SCALED = """
@tilelang.jit
def scaled(A, S):
    A: T.Tensor((16, 64), T.float16)
    S: T.Tensor((16, 40), T.float16)
    D = T.empty((16, 64), T.float16)
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((16, 40), T.float16)
        d = T.alloc_shared((16, 64), T.float16)
        T.copy(A, d)
        T.copy(S, s)
        for i, j in T.Parallel(16, 64):
            d[i, j] = d[i, j] * s[i, j // 4 * 2 + 1]
        T.copy(d, D)
    return D
"""

TAIL = """
@tilelang.jit
def moved(A):
    A: T.Tensor((32, 8), T.float32)
    B = T.empty((32, 8), T.float32)
    with T.Kernel(1, threads=32):
        t = T.get_thread_binding()
        for v in T.vectorized(6):
            B[t, v] = A[t, v] * 2
    return B
"""

LEFT_OUT = """
@tilelang.jit
def left_out(A):
    A: T.Tensor((16, 64), T.float32)
    B = T.empty((16, 64), T.float32)
    with T.Kernel(1, threads=64):
        x = T.alloc_shared((16, 64), T.float32)
        for i, j in T.Parallel(16, 64):
            x[i, j] = T.if_then_else(j < 42, A[i, j], 0)
        T.copy(x, B)
    return B
"""


def expect(found: np.ndarray, wanted: np.ndarray) -> None:
    if not np.allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=2e-3, atol=2e-3):
        raise FoundError("the result is wrong")


def transposed(flags: tuple[bool, bool]) -> Callable[[], None]:
    """A product of squares on mma.sync, so that no flag changes a shape."""

    def kernel() -> None:
        rng = np.random.default_rng(0)
        a, b = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
        c = poison((64, 64), "float32")
        run(
            lower_text(gemm_text(64, 64, 64, 128, *flags), "cuda:sm_80", M=64, N=64, K=64),
            {"A": a, "B": b, "C": c},
        )
        left, right = (
            x.astype(np.float32).T if turned else x for x, turned in zip((a, b), flags, strict=True)
        )
        expect(c, left.astype(np.float32) @ right.astype(np.float32))

    return kernel


def packed() -> None:
    numbers, q = (
        np.random.default_rng(0).integers(-8, 8, (16, 64)).astype(np.int8),
        np.zeros((16, 32), np.int8),
    )
    run_text(PACKED, {"A": numbers, "Q": q})
    codes = numbers.view(np.uint8) & 15
    expect(q.view(np.uint8), codes[:, ::2] | codes[:, 1::2] << 4)


def scaled() -> None:
    rng = np.random.default_rng(0)
    a, s = (rng.integers(1, 9, n).astype(np.float16) for n in ((16, 64), (16, 40)))
    d = poison((16, 64), "float16")
    run_text(SCALED, {"A": a, "S": s, "D": d})
    expect(d, a * s[:, np.arange(64) // 4 * 2 + 1])


def tail() -> None:
    a, b = np.random.default_rng(0).normal(size=(32, 8)).astype(np.float32), np.zeros((32, 8), np.float32)
    run_text(TAIL, {"A": a, "B": b})
    expect(b[:, :6], a[:, :6] * 2)


def left_out() -> None:
    a, b = np.random.default_rng(0).normal(size=(16, 64)).astype(np.float32), poison((16, 64), "float32")
    run_text(LEFT_OUT, {"A": a, "B": b})
    expect(b, np.where(np.arange(64) < 42, a, 0))


def gathered() -> None:
    rng = np.random.default_rng(0)
    x, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((40, 128), (128, 64)))
    rows, c = rng.integers(-3, 40, 64).astype(np.int32), poison((64, 64), "float32")
    run(lower_text(ROWS, "cuda:sm_80"), {"X": x, "Rows": rows, "B": b, "C": c})
    taken = np.where(rows[:, None] >= 0, x[np.maximum(rows, 0)], 0).astype(np.float32)
    expect(c, taken @ b.astype(np.float32))


def misread(**flags: bool) -> Callable[[Any], Any]:
    """T.gemm calls that are read with other flags."""
    return lambda _: SimpleNamespace(read=lambda call: replace(Gemm.read(call), **flags))


def other_phase(make: Any) -> Any:
    """Waits for the phase before the one that is meant."""

    def call(name: str, args: list[Any], at: Any) -> Any:
        if name == "tl.mbarrier_wait":
            args = [args[0], X.bitwise_xor(args[1], X.const(1, str(args[1].ty)))]
        return make(name, args, at)

    return call


def other_transposition(load: Any) -> Any:
    return lambda self, *given: load(self, *given[:-1], not given[-1])


def stored_by_halves() -> None:
    """A product of the stored half of A, with sparse wgmma and with mma.sp."""
    dense, b = random_sparse(128, 256), random_sparse(128, 256, seed=1)
    half, codes = compress(dense)
    for target in ("cuda:sm_90", "cuda:sm_80"):
        choice = {"dtype": "float16", "out": "float32", "meta": "int16", "codes": 16, "turns": (0, 0, 1)}
        shown = {k: repr(v) for k, v in (choice | {"tiles": (64, 64, 64)}).items()}
        c = poison((128, 128), "float32")
        lowered = lower_text(FORMS, target, **shown)
        run(lowered, {"A": half.numpy(), "E": codes.numpy(), "B": b.numpy(), "C": c})
        same(c, (dense.double() @ b.double().t()).numpy())


def without_offset(window: Any) -> Any:
    def broken(*given: Any) -> Any:
        found = window(*given)
        return None if found is None else (found[0], 0)

    return broken


def an_iteration_late(early: Any) -> Any:
    return lambda self, values, *rest: early(self, {v: k - 1 for v, k in values.items()}, *rest)


FAULTS = {
    "B taken for stored the other way": Fault(
        cuda_gemm, "Gemm", misread(transpose_b=False), transposed((False, True))
    ),
    "A taken for stored the other way": Fault(
        cuda_gemm, "Gemm", misread(transpose_a=False), transposed((True, False))
    ),
    "ldmatrix that transposes what it should not": Fault(
        cuda_gemm.GemmLowering, "ldmatrix", other_transposition, transposed((False, True))
    ),
    "ldmatrix that does not transpose what it should": Fault(
        cuda_gemm.GemmLowering, "ldmatrix", other_transposition, transposed((True, False))
    ),
    "metadata of the first step for all": Fault(
        metadata.Metadata,
        "register",
        lambda right: lambda self, row, _: right(self, row, 0),
        stored_by_halves,
    ),
    "metadata of rows in each other's place": Fault(
        metadata.Metadata,
        "_element",
        lambda right: lambda self, row, column: right(self, row + 1 - row % 2 * 2, column),
        stored_by_halves,
    ),
    "steps of B as deep as those of a dense A": Fault(
        wgmma, "_walk", lambda walk: lambda *given: walk(*given[:3]), stored_by_halves
    ),
    "a wait for the phase before": Fault(tile_ring, "barrier_call", other_phase, split_in_roles),
    "the last lanes of a vectorised loop dropped": Fault(vectorized, "_lanes", lambda _: lambda *_: 4, tail),
    "a scale of the wrong group": Fault(parallel_loop.VectorWidths, "window", without_offset, scaled),
    "the two numbers of a byte exchanged": Fault(
        pack_halves, "_joined", lambda joined: lambda low, high: joined(high, low), packed
    ),
    "lanes that obey the condition of the first": Fault(
        parallel_loop.VectorWidths, "uniform", lambda _: lambda *_: True, left_out
    ),
    "a gather that loads what its condition leaves out": Fault(
        cuda_copy, "guarded_load", lambda read: lambda value: (read(value)[0], None), gathered
    ),
    "a gather for the iteration before": Fault(gathers.Gather, "early", an_iteration_late, gathered),
}
KERNELS = {fault.kernel: None for fault in FAULTS.values()}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_without_a_fault_nobody_objects(kernel: Callable[[], None]) -> None:
    kernel()


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_error_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    FAULTS[name].must_be_found(monkeypatch)
