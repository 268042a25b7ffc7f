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


@tilelang.jit
def values(A):
    A: T.Tensor((64,), "float32")
    moved = T.empty((64,), "float32")
    sums = T.empty((64,), "float32")
    with T.Kernel(1, threads=16):
        tx = T.get_thread_binding()
        moved[T.Ramp(tx * 4, 1, 4)] = A[T.ramp(60 - tx * 4, 1, 4)]
        v = T.var("float32", "v")
        w = T.var("float32")
        with T.sblock("update"):
            T.reads(A[tx])
            T.writes(sums[tx])
            T.sblock_attr({"pragma": 1})
            sums[tx] = T.Let(v * v + 1, where={v: A[tx] + 2})
        sums[tx + 16] = T.let(v, A[tx + 16], v * 3)
        T.let(w, A[tx + 32])
        sums[tx + 32] = w + w
        if T.isnullptr(A.data):
            sums[tx + 48] = 0
        else:
            sums[tx + 48] = T.Call("float32", "tirx.fabs", [A[tx + 48]])
    return moved, sums


def _values(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = [(a[:16] + 2) ** 2 + 1, a[16:32] * 3, a[32:48] * 2, abs(a[48:])]
    return a.reshape(16, 4)[::-1].reshape(-1), np.concatenate(parts)


@pytest.mark.parametrize("device", DEVICES)
def test_ramps_variables_and_blocks(device: str) -> None:
    a = random(64).numpy()
    kernel = compiled_for(values, device).compile()
    for got, want in zip(kernel(torch.from_numpy(a).to(device)), _values(a), strict=True):
        np.testing.assert_allclose(got.cpu().numpy(), want, rtol=1e-6)


def test_ramps_variables_and_blocks_on_cuda() -> None:
    a = random(64).numpy()
    moved, sums = np.zeros(64, "float32"), np.zeros(64, "float32")
    run(lower_text(inspect.getsource(values.function)), {"A": a, "moved": moved, "sums": sums})
    for got, want in zip((moved, sums), _values(a), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@T.prim_func
def by_dimensions(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32")):
    with T.launch_thread("blockIdx.x", 4) as bx:
        own = T.alloc_local((1,), "float32")
        with T.launch_thread("threadIdx.x", 32) as tx:
            own[0] = A[bx, tx]
            B[bx, tx] = own[0] * 2


@T.prim_func
def by_statements(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32")):
    bx = T.env_thread("blockIdx.y")
    tx = T.env_thread("threadIdx.x")
    T.launch_thread(bx, 4)
    T.launch_thread(tx, 32)
    B[bx, tx] = A[bx, tx] * 2


@pytest.mark.parametrize("function", [by_dimensions, by_statements])
def test_a_launch_by_its_dimensions(function) -> None:
    a = random(4, 32)
    b = torch.zeros_like(a)
    tilelang.compile(function, target="llvm")(a, b)
    assert torch.equal(a * 2, b)
    source = tilelang.compile(function, target="cuda -arch=sm_80").get_kernel_source()
    assert ("blockIdx.y" in source) == (function is by_statements)


@tilelang.jit
def scheduled(A):
    A: T.Tensor((128, 32), "float16")
    B = T.empty((128, 32), "float16")
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((128, 32), "float16")
        loads = T.WSPipeline("loads", [tile], 2)
        roles = [T.WSRole("producer", warps_lo=0, warps_hi=1), T.WSRole("rest", warps_lo=1, warps_hi=4)]
        steps = [T.WSOpRef("load"), T.WSSync(T.WSSyncKind.PRODUCER_COMMIT, "loads")]
        T.annotate_ws_schedule(T.WSSchedule(4, roles, [loads], [T.WSScope("all", {"producer": steps})]))
        T.annotate_ws_pipeline_depth({tile: 2})
        with T.ws_op("load"):
            T.copy(A, tile)
        with T.WarpSpecialize(0):
            T.copy(tile, B)
    return B


def test_a_schedule_changes_no_result() -> None:
    a = random(128, 32, dtype=torch.float16)
    assert torch.equal(compiled_for(scheduled, "cpu").compile()(a), a)
    b = np.zeros((128, 32), "float16")
    run(lower_text(inspect.getsource(scheduled.function)), {"A": a.numpy(), "B": b})
    np.testing.assert_array_equal(b, a.numpy())


@tilelang.jit
def registers(A):
    A: T.Tensor((32, 8), "float32")
    B = T.empty((2, 16, 16), "float32")
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        C = T.alloc_local((8,), "float32")
        T.mma_fill("float32", 8, C.data, 0)
        T.mma_store("float32", 16, 16, T.access_ptr(B[0, 0, 0], "w"), C.data, 0, 16)
        for k in T.serial(8):
            C[k] = A[tx, k]
        T.mma_store("float32", 16, 16, T.access_ptr(B[1, 0, 0], "w"), C.data, 0, 16)
    return B


def test_registers_of_mma_are_filled_and_stored() -> None:
    a = random(32, 8).numpy()
    want = np.zeros((2, 16, 16), "float32")
    for lane in range(32):
        for k in range(8):
            want[1][T.mma_store_index_map(lane, k)] = a[lane, k]
    b = np.full((2, 16, 16), np.nan, "float32")
    run(lower_text(inspect.getsource(registers.function)), {"A": a, "B": b})
    np.testing.assert_array_equal(b, want)


MORE_REFUSED = {
    'x = T.var("float32")': "is given no value",
    "B[tx] = A[T.Ramp(0, 2, 4)]": "has stride 1",
    'T.launch_thread("threadIdx.y", 2)\n        B[0] = 1': "inside another one",
    'T.env_thread("gridIdx.x")': "is one of",
}


@pytest.mark.parametrize(("statement", "said"), MORE_REFUSED.items())
def test_refusals_of_more_names_help(statement: str, said: str) -> None:
    text = f"""
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A, B):
    A: T.Tensor((64,), T.float32)
    B: T.Tensor((64,), T.float32)
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        B[tx] = A[tx]
        {statement}
"""
    problems = check_source("k.py", text, "cuda:sm_90").all_problems()
    assert any(said in problem.message for problem in problems), [p.message for p in problems]


BY_DIMENSIONS = {
    """x = T.var("float32")
        T.launch_thread("threadIdx.x", 32)
        B[bx] = x""": "is given no value",
    """T.launch_thread("threadIdx.x", 32)
        with T.Kernel(1):
            B[0] = 1""": "inside another one",
}


@pytest.mark.parametrize(("body", "said"), BY_DIMENSIONS.items())
def test_a_launch_by_dimensions_is_checked_as_others_are(body: str, said: str) -> None:
    text = f"""
import tilelang
import tilelang.language as T

@tilelang.jit
def k(B):
    B: T.Tensor((64,), T.float32)
    with T.launch_thread("blockIdx.x", 1) as bx:
        {body}
"""
    problems = check_source("k.py", text, "cuda:sm_90").all_problems()
    assert any(said in problem.message for problem in problems), [p.message for p in problems]


def test_a_loop_around_a_launch_by_dimensions_is_refused() -> None:
    text = """
import tilelang
import tilelang.language as T

@tilelang.jit
def k(B, n: int):
    B: T.Tensor((64,), T.float32)
    while n > 0:
        with T.launch_thread("blockIdx.x", 64) as bx:
            B[bx] = 1
"""
    problems = check_source("k.py", text, "cuda:sm_90").all_problems()
    assert [p.rule for p in problems] == ["outside-launch"], [p.message for p in problems]


NUMBERED = """
@tilelang.jit
def numbered(A):
    A: T.Tensor((128,), "float32")
    B = T.empty((128,), "float32")
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        tile = T.alloc_shared((128,), "float32")
        T.create_barriers(2)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 128)
            T.ptx_init_barrier_thread_count(1, 128)
        T.ptx_fence_barrier_init()
        T.sync_threads()
        tile[tx] = A[tx]
        T.ptx_arrive_barrier(1)
        T.ptx_wait_barrier(1)
        B[tx] = tile[127 - tx]
    return B
"""


def test_barriers_by_their_numbers() -> None:
    a, b = random(128).numpy(), np.zeros(128, "float32")
    lowered = lower_text(NUMBERED, "cuda:sm_90")
    run(lowered, {"A": a, "B": b})
    np.testing.assert_array_equal(b, a[::-1])
    assert build(lowered).binary


@tilelang.jit
def rounded(A):
    A: T.Tensor((64,), "float32")
    B = T.empty((2, 64), "float32")
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[0, i] = T.round(A[i], rounding_mode="ties-to-even")
            nothing = T.round(0.49999997, "ties-away-from-zero")
            B[1, i] = T.round(A[i], rounding_mode="ties-away-from-zero") + nothing
    return B


@pytest.mark.parametrize("device", DEVICES)
def test_both_ways_to_round(device: str) -> None:
    odd = torch.tensor([0.49999997, -0.49999997, 8388609.0, 1e30])
    a = torch.cat([torch.arange(-8, 8) / 4, odd, random(44)])
    got = compiled_for(rounded, device).compile()(a.to(device)).cpu()
    assert torch.equal(got[0], a.round())
    assert torch.equal(got[1], torch.copysign(torch.floor(a.double().abs() + 0.5), a.double()).float())
