"""Shifted reads of fragments: what the check refuses the lowering refuses, and what it lets pass is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.emulator.block import run as emulate
from tests.frontend.programs import BUILD
from tilelang.analysis.check import check_source
from tilelang.arch.target import parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.frontend.specialise import trace_static
from tilelang.frontend.static_module import StaticModule
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
