"""wgmma on sm_90a: lowered, run warpgroup by warpgroup in the emulator, compiled, on unless refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from tvm import tirx as X

import tilelang
import tilelang.language as T
from tests.cuda.kernels import HEAD
from tests.emulator.block import run
from tests.emulator.memory import EmulationError, SharedMemory, numpy_dtype, poison
from tilelang.analysis.check import check_program
from tilelang.arch.cuda import DISABLE_WARP_SPECIALISED, DISABLE_WGMMA
from tilelang.arch.target import parse_target
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.ir import tile_ops
from tilelang.jit.compiling import prim_func_of
from tilelang.passes.walk import remake
from tilelang.targets.driver import build, lower
from tilelang.targets.lowered import LoweredKernel

GEMM = """
@tilelang.jit
def matmul(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor(({a}), T.{operand})
    B: T.Tensor(({b}), T.{operand})
    C = T.empty((M, N), T.{result})
    with T.Kernel(T.ceildiv(N, {bn}), T.ceildiv(M, {bm}), threads={threads}) as (bx, by):
        A_shared = T.alloc_shared(({a_tile}), T.{operand})
        B_shared = T.alloc_shared(({b_tile}), T.{operand})
        acc = T.alloc_fragment(({bm}, {bn}), T.{result})
        for k in T.Pipelined(T.ceildiv(K, {bk}), num_stages=2):
            T.copy(A[{a_at}], A_shared)
            T.copy(B[{b_at}], B_shared)
            T.gemm(A_shared, B_shared, acc, {ta}, {tb}, T.GemmWarpPolicy.{policy}, clear_accum=k == 0)
        T.copy(acc, C[by * {bm}, bx * {bn}])
    return C
"""


def gemm_text(
    bm: int,
    bn: int,
    bk: int,
    threads: int,
    ta: bool = False,
    tb: bool = False,
    operand: str = "float16",
    result: str = "float32",
    policy: str = "Square",
) -> str:
    rows, columns, depth = f"by * {bm}", f"bx * {bn}", f"k * {bk}"
    return GEMM.format(
        **locals(),
        a="K, M" if ta else "M, K",
        b="N, K" if tb else "K, N",
        a_tile=f"{bk}, {bm}" if ta else f"{bm}, {bk}",
        b_tile=f"{bn}, {bk}" if tb else f"{bk}, {bn}",
        a_at=f"{depth}, {rows}" if ta else f"{rows}, {depth}",
        b_at=f"{columns}, {depth}" if tb else f"{depth}, {columns}",
    )


def lowered_for(text: str, wgmma: bool | None, target: str = "cuda:sm_90", **sizes: int) -> LoweredKernel:
    """The kernel with wgmma asked for, refused, or left to the default, and one warp group for all."""
    module = StaticModule("kernel.py", HEAD + text)
    program = trace_static(module, module.kernels[0], {k: str(v) for k, v in sizes.items()})
    func = prim_func_of(program, parse_target(target), text).with_attr(DISABLE_WARP_SPECIALISED, True)
    if wgmma is not None:
        func = func.with_attr(DISABLE_WGMMA, not wgmma)
    return lower(func, parse_target(target))


def instructions(lowered: LoweredKernel) -> list[str]:
    return [text for text in lowered.instructions.values() if "mma" in text]


CASES = [
    (64, 64, 64, 128, False, False),
    (64, 64, 32, 128, False, True),
    (128, 64, 128, 128, True, False),
    (128, 128, 64, 256, True, True),
    (64, 256, 16, 128, False, True),
    (128, 32, 64, 256, False, False),
    (256, 64, 32, 256, True, True),
    (192, 64, 64, 128, False, False),
]


@pytest.mark.parametrize(("bm", "bn", "bk", "threads", "ta", "tb"), CASES)
def test_every_storage_order(
    bm: int, bn: int, bk: int, threads: int, ta: bool, tb: bool, rng: np.random.Generator
) -> None:
    m, n, k = bm, 2 * bn, 3 * bk
    lowered = lowered_for(gemm_text(bm, bn, bk, threads, ta, tb), True, M=m, N=n, K=k)
    assert instructions(lowered)[0].startswith("wgmma m64n")
    a, b = rng.normal(size=(m, k)).astype(np.float16), rng.normal(size=(k, n)).astype(np.float16)
    c = poison((m, n), "float32")
    stored = [np.ascontiguousarray(x.T) if turned else x for x, turned in ((a, ta), (b, tb))]
    run(lowered, {"A": stored[0], "B": stored[1], "C": c})
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=0, atol=1e-3)


def values(shape: tuple[int, int], dtype: str, rng: np.random.Generator) -> np.ndarray:
    if "int" in dtype:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.normal(size=shape).astype(numpy_dtype(dtype))


# operand, result, tile of N and of K, threads, absolute tolerance
DTYPES = [
    ("float16", "float16", 64, 64, 128, 0.05),
    ("bfloat16", "float32", 64, 64, 128, 1e-3),
    ("float8_e4m3fn", "float32", 64, 128, 128, 1e-3),
    ("float8_e5m2", "float16", 48, 32, 128, 0.05),
    ("int8", "int32", 96, 256, 256, 0),
    ("uint8", "int32", 24, 64, 128, 0),
    ("float32", "float32", 64, 32, 128, 0.15),
    ("float32", "float32", 16, 64, 128, 0.15),
]


@pytest.mark.parametrize(("operand", "result", "bn", "bk", "threads", "tolerance"), DTYPES)
def test_dtypes(
    operand: str, result: str, bn: int, bk: int, threads: int, tolerance: float, rng: np.random.Generator
) -> None:
    """All but 16-bit operands have K innermost."""
    text = gemm_text(64, bn, bk, threads, tb=True, operand=operand, result=result)
    lowered = lowered_for(text, True, M=64, N=bn, K=2 * bk)
    bits = numpy_dtype(operand).itemsize * 8
    assert f"k{256 // bits} {result}.{operand}" in instructions(lowered)[0]
    assert instructions(lowered)[0].startswith("wgmma")
    a, b = values((64, 2 * bk), operand, rng), values((bn, 2 * bk), operand, rng)
    c = poison((64, bn), result)
    run(lowered, {"A": a, "B": b, "C": c})
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c.astype(np.float64), expected, rtol=0, atol=tolerance)


MIXED = """
@tilelang.jit
def mixed(A, B):
    A: T.Tensor((64, 128), T.{left})
    B: T.Tensor((32, 128), T.{right})
    C = T.empty((64, 32), T.{result})
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 128), T.{left})
        f = T.alloc_fragment((64, 128), T.{left})
        b = T.alloc_shared((32, 128), T.{right})
        acc = T.alloc_fragment((64, 32), T.{result})
        T.copy(A, a)
        T.copy(B, b)
        T.copy(a, f)
        T.gemm(a, b, acc, transpose_B=True, clear_accum=True)
        T.gemm(f, b, acc, transpose_B=True)
        T.copy(acc, C)
    return C
"""


@pytest.mark.parametrize(
    ("left", "right", "result"), [("float8_e5m2", "float8_e4m3fn", "float32"), ("int8", "uint8", "int32")]
)
def test_two_dtypes_and_a_in_registers(left: str, right: str, result: str, rng: np.random.Generator) -> None:
    lowered = lowered_for(MIXED.format(left=left, right=right, result=result), None)
    assert [i.split()[:2] for i in instructions(lowered)] == [["wgmma", "m64n32k32"]] * 2
    a, b, c = values((64, 128), left, rng), values((32, 128), right, rng), poison((64, 32), result)
    run(lowered, {"A": a, "B": b, "C": c})
    expected = 2 * a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c.astype(np.float64), expected, rtol=0, atol=1e-3)
    assert build(lowered).binary


def facts_of(text: str, **sizes: int) -> Any:
    module = StaticModule("kernel.py", HEAD + text)
    program = trace_static(module, module.kernels[0], {k: str(v) for k, v in sizes.items()})
    return check_program(program, parse_target("cuda:sm_90"), "")[0]


@pytest.mark.parametrize(
    ("ta", "tb", "said"), [(False, False, "store B as [N, K]"), (True, True, "store A as")]
)
def test_other_orders_are_left_to_mma_sync_and_the_hover_says_why(ta: bool, tb: bool, said: str) -> None:
    text = gemm_text(64, 64, 64, 128, ta, tb, "float8_e4m3fn")
    sizes = {"M": 64, "N": 64, "K": 64}
    assert instructions(lowered_for(text, None, **sizes))[0].startswith("mma.sync m16n8k32")
    gemm = next(op for op in facts_of(text, **sizes).ops if op.op == "gemm")
    assert gemm.instruction.startswith("mma.sync") and any(said in note for note in gemm.notes)
    right = facts_of(gemm_text(64, 64, 64, 128, operand="float8_e4m3fn", tb=True), **sizes)
    assert not any("no wgmma" in note for op in right.ops for note in op.notes)


ATTENTION = """
@tilelang.jit
def attention(Q, K, V):
    L, D = T.const("L, D")
    Q: T.Tensor((L, D), T.bfloat16)
    K: T.Tensor((L, D), T.bfloat16)
    V: T.Tensor((L, D), T.bfloat16)
    O = T.empty((L, D), T.float32)
    with T.Kernel(T.ceildiv(L, 64), threads=128) as bx:
        q = T.alloc_shared((64, D), T.bfloat16)
        keys = T.alloc_shared((64, D), T.bfloat16)
        v = T.alloc_shared((64, D), T.bfloat16)
        s = T.alloc_fragment((64, 64), T.float32)
        p = T.alloc_fragment((64, 64), T.bfloat16)
        o = T.alloc_fragment((64, D), T.float32)
        T.copy(Q[bx * 64, 0], q)
        T.clear(o)
        for t in T.Pipelined(T.ceildiv(L, 64), num_stages=2):
            T.copy(K[t * 64, 0], keys)
            T.gemm(q, keys, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(64, 64):
                s[i, j] = T.exp2(s[i, j] * 0.1)
            T.copy(s, p)
            T.copy(V[t * 64, 0], v)
            T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
        T.copy(o, O[bx * 64, 0])
    return O
"""


def test_a_in_registers(rng: np.random.Generator) -> None:
    lowered = lowered_for(ATTENTION, True, L=128, D=64)
    assert [text.split(",")[0] for text in instructions(lowered)] == ["wgmma m64n64k16 float32.bfloat16"] * 2
    q, k, v = (rng.normal(size=(128, 64)).astype(ml_dtypes.bfloat16) for _ in range(3))
    o = poison((128, 64), "float32")
    run(lowered, {"Q": q, "K": k, "V": v, "O": o})
    wide = [x.astype(np.float32) for x in (q, k, v)]
    p = np.exp2(wide[0] @ wide[1].T * 0.1).astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_allclose(o, p @ wide[2], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "text", [gemm_text(128, 256, 64, 256), gemm_text(64, 64, 64, 128, True, True), ATTENTION]
)
def test_the_compiler_takes_it(text: str) -> None:
    sizes = {"L": 256, "D": 64} if text is ATTENTION else {"M": 256, "N": 256, "K": 256}
    assert build(lowered_for(text, True, **sizes)).binary


def test_it_is_on_unless_refused_and_only_where_it_exists() -> None:
    text, sizes = gemm_text(64, 64, 64, 128), {"M": 64, "N": 64, "K": 64}
    for wgmma, target in ((False, "cuda:sm_90"), (None, "cuda:sm_80"), (True, "cuda:sm_80")):
        assert instructions(lowered_for(text, wgmma, target, **sizes))[0].startswith("mma.sync")
    for wgmma in (None, True):
        assert instructions(lowered_for(text, wgmma, **sizes))[0].startswith("wgmma")


REFUSING = "{head}@tilelang.jit(pass_configs={{{key}: True}})" + gemm_text(64, 64, 64, 128).replace(
    "@tilelang.jit", "", 1
)


@pytest.mark.parametrize("key", ['"tl.disable_wgmma"', "tilelang.PassConfigKey.TL_DISABLE_WGMMA"])
def test_what_a_decorator_refuses_is_what_the_hover_says(key: str) -> None:
    module = StaticModule("kernel.py", REFUSING.format(head=HEAD, key=key))
    program = trace_static(module, module.kernels[0], {"M": "64", "N": "64", "K": "64"})
    facts, _ = check_program(program, parse_target("cuda:sm_90"), "")
    assert any((op.instruction or "").startswith("mma.sync") for op in facts.ops)


CONTRADICTING = """
@tilelang.jit
def two(A, B):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    C = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), T.float16)
        again = T.{view}
        b = T.alloc_shared((64, 64), T.float16)
        f = T.alloc_fragment((64, 64), T.float16)
        acc = T.alloc_fragment((64, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.clear(acc)
        T.gemm(a, b, acc)
        T.copy({source}, f)
        T.gemm(f, b, acc, transpose_A={turned})
        T.copy(acc, C)
    return C
"""


@pytest.mark.parametrize(
    ("view", "source", "turned"),
    [("reshape(a, (64, 64))", "again", False), ("alloc_local((1,), T.int32)", "a", True)],
)
def test_an_accumulator_of_both_is_left_to_mma_sync(
    view: str, source: str, turned: bool, rng: np.random.Generator
) -> None:
    """A tile under two names stays row-major; a transposed fragment is nothing for wgmma."""
    text = CONTRADICTING.format(view=view, source=source, turned=turned)
    lowered = lowered_for(text, None)
    assert [i.split()[0] for i in instructions(lowered)] == ["mma.sync"] * 2
    module = StaticModule("kernel.py", HEAD + text)
    facts, _ = check_program(trace_static(module, module.kernels[0]), parse_target("cuda:sm_90"), "")
    assert [op.instruction.split()[0] for op in facts.ops if op.op == "gemm"] == ["mma.sync"] * 2
    a, b = (rng.normal(size=(64, 64)).astype(np.float16) for _ in range(2))
    c = poison((64, 64), "float32")
    run(lowered, {"A": a, "B": b, "C": c})
    left, right = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(c, left @ right + (left.T if turned else left) @ right, atol=1e-3)


@pytest.mark.parametrize(
    "text",
    [
        gemm_text(32, 64, 64, 128),
        gemm_text(64, 64, 64, 64),
        gemm_text(64, 24, 64, 128, tb=True, policy="FullCol"),
    ],
    ids=["few rows", "two warps", "narrow"],
)
def test_what_does_not_fit_is_left_to_mma_sync(text: str) -> None:
    found = instructions(lowered_for(text, True, M=192, N=192, K=128))
    assert found and ("wgmma m64n24k16" in found[0] or found[0].startswith("mma.sync"))


def changed(lowered: LoweredKernel, change: Callable[[Any], Any]) -> LoweredKernel:
    def visit(stmt: Any) -> Any:
        return change(stmt) if isinstance(stmt, X.Evaluate) else remake(stmt, visit)

    return dataclasses.replace(lowered, func=lowered.func.with_body(visit(lowered.func.body)))


def tensors(rng: np.random.Generator) -> dict[str, np.ndarray]:
    a, b = (rng.normal(size=s).astype(np.float16) for s in ((64, 192), (192, 64)))
    return {"A": a, "B": b, "C": poison((64, 64), "float32")}


@pytest.mark.parametrize(
    ("missing", "said"), [("tl.cuda.fence_proxy_async", "no proxy fence"), ("tl.sync", "race")]
)
def test_what_is_missing_is_noticed(missing: str, said: str, rng: np.random.Generator) -> None:
    lowered = lowered_for(gemm_text(64, 64, 64, 128), True, M=64, N=64, K=192)
    broken = changed(lowered, lambda s: None if tile_ops.is_call(s.value, missing) else s)
    with pytest.raises(EmulationError, match=said):
        run(broken, tensors(rng))


def test_a_fence_counts_for_what_its_threads_wrote() -> None:
    shared, all_threads = SharedMemory(8, threads=2), np.arange(2)
    shared.write(all_threads, all_threads * 4, np.zeros((2, 4), np.uint8), "A")
    shared.fence(all_threads[:1])
    shared.barrier()
    shared.read_by_proxy(all_threads[:1], np.array([0]), 4, "A")
    with pytest.raises(EmulationError, match="byte 4, written with no proxy fence"):
        shared.read_by_proxy(all_threads[:1], np.array([4]), 4, "A")
    shared.fence(all_threads[:1])  # behind the barrier the one thread vouches for both
    shared.read_by_proxy(all_threads[:1], np.array([4]), 4, "A")


def test_a_wrong_stride_gives_a_wrong_result(rng: np.random.Generator) -> None:
    lowered = lowered_for(gemm_text(64, 64, 64, 128), True, M=64, N=64, K=192)

    def halved(stmt: Any) -> Any:
        call = stmt.value
        if "wgmma_" not in str(getattr(getattr(call, "op", None), "name", "")):
            return stmt
        args = list(call.args)
        args[2] = X.const(int(args[2].value) // 2, "int32")
        return X.Evaluate(tile_ops.call(str(call.op.name), args))

    given = tensors(rng)
    run(changed(lowered, halved), given)
    assert np.abs(given["C"] - given["A"].astype(np.float32) @ given["B"].astype(np.float32)).max() > 1


needs_sm_90 = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs an sm_90 GPU"
)


@pytest.mark.gpu
@needs_sm_90
@pytest.mark.parametrize("transposes", [(False, False), (False, True), (True, False), (True, True)])
def test_on_a_device(transposes: tuple[bool, bool]) -> None:
    @tilelang.jit(pass_configs={DISABLE_WGMMA: False})
    def matmul(A, B, turned_a=False, turned_b=False):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((K, M) if turned_a else (M, K), T.float16)
        B: T.Tensor((N, K) if turned_b else (K, N), T.float16)
        C = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=256) as (bx, by):
            a = T.alloc_shared((64, 128) if turned_a else (128, 64), T.float16)
            b = T.alloc_shared((128, 64) if turned_b else (64, 128), T.float16)
            acc = T.alloc_fragment((128, 128), T.float32)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                T.copy(A[k * 64, by * 128] if turned_a else A[by * 128, k * 64], a)
                T.copy(B[bx * 128, k * 64] if turned_b else B[k * 64, bx * 128], b)
                T.gemm(a, b, acc, transpose_A=turned_a, transpose_B=turned_b)
            T.copy(acc, C[by * 128, bx * 128])
        return C

    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(2))
    found = matmul(a, b, turned_a=transposes[0], turned_b=transposes[1])
    left, right = (x.float().T if turned else x.float() for x, turned in zip((a, b), transposes, strict=True))
    torch.testing.assert_close(found, left @ right, rtol=1e-3, atol=1e-2)


@pytest.mark.gpu
@needs_sm_90
@pytest.mark.parametrize(
    ("left", "right", "result", "tolerance"),
    [
        ("float8_e4m3fn", "float8_e4m3fn", "float32", 0.25),
        ("float8_e5m2", "float8_e4m3fn", "float32", 0.25),
        ("float8_e4m3fn", "float8_e4m3fn", "float16", 0.5),
        ("int8", "int8", "int32", 0),
        ("float32", "float32", "float32", 0.2),
    ],
)
@pytest.mark.parametrize("by_registers", [False, True])
def test_dtypes_on_a_device(left: str, right: str, result: str, tolerance: float, by_registers: bool) -> None:
    """The tensor cores sum products of 8-bit floats with about 14 bits of mantissa: off by up to 0.12 in sums
    of 512 products, seen on an H200."""

    @tilelang.jit
    def matmul(A, B):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), left)
        B: T.Tensor((N, K), right)
        C = T.empty((M, N), result)
        with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=256) as (bx, by):
            a = T.alloc_shared((128, 64), left)
            f = T.alloc_fragment((128, 64), left)
            b = T.alloc_shared((128, 64), right)
            acc = T.alloc_fragment((128, 128), result)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[bx * 128, k * 64], b)
                if by_registers:
                    T.copy(a, f)
                    T.gemm(f, b, acc, transpose_B=True)
                else:
                    T.gemm(a, b, acc, transpose_B=True)
            T.copy(acc, C[by * 128, bx * 128])
        return C

    def draw(dtype: str) -> torch.Tensor:
        if dtype == "int8":
            return torch.randint(-128, 128, (512, 512), device="cuda", dtype=torch.int8)
        return torch.randn(512, 512, device="cuda").to(getattr(torch, dtype))

    a, b = draw(left), draw(right)
    kernel = matmul.compile(a, b)
    assert "wgmma" in kernel.get_kernel_source()
    expected = a.double() @ b.double().T
    assert (kernel(a, b).double() - expected).abs().max().item() <= tolerance
