"""The decorator in both styles: what it compiles, remembers, returns and refuses."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.diagnostics.error import KernelError
from tilelang.jit.functions import JITFunction, freeze


@tilelang.jit
def scale(A, factor: float = 2.0, block: int = 64):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * factor
    return B


@tilelang.jit(out_idx=-1)
def scale_lazy(N, factor=2.0):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] * factor

    return kernel


def test_an_eager_call_compiles_runs_and_returns_the_output():
    a = torch.randn(100)
    torch.testing.assert_close(scale(a), a * 2)
    torch.testing.assert_close(scale(a, 3.0), a * 3)
    torch.testing.assert_close(scale(a, factor=-1.0, block=32), -a)
    torch.testing.assert_close(scale(A=a), a * 2)


def test_an_eager_kernel_is_compiled_once_per_sizes_and_values():
    a = torch.randn(50)
    first = scale.compile(a)
    assert scale.compile(a) is first
    assert scale.compile(N=50) is first
    assert scale.compile(N=51) is not first
    assert scale.compile(N=50, block=128) is not first
    torch.testing.assert_close(first(a), a * 2)


@tilelang.jit
def doubled(A, block: int = 32):
    dtype, rank = A.dtype, A.ndim
    N = T.const("N")
    A: T.Tensor((N,), dtype)
    B = T.empty((N,) * rank, dtype)
    with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] + A[bx * block + i]
    return B


def test_a_tensor_is_read_above_its_declaration():
    for dtype in (torch.float32, torch.float16, torch.int32):
        a = torch.arange(40).to(dtype)
        torch.testing.assert_close(doubled(a), a + a)
    assert doubled.compile(torch.zeros(40)) is not doubled.compile(torch.zeros(40, dtype=torch.float16))
    with pytest.raises(ValueError, match="the dtype of A is not known: the parameter `A` has no value here"):
        doubled.compile(N=40)


def test_a_changed_default_target_is_seen_by_the_next_call(monkeypatch):
    a = torch.randn(33)
    scale(a)
    torch.testing.assert_close(scale(a), a * 2)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "metal")
    with pytest.raises(Exception, match="metal"):
        scale(a)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    torch.testing.assert_close(scale(a), a * 2)


def test_an_equal_value_of_another_type_is_another_kernel():
    assert freeze((1, "a")) != freeze((1.0, "a"))
    assert freeze([1, {"a": 2}]) == freeze([1, {"a": 2}])
    assert freeze(True) != freeze(1)


def test_sizes_that_nothing_says():
    with pytest.raises(ValueError, match=r"constexpr variable `N` of .*: pass N=\.\.\., or the tensor A"):
        scale.compile(block=32)


def test_a_name_that_is_neither_parameter_nor_size():
    with pytest.raises(TypeError, match="scale has no parameter or size M; it has A, factor, block, N"):
        scale.compile(M=3)


def test_missing_and_surplus_arguments():
    with pytest.raises(TypeError, match="scale: missing a required argument: 'A'"):
        scale()
    with pytest.raises(TypeError, match="scale: too many positional arguments"):
        scale(1, 2, 3, 4)


def test_a_wrong_dtype_is_named_at_the_call():
    with pytest.raises(ValueError, match="A dtype mismatch, expected float32, got float64"):
        scale(torch.zeros(4, dtype=torch.float64))


def test_a_tensor_of_too_few_dimensions():
    with pytest.raises(ValueError, match="A has 0 dimensions"):
        scale(torch.zeros(()))


def test_out_idx_does_not_go_with_eager():
    with pytest.raises(ValueError, match=r"only supported in lazy mode: .* is eager"):
        tilelang.jit(scale.function, out_idx=[0])(torch.zeros(4))


def test_a_lazy_call_returns_a_kernel_once_per_values():
    kernel = scale_lazy(100)
    assert scale_lazy(100) is kernel
    assert scale_lazy(N=100, factor=2.0) is kernel
    assert scale_lazy(100, 3.0) is not kernel
    a = torch.randn(100)
    torch.testing.assert_close(kernel(a), a * 2)
    assert kernel.out_idx == [1]
    assert [p.name for p in kernel.params] == ["A", "B"]


def test_without_out_idx_the_caller_passes_every_tensor():
    lazy = JITFunction(scale_lazy.function, tilelang.jit(scale_lazy.function).options)
    a, b = torch.randn(10), torch.zeros(10)
    assert lazy(10)(a, b) is None
    torch.testing.assert_close(b, a * 2)


def test_modes():
    assert scale.mode_for() == "eager"
    assert scale_lazy.initialize_jit_mode(4) == "lazy" == scale_lazy.mode

    @T.prim_func
    def made(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    @tilelang.jit
    def returns_one_from_elsewhere():
        return made

    assert returns_one_from_elsewhere.mode == "auto"
    a = torch.zeros(4)
    returns_one_from_elsewhere()(a)
    assert returns_one_from_elsewhere.mode == "lazy"
    assert a.tolist() == [1, 0, 0, 0]


def test_an_eager_kernel_may_write_its_arguments():
    @tilelang.jit
    def fill(A, value: float = 7.0):
        N = T.dynamic("N")
        A: T.Tensor((N,), "float32")
        with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
            for i in T.Parallel(32):
                A[bx * 32 + i] = value

    a = torch.zeros(45)
    assert fill(a) is None
    assert (a == 7).all()
    assert fill.compile() is fill.compile(torch.zeros(3))


def test_two_run_time_sizes_with_one_name_are_solved_apart():
    @T.prim_func
    def plus_one(A: T.Tensor((T.dynamic("n"),), "float32"), B: T.Tensor((T.dynamic("n"),), "float32")):
        n = A.shape[0]
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < n:
                    B[bx * 32 + i] = A[bx * 32 + i] + 1

    assert "int n, int n_1" in " ".join(tilelang.lower(plus_one, target="cuda").kernel_source.split())
    a, b = torch.zeros(45), torch.zeros(50)
    tilelang.compile(plus_one)(a, b)
    assert b.tolist() == [1.0] * 45 + [0.0] * 5


def test_two_outputs_are_a_tuple():
    @tilelang.jit
    def both(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        low, high = T.empty((N,), "float32"), T.empty((N,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                low[i] = T.min(A[i], 0)
                high[i] = T.max(A[i], 0)
        return low, high

    a = torch.randn(20)
    low, high = both(a)
    torch.testing.assert_close(low + high, a)
    assert (low <= 0).all()
    assert (high >= 0).all()


def test_strides_of_an_argument():
    @tilelang.jit
    def rows(X):
        M, N, s = T.const("M, N, s")
        X: T.StridedTensor((M, N), (s, 1), "float32")
        Y = T.empty((M, N), "float32")
        with T.Kernel(M, threads=32) as bx:
            for j in T.Parallel(N):
                Y[bx, j] = X[bx, j]
        return Y

    wide = torch.randn(5, 20)
    torch.testing.assert_close(rows(wide[:, :7]), wide[:, :7])


def test_a_scalar_argument_is_passed_at_run_time():
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), factor: T.float32, B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i] * factor

    compiled = tilelang.compile(kernel, out_idx=-1)
    a = torch.randn(8)
    torch.testing.assert_close(compiled(a, 0.5), a * 0.5)
    torch.testing.assert_close(compiled(a, -2), a * -2)


def test_every_problem_is_raised_at_once_with_its_source():
    @tilelang.jit
    def wrong(A):
        A: T.Tensor((64, 64), "float16")
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            T.copy(A, a)
            T.copy(A, b)
            T.gemm(a, b, c)

    with pytest.raises(KernelError) as raised:
        wrong(torch.zeros(64, 64, dtype=torch.float16))
    assert {p.rule for p in raised.value.problems} >= {"copy-shape", "gemm-shape"}
    assert "            T.gemm(a, b, c)" in str(raised.value)


def test_unknown_targets_and_backends():
    with pytest.raises(ValueError, match="unknown target 'tpu'"):
        tilelang.jit(target="tpu")
    with pytest.raises(ValueError, match="Invalid execution backend 'magic'"):
        tilelang.jit(execution_backend="magic")


def test_out_idx_out_of_range():
    with pytest.raises(KernelError, match="out_idx 5"):
        tilelang.jit(out_idx=5)(scale_lazy.function)(8)


def test_compile_wants_a_prim_func():
    with pytest.raises(
        TypeError, match=r"tilelang.compile was given int; expected a function under @T.prim_func"
    ):
        tilelang.compile(3)


def test_many_configurations_side_by_side():
    kernels = scale.par_compile([{"N": 10, "block": b} for b in (16, 32)], num_workers=2)
    a = torch.randn(10)
    for kernel in kernels:
        torch.testing.assert_close(kernel(a), a * 2)
    assert scale.par_compile([{"block": 8}], ignore_error=True) == [None]


def test_the_tile_function_and_the_source():
    assert scale.get_tir(N=10).attrs["global_symbol"] == "scale"
    assert "def scale" in scale.get_kernel_source(N=10)


def test_source_for_a_target_that_is_not_here():
    kernel = tilelang.jit(scale.function, target="hip:gfx942").compile(N=64)
    assert "__global__" in kernel.get_kernel_source()
    with pytest.raises(
        ValueError, match="A device_type mismatch, expected cuda, got cpu: scale was compiled"
    ):
        kernel(torch.zeros(64))


def _eager_by_closure(shape, dtype):
    @tilelang.jit
    def doubled(A):
        A: T.Tensor(shape, dtype)
        B = T.empty((16,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = A[i] * 2
        return B

    return doubled


@tilelang.jit(out_idx=-1)
def _lazy_by_local_shape(n):
    shape = (n,)

    @T.prim_func
    def kernel(A: T.Tensor(shape, "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = A[i] * 2

    return kernel


def test_names_that_only_text_annotations_use_are_found():
    # This module imports annotations from __future__, so no closure cell holds `shape` and `dtype`.
    a = torch.randn(16)
    torch.testing.assert_close(_eager_by_closure((16,), T.float32)(a), a * 2)
    torch.testing.assert_close(_lazy_by_local_shape(16)(a), a * 2)


@pytest.mark.parametrize("length", [128, 200])
def test_a_kernel_under_both_decorators_is_compiled_where_it_stands(length: int) -> None:
    """As kernels for older releases are written."""
    shape = (length,)

    @tilelang.jit(out_idx=-1, target="cpu")
    @T.prim_func
    def add(A: T.Tensor(shape, T.float32), B: T.Tensor(shape, T.float32), C: T.Tensor(shape, T.float32)):
        with T.Kernel(T.ceildiv(length, 128), threads=128) as bx:
            for i in T.Parallel(128):
                if bx * 128 + i < length:
                    C[bx * 128 + i] = A[bx * 128 + i] + B[bx * 128 + i]

    a, b = torch.randn(length), torch.randn(length)
    assert add.out_idx == [2]
    assert torch.equal(add(a, b), a + b)


def test_two_sizes_of_one_name_are_two_sizes() -> None:
    n, other = T.dynamic("n"), T.dynamic("n")

    @T.prim_func
    def head(A: T.Tensor((n,), "float32"), B: T.Tensor((other,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(n):
                B[i] = A[i]

    b = torch.zeros(6)
    tilelang.compile(head, target="cpu")(torch.ones(4), b)
    assert b.tolist() == [1, 1, 1, 1, 0, 0]


def test_a_tile_function_knows_where_it_was_written() -> None:
    span = _lazy_by_local_shape.get_tir(16).span
    assert span.source_name.name == __file__


def test_a_call_may_ask_for_the_arguments_of_compile() -> None:
    @tilelang.jit(out_idx=[-1], target="cpu", pass_configs={"tl.enable_fast_math": True})
    def factory(n):
        raise AssertionError("nothing is compiled")

    assert factory(16, __return_compile_arguments=True) == {
        "out_idx": [-1],
        "execution_backend": None,
        "target": "cpu",
        "target_host": None,
        "verbose": False,
        "pass_configs": {"tl.enable_fast_math": True},
        "compile_flags": None,
    }


def test_a_lazy_kernel_may_return_what_it_makes() -> None:
    @T.prim_func
    def both(A: T.Tensor((4,), "float32")):
        B = T.empty((4,), "float32")
        C = T.empty((4,), "float32")
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                B[i] = A[i] + 1
                C[i] = A[i] + 2
        return C, B

    kernel = tilelang.compile(both, target="cpu")
    c, b = kernel(torch.zeros(4))
    assert c.tolist() == [2] * 4 and b.tolist() == [1] * 4
    with pytest.raises(ValueError, match="Out index conflict"):
        tilelang.compile(both, target="cpu", out_idx=[0])
