"""Names of TVM's own script that kernels may use: each means what the language writes in another way."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import HEAD, lower_text
from tests.emulator.block import run
from tests.emulator.memory import EmulationError
from tests.on_device import DEVICES, compiled_for, random
from tilelang import reference
from tilelang.analysis.check import check_source
from tilelang.targets.driver import build


@tilelang.jit
def nodes(A, B):
    A: T.Tensor((64,), "float32")
    B: T.Tensor((64,), "int32")
    T.func_attr({"tir.noalias": True})
    sums = T.empty((64,), "float32")
    numbers = T.empty((64,), "int32")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        tile = T.alloc_buffer((64,), "float32", scope="shared")
        own = T.sblock_alloc_buffer((2,), "int32", "local")
        T.buffer_store(tile, T.Mul(T.BufferLoad(A, [tx]), T.FloatImm("float32", 2.0)), [tx])
        T.tvm_storage_sync("shared")
        first = T.bind(T.BufferLoad(tile, [T.FloorMod(T.Add(tx, T.IntImm("int32", 1)), 64)]))
        sums[tx] = T.Max(first, T.Sub(tile[tx], 1)) if True else 0
        own[0] = T.FloorDiv(B[tx], 5) + T.FloorMod(B[tx], 5)
        own[1] = T.Div(B[tx], 5) * 1000 + T.Mod(B[tx], 5)
        inside = T.And(T.GE(B[tx], -50), T.Or(T.LT(B[tx], 20), T.EQ(B[tx], 33)))
        if T.Not(T.ignore_loop_partition(inside)):
            own[0] = T.Min(own[0], T.boolean(T.NE(B[tx], 7)))
        for i in T.parallel(3):
            own[1] += i
        numbers[tx] = own[0] * 100000 + own[1]
    return sums, numbers


def _nodes(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    doubled = a * 2
    low = b // 5 + b % 5
    inside = (b >= -50) & ((b < 20) | (b == 33))
    low = np.where(inside, low, np.minimum(low, b != 7))
    rounded = np.trunc(b / 5).astype("int32")
    return np.maximum(np.roll(doubled, -1), doubled - 1), low * 100000 + rounded * 1000 + b - rounded * 5 + 3


def _operands() -> tuple[np.ndarray, np.ndarray]:
    a = random(64).numpy()
    b = random(64, dtype=torch.int32).numpy()
    b[:3] = 33, 7, -50
    return a, b


@pytest.mark.parametrize("device", DEVICES)
def test_nodes_mean_what_operators_mean(device: str) -> None:
    a, b = _operands()
    given = [torch.from_numpy(x).to(device) for x in (a, b)]
    kernel = compiled_for(nodes, device).compile()
    for got, want in zip(kernel(*given), _nodes(a, b), strict=True):
        np.testing.assert_array_equal(got.cpu().numpy(), want)
    if device == "cpu":
        for got, want in zip(reference.run(kernel, *given), _nodes(a, b), strict=True):
            np.testing.assert_array_equal(got.numpy(), want)


def test_nodes_on_cuda() -> None:
    a, b = _operands()
    got = np.zeros(64, "float32"), np.zeros(64, "int32")
    tensors = {"A": a, "B": b, "sums": got[0], "numbers": got[1]}
    run(lower_text(inspect.getsource(nodes.function)), tensors)
    for one, want in zip(got, _nodes(a, b), strict=True):
        np.testing.assert_array_equal(one, want)


@tilelang.jit
def lanes(A, M):
    A: T.Tensor((32,), "int32")
    M: T.Tensor((32, 3), "int32")
    moved = T.empty((3, 32), "int32")
    places = T.empty((32,), "uint32")
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        mask = T.tvm_warp_activemask()
        moved[0, tx] = T.tvm_warp_shuffle(mask, A[tx], (tx + 3) % 32, 32, 32)
        moved[1, tx] = T.tvm_warp_shuffle_up(mask, A[tx], 2, 32, 32)
        moved[2, tx] = T.tvm_warp_shuffle_down(mask, A[tx], 1, 32, 32)
        places[tx] = T.__fns(M[tx, 0], M[tx, 1], M[tx, 2])
    return moved, places


def _set_bit(mask: int, base: int, offset: int) -> int:
    """PTX ISA 9.7.1.19, as it is written there."""
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    place, count = base, abs(offset) - 1
    while 0 <= place < 32:
        if mask >> place & 1:
            if count == 0:
                return place
            count -= 1
        place += 1 if offset > 0 else -1
    return 0xFFFFFFFF


def _lanes() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 99, 32).astype("int32")
    masks = np.stack(
        [rng.integers(-(2**31), 2**31, 32), rng.integers(0, 32, 32), rng.integers(-9, 10, 32)], 1
    )
    masks[:4] = [[0b1010, 1, 0], [0b1010, 2, 0], [-1, 31, 1], [0, 0, 1]]
    moved = np.stack([np.roll(a, -3), np.r_[a[:2], a[:-2]], np.r_[a[1:], a[-1:]]])
    places = [_set_bit(int(m) & 0xFFFFFFFF, int(b), int(o)) for m, b, o in masks]
    return a, masks.astype("int32"), moved, np.array(places, "uint32")


@pytest.mark.parametrize("device", DEVICES)
def test_lanes_and_set_bits(device: str) -> None:
    a, masks, moved, places = _lanes()
    got = compiled_for(lanes, device).compile()(*(torch.from_numpy(x).to(device) for x in (a, masks)))
    np.testing.assert_array_equal(got[0].cpu().numpy(), moved)
    np.testing.assert_array_equal(got[1].cpu().numpy(), places)


@pytest.mark.parametrize("target", ["cuda:sm_80", "hip:gfx942", "metal"])
def test_lanes_and_set_bits_are_lowered_for_gpus(target: str) -> None:
    a, masks, moved, places = _lanes()
    lowered = lower_text(inspect.getsource(lanes.function), target)
    if target.startswith("cuda"):
        got = np.zeros((3, 32), "int32"), np.zeros(32, "uint32")
        run(lowered, {"A": a, "M": masks, "moved": got[0], "places": got[1]})
        np.testing.assert_array_equal(got[0], moved)
        np.testing.assert_array_equal(got[1], places)


def test_a_handle_is_matched_with_a_tensor() -> None:
    @T.prim_func
    def scaled(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n,), "float32")
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < n:
                    A[bx * 32 + i] = A[bx * 32 + i] * 2

    x = torch.arange(70, dtype=torch.float32)
    tilelang.compile(scaled, target="cpu")(x, 70)
    assert torch.equal(x, torch.arange(70) * 2.0)


@tilelang.jit
def by_dtype(A, dtype):
    n = T.Var("n", "int32")
    A: T.Tensor((n,), dtype)
    out = T.empty((1,), "int32")
    with T.Kernel(1, threads=32):
        if T.is_f8f6f4_family(dtype) and not T.is_float4(dtype):
            out[0] = T.get_tvm_dtype(dtype).bits + n
        else:
            out[0] = -1
    return out


@pytest.mark.parametrize(("dtype", "want"), [("float8_e4m3fn", 8 + 5), ("float32", -1)])
def test_dtypes_are_asked_while_a_kernel_is_traced(dtype: str, want: int) -> None:
    kernel = compiled_for(by_dtype, "cpu")
    assert kernel(torch.zeros(5).to(getattr(torch, dtype)), dtype).item() == want


def test_a_matched_tensor_tells_its_size() -> None:
    @T.prim_func
    def increased(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < n:
                    B[bx * 32 + i] = A[bx * 32 + i] + 1

    kernel = tilelang.compile(increased, target="cpu")
    x, y = torch.arange(70, dtype=torch.float32), torch.zeros(70)
    kernel(x, y)
    assert torch.equal(y, x + 1)
    with pytest.raises(ValueError, match="dimension 0 is 69, expected 70"):
        kernel(x, y[:69].contiguous())


@tilelang.jit
def declared(A):
    A: T.Tensor((8, 8), "float32")
    B = T.empty((64,), "float32")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        flat = T.decl_buffer((64,), "float32", data=A.data)
        own = T.decl_buffer((64,), "float32", scope="shared")
        step = T.meta_var(3)
        T.validate_gemm_ab_dtypes("float16", T.float16)
        with T.Assert(flat[tx] > -100.0, "small"):
            own[tx] = flat[tx]
        T.Assert(own[tx] < 100.0, "large")
        T.sync_threads()
        B[tx] = own[(tx + step) % 64] if not T.is_float4_e2m1_unpacked("float4_e2m1fn") else 0.0
    return B


@pytest.mark.parametrize("device", DEVICES)
def test_declared_memory(device):
    a = random(8, 8, device=device)
    assert torch.equal(compiled_for(declared, device)(a), torch.roll(a.flatten(), -3))


POINTED = """
@tilelang.jit
def k(A, B):
    A: T.Tensor((2, 64), T.float16)
    B: T.Tensor((64,), T.float16)
    with T.Kernel(1, threads=8):
        tx = T.get_thread_binding()
        s = T.alloc_shared((64,), T.float16)
        bar = T.alloc_barrier(8)
        half = T.type_annotation("float16")
        T.ptx_cp_async(
            T.tvm_access_ptr(half, s.data, tx * 8, 8, 2), T.tvm_access_ptr(half, A.data, 64 + tx * 8, 8, 1), 8
        )
        T.cp_async_barrier_noinc(bar)
        T.barrier_wait(bar, 0)
        for i in T.Parallel(64):
            B[i] = s[63 - i]
"""


def test_copies_arrive_at_a_barrier() -> None:
    """Addresses by `.data`, and the arrival of cp.async: without the wait nothing is there yet."""
    a, b = random(2, 64).numpy().astype(np.float16), np.zeros(64, np.float16)
    lowered = lower_text(POINTED, "cuda:sm_90")
    run(lowered, {"A": a, "B": b})
    assert (b == a[1, ::-1]).all()
    assert build(lowered).binary
    with pytest.raises(EmulationError, match="while an asynchronous copy fills it"):
        run(
            lower_text(POINTED.replace("        T.barrier_wait(bar, 0)\n", ""), "cuda:sm_90"),
            {"A": a, "B": b},
        )


def test_what_the_names_of_memory_refuse() -> None:
    wrong = POINTED.replace('T.type_annotation("float16")', "T.float32")
    problems = check_source("k.py", HEAD + wrong, "cuda:sm_90").all_problems()
    assert any("`s` holds float16, not float32" in p.message for p in problems)
    wrong = POINTED.replace("tx = T", 'T.validate_gemm_ab_dtypes("int8", "float16")\n        tx = T')
    problems = check_source("k.py", HEAD + wrong, "cuda:sm_90").all_problems()
    assert any("A is int8, B is float16" in p.message for p in problems)
