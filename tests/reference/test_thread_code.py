"""The meaning of explicit thread code: shuffles, votes, barriers of warp groups and of the grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.threads import kernels
from tests.threads.test_threads import CASES, check
from tilelang.arch.target import parse_target
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.reference import ReferenceFailure, run

_MODULE = StaticModule(kernels.__file__, Path(kernels.__file__).read_text())
FOREIGN = ("foreign", "library_functions", "clusters")  # code of others; blocks of a cluster


def tile_function(module: StaticModule, name: str, **sizes: int) -> Any:
    kernel = next(k for k in module.kernels if k.qualified_name == name)
    program = trace_static(module, kernel, {k: str(v) for k, v in sizes.items()})
    return prim_func_of(program, parse_target("cuda:sm_90"), module.text)


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in FOREIGN], ids=lambda c: c.name)
def test_the_kernels_of_threads(case: Any) -> None:
    check(run(tile_function(_MODULE, case.name, **case.sizes), *case.inputs), case.expected(*case.inputs))


@pytest.mark.parametrize("name", FOREIGN)
def test_what_has_no_meaning_here_is_named(name: str) -> None:
    case = next(c for c in CASES if c.name == name)
    with pytest.raises(NotImplementedError, match="the reference does not know"):
        run(tile_function(_MODULE, name, **case.sizes), *case.inputs)


PRODUCER = """
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A):
    A: T.Tensor((8, 64), T.float32)
    B = T.empty((64,), T.float32)
    with T.Kernel(1, threads=256):
        s = T.alloc_shared((2, 64), T.float32)
        f = T.alloc_fragment((64,), T.float32)
        full = T.alloc_barrier([{fill}, {fill}])
        empty = T.alloc_barrier([128, 128])
        T.clear(f)
        with T.ws(0):
            for k in T.serial(8):
                T.mbarrier_wait_parity(empty[k % 2], (k // 2 + 1) % 2)
                T.copy(A[k, 0], s[k % 2, :])
                T.mbarrier_arrive(full[k % 2])
        with T.ws(1):
            for k in T.serial(8):
                T.mbarrier_wait_parity(full[k % 2], (k // 2) % 2)
                for i in T.Parallel(64):
                    f[i] = f[i] * 2 + s[k % 2, i]
                T.mbarrier_arrive(empty[k % 2])
        T.copy(f, B)
    return B
"""


def producer(fill: int) -> Any:
    return tile_function(StaticModule("kernel.py", PRODUCER.format(fill=fill)), "k")


def test_a_producer_and_a_consumer_run_side_by_side() -> None:
    a = torch.arange(8 * 64).view(8, 64).float()
    want = sum(a[k] * 2 ** (7 - k) for k in range(8))
    torch.testing.assert_close(run(producer(128), a), want)


def test_a_barrier_that_is_never_full_is_found() -> None:
    with pytest.raises(ReferenceFailure, match="line 17: threads wait here for others"):
        run(producer(129), torch.zeros(8, 64))


def test_each_thread_updates_by_itself_where_the_author_says_how_many_there_are() -> None:
    @T.prim_func
    def named(B: T.Tensor((2,), "int32")):
        with T.Kernel(2, threads=48) as bx:
            T.atomic_add(B[bx], bx + 1)

    @T.prim_func
    def unnamed(B: T.Tensor((2,), "int32")):
        with T.Kernel(2) as bx:
            T.atomic_add(B[bx], bx + 1)

    for kernel, want in ((named, [48, 96]), (unnamed, [1, 2])):
        compiled = tilelang.compile(kernel, target="cpu")
        for way in (compiled, compiled.reference):
            b = torch.zeros(2, dtype=torch.int32)
            way(b)
            assert b.tolist() == want


def test_lanes_that_are_not_there_give_nothing_defined() -> None:
    @T.prim_func
    def kernel(B: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = T.alloc_var("float32", init=0)
            if tx < n:
                x = T.shfl_down(T.cast(tx, "float32"), 8)
            B[tx] = x

    compiled = tilelang.compile(kernel, target="cpu")
    b = torch.zeros(64)
    compiled.reference(b, 48)
    assert b[:24].tolist() == [*range(8, 32)]
    assert b[24:32].tolist() == [*map(float, range(24, 32))]
    assert b[32:40].tolist() == [*range(40, 48)]
    assert b[40:48].isnan().all()


def test_a_warp_reduction_that_part_of_a_warp_reaches_is_an_error() -> None:
    @T.prim_func
    def kernel(B: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < n:
                B[tx] = T.warp_reduce_sum(B[tx])

    compiled = tilelang.compile(kernel, target="cpu")
    b = torch.ones(64)
    compiled.reference(b, 32)
    assert b[:32].tolist() == [32.0] * 32
    with pytest.raises(ReferenceFailure, match="needs all 32 lanes of a warp, but 8 of warp 1 reach it"):
        compiled.reference(b, 40)


COUNTED = """
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A):
    A: T.Tensor((32,), T.int32)
    B = T.empty((4, 8), T.int32)
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding(0)
        n = T.alloc_var(T.int32, init=2)
        s = T.alloc_shared((4, 8), T.int32)
        T.clear(s)
        {change}
        while n > 0:
            n -= 1
            for i, j in T.Parallel(4, 8):
                s[i, j] += n + 1
        A[tx] = n
        T.copy(s, B)
    return B
"""


def test_a_loop_of_the_block_reads_what_its_threads_agree_on() -> None:
    func = tile_function(StaticModule("k.py", COUNTED.format(change="pass")), "k")
    a = torch.ones(32, dtype=torch.int32)
    assert (run(func, a) == 3).all() and (a == 0).all()


def test_a_loop_of_the_block_has_no_thread_of_its_own() -> None:
    func = tile_function(StaticModule("k.py", COUNTED.format(change="n = tx % 2 + 1")), "k")
    with pytest.raises(ReferenceFailure, match=r"n differs between threads inside T\.Parallel"):
        run(func, torch.ones(32, dtype=torch.int32))


@tilelang.jit(target="cpu")
def sums_of_rows(X):
    """Tile operations on arrays that each thread has for itself."""
    X: T.Tensor((32, 8), T.float32)
    Y = T.empty((32,), T.float32)
    Z = T.empty((32, 4), T.float32)
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        row = T.alloc_local((8,), T.float32)
        half = T.alloc_local((2, 4), T.float32)
        pairs = T.alloc_local((4,), T.float32)
        total = T.alloc_var(T.float32)
        T.copy(X[tx, 0:8], row)
        T.reduce_sum(row, total, dim=0)
        T.fill(half, X[tx, 0])
        for i in T.serial(4):
            half[1, i] = row[i] + row[4 + i]
        T.reduce_max(half, pairs, dim=0)
        Y[tx] = total
        T.copy(pairs, Z[tx, 0:4])
    return Y, Z


def test_tile_operations_on_arrays_of_single_threads() -> None:
    x = torch.arange(256).float().sin().reshape(32, 8)
    folded = torch.maximum(x[:, :4] + x[:, 4:], x[:, :1])
    kernel = sums_of_rows.compile(x)
    for y, z in (kernel.reference(x), kernel(x)):
        torch.testing.assert_close(y, x.sum(1))
        torch.testing.assert_close(z, folded)


@tilelang.jit(target="cpu")
def named_slices(X, H):
    """A name of a slice is a vector of what stood there; to tile operations it is that part of the tensor."""
    X: T.Tensor((32, 4), T.float32)
    H: T.Tensor((32, 8), T.float16)
    Y = T.empty((32, 4), T.float32)
    Z = T.empty((32, 8), T.float32)
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        s = T.alloc_shared((32, 4), T.float32)
        s[tx, 0:4] = X[tx, 0:4]
        first = s[tx, 0:4]
        pair: T.float32x2 = s[tx, 2:4]
        left = s[0:32, 0:2]
        T.fill(left, 7.0)
        s[tx, 2:4] = T.add2(pair, pair) * pair
        Y[tx, 0:4] = first
        Z[tx, 0:4] = s[tx, 0:4]
        Z[tx, 4:8] = T.cast(H[tx, 4:8], "float32x4")
    return Y, Z


def test_names_of_slices_are_vectors() -> None:
    x, h = torch.randn(32, 4), torch.randn(32, 8).half()
    changed = torch.cat([torch.full((32, 2), 7.0), 2 * x[:, 2:] ** 2, h[:, 4:].float()], 1)
    kernel = named_slices.compile(x, h)
    for y, z in (kernel.reference(x, h), kernel(x, h)):
        torch.testing.assert_close(y, x)
        torch.testing.assert_close(z, changed)
