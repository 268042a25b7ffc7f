"""HIP text: compiled by clang for the hardware, and run on the host against numpy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import tirx as X

from tests.emit.host_run import needs_clang, random_array, run_hip
from tests.emit.thread_level import kernel, statement_in_kernel, vector_add
from tilelang.arch.target import Target
from tilelang.facts.reports import GeneratedSource
from tilelang.ir.tile_ops import call, seq
from tilelang.targets.c_printer import print_kernel
from tilelang.targets.hip.emit import HIP
from tilelang.targets.hip.toolchain import assembly, compile_source
from tilelang.targets.toolchain_error import ToolchainError

ARCHES = ("gfx90a", "gfx942")


def compile_hip(text: str, arch: str) -> str:
    """The assembly that clang makes of `text`, without ROCm."""
    return assembly(GeneratedSource("k", f"hip:{arch}", "hip", text, ()), Target("hip", arch))


@pytest.mark.toolchain
@needs_clang
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_vector_add_compiles(arch: str, dtype: str) -> None:
    assembly = compile_hip(print_kernel(vector_add(4096, dtype, 8), HIP).text, arch)
    assert "s_endpgm" in assembly
    assert "global_load_dwordx4" in assembly or dtype == "int8"


@needs_clang
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_vector_add_runs(dtype: str, tmp_path: Path) -> None:
    text = print_kernel(vector_add(1000, dtype, 4), HIP).text
    a, b = random_array((1000,), dtype, 1), random_array((1000,), dtype, 2)
    c = np.zeros_like(a)
    run_hip(text, "add_kernel", (2,), 128, [a, b, c], tmp_path)
    np.testing.assert_array_equal(c.astype(np.float64), (a + b).astype(np.float64))


@needs_clang
@pytest.mark.parametrize("mask", [1, 7, 32])
def test_shuffle(mask: int, tmp_path: Path) -> None:
    def make(a: Any, b: Any, tx: Any) -> Any:
        moved = call("tl.hip.shuffle_xor", [a[tx], X.const(mask, "int32")], dtype="float32")
        return X.BufferStore(b, moved, [tx])

    text = print_kernel(statement_in_kernel(make), HIP).text
    a, b = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run_hip(text, "k_kernel", (1,), 128, [a, b], tmp_path)
    np.testing.assert_array_equal(b, a.reshape(-1)[np.arange(128) ^ mask])


@needs_clang
@pytest.mark.parametrize(
    "name",
    [
        "tanh",
        "erf",
        "sigmoid",
        "exp",
        "log",
        "log1p",
        "sqrt",
        "rsqrt",
        "sin",
        "exp10",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
    ],
)
def test_math_written_out_here_is_accurate(name: str, tmp_path: Path) -> None:
    from math import erf

    def make(a: Any, b: Any, tx: Any) -> Any:
        return X.BufferStore(b, getattr(X, name)(a[tx]), [tx])

    low, high = (0.01, 30) if name in ("log", "log1p", "sqrt", "rsqrt") else (-8, 8)
    low, high = (-1, 1) if name in ("asin", "acos") else (low, high)
    a = np.linspace(low, high, 128, dtype=np.float32)
    if name in ("tanh", "erf", "log1p", "asin", "atan", "sinh"):
        a[::2] = np.logspace(-6, 0, 64, dtype=np.float32)
    b = np.zeros_like(a)
    run_hip(print_kernel(statement_in_kernel(make), HIP).text, "k_kernel", (1,), 128, [a, b], tmp_path)
    x = a.astype(np.float64)
    exact = {
        "sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "rsqrt": lambda: 1 / np.sqrt(x),
        "erf": lambda: np.vectorize(erf)(x),
        "exp10": lambda: 10**x,
        "asin": lambda: np.arcsin(x),
        "acos": lambda: np.arccos(x),
        "atan": lambda: np.arctan(x),
    }.get(name, lambda: getattr(np, name)(x))()
    np.testing.assert_allclose(b, exact, rtol=2e-6, atol=1e-7 if name == "sin" else 0)


@needs_clang
def test_angle_of_a_point(tmp_path: Path) -> None:
    def make(a: Any, b: Any, tx: Any) -> Any:
        return X.BufferStore(b, X.atan2(a[tx], b[tx]), [tx])

    inf = np.inf
    y = np.array([1, 1, -1, -1, 0, -0.0, 0, -0.0, 2, -2, 1e-30, inf, inf, -inf, 1, 0], np.float32).repeat(8)
    x = np.array([1, -1, 1, -1, 1, 1, -1, -1, 0, 0, 1e30, inf, -inf, inf, -inf, 0], np.float32).repeat(8)
    expected = np.arctan2(y.astype(np.float64), x)
    run_hip(print_kernel(statement_in_kernel(make), HIP).text, "k_kernel", (1,), 128, [y, x], tmp_path)
    np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-37)
    np.testing.assert_array_equal(np.signbit(x), np.signbit(expected))


@needs_clang
def test_power(tmp_path: Path) -> None:
    def make(a: Any, b: Any, tx: Any) -> Any:
        return X.BufferStore(b, X.pow(a[tx], b[tx]), [tx])

    a = np.array([2, -2, -2, 3, 0.5, 9, -8, 0], np.float32).repeat(16)
    b = np.array([10, 3, 2, 0, -2, 0.5, 0.5, 2], np.float32).repeat(16)
    expected = np.array([1024, -8, 4, 1, 4, 3, np.nan, 0]).repeat(16)
    run_hip(print_kernel(statement_in_kernel(make), HIP).text, "k_kernel", (1,), 128, [a, b], tmp_path)
    np.testing.assert_allclose(b, expected, rtol=1e-6)


def test_clang_is_found_where_the_toolchain_is_expected() -> None:
    """The tests above skip without clang; where its C compiler is installed, so must be the C++ one."""
    assert shutil.which("clang-19") is None or shutil.which("clang++-19") is not None


@needs_clang
def test_block_barrier_and_shared_arena(tmp_path: Path) -> None:
    """Reverse through shared memory, the buffer at an offset of the arena."""
    a, b = X.decl_buffer((128,), "float32", "A"), X.decl_buffer((128,), "float32", "B")
    s = X.decl_buffer((128,), "float32", "s", scope="shared")

    def body(bx: Any, tx: Any) -> Any:
        sync = X.Evaluate(call("tl.hip.sync", []))
        return seq(
            [X.AllocBuffer(s), X.BufferStore(s, a[tx], [tx]), sync, X.BufferStore(b, s[127 - tx], [tx])]
        )

    text = print_kernel(kernel("k", [a, b], body, 1), HIP, shared_offsets={s: 256}, shared_bytes=768).text
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run_hip(text, "k_kernel", (1,), 128, [x, y], tmp_path)
    np.testing.assert_array_equal(y, x[::-1])


@pytest.mark.toolchain
@needs_clang
def test_a_code_object_is_elf_and_an_error_names_the_python_line() -> None:
    printed = print_kernel(vector_add(), HIP)
    source = GeneratedSource("add", "hip:gfx942", "hip", printed.text, printed.line_map)
    assert compile_source(source, Target("hip", "gfx942")).startswith(b"\x7fELF")
    broken = GeneratedSource(
        "add", "hip:gfx942", "hip", printed.text.replace("] + B", "] $ B"), printed.line_map
    )
    with pytest.raises(ToolchainError, match="line 5 of the kernel: error"):
        compile_source(broken, Target("hip", "gfx942"))
