"""Whole kernels: the line map, what is printed around the body, vector accesses, large buffers, speed."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import tirx as X

from tests.emit.host_cpp import HOST, run_cpp
from tilelang.ir.tile_ops import call, seq
from tilelang.targets.c_printer import print_kernel
from tilelang.targets.cuda.emit import CUDA
from tilelang.targets.emit.expressions import EmitError
from tilelang.targets.emit.intrinsic import Intrinsic

from .thread_level import at, kernel, one_warp_gemm, statement_in_kernel, vector_add


def lines_of(printed: Any) -> dict[str, int]:
    return {t.strip(): n for t, n in zip(printed.text.splitlines(), printed.line_map, strict=True)}


def test_every_line_knows_its_python_line() -> None:
    func, offsets = one_warp_gemm()
    printed = print_kernel(func, CUDA, shared_offsets=offsets)
    lines = lines_of(printed)
    assert lines["half* A_shared = (half*)smem;"] == 4
    assert lines["cp_async_16(&A_shared[tx * 8], &A[tx * 8]);"] == 8
    assert lines["mma_m16n8k16_f16_f32(C_local, A_local, B_local);"] == 12
    assert lines["C[(tx / 4 + q / 2 * 8) * 8 + tx % 4 * 2 + q % 2] = C_local[q];"] == 14
    assert len(printed.line_map) == len(printed.text.splitlines())
    body = printed.text[printed.text.index('extern "C"') : printed.text.index("\n}\n")].count("\n")
    assert sum(1 for n in printed.line_map if n) >= body


def test_kernel_stands_above_its_helpers_and_only_used_ones_are_printed() -> None:
    func, offsets = one_warp_gemm()
    text = print_kernel(func, CUDA, shared_offsets=offsets).text
    assert text.index("__global__") < text.index("asm volatile")
    assert "ldmatrix_x4_trans" not in text
    assert "cuda_bf16.h" not in text
    assert "const half* __restrict__ A" in text
    assert "    float* __restrict__ C" in text
    assert "blockIdx" not in text  # not used, not printed


def test_sizes_are_parameters_and_names_stay() -> None:
    n = X.Var("n", "int32")
    text = print_kernel(vector_add(n), CUDA).text
    assert "int n) {" in text
    assert "C[bx * 128 + tx] = A[bx * 128 + tx] + B[bx * 128 + tx];" in text
    reordered = print_kernel(vector_add(n), CUDA, arguments=["n", "A", "B", "C"]).text
    assert re.search(r"int n,\s+const float\* __restrict__ A", reordered)
    with pytest.raises(EmitError, match="takes k, which is neither"):
        print_kernel(vector_add(n), CUDA, arguments=["k"])


def test_line_directives() -> None:
    text = print_kernel(vector_add(), CUDA, line_directives="kernel.py").text
    lines = text.splitlines()
    at_store = next(i for i, t in enumerate(lines) if t.strip().startswith("C[bx"))
    directives = [i for i in range(at_store) if lines[i].startswith("#line")]
    last = directives[-1]
    assert int(lines[last].split()[1]) + (at_store - last - 1) == 5


@pytest.mark.parametrize("vector", [1, 2, 4, 8])
def test_vectors_run_right(vector: int, tmp_path: Path) -> None:
    text = print_kernel(vector_add(1000, "float32", vector), HOST).text
    if vector > 1:
        assert {2: "uint2", 4: "uint4", 8: "uint4"}[vector] in text
    main = f"""
int main() {{
  alignas(16) static float A[1000], B[1000], C[1000];
  for (int i = 0; i < 1000; ++i) A[i] = i, B[i] = 2 * i;
  for (blockIdx.x = 0; blockIdx.x < {-(-1000 // (128 * vector))}; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < 128; ++threadIdx.x) add_kernel(A, B, C);
  for (float c : C) printf("%g ", c);
}}"""
    found = np.array(run_cpp(text + main, tmp_path).split(), dtype=np.float32)
    np.testing.assert_array_equal(found, np.arange(1000) * 3)


def test_a_pure_move_is_one_statement() -> None:
    def make(a: Any, b: Any, tx: Any) -> Any:
        where = X.Ramp(tx * 8, 1, 8)
        return X.BufferStore(b, a[where], [where])

    text = print_kernel(statement_in_kernel(make, "float16"), CUDA).text
    assert "  *(uint4*)&B[tx * 8] = *(const uint4*)&A[tx * 8];" in text


def test_vectors_of_zeros_are_stored_at_once() -> None:
    def make(a: Any, b: Any, tx: Any) -> Any:
        zeros = X.Broadcast(X.const(0, "float16"), 12)
        return X.BufferStore(b, zeros, [X.Ramp(tx * 12, 1, 12)])

    text = print_kernel(statement_in_kernel(make, "float16"), CUDA).text
    assert "  *(uint4*)&B[tx * 12] = uint4{};" in text
    assert "  *(uint2*)&B[tx * 12 + 8] = uint2{};" in text


def test_one_expression_in_two_vector_stores_is_read_twice(tmp_path: Path) -> None:
    """The second store reads what the first wrote, although both hold the very same expression."""

    def make(a: Any, b: Any, tx: Any) -> Any:
        where = X.Ramp(tx * 4, 1, 4)
        twice = b[where] * X.Broadcast(X.const(2, "float32"), 4)
        store = X.BufferStore(b, twice, [where])
        return seq([store, store])

    text = print_kernel(statement_in_kernel(make), HOST).text
    main = """
int main() {
  alignas(16) static float A[4096], B[4096];
  for (float& b : B) b = 3;
  k_kernel(A, B);
  printf("%g %g", B[0], B[4]);
}"""
    assert run_cpp(text + main, tmp_path).split() == ["12", "3"]


def test_conversion_of_vectors_and_local_arrays(tmp_path: Path) -> None:
    """float32 registers are converted and stored eight at a time, scaled by a scalar."""
    b = X.decl_buffer((64,), "float16", "B")
    acc = X.decl_buffer((8,), "float32", "acc", scope="local")
    s = X.decl_buffer((1,), "float32", "s", scope="local.var")
    i = X.Var("i", "int32")

    def body(bx: Any, tx: Any) -> Any:
        value = acc[X.Ramp(X.const(0, "int32"), 1, 8)] * X.Broadcast(s[0], 8)
        return seq(
            [
                X.AllocBuffer(acc),
                X.AllocBuffer(s),
                X.BufferStore(s, X.const(0.5, "float32"), [0]),
                X.For(i, 0, 8, X.ForKind.UNROLLED, X.BufferStore(acc, X.Cast("float32", tx * 8 + i), [i])),
                X.BufferStore(b, X.Cast("float16x8", value), [X.Ramp(tx * 8, 1, 8)]),
            ]
        )

    text = print_kernel(kernel("k", [b], body, 1, threads=8), HOST).text
    assert "float s = 0.5f;" in text
    main = """
int main() {
  alignas(16) static half B[64];
  for (threadIdx.x = 0; threadIdx.x < 8; ++threadIdx.x) k_kernel(B);
  for (half b : B) printf("%g ", float(b));
}"""
    found = np.array(run_cpp(text + main, tmp_path).split(), dtype=np.float32)
    np.testing.assert_array_equal(found, np.arange(64) / 2)


def test_indices_of_large_buffers_are_64_bits_wide() -> None:
    n = X.Var("n", "int32")
    small, large, unknown = (
        X.decl_buffer(shape, "float32", name)
        for shape, name in (((1024 * 1024,), "S"), ((1 << 32,), "L"), ((n, 4096), "U"))
    )
    unknown = X.decl_buffer((n * 4096,), "float32", "U")

    def body(bx: Any, tx: Any) -> Any:
        return seq(
            [
                X.BufferStore(b, X.const(0, "float32"), [(bx * 4 + 1) * 4096 + tx])
                for b in (small, large, unknown)
            ]
        )

    text = print_kernel(
        kernel("k", [small, large, unknown], body, n), CUDA, arguments=["S", "L", "U", "n"]
    ).text
    assert "S[(bx * 4 + 1) * 4096 + tx]" in text
    assert "L[(long long)(bx * 4 + 1) * 4096 + tx]" in text
    assert "U[(long long)(bx * 4 + 1) * 4096 + tx]" in text


def test_products_with_sizes_are_64_bits_wide_and_nothing_else() -> None:
    m, n = X.Var("m", "int32"), X.Var("n", "int32")
    a = X.decl_buffer((m * n,), "float32", "A")

    def body(bx: Any, tx: Any) -> Any:
        return X.BufferStore(a, X.const(0, "float32"), [(bx * 128 + tx // 4) * n + bx * 64 + tx])

    func = kernel("k", [a, m, n], body, n)
    assert "A[(long long)(bx * 128 + tx / 4) * n + bx * 64 + tx] = " in print_kernel(func, CUDA).text


def test_arrays_of_one_name_in_two_places_are_both_aligned() -> None:
    b = X.decl_buffer((64,), "float32", "B")

    def half(at_: int) -> Any:
        local = X.decl_buffer((4,), "float32", "t", scope="local")
        where = X.Ramp(X.const(at_, "int32"), 1, 4)
        load = X.BufferLoad(local, [X.Ramp(X.const(0, "int32"), 1, 4)])
        body = seq([X.AllocBuffer(local), X.BufferStore(b, load, [where])])
        return X.IfThenElse(X.const(True, "bool"), body, None)

    text = print_kernel(kernel("k", [b], lambda bx, tx: seq([half(0), half(4)]), 1), CUDA).text
    assert text.count("__align__(16) float t[4];") == 2


def test_names_are_unique_where_they_meet_and_reused_where_they_do_not() -> None:
    a = X.decl_buffer((64,), "float32", "A")

    def body(bx: Any, tx: Any) -> Any:
        i, j, inner = X.Var("i", "int32"), X.Var("i", "int32"), X.Var("i", "int32")
        zero = X.const(0, "float32")
        nested = X.For(inner, 0, 2, X.ForKind.SERIAL, X.BufferStore(a, zero, [i * 2 + inner]))
        return seq(
            [
                X.For(i, 0, 4, X.ForKind.SERIAL, nested),
                X.For(j, 2, 4, X.ForKind.SERIAL, X.BufferStore(a, zero, [j]), step=X.const(2, "int32")),
            ]
        )

    text = print_kernel(kernel("main", [a], body, 1), CUDA).text
    assert "for (int i_1 = 0; i_1 < 2; ++i_1) {" in text
    assert "for (int i = 2; i < 6; i += 2) {" in text
    assert " main_kernel(" in text


def test_views_of_registers_and_scalars(tmp_path: Path) -> None:
    b = X.decl_buffer((8,), "float32", "B")
    raw = X.decl_buffer((8,), "uint32", "raw", scope="local")
    view = X.decl_buffer((8,), "float32", "f", data=raw.data, scope="local")
    i = X.Var("i", "int32")

    def body(bx: Any, tx: Any) -> Any:
        one = X.const(0x3F800000, "uint32")
        return seq(
            [
                X.AllocBuffer(raw),
                X.DeclBuffer(view, data=raw.data),
                X.For(i, 0, 8, X.ForKind.UNROLLED, X.BufferStore(raw, one, [i])),
                X.For(
                    i,
                    0,
                    8,
                    X.ForKind.UNROLLED,
                    X.BufferStore(b, view[i] + X.reinterpret("float32", one), [i]),
                ),
            ]
        )

    text = print_kernel(kernel("k", [b], body, 1), HOST).text
    main = 'int main() { float B[8]; k_kernel(B); for (float b : B) printf("%g ", b); }'
    assert run_cpp(text + main, tmp_path).split() == ["2"] * 8


def test_control_flow(tmp_path: Path) -> None:
    b = X.decl_buffer((8,), "int32", "B")
    count = X.decl_buffer((1,), "int32", "count", scope="local.var")

    def body(bx: Any, tx: Any) -> Any:
        def add(k: int) -> Any:
            return X.BufferStore(count, count[0] + k, [0])

        branch = X.IfThenElse(tx < 2, add(1), X.IfThenElse(tx < 4, add(2), add(3)))
        stop = X.IfThenElse(count[0] > 6, X.Break(None), None)
        return seq(
            [
                X.AllocBuffer(count),
                X.BufferStore(count, X.const(0, "int32"), [0]),
                X.While(count[0] < 10, seq([branch, stop])),
                X.BufferStore(b, count[0], [tx]),
            ]
        )

    text = print_kernel(kernel("k", [b], body, 1, threads=8), HOST).text
    assert "} else if (tx < 4) {" in text
    main = """
int main() {
  int B[8];
  for (threadIdx.x = 0; threadIdx.x < 8; ++threadIdx.x) k_kernel(B);
  for (int b : B) printf("%d ", b);
}"""
    assert run_cpp(text + main, tmp_path).split() == ["7", "7", "8", "8", "9", "9", "9", "9"]


def test_errors_name_what_is_left() -> None:
    def parallel(a: Any, b: Any, tx: Any) -> Any:
        i = X.Var("i", "int32")
        return X.For(i, 0, 4, X.ForKind.PARALLEL, X.BufferStore(b, a[i], [i]))

    with pytest.raises(EmitError, match="loop over i of kind PARALLEL"):
        print_kernel(statement_in_kernel(parallel), CUDA)
    with pytest.raises(EmitError, match=r"tl\.cuda\.teleport is not in the target's table"):
        print_kernel(statement_in_kernel(lambda a, b, tx: X.Evaluate(call("tl.cuda.teleport", []))), CUDA)


def test_intrinsics_read_their_signature() -> None:
    f = Intrinsic(
        "template <int N, typename T>\nT* f(const T* a, T* b, int c) {\n  return b;\n}", template_args=2
    )
    assert f.function == "f"
    assert f.parameters == ("const T* a", "T* b", "int c")
    assert [f.written(k) for k in (2, 3)] == [False, True]
    with pytest.raises(ValueError, match="either source or inline"):
        Intrinsic()


def test_a_thousand_lines_print_fast() -> None:
    a, b = X.decl_buffer((1 << 20,), "float32", "A"), X.decl_buffer((1 << 20,), "float32", "B")

    def body(bx: Any, tx: Any) -> Any:
        loops = []
        for k in range(400):
            i = X.Var("i", "int32")
            store = X.BufferStore(b, a[bx * 1024 + i * 128 + tx + k], [bx * 1024 + i * 128 + tx], at(4))
            loops.append(X.For(i, 0, 8, X.ForKind.SERIAL, store, span=at(3)))
        return seq(loops)

    func = kernel("k", [a, b], body, 64)
    times = []
    for _ in range(5):
        start = time.process_time()
        printed = print_kernel(func, CUDA)
        times.append(time.process_time() - start)
    assert len(printed.line_map) >= 1200
    assert min(times) < 0.06, times  # 20 ms on an idle machine
