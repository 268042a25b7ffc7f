"""Warp groups with code of their own: gemms, copies, reductions inside T.ws, ordered by mbarriers and TMA."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import HEAD, lower_text
from tests.cuda.test_wgmma import ATTENTION, gemm_text, instructions, lowered_for
from tests.emulator.block import run
from tests.emulator.memory import EmulationError, poison
from tilelang.arch.cuda import DISABLE_WARP_SPECIALISED
from tilelang.arch.target import parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.jit.functions import JITFunction
from tilelang.passes.specialise_warps import GROUP, SPLITS, Refusal, specialise_warps
from tilelang.runtime.plan import LaunchPlan
from tilelang.targets.driver import build, lower
from tilelang.targets.lowered import LoweredKernel

GEMM = """
@tilelang.jit
def matmul(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=256) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        acc = T.alloc_fragment((64, 64), T.float32)
        ready = T.alloc_barrier(128)
        done = T.alloc_barrier(128)
        with T.ws(1):
            for k in T.serial(T.ceildiv(K, 64)):
                T.mbarrier_wait_parity(done, (k % 2) ^ 1)
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[k * 64, bx * 64], b)
                T.mbarrier_arrive(ready)
        with T.ws(0):
            T.clear(acc)
            for k in T.serial(T.ceildiv(K, 64)):
                T.mbarrier_wait_parity(ready, k % 2)
                T.gemm(a, b, acc)
                T.mbarrier_arrive(done)
            T.copy(acc, C[by * 64, bx * 64])
    return C
"""

TMA = """
@tilelang.jit
def matmul(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 64), threads=256) as (bx, by):
        a = T.alloc_shared((2, 64, 64), T.float16)
        b = T.alloc_shared((2, 64, 128), T.float16)
        c = T.alloc_shared((64, 128), T.float16)
        acc = T.alloc_fragment((64, 128), T.float32)
        ready = T.alloc_barrier([128, 128])
        done = T.alloc_barrier([128, 128])
        with T.ws(1):
            T.dec_max_nreg(24)
            for k in T.serial(T.ceildiv(K, 64)):
                T.mbarrier_wait_parity(done[k % 2], (k // 2 % 2) ^ 1)
                T.tma_copy(A[by * 64, k * 64], a[k % 2, :, :], barrier=ready[k % 2])
                T.tma_copy(B[k * 64, bx * 128], b[k % 2, :, :], barrier=ready[k % 2])
                T.mbarrier_arrive(ready[k % 2])
        with T.ws(0):
            T.inc_max_nreg(240)
            T.clear(acc)
            for k in T.serial(T.ceildiv(K, 64)):
                T.mbarrier_wait_parity(ready[k % 2], k // 2 % 2)
                T.gemm(a[k % 2, :, :], b[k % 2, :, :], acc)
                T.mbarrier_arrive(done[k % 2])
            T.copy(acc, c)
            T.tma_copy(c, C[by * 64, bx * 128])
            T.tma_store_wait()
    return C
"""

# Two products on their way: the next one begins before the last one is waited for.
ASYNC = TMA.replace(
    "                T.gemm(a[k % 2, :, :], b[k % 2, :, :], acc)\n"
    "                T.mbarrier_arrive(done[k % 2])\n",
    "                T.wgmma_gemm(a[k % 2, :, :], b[k % 2, :, :], acc)\n"
    "                T.wait_wgmma(1)\n"
    "                if k > 0:\n"
    "                    T.mbarrier_arrive(done[(k + 1) % 2])\n",
).replace("            T.copy(acc, c)", "            T.wait_wgmma(0)\n            T.copy(acc, c)")

SOFTMAX = """
@tilelang.jit
def softmax(A, B):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    C = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=384) as bx:
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        p = T.alloc_shared((64, 64), T.float16)
        s = T.alloc_fragment((64, 64), T.float32)
        top = T.alloc_fragment((64,), T.float32)
        total = T.alloc_fragment((64,), T.float32)
        acc = T.alloc_fragment((64, 64), T.float32)
        scored = T.alloc_barrier(128)
        T.copy(A, a)
        T.copy(B, b)
        T.clear(acc)
        with T.ws(0):
            T.gemm(a, b, s, transpose_B=True, clear_accum=True)
            T.reduce_max(s, top, dim=1)
            for i, j in T.Parallel(64, 64):
                s[i, j] = T.exp(s[i, j] - top[i])
            T.reduce_sum(s, total, dim=1)
            for i, j in T.Parallel(64, 64):
                s[i, j] = s[i, j] / total[i]
            T.copy(s, p)
            T.mbarrier_arrive(scored)
        with T.ws(1, 2):
            T.mbarrier_wait_parity(scored, 0)
            T.gemm(p, b, acc)
        T.copy(acc, C)
    return C
"""


def product(text: str, m: int, n: int, k: int, result: str = "float32") -> float:
    """Runs a product in the emulator; the largest error."""
    lowered = lowered_for(text, None, M=m, N=n, K=k)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)).astype(np.float16), rng.normal(size=(k, n)).astype(np.float16)
    c = poison((m, n), result)
    run(lowered, {"A": a, "B": b, "C": c})
    return float(np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max())


def specialised(text: str, **sizes: int) -> LoweredKernel:
    """The kernel with warp specialisation asked for."""
    module, target = StaticModule("kernel.py", HEAD + text), parse_target("cuda:sm_90")
    program = trace_static(module, module.kernels[0], {k: str(v) for k, v in sizes.items()})
    func = prim_func_of(program, target, HEAD + text).with_attr(DISABLE_WARP_SPECIALISED, False)
    return lower(func, target)


@pytest.mark.parametrize(
    ("tile", "threads", "m", "n", "k"),
    [
        ((128, 128, 64), 128, 128, 200, 328),
        ((64, 64, 32), 256, 72, 128, 96),
        ((128, 64, 64), 256, 256, 64, 64),
    ],
)
def test_a_pipeline_shared_between_warp_groups(
    tile: tuple[int, int, int], threads: int, m: int, n: int, k: int
) -> None:
    lowered = specialised(gemm_text(*tile, threads), M=m, N=n, K=k)
    assert lowered.plan.threads == (threads + 128,) and "tma_load_2d" in lowered.source.text
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)).astype(np.float16), rng.normal(size=(k, n)).astype(np.float16)
    c = poison((m, n), "float32")
    run(lowered, {"A": a, "B": b, "C": c})
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-3)


def test_attention_shared_between_warp_groups() -> None:
    lowered = specialised(ATTENTION, L=192, D=64)
    assert lowered.plan.threads == (256,) and lowered.source.text.count("tma_load_2d(&") == 2
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=(192, 64)).astype(ml_dtypes.bfloat16) for _ in range(3))
    o = poison((192, 64), "float32")
    run(lowered, {"Q": q, "K": k, "V": v, "O": o})
    wide = [x.astype(np.float32) for x in (q, k, v)]
    p = np.exp2(wide[0] @ wide[1].T * 0.1).astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_allclose(o, p @ wide[2], rtol=1e-4, atol=1e-4)


# Blocks that take one tile after another; how deep each is, is known only at run time, some are empty.
IN_TURN = """
@tilelang.jit
def in_turn(A, B, Depths):
    A: T.Tensor((320, 192), T.float16)
    B: T.Tensor((192, 64), T.float16)
    Depths: T.Tensor((5,), T.int32)
    C = T.empty((320, 64), T.float32)
    with T.Kernel(2, threads=128) as worker:
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 64), T.float16)
        acc = T.alloc_fragment((64, 64), T.float32)
        for w in T.serial(3):
            tile = w * 2 + worker
            if tile < 5:
                T.clear(acc)
                for k in T.Pipelined(Depths[tile], num_stages=2):
                    T.copy(A[tile * 64, k * 32], a)
                    T.copy(B[k * 32, 0], b)
                    T.gemm(a, b, acc)
                T.copy(acc, C[tile * 64, 0])
    return C
"""


@pytest.mark.parametrize("waits", [False, True], ids=["goes on", "waits for its product"])
def test_the_next_tile_is_fetched_while_this_one_is_finished(waits: bool) -> None:
    loop = "for i, j in T.Parallel(64, 64):"
    more = f"T.gemm(a, b, acc)\n                    {loop}\n                        acc[i, j] *= 2"
    lowered = specialised(IN_TURN.replace("T.gemm(a, b, acc)", more) if waits else IN_TURN)
    assert lowered.plan.threads == (256,) and "tma_load_2d" in lowered.source.text
    assert ("wgmma_wait<1>" in lowered.source.text) == (not waits)
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((320, 192), (192, 64)))
    depths, c = np.array([6, 1, 0, 3, 4], np.int32), poison((320, 64), "float32")
    run(lowered, {"A": a, "B": b, "Depths": depths, "C": c})
    want = np.zeros((320, 64), np.float32)
    for tile, depth in enumerate(depths):
        rows, sums = a[tile * 64 : tile * 64 + 64].astype(np.float32), want[tile * 64 : tile * 64 + 64]
        for k in range(depth):
            part = slice(k * 32, k * 32 + 32)
            sums += rows[:, part] @ b[part].astype(np.float32)
            sums *= 2 if waits else 1
    assert np.array_equal(c, want)


@pytest.mark.parametrize("jump", ["break", "continue"])
def test_who_leaves_a_loop_early_keeps_its_threads_together(jump: str) -> None:
    """The thread that fetches would go on, and wait for ever for tiles to become free."""
    early = f"            if tile >= 3:\n                {jump}\n            if tile < 5:\n"
    lowered = specialised(IN_TURN.replace("            if tile < 5:\n", early))
    assert lowered.plan.threads == (128,) and "leaves loops or iterations early" in lowered.notes[0]
    a, b = np.ones((320, 192), np.float16), np.ones((192, 64), np.float16)
    c = np.full((320, 64), -1, np.float32)
    run(lowered, {"A": a, "B": b, "Depths": np.array([6, 1, 0, 3, 4], np.int32), "C": c})
    assert c[::64, 0].tolist() == [192, 32, 0, -1, -1]


def test_a_split_product_adds_to_what_stands_there() -> None:
    text = (
        gemm_text(64, 64, 32, 128).replace("T.copy(acc, C[", "T.atomic_add(C[").replace("64])", "64], acc)")
    )
    lowered = specialised(text, M=64, N=64, K=128)
    assert lowered.plan.threads == (256,)
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, 128), (128, 64)))
    c = np.ones((64, 64), np.float32)
    run(lowered, {"A": a, "B": b, "C": c})
    assert np.array_equal(c, 1 + a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("T.copy(A[", "T.print(k)\n            T.copy(A["),
        ("threads=128", "threads=192"),
        ("num_stages=2", "num_stages=1"),
    ],
)
def test_what_is_not_shared_is_compiled_as_before(old: str, new: str) -> None:
    text = gemm_text(64, 96, 64, 128).replace(old, new)
    assert "tma_load" not in specialised(text, M=64, N=96, K=128).source.text
    assert "tma_load" not in lowered_for(text, None, M=64, N=96, K=128).source.text


def without(text: str, part: str) -> str:
    return "\n".join(line for line in text.splitlines() if part not in line)


def test_a_producer_and_a_consumer() -> None:
    lowered = lowered_for(GEMM, None, M=128, N=64, K=192)
    assert instructions(lowered)[0].startswith("wgmma m64n64k16")
    assert product(GEMM, 128, 64, 192) < 1e-4


def test_with_mma_and_a_tile_over_several_stages() -> None:
    text = TMA.replace("T.tma_copy(A[by * 64, k * 64], a[k % 2, :, :], barrier=ready[k % 2])",
                       "T.copy(A[by * 64, k * 64], a[k % 2, :, :])")  # fmt: skip
    assert product(text, 64, 128, 192, "float16") < 0.05
    sizes = {"M": 64, "N": 128, "K": 192}
    assert instructions(lowered_for(text, False, **sizes))[0].startswith("mma.sync")


@pytest.mark.parametrize("n", [128, 200])
def test_tiles_by_tma(n: int) -> None:
    """Also where the tiles stick out of the tensors: the hardware reads zeros and writes nothing there."""
    assert product(TMA, 128, n, 200, "float16") < 0.05


def test_products_that_go_on() -> None:
    text = lowered_for(ASYNC, None, M=64, N=128, K=320).source.text
    assert "wgmma_wait<1>();" in text and "hold_64_f32(acc);" in text
    assert product(ASYNC, 64, 128, 320, "float16") < 0.05


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("T.wait_wgmma(0)", "T.sync_warp()", "ends with wgmma in flight"),
        (
            "(k + 1) % 2",
            "k % 2",
            "overwritten while wgmma read it|asynchronous copy fills|for ever",
        ),
    ],
)
def test_a_product_that_nobody_waits_for_is_noticed(old: str, new: str, said: str) -> None:
    with pytest.raises(EmulationError, match=said):
        product(ASYNC.replace(old, new), 64, 128, 320, "float16")


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("mbarrier_wait_parity(done", "while an asynchronous copy fills it"),
        ("mbarrier_wait_parity(ready", "for ever|while an asynchronous copy"),
        ("mbarrier_arrive(ready", "for ever"),
        ("tma_store_wait", "bulk store still reads"),
    ],
)
def test_what_is_missing_is_noticed(missing: str, said: str) -> None:
    with pytest.raises(EmulationError, match=said):
        product(without(TMA, missing), 64, 128, 200, "float16")


def test_groups_of_one_block_exchange_through_shared_memory() -> None:
    """Reductions inside a group; what the block does with a group's accumulator, the group does."""
    lowered = lowered_for(SOFTMAX, None)
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=(64, 64)).astype(np.float16) for _ in range(2))
    c = poison((64, 64), "float32")
    run(lowered, {"A": a, "B": b, "C": c})
    s = a.astype(np.float64) @ b.astype(np.float64).T
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p = (p / p.sum(axis=1, keepdims=True)).astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(c, p @ b.astype(np.float64), atol=5e-3)
    with pytest.raises(EmulationError, match="race"):
        run(lowered_for(without(SOFTMAX, "wait_parity"), None), {"A": a, "B": b, "C": c})


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])
def test_groups_whose_author_has_no_barriers_are_ordered_by_those_of_the_block(target: str) -> None:
    text = """
@tilelang.jit
def sums(A):
    A: T.Tensor((128, 96), T.float16)
    B = T.empty((128,), T.float32)
    with T.Kernel(1, threads=256):
        tile = T.alloc_shared((128, 32), T.float16)
        total = T.alloc_fragment((128,), T.float32)
        T.clear(total)
        for k in T.serial(3):
            with T.ws(0):
                T.copy(A[0, k * 32], tile)
            with T.ws(1):
                for i, j in T.Parallel(128, 32):
                    total[i] += T.cast(tile[i, j], "float32")
        T.copy(total, B)
    return B
"""
    lowered = lower_text(HEAD + text, target)
    assert lowered.source.text.count("__syncthreads()") == 2  # before each of the two groups
    a, b = np.random.default_rng(2).normal(size=(128, 96)).astype(np.float16), poison((128,), "float32")
    run(lowered, {"A": a, "B": b})
    np.testing.assert_allclose(b, a.astype(np.float64).sum(axis=1), atol=1e-3)


def test_the_authors_barriers_are_those_of_their_team() -> None:
    text = """
@tilelang.jit
def turned(A, B):
    A: T.Tensor((256,), T.float32)
    B: T.Tensor((256,), T.float32)
    with T.Kernel(1, threads=256) as bx:
        s = T.alloc_shared((256,), T.float32)
        tx = T.get_thread_binding()
        with T.ws(0):
            s[tx] = A[tx]
            T.sync_threads()
            B[tx] = s[127 - tx]
        if tx >= 128:
            if tx < 256:
                for i in T.serial(tx // 256 + 1):
                    s[tx] = A[tx]
                    T.sync_threads()
                    B[tx] = s[383 - tx]
"""
    a, b = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    kernel = lower_text(HEAD + text, "cuda:sm_90")
    assert "__syncthreads" not in kernel.source.text
    run(kernel, {"A": a, "B": b})
    np.testing.assert_array_equal(b, np.r_[a[127::-1], a[255:127:-1]])


def test_a_fragment_of_two_teams_is_refused() -> None:
    text = SOFTMAX.replace("T.gemm(p, b, acc)", "T.copy(s, acc)")
    with pytest.raises(KernelError, match=r"s belongs to threads 0 to 127.* to threads 128 to 383 as well"):
        lowered_for(text, None)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (", barrier=ready[k % 2])", ")", "needs `barrier=`"),
        ("C[by * 64, bx * 128])", "C[by * 64, bx * 128], barrier=ready[0])", "takes no `barrier`"),
        ("c = T.alloc_shared((64, 128), T.float16)", "c = T.alloc_shared((64, 128), T.int16)", "converts"),
        ("T.tma_copy(c, C", "T.tma_copy(acc, C", "between global and shared memory"),
    ],
)
def test_what_tma_cannot_do_is_one_clear_error(old: str, new: str, said: str) -> None:
    text = TMA.replace(old, new)
    module = StaticModule("kernel.py", HEAD + text)
    program = trace_static(module, module.kernels[0], {"M": "64", "N": "128", "K": "128"})
    with pytest.raises(KernelError, match=said):
        prim_func_of(program, parse_target("cuda:sm_90"), HEAD + text)


def test_rows_that_tma_cannot_address() -> None:
    with pytest.raises(KernelError, match="stride of dimension 0 of A, 100 elements, is no multiple of 16"):
        lowered_for(TMA, None, M=64, N=128, K=100)


ROWS = """
@tilelang.jit
def rows(A):
    A: T.Tensor((64, {n}), T.float32)
    B = T.empty((64, {n}), T.float32)
    with T.Kernel(8, threads=128) as bx:
        a = T.alloc_shared((2, {rows}, {n}), T.float32)
        full = T.alloc_barrier([1, 1])
        for k in T.unroll({count}):
            if T.get_thread_binding() == 0:
                T.tma_copy(A[bx * 8 + k * {rows}, 0], a[k % 2, :, :], barrier=full[k % 2])
                T.mbarrier_arrive(full[k % 2])
            T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
            T.fence_proxy_async()
            T.tma_copy(a[k % 2, :, :], B[bx * 8 + k * {rows}, 0])
            T.tma_store_wait()
    return B
"""


@pytest.mark.parametrize(("n", "rows"), [(8, 4), (12, 8), (512, 4)])
def test_one_thread_moves_rows(n: int, rows: int) -> None:
    """Tiles too narrow for a swizzle, or wider than a box."""
    lowered = lowered_for(ROWS.format(n=n, rows=rows, count=8 // rows), None)
    a, b = np.random.default_rng(3).normal(size=(64, n)).astype(np.float32), poison((64, n), "float32")
    run(lowered, {"A": a, "B": b})
    assert np.array_equal(a, b)


def test_tiles_that_begin_anywhere_are_refused() -> None:
    with pytest.raises(KernelError, match="does not begin at 128 bytes"):
        lowered_for(ROWS.format(n=4, rows=4, count=2), None)


def test_older_gpus_have_no_tma() -> None:
    module = StaticModule("kernel.py", HEAD + TMA)
    program = trace_static(module, module.kernels[0], {"M": "64", "N": "128", "K": "128"})
    with pytest.raises(KernelError, match=r"T\.tma_copy is not there on cuda:sm_80"):
        prim_func_of(program, parse_target("cuda:sm_80"), HEAD + TMA)


def test_the_plan_carries_the_descriptors() -> None:
    lowered = lowered_for(TMA, None, M=64, N=128, K=128)
    a, b, c = lowered.plan.descriptors
    assert (a.tensor, a.shape, a.strides, a.box, a.swizzle) == ("A", (128, 64), (256,), (64, 64), 128)
    assert (b.box, c.box) == ((64, 64), (64, 64))
    assert LaunchPlan.from_json(lowered.plan.to_json()) == lowered.plan
    assert "named_sync(15, 128);" in lowered.source.text  # the tile is whole before it is stored
    alignment: Mapping[str, Any] = {p.name: p for p in lowered.plan.params}
    assert alignment["A"].alignment == 16


@pytest.mark.parametrize("text", [GEMM, TMA, ASYNC, SOFTMAX], ids=["copies", "tma", "async", "softmax"])
def test_the_compiler_takes_it(text: str) -> None:
    sizes = {} if text is SOFTMAX else {"M": 128, "N": 128, "K": 256}
    assert build(lowered_for(text, None, **sizes), ("--ptxas-options=-v",)).binary


def on_the_device(text: str, options: dict[str, bool] | None = None) -> Any:
    """The kernel of a text, compiled for the attached GPU."""
    name = f"<kernel {hash((text, str(options)))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {"tilelang": tilelang, "T": T}
    exec(compile(text, name, "exec"), scope)
    kernel = next(v for v in scope.values() if isinstance(v, JITFunction))
    return JITFunction(kernel.function, kernel.options.with_pass_configs(options or {}))


needs_hopper = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs an sm_90 GPU"
)


@pytest.mark.gpu
@needs_hopper
@pytest.mark.parametrize("text", [GEMM, TMA, ASYNC], ids=["copies", "tma", "async"])
@pytest.mark.parametrize("size", [512, 1000])
def test_products_on_a_device(text: str, size: int) -> None:
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    found = on_the_device(text)(a, b)
    torch.testing.assert_close(found.float(), a.float() @ b.float(), rtol=2e-3, atol=5e-2)


@pytest.mark.gpu
@needs_hopper
@pytest.mark.parametrize("tile", [(128, 128, 64, 128), (128, 256, 64, 256), (64, 64, 32, 128)])
def test_a_shared_pipeline_on_a_device(tile: tuple[int, int, int, int]) -> None:
    kernel = on_the_device(gemm_text(*tile), {DISABLE_WARP_SPECIALISED: False})
    a, b = (torch.randn(1000, 1000, device="cuda", dtype=torch.float16) for _ in range(2))
    torch.testing.assert_close(kernel(a, b), a.float() @ b.float(), rtol=2e-3, atol=5e-2)


@pytest.mark.gpu
@needs_hopper
def test_softmax_on_a_device() -> None:
    a, b = (torch.randn(64, 64, device="cuda", dtype=torch.float16) for _ in range(2))
    found = on_the_device(SOFTMAX)(a, b)
    torch.testing.assert_close(found, (a.float() @ b.float().T).softmax(1) @ b.float(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("T.copy(A[", "T.print(k)\n            T.copy(A[", "code of single threads"),
        ("threads=128", "threads=192", "do not have 128 or 256 threads"),
        ("num_stages=2", "num_stages=1", "no T.Pipelined loops of two stages"),
        ("T.copy(B[k * 64, bx * 96], B_shared)", "T.copy(B[k * 64, bx * 96], B_shared, disable_tma=True)",
         "TMA cannot fill B_shared: its copy asks for another instruction"),
    ],
)  # fmt: skip
def test_why_a_kernel_is_not_specialised_is_said(old: str, new: str, said: str) -> None:
    text = gemm_text(64, 96, 64, 128)
    assert old in text
    (note,) = specialised(text.replace(old, new), M=64, N=96, K=128).notes
    assert note.startswith("not warp-specialised: ") and said in note
    assert not specialised(text, M=64, N=96, K=128).notes


@pytest.mark.parametrize(
    ("tile", "k", "by_wgmma", "said"),
    [
        ((128, 128, 64), 512, True, None),
        ((128, 128, 64), 512, False, "not done by wgmma"),
        ((128, 128, 64), 128, True, "2 iterations have their tiles on the way"),
        ((64, 64, 16), 512, True, "multiplies too little"),
    ],
)
def test_where_specialisation_does_not_pay(
    tile: tuple[int, int, int], k: int, by_wgmma: bool, said: str | None
) -> None:
    text, target = HEAD + gemm_text(*tile, 128), parse_target("cuda:sm_90")
    module = StaticModule("kernel.py", text)
    program = trace_static(module, module.kernels[0], {"M": "128", "N": "128", "K": str(k)})
    func = prim_func_of(program, target, text)
    for asked in (False, True):
        made = specialise_warps(func, 228 * 1024, lambda gemm: by_wgmma, asked, None)
        assert isinstance(made, Refusal) == (said is not None and not asked)
        assert asked or said is None or (isinstance(made, Refusal) and said in made.why)


@pytest.mark.parametrize(
    ("tile", "threads", "blocks"),
    [((64, 64, 64), 128, 4), ((128, 128, 64), 128, 2), ((64, 256, 64), 128, 1), ((128, 64, 32), 256, 2),
     ((128, 256, 64), 256, 1)],
)  # fmt: skip
def test_registers_are_shared_out_by_what_fragments_need(
    tile: tuple[int, int, int], threads: int, blocks: int
) -> None:
    lowered = specialised(gemm_text(*tile, threads), M=256, N=256, K=512)
    bounds = f"__launch_bounds__({threads + 128}{f', {blocks}' if blocks > 1 or threads == 256 else ''})"
    assert bounds in lowered.source.text
    assert ("setmaxnreg_inc<" in lowered.source.text) == (blocks > 1 or threads == 256)


def test_splits_of_registers_add_up() -> None:
    """What is given back is what is taken, else a block would wait for registers for ever."""
    for threads, splits in SPLITS.items():
        for s in splits:
            assert s.blocks * (threads + GROUP) * s.launched <= 65536
            if s.fetching:
                assert threads * s.computing + GROUP * s.fetching <= (threads + GROUP) * s.launched
                assert all(n % 8 == 0 for n in (s.launched, s.computing, s.fetching))


def test_minus_one_stands_for_every_group() -> None:
    text = """
@tilelang.jit
def marked():
    C = T.empty((256,), T.int32)
    with T.Kernel(1, threads=256):
        t = T.get_thread_binding()
        C[t] = 0
        with T.ws(-1):
            C[t] = t
    return C
"""
    c = poison((256,), "int32")
    run(lower_text(text), {"C": c})
    assert np.array_equal(c, np.arange(256))
