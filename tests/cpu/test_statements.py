"""Loops, conditions, variables, views and scalars on the CPU target."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import compiled_for, random


def run(kernel, *args, **kwargs):
    return compiled_for(kernel, "cpu")(*args, **kwargs)


def test_a_parallel_region_with_a_condition():
    @tilelang.jit
    def triangle(A):
        N = T.const("N")
        A: T.Tensor((N, N), "float32")
        B = T.empty((N, N), "float32")
        with T.Kernel(T.ceildiv(N, 16), T.ceildiv(N, 16), threads=64) as (bx, by):
            for i, j in T.Parallel(16, 16):
                if by * 16 + i >= bx * 16 + j:
                    B[by * 16 + i, bx * 16 + j] = A[by * 16 + i, bx * 16 + j]
                else:
                    B[by * 16 + i, bx * 16 + j] = 0

        return B

    a = random(50, 50)
    assert torch.equal(run(triangle, a), a.tril())


def test_reads_beyond_both_ends_are_zero():
    @tilelang.jit
    def blur(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B = T.empty((N,), "float32")
        with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i - 1] + A[bx * 32 + i] + A[bx * 32 + i + 1]
        return B

    a = random(100)
    padded = torch.nn.functional.pad(a, (1, 1))
    torch.testing.assert_close(run(blur, a), padded[:-2] + a + padded[2:])


def test_a_step_without_a_start():
    @tilelang.jit
    def marked(A):
        A: T.Tensor((12,), "int32")
        with T.Kernel(1, threads=1):
            for i in T.serial(10, step=4):
                A[i] = 1
            for i in T.unroll(12, step=5):
                A[i] += 2

    a = torch.zeros(12, dtype=torch.int32)
    run(marked, a)
    assert a.tolist() == [3, 0, 0, 0, 1, 2, 0, 0, 1, 0, 2, 0]


def test_variables_serial_loops_with_steps_and_break():
    @tilelang.jit
    def count(A):
        A: T.Tensor((64,), "int32")
        B = T.empty((3,), "int32")
        with T.Kernel(1, threads=32):
            total = T.alloc_var("int32")
            seen = T.alloc_var("int32", init=0)
            for i in T.serial(0, 64, 3):
                total = total + A[i]
            for i in range(64):
                if A[i] < 0:
                    break
                seen += 1
            B[0] = total
            B[1] = seen
            last = T.alloc_var("int32", init=64)
            while A[last - 1] > 5:
                last = last - 1
            B[2] = last
        return B

    a = torch.arange(64, dtype=torch.int32)
    a[40] = -1
    assert run(count, a).tolist() == [int(a[::3].sum()), 40, 41]


def test_a_view_of_another_shape():
    @tilelang.jit
    def flat(A):
        A: T.Tensor((8, 16), "float32")
        B = T.empty((128,), "float32")
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8, 16), "float32")
            T.copy(A, s)
            f = T.reshape(s, (128,))
            for i in T.Parallel(128):
                B[i] = f[127 - i]
        return B

    a = random(8, 16)
    assert torch.equal(run(flat, a), a.flatten().flip(0))


def test_an_index_that_is_loaded():
    @tilelang.jit
    def gather(A, index):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, N), "float32")
        index: T.Tensor((K,), "int32")
        B = T.empty((K, N), "float32")
        with T.Kernel(K, threads=32) as bx:
            for j in T.Parallel(N):
                B[bx, j] = A[index[bx], j]
        return B

    a = random(10, 20)
    index = torch.tensor([3, 0, 9, 3, 11, -1], dtype=torch.int32)  # the last two lie outside: zeros
    expected = torch.cat([a[[3, 0, 9, 3]], torch.zeros(2, 20)])
    assert torch.equal(run(gather, a, index), expected)


def test_swizzled_blocks_give_the_same_result():
    @tilelang.jit
    def copied(A):
        A: T.Tensor((96, 96), "float32")
        B = T.empty((96, 96), "float32")
        with T.Kernel(6, 6, threads=32) as (bx, by):
            T.use_swizzle(3)
            s = T.alloc_shared((16, 16), "float32")
            T.copy(A[by * 16, bx * 16], s)
            T.copy(s, B[by * 16, bx * 16])
        return B

    a = random(96, 96)
    assert torch.equal(run(copied, a), a)


def test_booleans():
    @tilelang.jit
    def masked(A, keep):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        keep: T.Tensor((N,), "bool")
        B = T.empty((N,), "float32")
        with T.Kernel(1, threads=32):
            m = T.alloc_shared((N,), "bool")
            T.copy(keep, m)
            for i in T.Parallel(N):
                B[i] = T.if_then_else(m[i], A[i], -1.0)
        return B

    a, keep = random(50), torch.rand(50) > 0.5
    assert torch.equal(run(masked, a, keep), torch.where(keep, a, -1.0))


_MATH = [
    "exp",
    "exp2",
    "log",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "erf",
    "floor",
    "ceil",
    "round",
    "abs",
]


@pytest.mark.parametrize("name", _MATH)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_math(name, dtype):
    function = getattr(T, name)

    @tilelang.jit
    def apply(A, dtype=T.float32):
        N = T.const("N")
        A: T.Tensor((N,), dtype)
        B = T.empty((N,), dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = function(A[i])
        return B

    a = random(100).abs().to(dtype) + 0.25 if name in ("log", "sqrt", "rsqrt") else random(100).to(dtype)
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype is torch.float32 else {"rtol": 8e-3, "atol": 1e-3}
    torch.testing.assert_close(
        run(apply, a, dtype=dtype), getattr(torch, name)(a.float()).to(dtype), **tolerance
    )


def test_bfloat16_rounds_after_every_operation_as_torch_does():
    @tilelang.jit
    def mixed(A, B):
        N = T.const("N")
        A: T.Tensor((N,), "bfloat16")
        B: T.Tensor((N,), "bfloat16")
        C = T.empty((N,), "bfloat16")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                C[i] = T.max(A[i] * B[i] + A[i], A[i] - B[i])
        return C

    a, b = random(4096, dtype=torch.bfloat16), random(4096, dtype=torch.bfloat16, seed=1)
    a[:4] = torch.tensor([float("inf"), float("nan"), 3e38, -0.0])
    found, expected = run(mixed, a, b), torch.maximum(a * b + a, a - b)
    finite = ~expected.isnan()
    assert torch.equal(found[finite], expected[finite])


def test_a_nan_stays_a_nan_in_bfloat16():
    @tilelang.jit
    def narrow(A):
        A: T.Tensor((4,), "float32")
        B = T.empty((4,), "bfloat16")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = T.cast(A[i], "bfloat16")
        return B

    bits = torch.tensor([0x7FFFFFFF, 0x7F800001, 0xFFFFFFFF - 2**32, 0x7F7FFFFF], dtype=torch.int64).int()
    found = run(narrow, bits.view(torch.float32))
    assert found[:3].isnan().all()
    assert found[3].isinf()


def test_a_tensor_beyond_31_bits_of_elements_is_indexed_with_64():
    source = compiled_for(_huge, "cpu").get_kernel_source()
    assert "int64" in source
    assert "int64" not in compiled_for(_huge, "cpu").get_kernel_source(N=1024)


@tilelang.jit
def _huge(A, N: int = 2**20):
    A: T.Tensor((4096, N), "int8")
    with T.Kernel(4096, threads=32) as bx:
        for j in T.Parallel(N):
            A[bx, j] = 1


def test_poison_shows_what_is_read_before_it_is_written():
    @T.prim_func
    def forgetful(B: T.Tensor((32,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "float32")
            for i in T.serial(n):
                s[i] = 1.0
            T.copy(s, B)

    kernel = tilelang.compile(forgetful, target="cpu", pass_configs={"tl.cpu_poison_allocations": True})
    b = torch.zeros(32)
    kernel(b, 30)
    assert b[:30].eq(1).all()
    assert b[30:].isnan().all()


def test_float_arithmetic_is_not_rearranged():
    @tilelang.jit
    def rounded(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B = T.empty((N,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = (A[i] + 12582912.0) - 12582912.0  # rounds to an integer
        return B

    a = random(100) * 10
    assert torch.equal(run(rounded, a), a.round())


def test_an_index_that_is_read_from_memory_is_guarded_in_whole_and_in_cut_blocks():
    @tilelang.jit
    def gathered(A, Rows):
        M, N, count = T.const("M, N, count")
        A: T.Tensor((M, N), "float32")
        Rows: T.Tensor((count,), "int32")
        B = T.empty((count, 32), "float32")
        with T.Kernel(count, threads=64) as bx:
            tile = T.alloc_shared((32, 32), "float32")
            for s in T.serial(Rows[bx]):
                T.copy(A[Rows[s] * 32, s * 32], tile)
                for j in T.Parallel(32):
                    B[bx, j] = tile[31, j]
        return B

    a, rows = random(80, 96), torch.tensor([1, 2, 3], dtype=torch.int32)
    found = run(gathered, a, rows)
    assert torch.equal(found[0], a[63, :32])
    assert torch.equal(found[1], torch.zeros(32))  # row 95 is outside
    assert torch.equal(found[2], torch.zeros(32))


def test_indices_that_are_surely_negative_count_from_the_end():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((8, 64), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "int32")
            T.copy(A, tile)
            for i in T.Parallel(64):
                B[-8, i] = tile[-1 - i]
                B[-7, -(i + 1)] = A[i]
                # The element before, which is outside at first: there is no end to count from.
                B[2, i] = A[i - 1]
            for k in T.serial(3):
                B[k - 3, 0] = k

    a, b = torch.arange(64, dtype=torch.int32), torch.zeros(8, 64, dtype=torch.int32)
    tilelang.compile(main, target="cpu")(a, b)
    assert torch.equal(b[0], a.flip(0)) and torch.equal(b[1], a.flip(0))
    assert b[2].tolist() == [0, *range(63)]
    assert b[5:, 0].tolist() == [0, 1, 2]


def test_a_step_may_be_known_at_run_time_only():
    @T.prim_func
    def main(k: T.int32, B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(1, 60, k):
                B[i] = i

    b = torch.zeros(64, dtype=torch.int32)
    tilelang.compile(main, target="cpu")(7, b)
    assert b.nonzero().flatten().tolist() == list(range(1, 60, 7))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_floor_divisions_by_what_is_no_constant(dtype):
    """The conversion to bfloat16 names its operand; TVM's own form of a floor division cannot be named."""

    @tilelang.jit
    def divided(A, B, C: int):
        N = T.const("N")
        A: T.Tensor((N,), "int32")
        B: T.Tensor((N,), "int32")
        Q, Z = T.empty((N,), dtype), T.empty((N, C), dtype)
        R = T.empty((N,), "int32")
        with T.Kernel(N, threads=32) as bx:
            q: T.int32 = A[bx] // B[bx]
            Q[bx] = A[bx] // B[bx] - (q - A[bx] // B[bx])
            R[bx] = A[bx] % B[bx]
            for j in T.Parallel(C):
                Z[bx, j] = j // 5 // (bx % 3 + 1) + (j + bx) // (bx % 3 + 1)
        return Q, R, Z

    a = torch.arange(-20, 21, dtype=torch.int32).repeat_interleave(6)
    b = torch.tensor([-7, -3, -1, 1, 2, 5], dtype=torch.int32).repeat(41)
    quotient, rest, always_small = run(divided, a, b, 4)
    assert torch.equal(quotient.to(torch.int32), torch.div(a, b, rounding_mode="floor"))
    assert torch.equal(rest, torch.remainder(a, b))
    row, column = torch.arange(len(a))[:, None], torch.arange(4)
    assert torch.equal(always_small, ((column + row) // (row % 3 + 1)).to(getattr(torch, dtype)))


def test_a_macro_computes_its_arguments_once_and_before_its_statements():
    """An element that the macro changes, and shuffles that would stand in a branch of a few threads."""

    @T.macro
    def keep_larger(keys, indices, key, index):
        if key > keys[0] or (key == keys[0] and index < indices[0]):
            keys[0] = key
            indices[0] = index

    @T.macro
    def twice(x, value):
        x[0] = value
        x[0] = x[0] + value

    @tilelang.jit
    def argmax(A):
        N = T.const("N")
        A: T.Tensor((N, 32), "int32")
        at, sums = T.empty((N,), "int32"), T.empty((N,), "int32")
        with T.Kernel(N, threads=32) as bx:
            lane = T.get_thread_binding()
            key, index, sum_ = (T.alloc_local((1,), "int32") for _ in range(3))
            key[0], index[0], sum_[0] = A[bx, lane], lane, A[bx, lane]
            for step in T.serial(5):
                mask = T.int32(16) >> step
                keep_larger(key, index, T.shfl_xor(key[0], mask), T.shfl_xor(index[0], mask))
            twice(sum_, sum_[0] * 3)
            if lane == 0:
                at[bx], sums[bx] = index[0], sum_[0]
        return at, sums

    a = torch.randint(-50, 50, (9, 32), dtype=torch.int32)
    at, sums = run(argmax, a)
    assert torch.equal(at.long(), a.argmax(-1)) and torch.equal(sums, a[:, 0] * 6)


def test_a_plain_function_loops_as_python_does():
    def offset(flat, sizes, strides):
        total = 0
        for d in range(len(sizes)):
            total = total + flat % sizes[d] * strides[d]
            flat = flat // sizes[d]
        return total

    @tilelang.jit
    def transpose(A):
        A: T.Tensor((24,), "float32")
        B = T.empty((24,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(24):
                B[i] = A[offset(i, [6, 4], (4, 1))]
        return B

    a = random(24)
    assert torch.equal(run(transpose, a), a.reshape(6, 4).T.reshape(-1))


def test_a_nan_is_not_equal_to_itself():
    @tilelang.jit
    def is_nan(A, out):
        A: T.Tensor((32,), "float32")
        out: T.Tensor((4, 32), "int32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                x = A[i]
                out[0, i] = T.if_then_else(x != x, 1, 0)
                out[1, i] = T.if_then_else(A[i] != A[i], 1, 0)
                out[2, i] = T.if_then_else(x == x, 0, 1)
                if x != x:
                    out[3, i] = 1
                else:
                    out[3, i] = 0

    a, o = random(32), torch.zeros(4, 32, dtype=torch.int32)
    a[5] = torch.nan
    run(is_nan, a, o)
    assert torch.equal(o, a.isnan().int().expand(4, 32))
