"""T.gemm for every dtype that the tensor cores take, in every storage order, run thread by thread."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random
from tests.cuda.test_wgmma import gemm_text, instructions
from tests.emit.host_run import needs_clang
from tests.emulator.block import run
from tests.emulator.memory import poison
from tilelang.diagnostics.error import KernelError
from tilelang.targets.driver import build

CASES = [
    ("float8_e4m3fn", "float32", "cuda:sm_89", "m16n8k32"),
    ("float8_e5m2", "float32", "cuda:sm_89", "m16n8k32"),
    ("float8_e4m3fn", "float16", "cuda:sm_89", "m16n8k32"),
    ("int8", "int32", "cuda:sm_80", "m16n8k32"),
    ("uint8", "int32", "cuda:sm_80", "m16n8k32"),
    ("float16", "float16", "cuda:sm_80", "m16n8k16"),
    ("float64", "float64", "cuda:sm_80", "m8n8k4"),
]
ORDERS = [(False, True), (False, False), (True, False), (True, True)]


def check(lowered, a: np.ndarray, b: np.ndarray, result: str, orders: tuple[bool, bool]) -> None:
    c = poison((a.shape[0], b.shape[1]), result)
    stored = [np.ascontiguousarray(x.T) if turned else x for x, turned in zip((a, b), orders, strict=True)]
    run(lowered, {"A": stored[0], "B": stored[1], "C": c})
    expected = a.astype(np.float64) @ b.astype(np.float64)
    tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14, "int32": 0}[result]
    assert np.abs(c.astype(np.float64) - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize(("operand", "result", "target", "shape"), CASES)
def test_every_dtype_in_every_order(
    operand: str, result: str, target: str, shape: str, orders: tuple[bool, bool], rng: np.random.Generator
) -> None:
    text = gemm_text(64, 64, 64, 128, *orders, operand=operand, result=result)
    lowered = lower_text(text, target, M=64, N=64, K=128)
    assert f"mma.sync {shape} " in instructions(lowered)[0]
    check(lowered, random(rng, (64, 128), operand), random(rng, (128, 64), operand), result, orders)


@pytest.mark.parametrize(("operand", "result", "target", "shape"), CASES)
def test_the_compiler_takes_it(operand: str, result: str, target: str, shape: str) -> None:
    text = gemm_text(64, 64, 64, 128, operand=operand, result=result)
    assert build(lower_text(text, target, M=64, N=64, K=128)).binary


MIXES = [
    ("float8_e4m3fn", "float8_e5m2", "float32", "cuda:sm_89"),
    ("float8_e5m2", "float8_e4m3fn", "float32", "cuda:sm_89"),
    ("int8", "uint8", "int32", "cuda:sm_80"),
    ("uint8", "int8", "int32", "cuda:sm_80"),
]


def mixed_text(left: str, right: str, result: str) -> str:
    text = gemm_text(64, 64, 64, 128, tb=True, operand=left, result=result)
    lines = [
        x.replace(f"T.{left}", f"T.{right}") if x.strip().startswith("B") else x for x in text.split("\n")
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(("left", "right", "result", "target"), MIXES)
def test_two_dtypes_of_8_bits(
    left: str, right: str, result: str, target: str, rng: np.random.Generator
) -> None:
    lowered = lower_text(mixed_text(left, right, result), target, M=64, N=64, K=128)
    check(lowered, random(rng, (64, 128), left), random(rng, (128, 64), right), result, (False, True))
    assert build(lowered).binary


def test_two_dtypes_that_no_instruction_takes() -> None:
    with pytest.raises(KernelError, match="multiplies no tiles of two dtypes on hip:gfx942"):
        lower_text(mixed_text("int8", "uint8", "int32"), "hip:gfx942", M=64, N=64, K=128)


@pytest.mark.parametrize(("threads", "policy", "warps"), [(96, "FullRow", "3×1"), (96, "FullCol", "1×3")])
def test_an_odd_number_of_warps(threads: int, policy: str, warps: str, rng: np.random.Generator) -> None:
    lowered = lower_text(gemm_text(48, 48, 32, threads, policy=policy), M=48, N=48, K=64)
    assert f"warps {warps}" in instructions(lowered)[0]
    a, b = random(rng, (48, 64), "float16"), random(rng, (64, 48), "float16")
    check(lowered, a, b, "float32", (False, False))


@pytest.mark.parametrize("operand", ["float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_8_bit_floats_of_amd(operand: str) -> None:
    text = gemm_text(64, 64, 64, 128, tb=True, operand=operand)
    assert "16x16x32_" in lower_text(text, "hip:gfx942", M=64, N=64, K=128).source.text
    with pytest.raises(KernelError, match="multiplies no"):
        lower_text(text, "hip:gfx90a", M=64, N=64, K=128)


@needs_clang
@pytest.mark.parametrize("operand", ["float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_8_bit_floats_of_amd_compile(operand: str) -> None:
    text = gemm_text(64, 64, 64, 128, tb=True, operand=operand)
    assert build(lower_text(text, "hip:gfx942", M=64, N=64, K=128)).binary


EXPLICIT = gemm_text(64, 64, 64, 128).replace("T.gemm(", "T.wgmma_gemm(")


def test_explicit_wgmma_is_a_gemm_that_is_waited_for(rng: np.random.Generator) -> None:
    text = EXPLICIT.replace("        T.copy(acc", "            T.wait_wgmma(0)\n        T.copy(acc")
    a, b = random(rng, (64, 128), "float16"), random(rng, (128, 64), "float16")
    check(lower_text(text, "cuda:sm_90", M=64, N=64, K=128), a, b, "float32", (False, False))
