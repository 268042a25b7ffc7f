"""Forms that kernels of inference engines and training libraries use, run by the reference, the CPU target
and the emulated CUDA code, and compared with torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.emulator.block import run as emulate
from tilelang.arch.target import parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.reference import run
from tilelang.targets.driver import lower


def three_ways(func: Any, *tensors: torch.Tensor, sizes: dict[str, int] | None = None) -> None:
    """Run `func` on copies of `tensors`, the last of which it writes: all three must write the same."""
    cpu = tilelang.compile(func, target="cpu")
    by_cpu, by_meaning, by_cuda = ([t.clone() for t in tensors] for _ in range(3))
    cpu(*by_cpu)
    run(cpu, *by_meaning)
    names = [str(p.name) for p in cpu.prim_func.params]
    arrays = {n: t.numpy() for n, t in zip(names, by_cuda, strict=True)}
    emulate(lower(cpu.prim_func, parse_target("cuda:sm_90")), arrays, sizes or {})
    for other in (by_meaning, by_cuda):
        torch.testing.assert_close(by_cpu[-1], other[-1], rtol=1e-4, atol=1e-4, equal_nan=True)
    tensors[-1].copy_(by_cpu[-1])


def reducers(rows: int = 8, width: int = 256):
    @T.prim_func
    def kernel(
        A: T.Tensor[(rows, width), T.float32],
        B: T.Tensor[(2, width), T.float32],
        C: T.Tensor[(rows + 3, 2), T.float32],
    ):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((rows, width), T.float32)
            b = T.alloc_fragment((2, width), T.float32)
            both = T.alloc_reducer((rows, 2), T.float32)
            groups = T.alloc_reducer((3,), T.float32)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(both)
            T.clear(groups)
            for i in T.serial(rows):
                for k in T.serial(2):
                    for j in T.Parallel(width):
                        both[i, k] += a[i, j] * b[k, j]
            for i, j in T.Parallel(rows, width):
                groups[T.min(2, i // 2)] += a[i, j]
            T.finalize_reducer(both)
            T.finalize_reducer(groups)
            for i, k in T.Parallel(rows, 2):
                C[i, k] = both[i, k]
            for i in T.Parallel(3):
                C[rows + i, 0] = groups[i]

    return kernel


def test_reducers_take_any_index():
    a, b, c = torch.randn(8, 256), torch.randn(2, 256), torch.zeros(11, 2)
    three_ways(reducers(), a, b, c)
    torch.testing.assert_close(c[:8], a @ b.T, rtol=1e-4, atol=1e-4)
    sums = torch.stack([a[:2].sum(), a[2:4].sum(), a[4:].sum()])
    torch.testing.assert_close(c[8:, 0], sums, rtol=1e-4, atol=1e-4)


def test_a_reducer_goes_on_over_the_tiles_of_a_block():
    @T.prim_func
    def kernel(A: T.Tensor[(100, 4), T.float32], C: T.Tensor[(3, 4), T.float32]):
        with T.Kernel(3, threads=128) as block:
            total = T.alloc_reducer(4, T.float32)
            T.fill(total, 0)
            for t in T.Persistent([T.ceildiv(100, 32)], 3, block, group_size=1):
                for i, j in T.Parallel(32, 4):
                    if t * 32 + i < 100:
                        total[j] += A[t * 32 + i, j]
            T.finalize_reducer(total)
            T.copy(total, C[block, :])

    a, c = torch.randn(100, 4), torch.zeros(3, 4)
    three_ways(kernel, a, c)
    torch.testing.assert_close(c.sum(0), a.sum(0), rtol=1e-4, atol=1e-4)


def columns_of_rows(annotated: bool):
    """Parts of a tile whose rows lie in one thread each: shifted columns are at hand there."""

    def rows(i, j):
        return i % 32, i // 32 * 24 + j

    layout = T.Fragment((64, 24), forward_fn=rows)

    @T.prim_func
    def kernel(A: T.Tensor[(64, 24), T.float32], C: T.Tensor[(64, 24), T.float32]):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((64, 24), T.float32)
            left = T.alloc_fragment((64, 8), T.float32)
            right = T.alloc_fragment((64, 16), T.float32)
            if annotated:
                T.annotate_layout({a: layout})
            T.copy(A, a)
            for i, j in T.Parallel(64, 8):
                left[i, j] = a[i, j] * 2
            for i, j in T.Parallel(64, 16):
                right[i, j] = a[i, j + 8] + 1
            T.copy(left, C[0, 0])
            T.copy(right, C[0, 8])

    return kernel


def test_the_author_may_lay_out_what_shifted_columns_need():
    a, c = torch.randn(64, 24), torch.zeros(64, 24)
    three_ways(columns_of_rows(True), a, c)
    torch.testing.assert_close(c, torch.cat([a[:, :8] * 2, a[:, 8:] + 1], 1))


def test_shifted_columns_without_such_a_layout_are_reported():
    with pytest.raises(KernelError, match="fragment-cross-thread"):
        tilelang.compile(columns_of_rows(False), target="cuda -arch=sm_90")


def test_columns_of_a_gemm_operand_are_read_four_by_four():
    """The operand layout of TF32 gives every fourth column to the same thread."""

    @T.prim_func
    def kernel(
        A: T.Tensor[(32, 64), T.float32], B: T.Tensor[(64, 16), T.float32], C: T.Tensor[(32, 20), T.float32]
    ):
        with T.Kernel(1, threads=128):
            a_shared = T.alloc_shared((32, 64), T.float32)
            b_shared = T.alloc_shared((64, 16), T.float32)
            a = T.alloc_fragment((32, 64), T.float32)
            product = T.alloc_fragment((32, 16), T.float32)
            squares = T.alloc_fragment((32, 4), T.float32)
            T.copy(A, a_shared)
            T.copy(B, b_shared)
            T.copy(a_shared, a)
            T.clear(product)
            T.clear(squares)
            for k in T.serial(16):
                for i, j in T.Parallel(32, 4):
                    squares[i, j] += a[i, k * 4 + j] * a[i, k * 4 + j]
            T.gemm(a, b_shared, product)
            T.copy(product, C[0, 0])
            for i, j in T.Parallel(32, 4):
                C[i, 16 + j] = squares[i, j]

    small = torch.randint(-4, 5, (32, 64)).float()
    b, c = torch.randint(-4, 5, (64, 16)).float(), torch.zeros(32, 20)
    three_ways(kernel, small, b, c)
    torch.testing.assert_close(c[:, :16], small @ b)
    torch.testing.assert_close(c[:, 16:], (small**2).view(32, 16, 4).sum(1))


@pytest.mark.parametrize("annotated", [True, False])
def test_the_scale_of_a_group_is_at_hand_in_all_its_columns(annotated: bool):
    m, width, group, threads, vector = 4, 512, 128, 64, 8

    def by_vectors(i, j):
        number = i * width + j
        return number // vector % threads, number // (vector * threads) * vector + number % vector

    layout = T.Fragment((m, width), forward_fn=by_vectors)

    @T.prim_func
    def kernel(
        A: T.Tensor[(m, width), T.float32], S: T.Tensor[(m, 4), T.float32], C: T.Tensor[(m, width), T.float32]
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_fragment((m, width), T.float32)
            largest = T.alloc_fragment((m, 4), T.float32)
            factor = T.alloc_fragment((m, 4), T.float32)
            if annotated:
                T.annotate_layout({a: layout})
            T.copy(A, a)
            T.reduce_absmax(T.reshape(a, [m, 4, group]), largest, dim=2)
            for i, j in T.Parallel(m, 4):
                S[i, j] = largest[i, j] / 448
                factor[i, j] = 448 / largest[i, j]
            for i, j in T.Parallel(m, width):
                C[i, j] = a[i, j] * factor[i, j // group]

    a, scales, c = torch.randn(m, width), torch.zeros(m, 4), torch.zeros(m, width)
    three_ways(kernel, a, scales, c)
    largest = a.view(m, 4, group).abs().amax(2, keepdim=True)
    torch.testing.assert_close(c, (a.view(m, 4, group) * 448 / largest).view(m, width))


def test_narrow_integers_are_shifted_as_in_c():
    @T.prim_func
    def kernel(A: T.Tensor[(128,), T.int8], C: T.Tensor[(128,), T.int32]):
        with T.Kernel(1, threads=128):
            _ = T.alloc_shared((0,), T.float32)  # as a kernel does that keeps a buffer only sometimes
            for i in T.Parallel(128):
                C[i] = (T.uint16(A[i] & 15) << 16) | (T.int32(A[i]) >> 3 << 1 ^ 5)

    a, c = torch.arange(-64, 64).to(torch.int8), torch.zeros(128, dtype=torch.int32)
    three_ways(kernel, a, c)
    wide = a.to(torch.int32)
    torch.testing.assert_close(c, ((wide & 15) << 16) | ((wide >> 3 << 1) ^ 5))


def test_bits_are_read_anew_in_both_orders():
    @T.prim_func
    def kernel(A: T.Tensor[(128,), T.int32], C: T.Tensor[(128,), T.float32]):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                C[i] = T.reinterpret(T.float32, A[i]) + T.reinterpret(A[i], T.float32)

    values, c = torch.randn(128), torch.zeros(128)
    three_ways(kernel, values.view(torch.int32), c)
    torch.testing.assert_close(c, values * 2)


def test_a_tile_may_give_its_name_away_inside_a_loop():
    @T.prim_func
    def kernel(scale: T.Tensor[(4,), T.float32], C: T.Tensor[(4, 128), T.float32]):
        with T.Kernel(1, threads=128):
            for k in T.serial(4):
                factor = scale[k] + 1
                scale = factor * 2
                for i in T.Parallel(128):
                    C[k, i] = scale + i

    s, c = torch.randn(4), torch.zeros(4, 128)
    three_ways(kernel, s, c)
    torch.testing.assert_close(c, ((s + 1) * 2)[:, None] + torch.arange(128))


def test_assumptions_in_a_branch_end_with_it():
    @T.prim_func
    def kernel(A: T.Tensor[(128,), T.int32], C: T.Tensor[(128,), T.int32], n: T.int32):
        with T.Kernel(1, threads=128):
            T.pdl_sync()
            tx = T.get_thread_binding()
            if n > 3:
                T.assume(n % 4 == 0)
                if A[tx] >= 0:
                    T.assume(n < 100)
                    C[tx] = A[tx] // n
            else:
                C[tx] = n

    a = torch.arange(-64, 64, dtype=torch.int32)
    for n in (2, 8):
        cpu = tilelang.compile(kernel, target="cpu")
        c = torch.zeros(128, dtype=torch.int32)
        cpu(a, c, n)
        expected = torch.full_like(a, n) if n <= 3 else torch.where(a >= 0, a // n, torch.zeros_like(a))
        torch.testing.assert_close(c, expected)


def test_what_a_kernel_leaves_alone_may_be_left_out():
    rows, other, step = T.dynamic("rows, other, step")

    @T.prim_func
    def kernel(
        A: T.StridedTensor[(rows, 64), (step, 1), T.float32],
        scales: T.StridedTensor[(other, 64), (64, 1), T.float32],
        C: T.Tensor[(rows, 64), T.float32],
    ):
        with T.Kernel(T.max(rows, 1), threads=64) as row:
            for j in T.Parallel(64):
                C[row, j] = A[row, j] * 2

    compiled = tilelang.compile(kernel, target="cpu")
    for n in (1, 5):  # one row alone does not tell the stride that it has
        a, c = torch.randn(n, 80)[:, :64], torch.zeros(n, 64)
        compiled(a, None, c)
        torch.testing.assert_close(c, a * 2)
    with pytest.raises(ValueError, match="A must be a tensor"):
        compiled(None, None, c)


def test_sizes_and_limits_are_numbers_outside_a_kernel():
    assert T.max(3, 4) == 4 and T.min(2.5, 4) == 2.5
    assert T.max_value(T.float8_e4m3fn) == 448 and T.max_value(torch.float16) == 65504
    assert T.min_value("int8") == -128 and T.max_value("uint16") == 65535 and T.min_value("uint8") == 0
    assert T.max_value(T.float32) == float(np.finfo(np.float32).max)
    assert str(T.min(T.dynamic("n"), 4)) == "min(n, 4)"


def test_tiles_allocated_in_a_pipelined_loop():
    """Also between its statements: what the prologue fills must be there before the loop."""

    @T.prim_func
    def kernel(
        A: T.Tensor[(32, 128), T.float16], B: T.Tensor[(128, 32), T.float16], C: T.Tensor[(32, 32), T.float32]
    ):
        with T.Kernel(1, threads=32):
            c = T.alloc_fragment((32, 32), T.float32)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                a = T.alloc_shared((32, 32), T.float16)
                T.copy(A[0, k * 32], a)
                b = T.alloc_shared((32, 32), T.float16)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
                d = T.alloc_shared((32, 32), T.float16)
                T.copy(B[k * 32, 0], d)
                T.gemm(a, d, c)
            T.copy(c, C)

    a, b, c = (
        torch.randint(-2, 3, (32, 128)).half(),
        torch.randint(-2, 3, (128, 32)).half(),
        torch.zeros(32, 32),
    )
    three_ways(kernel, a, b, c)
    torch.testing.assert_close(c, 2 * a.float() @ b.float())


def test_a_tensor_may_be_one_number():
    @T.prim_func
    def kernel(A: T.Tensor[(), T.float32], C: T.Tensor[(128,), T.float32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(128):
                C[i] = A[()] * i

    a, c = torch.tensor(1.5), torch.zeros(128)
    three_ways(kernel, a, c)
    torch.testing.assert_close(c, torch.arange(128) * 1.5)


def test_annotations_by_the_older_name_of_a_tensor():
    @T.macro
    def double(x: T.Buffer([128], "float32"), y: T.SharedBuffer([128], "float32")):
        for i in T.Parallel(128):
            y[i] = x[i] * 2

    @T.prim_func
    def kernel(A: T.Tensor[(128,), T.float32], C: T.Tensor[(128,), T.float32]):
        with T.Kernel(1, threads=32):
            doubled = T.alloc_shared((128,), T.float32)
            double(A, doubled)
            T.copy(doubled, C)

    a, c = torch.randn(128), torch.zeros(128)
    three_ways(kernel, a, c)
    torch.testing.assert_close(c, a * 2)


def halves_of_an_accumulator(parts: int = 2, rows: int = 32, width: int = 64):
    """The rows of a gemm's result leave through a shared tile that holds a part of them."""
    part = rows // parts

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, 32), T.float16),
        B: T.Tensor((32, width), T.float16),
        C: T.Tensor((rows, width), T.float32),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((rows, 32), T.float16)
            b = T.alloc_shared((32, width), T.float16)
            acc = T.alloc_fragment((rows, width), T.float32)
            out = T.alloc_shared((part, width), T.float32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, acc, clear_accum=True)
            for s in range(parts):
                for i, j in T.Parallel(rows, width):
                    if i < part:
                        out[i, j] = acc[i + s * part, j] * 2
                for i, j in T.Parallel(part, width // 4):
                    for v in T.vectorized(4):
                        C[s * part + i, j * 4 + v] = out[i, j * 4 + v]

    return kernel


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_loop_runs_where_the_rows_of_an_accumulator_lie(parts: int) -> None:
    a, b = torch.randn(32, 32).half(), torch.randn(32, 64).half()
    c = torch.full((32, 64), torch.nan)
    three_ways(halves_of_an_accumulator(parts), a, b, c)
    torch.testing.assert_close(c, 2 * (a.float() @ b.float()), rtol=1e-3, atol=1e-3)


def threads_by_name(rows: int, width: int, parts: int = 4, lanes: int = 32):
    """A thread's number from T.thread_binding, as a value."""

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, width), T.float32),
        X: T.Tensor((width,), T.float32),
        Y: T.Tensor((rows,), T.float32),
    ):
        with T.Kernel(T.ceildiv(rows, parts), threads=(lanes, parts)) as bx:
            part = T.alloc_local((1,), T.float32)
            total = T.alloc_local((1,), T.float32)
            lane = T.thread_binding(0, lanes, thread="threadIdx.x")
            row = bx * parts + T.get_thread_binding(1)
            if row < rows:
                T.clear(part)
                for k in T.serial(T.ceildiv(width, lanes)):
                    if k * lanes + lane < width:
                        part[0] += A[row, k * lanes + lane] * X[k * lanes + lane]
            with T.attr(
                T.comm_reducer(lambda x, y: x + y, [T.cast(0, T.float32)]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(T.tvm_thread_allreduce(T.uint32(1), part[0], True, total[0], lane, dtype="handle"))
            if lane == 0 and row < rows:
                Y[row] = total[0]

    return kernel


def test_thread_numbers_are_values() -> None:
    a, x, y = torch.randn(8, 100), torch.randn(100), torch.zeros(8)
    kernel = tilelang.compile(threads_by_name(8, 100), target="cpu")
    kernel(a, x, y)
    torch.testing.assert_close(y, a @ x, rtol=1e-4, atol=1e-4)
    by_cuda = np.zeros(8, np.float32)
    emulate(
        lower(kernel.prim_func, parse_target("cuda:sm_90")),
        {"A": a.numpy(), "X": x.numpy(), "Y": by_cuda},
        {},
    )
    torch.testing.assert_close(torch.from_numpy(by_cuda), y, rtol=1e-4, atol=1e-4)


def sums_in_a_branch():
    """A thread clears its own array where only some threads do."""

    @T.prim_func
    def kernel(A: T.Tensor((32, 8), T.float32), B: T.Tensor((32, 2), T.float32)):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding(0)
            if t % 3 != 1:
                acc = T.alloc_local((2,), T.float32)
                for r in T.serial(2):
                    T.clear(acc)
                    for j in T.serial(8):
                        acc[r] += A[t, j] * (r + 1)
                    B[t, r] = acc[r] + acc[1 - r]

    return kernel


def test_some_threads_clear_arrays_of_their_own() -> None:
    a, b = torch.randn(32, 8), torch.zeros(32, 2)
    three_ways(sums_in_a_branch(), a, b)
    expected = torch.stack((a.sum(1), 2 * a.sum(1)), 1)
    expected[1::3] = 0
    torch.testing.assert_close(b, expected, rtol=1e-4, atol=1e-4)


def rows_by_warps(leader_arrives: bool, rows: int = 16, width: int = 256):
    """Each warp loads one row of a shared tile by TMA: the tile is not swizzled."""
    notes = {"emit_arrive": 1} if leader_arrives else None

    @T.prim_func
    def kernel(A: T.Tensor((rows, width), T.float32), B: T.Tensor((rows, width), T.float32)):
        with T.Kernel(rows // 4, threads=128) as bx:
            warp = T.get_thread_binding() // 32
            tile = T.alloc_shared((4, width), T.float32)
            loaded = T.alloc_barrier([1 if leader_arrives else 32] * 4)
            T.tma_copy(
                A[bx * 4 + warp, 0:width],
                tile[warp, 0:width],
                barrier=loaded[warp],
                leader_scope_threads=32,
                annotations=notes,
            )
            if not leader_arrives:
                T.mbarrier_arrive(loaded[warp])
            T.mbarrier_wait_parity(loaded[warp], 0)
            for k in T.serial(width // 32):
                lane = T.get_thread_binding() % 32
                B[bx * 4 + warp, k * 32 + lane] = tile[warp, k * 32 + lane] + 1

    return kernel


@pytest.mark.parametrize("leader_arrives", [False, True])
def test_each_warp_loads_a_row_of_its_own_by_tma(
    monkeypatch: pytest.MonkeyPatch, leader_arrives: bool
) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cuda:sm_90")
    func = rows_by_warps(leader_arrives).definition.tile_function
    a, b = np.arange(16 * 256, dtype=np.float32).reshape(16, 256), np.zeros((16, 256), np.float32)
    emulate(lower(func, parse_target("cuda:sm_90")), {"A": a, "B": b}, {})
    np.testing.assert_array_equal(b, a + 1)


def scaled_after_folding(rows: int = 16, width: int = 64):
    """A reducer that is complete is a tile like another."""

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, width), T.float32),
        S: T.Tensor((rows,), T.float32),
        B: T.Tensor((rows,), T.float32),
    ):
        with T.Kernel(1, threads=64):
            total = T.alloc_reducer(rows, T.float32, replication="all")
            T.clear(total)
            for i, j in T.Parallel(rows, width):
                total[i] += A[i, j]
            T.finalize_reducer(total)
            for i in T.Parallel(rows):
                total[i] = total[i] * S[i] + 1
            T.copy(total, B)

    return kernel


def test_a_complete_reducer_is_a_tile_like_another() -> None:
    a, s, b = torch.randn(16, 64), torch.randn(16), torch.zeros(16)
    three_ways(scaled_after_folding(), a, s, b)
    torch.testing.assert_close(b, a.sum(1) * s + 1, rtol=1e-4, atol=1e-4)


def halves_by_warp_groups():
    """Two warp groups run one macro: each waits for the products that it has begun itself."""

    @T.macro
    def product(half, a, b, C):
        acc = T.alloc_fragment((64, 64), T.float32)
        T.wgmma_gemm(
            a[half, :, :], b, acc, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow
        )
        T.wait_wgmma(0)
        T.copy(acc, C[half * 64, 0])

    @T.prim_func
    def kernel(
        A: T.Tensor((128, 64), T.float16), B: T.Tensor((64, 64), T.float16), C: T.Tensor((128, 64), T.float32)
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((2, 64, 64), T.float16)
            b = T.alloc_shared((64, 64), T.float16)
            for i, j, k in T.Parallel(2, 64, 64):
                a[i, j, k] = A[i * 64 + j, k]
            T.copy(B, b)
            if T.get_thread_binding() < 128:
                product(0, a, b, C)
            else:
                product(1, a, b, C)

    return kernel


def test_a_warp_group_waits_for_its_own_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cuda:sm_90")
    lowered = lower(halves_by_warp_groups().definition.tile_function, parse_target("cuda:sm_90"))
    assert lowered.source.text.count("hold_32_f32(acc") == lowered.source.text.count("wgmma_wait<0>();") == 2
    a, b, c = torch.randn(128, 64).half(), torch.randn(64, 64).half(), torch.zeros(128, 64)
    emulate(lowered, {"A": a.numpy(), "B": b.numpy(), "C": c.numpy()}, {})
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-3, atol=1e-3)


@tilelang.jit
def shifted(X, by: float = 1.0):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            Y[i] = X[i] + by
    return Y


def test_a_function_that_is_not_compiled_yet():
    x = torch.arange(5.0)
    assert torch.equal(tilelang.reference.run(shifted, x), x + 1)
    assert torch.equal(tilelang.reference.run(shifted, x, by=-2.0), x - 2)
