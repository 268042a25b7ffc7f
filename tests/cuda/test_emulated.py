"""CUDA kernels compute what they say: every example, sizes that the tiles divide and sizes they do not.

The emulator also fails on races, on accesses out of bounds or misaligned, and on reads of unwritten memory
(NaN).
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_example, lower_text, random, run_text
from tests.emulator.block import run
from tests.emulator.memory import poison


def close(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    assert not np.isnan(got.astype(np.float32)).any(), "something was not written"
    np.testing.assert_allclose(
        got.astype(np.float32), want.astype(np.float32), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("n", [1, 1000, 1024])
def test_vector_add(rng: np.random.Generator, n: int) -> None:
    a, b, c = random(rng, (n,), "float32"), random(rng, (n,), "float32"), poison(n, "float32")
    run(lower_example("vector_add", N=n), {"A": a, "B": b, "C": c})
    assert np.array_equal(c, a + b)


@pytest.mark.parametrize("n", [1, 1000])
def test_vector_add_of_any_length(rng: np.random.Generator, n: int) -> None:
    a, b, c = random(rng, (n,), "float32"), random(rng, (n,), "float32"), poison(n, "float32")
    run(lower_example("dynamic_vector_add"), {"A": a, "B": b, "C": c}, {"N": n})
    assert np.array_equal(c, a + b)


@pytest.mark.parametrize(("m", "n"), [(32, 128), (37, 200), (5, 131)])
def test_elementwise(rng: np.random.Generator, m: int, n: int) -> None:
    a, b, c = random(rng, (m, n), "float16"), random(rng, (m, n), "float16"), poison((m, n), "float16")
    run(lower_example("elementwise_2d", M=m, N=n), {"A": a, "B": b, "C": c})
    x = a.astype(np.float32)
    close(c, x / (1 + np.exp(-x)) + b, 2e-3)


@pytest.mark.parametrize(("m", "n"), [(4, 512), (6, 1000), (3, 1025), (2, 77)])
def test_softmax(rng: np.random.Generator, m: int, n: int) -> None:
    x, y = random(rng, (m, n), "float32") * 4, poison((m, n), "float32")
    run(lower_example("softmax", M=m, N=n), {"X": x, "Y": y})
    e = np.exp(x - x.max(axis=1, keepdims=True))
    close(y, e / e.sum(axis=1, keepdims=True), 1e-5)


@pytest.mark.parametrize(("m", "n"), [(4, 512), (5, 1000), (3, 1025)])
def test_rms_norm(rng: np.random.Generator, m: int, n: int) -> None:
    x, w, y = random(rng, (m, n), "float16"), random(rng, (n,), "float16"), poison((m, n), "float16")
    run(lower_example("rms_norm", M=m, N=n), {"X": x, "W": w, "Y": y})
    f = x.astype(np.float32)
    close(y, f / np.sqrt((f * f).mean(axis=1, keepdims=True) + 1e-6) * w, 4e-3)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(64, 64, 32), (64, 128, 96), (100, 72, 104), (33, 50, 70), (70, 65, 33)]
)
def test_gemm_relu(rng: np.random.Generator, m: int, n: int, k: int) -> None:
    a, b, c = random(rng, (m, k), "float16"), random(rng, (k, n), "float16"), poison((m, n), "float16")
    lowered = lower_example("quickstart", M=m, N=n, K=k, block_M=64, block_N=64, block_K=32)
    statistics = run(lowered, {"A": a, "B": b, "C": c})
    close(c, np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0), 4e-3)
    assert statistics.ldmatrix_conflicts == 1
    assert statistics.barriers == -(-k // 32), "one barrier for each step of K"


def test_the_quickstart_at_its_own_tile(rng: np.random.Generator) -> None:
    m, n, k = 130, 256, 96
    a, b, c = random(rng, (m, k), "float16"), random(rng, (k, n), "float16"), poison((m, n), "float16")
    lowered = lower_example("quickstart", M=m, N=n, K=k)
    run(lowered, {"A": a, "B": b, "C": c})
    close(c, np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0), 4e-3)
    assert lowered.plan.shared_bytes == 3 * 2 * 128 * 32 * 2


@pytest.mark.parametrize("m", [1, 64, 100])
def test_gemm_with_dynamic_m(rng: np.random.Generator, m: int) -> None:
    n, k = 72, 64
    a, b, c = random(rng, (m, k), "float16"), random(rng, (k, n), "float16"), poison((m, n), "float16")
    run(lower_example("gemm_dynamic_m", N=n, K=k), {"A": a, "B": b, "C": c}, {"M": m})
    close(c, a.astype(np.float32) @ b.astype(np.float32), 4e-3)


GEMM = """
@tilelang.jit
def gemm(A, B, m_t: int = 64, n_t: int = 64, k_t: int = 32, stages: int = 2, threads: int = 128,
         dtype="float16", acc="float32", ta: bool = False, tb: bool = False, policy="Square", swizzle: int =
         0, a_regs: bool = False, b_regs: bool = False, clear: bool = False):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if ta else (M, K), dtype)
    B: T.Tensor((N, K) if tb else (K, N), dtype)
    C = T.empty((M, N), acc)
    with T.Kernel(T.ceildiv(N, n_t), T.ceildiv(M, m_t), threads=threads) as (bx, by):
        if swizzle:
            T.use_swizzle(swizzle)
        A_s = T.alloc_shared((k_t, m_t) if ta else (m_t, k_t), dtype)
        B_s = T.alloc_shared((n_t, k_t) if tb else (k_t, n_t), dtype)
        A_f = T.alloc_fragment((k_t, m_t) if ta else (m_t, k_t), dtype)
        B_f = T.alloc_fragment((n_t, k_t) if tb else (k_t, n_t), dtype)
        C_f = T.alloc_fragment((m_t, n_t), acc)
        if not clear:
            T.clear(C_f)
        for k in T.Pipelined(T.ceildiv(K, k_t), num_stages=stages):
            if ta:
                T.copy(A[k * k_t, by * m_t], A_s)
            else:
                T.copy(A[by * m_t, k * k_t], A_s)
            if tb:
                T.copy(B[bx * n_t, k * k_t], B_s)
            else:
                T.copy(B[k * k_t, bx * n_t], B_s)
            if a_regs:
                T.copy(A_s, A_f)
            if b_regs:
                T.copy(B_s, B_f)
            T.gemm(A_f if a_regs else A_s, B_f if b_regs else B_s, C_f, transpose_A=ta, transpose_B=tb,
                   policy=T.GemmWarpPolicy.FullRow if policy == "FullRow" else
                   T.GemmWarpPolicy.FullCol if policy == "FullCol" else T.GemmWarpPolicy.Square,
                   clear_accum=(k == 0) if clear else False)
        T.copy(C_f, C[by * m_t, bx * n_t])
    return C
"""


def check_gemm(
    rng: np.random.Generator, m: int, n: int, k: int, tolerance: float = 4e-3, **choice: object
) -> None:
    dtype, acc = str(choice.get("dtype", "float16")), str(choice.get("acc", "float32"))
    a, b, c = random(rng, (m, k), dtype), random(rng, (k, n), dtype), poison((m, n), acc)
    want = a.astype(np.float64) @ b.astype(np.float64)
    left = np.ascontiguousarray(a.T) if choice.get("ta") else a
    right = np.ascontiguousarray(b.T) if choice.get("tb") else b
    shown = {key: repr(value) for key, value in choice.items()}
    statistics = run_text(GEMM, {"A": left, "B": right, "C": c}, M=m, N=n, K=k, **shown)
    close(c, want, tolerance)
    assert statistics.ldmatrix_conflicts == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8"])
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_dtypes_and_transposes(rng: np.random.Generator, dtype: str, ta: bool, tb: bool) -> None:
    acc = "int32" if dtype == "int8" else "float32"
    tolerance = 2e-2 if dtype == "float32" else 1e-5
    check_gemm(rng, 80, 72, 96, tolerance, dtype=dtype, acc=acc, ta=ta, tb=tb)


def test_half_precision_accumulators(rng: np.random.Generator) -> None:
    check_gemm(rng, 64, 64, 64, 5e-2, acc="float16")


@pytest.mark.parametrize(("a_regs", "b_regs"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("transposed", [False, True])
def test_operands_in_registers(
    rng: np.random.Generator, a_regs: bool, b_regs: bool, dtype: str, transposed: bool
) -> None:
    tolerance = 2e-2 if dtype == "float32" else 1e-5
    check_gemm(
        rng, 64, 64, 64, tolerance, a_regs=a_regs, b_regs=b_regs, dtype=dtype, ta=transposed, tb=transposed
    )


@pytest.mark.parametrize("policy", ["FullRow", "FullCol"])
def test_policies(rng: np.random.Generator, policy: str) -> None:
    check_gemm(rng, 64, 64, 32, policy=policy)


@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("k", [32, 64, 160])
def test_stages(rng: np.random.Generator, stages: int, k: int) -> None:
    check_gemm(rng, 64, 64, k, stages=stages)


def test_clear_accum_as_an_expression(rng: np.random.Generator) -> None:
    check_gemm(rng, 64, 64, 96, clear=True)


@pytest.mark.parametrize("swizzle", [1, 2, 3])
def test_block_order_changes_nothing(rng: np.random.Generator, swizzle: int) -> None:
    check_gemm(rng, 5 * 32, 3 * 32, 32, swizzle=swizzle, m_t=32, n_t=32, threads=64)


@pytest.mark.parametrize(
    ("m_t", "n_t", "k_t", "threads"), [(16, 8, 16, 32), (32, 24, 48, 64), (64, 32, 16, 96), (48, 64, 24, 96)]
)
def test_odd_tiles(rng: np.random.Generator, m_t: int, n_t: int, k_t: int, threads: int) -> None:
    policy = "FullRow" if threads == 96 and m_t == 48 else "Square"
    if threads == 96 and m_t == 64:
        n_t = 48  # three warps along N
        policy = "FullCol"
    check_gemm(rng, m_t + 3, n_t + 5, 2 * k_t + 8, m_t=m_t, n_t=n_t, k_t=k_t, threads=threads, policy=policy)


def test_source_lines_map_to_python() -> None:
    lowered = lower_text(GEMM, M=64, N=64, K=64)
    lines = lowered.source.text.splitlines()
    where = {lowered.source.line_map[k] for k, line in enumerate(lines) if "mma_" in line and "&C_f" in line}
    (line,) = where
    assert "T.gemm" in ("import tilelang\nimport tilelang.language as T\n\n" + GEMM).splitlines()[line - 1]
    (instruction,) = (text for span, text in lowered.instructions.items() if span.line == line)
    assert instruction.startswith("mma.sync m16n8k16")
