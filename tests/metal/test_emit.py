"""Metal text: parsed with its address spaces, and run on the host against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import tirx as X

from tests.emit.host_run import check_metal, needs_clang, random_array, run_metal
from tests.emit.thread_level import kernel, statement_in_kernel, vector_add
from tilelang.ir.tile_ops import call, seq
from tilelang.targets.c_printer import print_kernel
from tilelang.targets.emit.expressions import EmitError
from tilelang.targets.metal.emit import METAL


@needs_clang
@pytest.mark.parametrize("vector", [1, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_vector_add_keeps_address_spaces(dtype: str, vector: int, tmp_path: Path) -> None:
    check_metal(print_kernel(vector_add(4096, dtype, vector), METAL).text, tmp_path)


@needs_clang
def test_the_check_sees_a_wrong_address_space(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="rvalue of type 'device float"):
        check_metal(reverse(0).replace("s = (threadgroup float*)", "s = (device float*)"), tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_vector_add_runs(dtype: str, tmp_path: Path) -> None:
    n = X.Var("n", "int32")
    text = print_kernel(vector_add(n, dtype), METAL).text
    assert "constant int& n [[buffer(3)]]" in text
    a, b = random_array((1000,), dtype, 1), random_array((1000,), dtype, 2)
    c = np.zeros_like(a)
    run_metal(text, "add_kernel", (8,), 128, [a, b, c, 1000], tmp_path)
    np.testing.assert_array_equal(c.astype(np.float64), (a + b).astype(np.float64))


@pytest.mark.parametrize("mask", [1, 7, 16])
def test_shuffle(mask: int, tmp_path: Path) -> None:
    def make(a: Any, b: Any, tx: Any) -> Any:
        moved = call("tl.metal.shuffle_xor", [a[tx], X.const(mask, "int32")], dtype="float32")
        return X.BufferStore(b, moved, [tx])

    text = print_kernel(statement_in_kernel(make), METAL).text
    a, b = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run_metal(text, "k_kernel", (1,), 128, [a, b], tmp_path)
    np.testing.assert_array_equal(b, a[np.arange(128) ^ mask])


def reverse(shared_at: int) -> str:
    a, b = X.decl_buffer((128,), "float32", "A"), X.decl_buffer((128,), "float32", "B")
    s = X.decl_buffer((128,), "float32", "s", scope="shared")

    def body(bx: Any, tx: Any) -> Any:
        sync = X.Evaluate(call("tl.metal.sync", []))
        return seq(
            [X.AllocBuffer(s), X.BufferStore(s, a[tx], [tx]), sync, X.BufferStore(b, s[127 - tx], [tx])]
        )

    func = kernel("k", [a, b], body, 1)
    return print_kernel(func, METAL, shared_offsets={s: shared_at}, shared_bytes=shared_at + 512).text


@needs_clang
def test_threadgroup_memory(tmp_path: Path) -> None:
    text = reverse(256)
    assert "alignas(16) threadgroup uchar smem[768];" in text
    check_metal(text, tmp_path)
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run_metal(text, "k_kernel", (1,), 128, [x, y], tmp_path)
    np.testing.assert_array_equal(y, x[::-1])


def test_the_fibers_see_a_barrier_that_some_threads_miss(tmp_path: Path) -> None:
    text = reverse(0).replace("threadgroup_barrier", "if (threadIdx.x < 64) threadgroup_barrier")
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    with pytest.raises(AssertionError, match="wait at a barrier that others never reach"):
        run_metal(text, "k_kernel", (1,), 128, [x, y], tmp_path)


def test_float64_is_refused_by_name() -> None:
    with pytest.raises(EmitError, match="metal has no type for float64"):
        print_kernel(vector_add(64, "float64"), METAL)
