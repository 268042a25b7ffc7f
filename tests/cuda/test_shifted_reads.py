"""Shifted reads of fragments: what the check refuses the lowering refuses, and what it lets pass is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.emulator.block import run as emulate
from tests.emulator.memory import numpy_dtype
from tests.frontend.programs import BUILD
from tilelang.analysis.check import check_source
from tilelang.arch.target import parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.ir.build import build_prim_func
from tilelang.reference import run as meaning
from tilelang.targets.driver import lower

KERNEL = """
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A):
    A: T.Tensor({shape}, T.float32)
    O = T.empty({loop}, T.float32)
    with T.Kernel(1, threads={threads}):
        f = T.alloc_fragment({shape}, T.float32)
        T.copy(A, f)
        for {names} in T.Parallel{loop}:
            O[{names}] = {value}
    return O
"""
READS = [
    # tile, loop, value, whether a thread has it at hand
    ((66,), (64,), "f[i] + f[i + 1] + f[i + 2]", True),
    ((66,), (64,), "f[i + 1]", True),
    ((96,), (95,), "f[i + 1] - f[i]", True),
    ((97,), (96,), "f[i + 1] - f[i]", False),
    ((130,), (128,), "f[i] + f[i + 1] + f[i + 2]", False),
    ((64,), (64,), "f[(i + 1) % 64]", False),
    ((128,), (64,), "f[i + 64]", True),
    ((64,), (64,), "f[63 - i]", True),
    ((10, 8), (8, 8), "f[i, j] - 2 * f[i + 1, j] + f[i + 2, j]", True),
    ((8, 10), (8, 8), "f[i, j] - f[i, j + 2]", True),
    ((130, 64), (128, 64), "f[i + 1, j]", True),
    ((130, 64), (128, 64), "f[i + 1, j] * f[i + 1, j]", True),
    ((130, 64), (128, 64), "f[i + 1, j] - f[i + 2, j]", False),
    ((64, 64), (48, 32), "f[i + 16, j + 30]", True),
    ((8, 8), (8, 8), "f[i, j] + f[j, i]", False),
    ((64, 64), (64, 32), "f[i, j] - f[i, j + 32]", False),
    ((512,), (128, 4), "f[i * 4 + j] * A[3]", True),
]
NAMES = [f"{value} of {tile}" for tile, _, value, _ in READS]


@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize(("tile", "loop", "value", "at_hand"), READS, ids=NAMES)
def test_check_and_lowering_agree(
    tile: tuple[int, ...], loop: tuple[int, ...], value: str, at_hand: bool, threads: int
):
    names = ", ".join("ij"[: len(loop)])
    text = KERNEL.format(shape=tile, loop=loop, names=names, value=value, threads=threads)
    report = check_source("k.py", text, "cuda:sm_80")
    assert [p.rule for p in report.all_problems() if p.severity.value == "error"][:1] == (
        [] if at_hand else ["fragment-cross-thread"]
    )
    module = StaticModule("k.py", text)
    func = build_prim_func(trace_static(module, module.kernels[0]), BUILD)
    if not at_hand:
        with pytest.raises(KernelError, match="fragment-layout"):
            lower(func, parse_target("cuda:sm_80"))
        return
    a = torch.randn(*tile, generator=torch.Generator().manual_seed(1))
    found = np.full(loop, np.nan, np.float32)
    emulate(lower(func, parse_target("cuda:sm_80")), {"A": a.numpy(), "O": found}, {})
    np.testing.assert_allclose(found, meaning(func, a).numpy(), rtol=1e-6, atol=1e-6)


IN_TURN = """
import tilelang
import tilelang.language as T

@tilelang.jit
def scatter(Scores, Values, Rows, Sums):
    Scores: T.Tensor((32, 64), T.bfloat16)
    Values: T.Tensor((32, 64), T.bfloat16)
    Rows: T.Tensor((32,), T.int32)
    Sums: T.Tensor((40, 64), T.float32)
    with T.Kernel(1, threads=128):
        scores = T.alloc_shared((32, 64), T.bfloat16)
        values = T.alloc_shared((32, 64), T.bfloat16)
        weights = T.alloc_shared((32, 32), T.bfloat16)
        part = T.alloc_shared((32 // {turns}, 64), T.float32)
        used = T.alloc_fragment((32,), "bool")
        row = T.alloc_fragment((32,), T.int32)
        weight = T.alloc_fragment((32, 32), T.float32)
        sums = T.alloc_fragment((32, 64), T.float32)
        T.copy(Scores, scores)
        T.copy(Values, values)
        for n in T.Parallel(32):
            used[n] = Rows[n] >= 0
            row[n] = T.if_then_else(used[n], Rows[n], 0)
        for m, n in T.Parallel(32, 32):
            weight[m, n] = T.if_then_else(used[n], 0, -64)
        T.gemm(scores, values, weight, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
        T.copy(weight, weights)
        T.gemm(weights, values, sums, transpose_A=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
        for turn in range({turns}):
            for n, d in T.Parallel(32, 64):
                if n < 32 // {turns}:
                    part[n, d] = sums[n + turn * (32 // {turns}), d]
            for n, d in T.Parallel(32 // {turns}, 16):
                if used[n + turn * (32 // {turns})]:
                    T.atomic_addx4(Sums[row[n + turn * (32 // {turns})], d * 4], part[n, d * 4])
"""


@pytest.mark.parametrize(("turns", "target"), [(2, "cuda:sm_90"), (4, "cuda:sm_80")])
def test_rows_of_several_fragments_leave_in_turns(turns: int, target: str):
    """All that such a loop reads lies where one loop over the rows can run, though gemms decide where."""
    text = IN_TURN.format(turns=turns)
    assert not [
        p for p in check_source("k.py", text, "cuda:sm_80").all_problems() if p.severity.value == "error"
    ]
    module = StaticModule("k.py", text)
    func = build_prim_func(trace_static(module, module.kernels[0]), BUILD)
    gen = torch.Generator().manual_seed(3)
    scores, values = (torch.randint(-1, 2, (32, 64), generator=gen).bfloat16() for _ in range(2))
    rows = torch.randint(-8, 40, (32,), generator=gen, dtype=torch.int32)
    weights = (scores.float() @ values.float().T - 64 * (rows < 0)).bfloat16().float()
    kept = rows >= 0
    expected = torch.zeros(40, 64).index_add_(0, rows[kept].long(), (weights.T @ values.float())[kept])
    tensors, stored = {"Scores": scores, "Values": values}, numpy_dtype("bfloat16")
    given = {name: t.view(torch.uint8).numpy().view(stored) for name, t in tensors.items()}
    found = np.zeros((40, 64), np.float32)
    emulate(lower(func, parse_target(target)), {**given, "Rows": rows.numpy(), "Sums": found}, {})
    np.testing.assert_array_equal(found, expected.numpy())
