"""Errors planted in what is lowered for sm_90 (TMA, mbarriers, wgmma, warp specialisation) and in wide
accesses are found by the emulator or the oracle, as those of test_planted_errors.py are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels import run_text
from tests.cuda.planted import Fault, FoundError, nothing, same
from tests.cuda.test_warp_groups import TMA, specialised
from tests.cuda.test_wgmma import gemm_text, lowered_for
from tests.emulator.block import run
from tests.emulator.memory import poison
from tilelang.passes import parallel_loop, specialise_warps, tile_ring
from tilelang.targets.cuda.ops import tma, wgmma
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.simt.ops import lanes

from tvm import tirx as X  # isort: skip

SIZES: dict[str, Any] = {"M": 64, "N": 64, "K": 256}
ODD_ROWS = """
@tilelang.jit
def moved(X):
    X: T.Tensor((16, 65), T.float32)
    Y = T.empty((16, 64), T.float32)
    with T.Kernel(1, threads=64):
        x = T.alloc_shared((16, 64), T.float32)
        T.copy(X[0:16, 1:65], x)
        for i, j in T.Parallel(16, 64):
            Y[i, j] = x[i, j] * 2 + 1
    return Y
"""


def product(lowered: LoweredKernel, result: str = "float32") -> None:
    """A kernel of a product against numpy."""
    rng = np.random.default_rng(0)
    m, n, k = SIZES.values()
    a, b = rng.normal(size=(m, k)).astype(np.float16), rng.normal(size=(k, n)).astype(np.float16)
    c = poison((m, n), result)
    run(lowered, {"A": a, "B": b, "C": c})
    if not np.allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=0.05):
        raise FoundError("the product is wrong")


def split_in_roles() -> None:
    """A warp group loads by TMA, another one multiplies, over two stages."""
    lowered = specialised(gemm_text(64, 64, 32, 128), **SIZES)
    assert "tma_load_2d" in lowered.source.text
    product(lowered)


def by_wgmma() -> None:
    lowered = lowered_for(gemm_text(64, 64, 64, 128), None, **SIZES)
    assert "wgmma_" in lowered.source.text
    product(lowered)


def stored_by_tma() -> None:
    product(lowered_for(TMA, None, **SIZES), "float16")


def wide_accesses() -> None:
    """Rows that begin anywhere, and a loop whose accesses are 16 bytes wide."""
    x, y = np.random.default_rng(0).normal(size=(16, 65)).astype(np.float32), poison((16, 64), "float32")
    run_text(ODD_ROWS, {"X": x, "Y": y})
    same(y, x[:, 1:] * 2 + 1)


def without(name: str) -> Callable[[Any], Any]:
    """What makes calls, except those of one instruction."""
    return lambda make: (
        lambda called, args, at: (
            nothing(at.span if hasattr(at, "span") else at) if called == name else make(called, args, at)
        )
    )


def always_first_phase(make: Any) -> Any:
    def call(name: str, args: list[Any], at: Any) -> Any:
        return make(name, [args[0], X.const(0, "uint32")] if name == "tl.mbarrier_wait" else args, at)

    return call


def doubled_stride(walk: Any) -> Any:
    def broken(*given: Any) -> Any:
        lead, stride, *path = walk(*given)
        return (lead, 2 * stride, *path)

    return broken


FAULTS = {
    "waits that look at one phase of a barrier only": Fault(
        tile_ring, "barrier_call", always_first_phase, split_in_roles
    ),
    "a stage that is free as soon as half of the warps have read it": Fault(
        specialise_warps, "_WARP", lambda warp: 2 * warp, split_in_roles
    ),
    "a barrier that counts one arrival too many": Fault(
        specialise_warps, "_WARP", lambda warp: warp // 2, split_in_roles
    ),
    "no proxy fence before a bulk store": Fault(tma, "_call", without("fence_proxy_async"), stored_by_tma),
    "no proxy fence before wgmma": Fault(wgmma, "seq", lambda _: lambda parts: parts[-1], by_wgmma),
    "a descriptor whose groups of rows are twice as far apart": Fault(
        wgmma, "_walk", doubled_stride, by_wgmma
    ),
    "a wide access at an address that is no multiple of it": Fault(
        parallel_loop.VectorWidths, "_aligned", lambda _: lambda *given: True, wide_accesses
    ),
    "a wide access whose lanes are one element too far": Fault(
        lanes, "ramp", lambda ramp: lambda base, lanes: ramp(base + 1, lanes), wide_accesses
    ),
}
KERNELS = (split_in_roles, by_wgmma, stored_by_tma, wide_accesses)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_without_a_fault_nobody_objects(kernel: Callable[[], None]) -> None:
    kernel()


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_error_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    FAULTS[name].must_be_found(monkeypatch)
