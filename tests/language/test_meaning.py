"""Every declared function is compiled: checked without a problem, printed for each GPU, and right on the
CPU.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.emulator.memory import poison
from tilelang.language.names import LANGUAGE

torch = pytest.importorskip("torch")

N = 64

# Name -> (expression of x and y in a kernel, the same in torch, dtype). Inputs: x and y between 0.1 and 0.9.
SAME_NAME = (
    "exp exp2 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh "
    "sigmoid erf abs floor ceil trunc"
)
FLOATS: dict[str, tuple[str, str]] = {
    **{name: (f"T.{name}(x)", f"torch.{name}(x)") for name in SAME_NAME.split()},
    "exp10": ("T.exp10(x)", "10.0 ** x"),
    "nearbyint": ("T.nearbyint(x * 10)", "torch.round(x * 10)"),
    "round": ("T.round(x * 10)", "torch.round(x * 10)"),
    "atan2": ("T.atan2(x, y)", "torch.atan2(x, y)"),
    "pow": ("T.pow(x, y)", "x ** y"),
    "fmod": ("T.fmod(-x, y)", "torch.fmod(-x, y)"),
    "fma": ("T.fma(x, y, 2.0)", "x * y + 2"),
    "max": ("T.max(x, y)", "torch.maximum(x, y)"),
    "min": ("T.min(x, y)", "torch.minimum(x, y)"),
    "clamp": ("T.clamp(x, 0.3, 0.6)", "torch.clamp(x, 0.3, 0.6)"),
    "infinity": ("T.min(x, T.infinity(T.float32))", "x"),
    "max_value": ("T.max_value(T.float32) * x", "torch.finfo(torch.float32).max * x"),
    "min_value": ("T.min_value(T.float32) * x", "torch.finfo(torch.float32).min * x"),
    "if_then_else": ("T.if_then_else(x < y, x, 2.0)", "torch.where(x < y, x, 2.0)"),
    "Select": ("T.Select(x < y, x, 2.0)", "torch.where(x < y, x, 2.0)"),
    "isnan": ("T.if_then_else(T.isnan(x), 1.0, x)", "x"),
    "isinf": ("T.if_then_else(T.isinf(T.infinity(T.float32) * x), 1.0, x)", "torch.ones_like(x)"),
    "isfinite": ("T.if_then_else(T.isfinite(x), x, 1.0)", "x"),
    "Cast": ("T.Cast(T.float32, T.Cast(T.int32, x * 10))", "torch.trunc(x * 10)"),
    "cast": ("T.cast(T.cast(x * 10, T.int32), T.float32)", "torch.trunc(x * 10)"),
    "reinterpret": (
        "T.reinterpret(T.reinterpret(x, T.int32) + 1, T.float32)",
        "(x.view(torch.int32) + 1).view(x.dtype)",
    ),
    "float16": ("T.float32(T.float16(x))", "x.half().float()"),
    "asinh": ("T.asinh(x)", "torch.asinh(x)"),
    "acosh": ("T.acosh(x + 1)", "torch.acosh(x + 1)"),
    "atanh": ("T.atanh(x)", "torch.atanh(x)"),
    "hypot": ("T.hypot(x, y)", "torch.hypot(x, y)"),
    "copysign": ("T.copysign(x, 0.5 - y)", "torch.copysign(x, 0.5 - y)"),
    "ldexp": ("T.ldexp(x, 5)", "torch.ldexp(x, torch.tensor(5))"),
    "nextafter": ("T.nextafter(x, y)", "torch.nextafter(x, y)"),
    "fabs": ("T.fabs(x - 0.5)", "(x - 0.5).abs()"),
    "likely": ("T.if_then_else(T.likely(x < y), x, y)", "torch.where(x < y, x, y)"),
    "__ldg": ("T.__ldg(X[i]) + T.__ldg(Y, i)", "x + y"),
    "__exp": ("T.__exp(x)", "torch.exp(x)"),
    "__exp10": ("T.__exp10(x)", "torch.pow(10.0, x)"),
    "__log": ("T.__log(x)", "torch.log(x)"),
    "__log2": ("T.__log2(x)", "torch.log2(x)"),
    "__log10": ("T.__log10(x)", "torch.log10(x)"),
    "__sin": ("T.__sin(x)", "torch.sin(x)"),
    "__cos": ("T.__cos(x)", "torch.cos(x)"),
    "__tan": ("T.__tan(x)", "torch.tan(x)"),
    "fast_rcp": ("T.fast_rcp(x)", "1 / x"),
    "fmul": ("T.fmul(x, y)", "x * y"),
    "ieee_add": ("T.ieee_add(x, y)", "x + y"),
    "ieee_sub": ("T.ieee_sub(x, y, 'rn')", "x - y"),
    "ieee_mul": ("T.ieee_mul(x, y)", "x * y"),
    "ieee_fdiv": ("T.ieee_fdiv(x, y)", "x / y"),
    "ieee_fmaf": ("T.ieee_fmaf(x, y, x)", "torch.addcmul(x, x, y)"),
    "ieee_frcp": ("T.ieee_frcp(x)", "1 / x"),
    "ieee_fsqrt": ("T.ieee_fsqrt(x)", "torch.sqrt(x)"),
    "ieee_frsqrt": ("T.ieee_frsqrt(x)", "torch.rsqrt(x)"),
}
# Inputs: x between -50 and 50, y between 1 and 9.
INTEGERS: dict[str, tuple[str, str]] = {
    "ceildiv": ("T.ceildiv(y + 20, y)", "(y + 20 + y - 1) // y"),
    "cdiv": ("T.cdiv(y + 20, y)", "(y + 20 + y - 1) // y"),
    "floordiv": ("T.floordiv(x, y)", "x // y"),
    "floormod": ("T.floormod(x, y)", "x % y"),
    "truncdiv": ("T.truncdiv(x, y)", "torch.div(x, y, rounding_mode='trunc')"),
    "truncmod": ("T.truncmod(x, y)", "torch.fmod(x, y)"),
    "bitwise_and": ("T.bitwise_and(x, y)", "x & y"),
    "bitwise_or": ("T.bitwise_or(x, y)", "x | y"),
    "bitwise_xor": ("T.bitwise_xor(x, y)", "x ^ y"),
    "bitwise_not": ("T.bitwise_not(x)", "~x"),
    "shift_left": ("T.shift_left(x, y)", "x << y"),
    "shift_right": ("T.shift_right(x, y)", "x >> y"),
    "popcount": ("T.popcount(x) + T.popcount(T.int8(x))", "count(x, 32) + count(x, 8)"),
    "clz": ("T.clz(y) + T.clz(T.uint8(y)) + T.clz(x * 0)", "leading(y, 32) + leading(y, 8) + 32"),
    "__ffs": (
        "T.__ffs(x) + T.__ffs(T.int8(x)) * 40 + T.__ffs(T.int64(x)) * 2000 + T.__ffs(24)",
        "lowest(x) * 2041 + 4",
    ),
    "index_to_coordinates": (
        "T.index_to_coordinates(x + 50, (3, 5, 7))[1] * 10 + T.index_to_coordinates(y, [4, 3])[0]",
        "(x + 50) // 7 % 5 * 10 + y // 3",
    ),
    "q_multiply_shift": ("T.q_multiply_shift(x * 1000, y + 8, 3, -1)", "(x * 1000 * (y + 8) + 8) // 16"),
    "q_multiply_shift_per_axis": (
        "T.q_multiply_shift_per_axis(x, y, y % 3, y % 4, 5, True, True)",
        "((x << y % 3) * y + (1 << 4 + y % 4)) // (1 << 5 + y % 4)",
    ),
    "align_up": ("T.align_up(y + 20, y)", "(y + 20 + y - 1) // y * y"),
    "abs": ("T.abs(x)", "x.abs()"),
    "max": ("T.max(x, y)", "torch.maximum(x, y)"),
    "//": ("x // y", "x // y"),
    "%": ("x % y", "x % y"),
    "and": ("T.if_then_else(x > 0 and y > 5, 1, 2)", "torch.where((x > 0) & (y > 5), 1, 2).int()"),
    "chain": ("T.if_then_else(0 < x <= y, 1, 2)", "torch.where((0 < x) & (x <= y), 1, 2).int()"),
}

MODULE = """\
import torch
import tilelang
import tilelang.language as T

N = {n}


@tilelang.jit
def k(X, Y):
    X: T.Tensor((N,), T.{dtype})
    Y: T.Tensor((N,), T.{dtype})
    Z = T.empty((N,), T.{dtype})
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(N):
            x = X[i]
            y = Y[i]
            Z[i] = {ours}
    return Z


def count(x, bits):
    return torch.tensor([bin(v & (2**bits - 1)).count("1") for v in x.tolist()], dtype=torch.int32)


def lowest(x):
    return torch.tensor([(v & -v).bit_length() for v in x.tolist()], dtype=torch.int32)


def leading(x, bits):
    return torch.tensor([bits - v.bit_length() for v in x.tolist()], dtype=torch.int32)


def reference(x, y):
    return {theirs}
"""
CASES = [(n, "float32", *f) for n, f in FLOATS.items()] + [(n, "int32", *f) for n, f in INTEGERS.items()]
IDS = [f"{name}-{dtype}" for name, dtype, *_ in CASES]


def module_text(dtype: str, ours: str, theirs: str) -> str:
    return MODULE.format(n=N, dtype=dtype, ours=ours, theirs=theirs)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inputs(dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    if dtype == "float32":
        return tuple(torch.rand(N, generator=generator) * 0.8 + 0.1 for _ in range(2))  # type: ignore[return-value]
    x = torch.randint(-50, 50, (N,), generator=generator, dtype=torch.int32)
    return x, torch.randint(1, 9, (N,), generator=generator, dtype=torch.int32)


def test_every_scalar_function_has_a_case():
    expressions = {name for name, entry in LANGUAGE.items() if entry.kind == "expr"}
    # These have tests of their own: they need threads, or take two numbers at once.
    elsewhere = {"get_thread_binding", "dp4a", "rng_init", "rng_rand", "rng_rand_float"}
    elsewhere |= {"add2", "sub2", "mul2", "fma2", "max2", "min2", "abs2"}
    elsewhere |= {"extract_lane", "Shuffle", "Broadcast", "broadcast"}  # vectors: tests/threads
    elsewhere |= {"vectorlow", "vectorhigh", "vectorcombine"}
    assert expressions - elsewhere <= {*FLOATS, *INTEGERS}


def on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[Path, ModuleType]:
    """The text as a file and as a module, whose kernels are for the CPU."""
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    path = tmp_path / "one_function.py"
    path.write_text(text, encoding="utf-8")
    return path, load(path)


@pytest.mark.parametrize(("name", "dtype", "ours", "theirs"), CASES, ids=IDS)
def test_right_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str, ours: str, theirs: str
):
    _, module = on_the_cpu(tmp_path, monkeypatch, module_text(dtype, ours, theirs))
    x, y = inputs(dtype)
    torch.testing.assert_close(module.k(x, y), module.reference(x, y), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("name", "dtype", "ours", "theirs"), CASES, ids=IDS)
def test_reference_and_emulator_know_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str, ours: str, theirs: str
):
    path, module = on_the_cpu(tmp_path, monkeypatch, module_text(dtype, ours, theirs))
    x, y = inputs(dtype)
    wanted = module.reference(x, y)
    found = module.k.compile(x, y).reference(x, y)
    torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-6)
    lowered = lower_text(path.read_text(), "cuda:sm_80")
    result = poison((N,), dtype)
    run(lowered, {"X": x.numpy(), "Y": y.numpy(), "Z": result})
    torch.testing.assert_close(torch.from_numpy(result), wanted, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("target", ["cuda:sm_80", "hip:gfx942", "metal"])
@pytest.mark.parametrize(("name", "dtype", "ours", "theirs"), CASES, ids=IDS)
def test_printed_for_every_gpu(target: str, name: str, dtype: str, ours: str, theirs: str):
    from tilelang.analysis.check import check_source
    from tilelang.diagnostics.problem import Severity
    from tilelang.jit.static import generate_source

    text = module_text(dtype, ours, theirs)
    problems = check_source("one_function.py", text, target).all_problems()
    assert [p for p in problems if p.severity is not Severity.HINT] == []
    source = generate_source("one_function.py", text, "k", target)
    assert source.text.strip()
