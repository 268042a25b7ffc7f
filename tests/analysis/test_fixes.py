"""Quick fixes are real edits: after each of them the problem is gone and nothing new has come."""

from __future__ import annotations

import pytest

from tests.analysis.kernels import fixed, gemm, source
from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Problem

SERIAL = """
@tilelang.jit
def k(A, O):
    A: T.Tensor((16, 16), T.float32)
    O: T.Tensor((16, 16), T.float32)
    with T.Kernel(1, threads=128) as bx:
        f = T.alloc_fragment((16, 16), T.float32)
        T.copy(A, f)
        for i in T.serial(16):
            for j in T.serial(16):
                O[i, j] = f[i, j]
"""
LOCAL = """
@tilelang.jit
def k(A, O):
    A: T.Tensor((128,), T.float32)
    O: T.Tensor((128,), T.float32)
    with T.Kernel(1, threads=128) as bx:
        t = T.alloc_local((128,), T.float32)
        for i in T.Parallel(128):
            t[i] = A[i]
        for i in T.Parallel(128):
            O[i] = t[i]
"""
SWAPPED = """
@tilelang.jit
def k(A, B):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float16)
    B: T.Tensor((M, N), T.float16)
    with T.Kernel(T.ceildiv(M, 32), T.ceildiv(N, 64), threads=128) as (bx, by):
        s = T.alloc_shared((32, 64), T.float16)
        T.copy(A[by * 32, bx * 64], s)
        T.copy(s, B[by * 32, bx * 64])
"""
STORED_BY_ROWS = """
@tilelang.jit
def k(X, W):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.float16)
    W: T.Tensor((N, K), T.float16)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 64), threads=128) as (bx, by):
        x = T.alloc_shared((64, 32), T.float16)
        w = T.alloc_shared((32, 32), T.float16)
        y = T.alloc_fragment((64, 32), T.float32)
        T.clear(y)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(X[by * 64, k * 32], x)
            T.copy(W[bx * 32, k * 32], w)
            T.gemm(x, w, y)
        T.copy(y, Y[by * 64, bx * 32])
    return Y
"""
TALL = "T.alloc_shared((64, 32), T.float16)"


SUMMED = """
@tilelang.jit
def k(A, B):
    A: T.Tensor((64, 64), T.float32)
    B: T.Tensor((64,), T.float32)
    with T.Kernel(1, threads=64) as bx:
        for i, j in T.Parallel(64, 64):
            B[i] += A[i, j]  # sums of rows
"""
DETOUR = """
@tilelang.jit
def k(A):
    A: T.Tensor((64,), T.float32)
    B = T.empty((64,), T.float32)
    with T.Kernel(1, threads=64) as bx:
        a = T.alloc_fragment((64,), "int32")
        T.copy(A, a)
        for i in T.Parallel(64):
            B[i] = a[i] * 0.5
    return B
"""
SMALL = """
@tilelang.jit
def k(A, B, N=128):
    A: T.Tensor((N, 4), T.float32)
    B: T.Tensor((N,), T.float32)
    with T.Kernel(1, threads=128) as bx:
        f = T.alloc_fragment((64,), T.float32)
        T.copy(A[0:64, 0], f)
        T.copy(f, B[0:64])
        B[64] = f[3]
"""
SWAPPED_COUNT = """
@tilelang.jit
def k(A, B):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    with T.Kernel(1, threads=64) as bx:
        f = T.alloc_fragment((64,), T.float32)
        for k in T.serial(T.ceildiv(64, N)):
            T.copy(A[k * 64], f)
            T.copy(f, B[k * 64])
"""
RETURNED = """
@tilelang.jit
def k(A):
    A: T.Tensor((64,), T.float32)
    B = T.empty((64,), T.float32)
    with T.Kernel(1, threads=64) as bx:
        T.copy(A, B)
"""
PIPELINED = """
@tilelang.jit
def k(A, B):
    A: T.Tensor((8, 64), T.float32)
    B: T.Tensor((8, 64), T.float32)
    with T.Kernel(1, threads=64) as bx:
        s = T.alloc_shared((64,), T.float32)
        T.clear(s)
        for i in T.Pipelined(8, num_stages=2):
            T.copy(s, B[i, 0:64])
            T.copy(A[i, 0:64], s)
"""
WIDE = """
@tilelang.jit
def k(A):
    A: T.Tensor((65536,), T.int32)
    with T.Kernel(65536, threads=128) as bx:
        A[(3 + bx * 65536) // 65536] = 1
"""


@pytest.mark.parametrize(
    ("rule", "title", "body", "expected"),
    [
        (
            "float-index",
            "Divide with `//`",
            SMALL.replace("alloc_fragment((64,)", "alloc_fragment((N / 2,)"),
            "T.alloc_fragment((N // 2,), T.float32)",
        ),
        (
            "float-index",
            "Divide with `//`",
            SMALL.replace("B[64]", "B[(bx + 4 * 128) / 8]"),
            "B[(bx + 4 * 128) // 8]",
        ),
        (
            "never-read",
            "Remove spare",
            SMALL.replace(
                "        T.copy(A",
                "        spare = T.alloc_shared(\n            (4,), T.int8)  # no\n        T.copy(A",
            ),
            "T.alloc_fragment((64,), T.float32)\n        T.copy(A",
        ),
        (
            "atomic-scope",
            "Write `f[3] += 1.0`",
            SMALL.replace("B[64]", "T.atomic_add(f[3], 1.0)\n        B[64]"),
            "f[3] += 1.0",
        ),
        ("output-not-returned", "Add `return B`", RETURNED, "        T.copy(A, B)\n    return B\n"),
        ("pipelined-write-after-read", "Use num_stages=0", PIPELINED, "num_stages=0)"),
        (
            "narrow-accumulator",
            "Make c float32",
            gemm(c="T.alloc_fragment((64, 64), T.float16)").replace(
                "T.gemm", "for i in T.serial(100):\n            T.gemm"
            ),
            "c = T.alloc_fragment((64, 64), T.float32)",
        ),
        (
            "index-width",
            "Multiply in 64 bits: `T.int64(bx)`",
            WIDE,
            "A[(3 + T.int64(bx) * 65536) // 65536]",
        ),
        (
            "parallel-reduction-race",
            "Use T.atomic_add",
            SUMMED,
            "            T.atomic_add(B[i], A[i, j])  # sums of rows",
        ),
        (
            "parallel-reduction-race",
            "Use T.atomic_max",
            SUMMED.replace("B[i] += A[i, j]", "B[i] = T.max(\n                A[i, j], B[i]\n            )"),
            "            T.atomic_max(B[i], A[i, j])  # sums of rows",
        ),
        ("integer-detour", "Make a float32", DETOUR, 'a = T.alloc_fragment((64,), "float32")'),
        ("gemm-shape", "Use transpose_B=True", gemm(TALL, TALL), "T.gemm(a, b, c, transpose_B=True)"),
        (
            "gemm-shape",
            "Use transpose_B=True",
            gemm(TALL, TALL, call="T.gemm(a, b, c, transpose_B=False,)"),
            "T.gemm(a, b, c, transpose_B=True,)",
        ),
        (
            "gemm-shape",
            "Use transpose_A=True and transpose_B=True",
            gemm("T.alloc_shared((32, 64), T.float16)", TALL, call="T.gemm(a, b, c, clear_accum=True)"),
            "T.gemm(a, b, c, clear_accum=True, transpose_A=True, transpose_B=True)",
        ),
        ("gemm-axes", "Use transpose_B=True", STORED_BY_ROWS, "T.gemm(x, w, y, transpose_B=True)"),
        (
            "gemm-scope",
            "Allocate it with T.alloc_fragment",
            gemm(c="T.alloc_shared((64, 64), T.float32)"),
            "c = T.alloc_fragment((64, 64), T.float32)",
        ),
        (
            "uninitialised-accumulator",
            "Insert T.clear(c)",
            gemm(c="T.alloc_fragment((64, 64), T.float32)  # sums", clear=False),
            "# sums\n        T.clear(c)\n",
        ),
        ("fragment-serial-access", "Use T.Parallel", SERIAL, "for i in T.Parallel(16):"),
        (
            "fragment-serial-access",
            "Use T.Parallel",
            SERIAL.replace("T.serial(16)", "range(16)"),
            "            for j in T.Parallel(16):",
        ),
        (
            "grid-order",
            "Swap the first two extents of the grid",
            SWAPPED,
            "T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 32), threads=128)",
        ),
        (
            "partly-used",
            "Exchange the arguments of T.ceildiv",
            SWAPPED_COUNT,
            "T.serial(T.ceildiv(N, 64))",
        ),
        (
            "local-parallel-index",
            "Allocate it with T.alloc_fragment",
            LOCAL,
            "t = T.alloc_fragment((128,), T.float32)",
        ),
    ],
)
def test_fix_cures_its_problem(rule: str, title: str, body: str, expected: str):
    text = source(body)
    problem = next(p for p in _problems(text) if p.rule == rule)
    (fix,) = problem.fixes
    assert fix.title == title
    after = fixed(text, fix)
    assert expected in after
    assert _problems(after) == []


@pytest.mark.parametrize(
    ("rule", "body", "titles"),
    [
        (
            "gemm-shape",
            gemm("T.alloc_shared((64, 48), T.float16)"),
            ["Allocate b as (48, 64)", "Allocate a as (64, 64)"],
        ),
        ("gemm-dtype", gemm(c='T.alloc_fragment((64, 64), "int32")'), ["Make c float32", "Make c float16"]),
        ("unknown-dtype", SMALL.replace("(64,), T.float32", '(64,), "floet32"'), ['Change to "float32"']),
    ],
)
def test_each_of_several_fixes_cures_its_problem(rule: str, body: str, titles: list[str]):
    text = source(body)
    problem = next(p for p in _problems(text) if p.rule == rule)
    assert [f.title for f in problem.fixes][: len(titles)] == titles
    for fix in problem.fixes:
        assert rule not in {p.rule for p in _problems(fixed(text, fix))}


def test_thread_code_is_offered_no_other_number_of_threads():
    text = """
@tilelang.jit
def k(A):
    A: T.Tensor((64,), T.float32)
    with T.Kernel(1, threads=16):
        for i in T.serial(4):
            A[i * 16 + T.get_thread_binding()] = 0
"""
    (counted,) = _problems(source(text))
    assert (counted.rule, counted.fixes) == ("thread-count", ())


def test_a_form_feed_ends_no_line():
    text = source(STORED_BY_ROWS).replace("@tilelang.jit", "\f\n# \x1c \u2028\n@tilelang.jit")
    (problem,) = _problems(text)
    (fix,) = problem.fixes
    assert _problems(fixed(text, fix)) == []


@pytest.mark.parametrize(
    ("imported", "used", "expected"),
    [
        ("symbolic", 'symbolic("N")', ("import dynamic\n", 'dynamic("N")')),
        ("symbolic as size", 'size("N")', ("import dynamic as size\n", 'size("N")')),
        ("Buffer, symbolic", 'symbolic("N")', ("import Tensor, dynamic\n", 'dynamic("N")')),
    ],
)
def test_an_imported_name_is_renamed_with_its_uses(imported: str, used: str, expected: tuple[str, str]):
    text = source(
        f"""
from tilelang.language import {imported}

N = {used}


@tilelang.jit
def k(A):
    A: T.Tensor((N,), T.float32)
    with T.Kernel(1, threads=32):
        A[0] = 1
"""
    )
    while problems := _problems(text):
        assert {p.rule for p in problems} == {"deprecated-name"}
        text = fixed(text, problems[0].fixes[0])
    assert all(part in text for part in expected)


def test_a_name_that_is_taken_is_kept_for_an_import():
    text = source(
        """
from tilelang.language import symbolic

dynamic = 3
N = symbolic("N")
"""
    )
    (problem,) = _problems(text)
    assert "import dynamic as symbolic\n" in fixed(text, problem.fixes[0])


def one_statement(statement: str) -> str:
    """A kernel in which `statement` stands between a full tile and its copy out."""
    return f"""
@tilelang.jit
def k(A, B, C):
    A: T.Tensor((2, 128, 64), T.float32)
    B: T.Tensor((128, 128), T.float32)
    C: T.Tensor((128, 64), T.float32)
    with T.Kernel(4, threads=128) as bx:
        s = T.alloc_shared((128, 64), T.float32)
        f = T.alloc_fragment((128, 64), T.float32)
        r = T.alloc_fragment((64,), T.float32)
        t = T.alloc_shared((128, 32), T.float32)
        T.clear(s)
        T.clear(t)
        T.copy(s, f)
        T.clear(r)
        {statement}
        T.copy(f, C)
        T.copy(t, C[0:128, 0:32])
        T.copy(s, C)
        T.copy(r, C[0, 0:64])
"""


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("T.copy(A, s)", "T.copy(A[0, 0:128, 0:64], s)"),
        ("T.copy(B, s)", "T.copy(B[0:128, 0:64], s)"),
        ("T.copy(s, B)", "T.copy(s, B[0:128, 0:64])"),
        (
            "T.copy(B[0:128, bx * 32 : (bx + 2) * 32], t)",
            "T.copy(B[0:128, bx * 32:bx * 32 + 32], t)",
        ),
        ("T.copy(B[0:128, bx << 5 : 64 + (bx << 5)], t)", "T.copy(B[0:128, bx << 5:(bx << 5) + 32], t)"),
        ("T.copy(A[0, 0:64, 0:32], t)", "T.copy(A[0, 0:64, 0:32], t[0:64, 0:32])"),
        ("T.copy(A[0, 0:64, 0:32], t)", "T.copy(A[0, 0:128, 0:32], t)"),
        ("T.reduce_sum(f, r)", "T.reduce_sum(f, r, dim=0)"),
        ("T.reduce_max(f, r, 1, clear=False)", "T.reduce_max(f, r, 0, clear=False)"),
        ("T.reduce_max(f, r, dim=2)", "T.reduce_max(f, r, dim=0)"),
    ],
)
def test_shape_fixes(statement: str, expected: str):
    text = source(one_statement(statement))
    line = text[: text.index(statement)].count("\n") + 1
    (problem,) = [p for p in _problems(text) if p.span.line == line]
    after = [fixed(text, fix) for fix in problem.fixes]
    assert any(expected in each for each in after)
    assert [p for each in after for p in _problems(each) if p.span.line == line] == []


PIPELINE = """
@tilelang.jit
def k(A, B):
    A: T.Tensor((8, 128, 128), T.float32)
    B: T.Tensor((8, 128, 128), T.float32)
    with T.Kernel(1, threads={threads}) as bx:
        s = T.alloc_shared((128, 128), T.float32)
        for i in T.Pipelined(8,
                             num_stages={stages}):
            T.copy(A[i, 0:128, 0:128], s)
            T.copy(s, B[i, 0:128, 0:128])
"""


PRODUCT = """
@tilelang.jit
def k(A, B, C):
    A: T.Tensor((1024, 1024), T.float16)
    B: T.Tensor((1024, 1024), T.float16)
    C: T.Tensor((1024, 1024), T.float32)
    with T.Kernel(8, 4, threads={threads}) as (bx, by):
        a = T.alloc_shared((256, 32), T.float16)
        b = T.alloc_shared((32, 128), T.float16)
        c = T.alloc_fragment((256, 128), T.float32)
        T.clear(c)
        for ko in {loop}:
            T.copy(A[by * 256, ko * 32], a)
            T.copy(B[ko * 32, bx * 128], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 256, bx * 128])
"""
STAGED = "T.Pipelined(32, num_stages=3)"


@pytest.mark.parametrize(
    ("body", "rule", "expected"),
    [
        (PRODUCT.format(threads=128, loop=STAGED), "register-pressure", ["threads=256)"]),
        (PRODUCT.format(threads=64, loop=STAGED), "register-pressure", ["threads=256)"]),
        (
            PRODUCT.format(threads=256, loop="T.serial(1024 // 32)"),
            "missing-pipeline",
            ["in T.Pipelined(1024 // 32, num_stages=2):"],
        ),
        (
            PRODUCT.format(threads=256, loop="range(0, 32)"),
            "missing-pipeline",
            ["in T.Pipelined(0, 32, num_stages=2):"],
        ),
        (
            PRODUCT.format(threads=256, loop="T.Pipelined(32)"),
            "missing-pipeline",
            ["in T.Pipelined(32, num_stages=2):"],
        ),
        (PIPELINE.format(threads=128, stages=7), "shared-memory-budget", ["num_stages=3)"]),
        (PIPELINE.format(threads=4096, stages=3), "thread-count", ["threads=1024)"]),
        (PIPELINE.format(threads=16, stages=3), "thread-count", ["threads=32)"]),
        (gemm().replace("threads=128", "threads=100"), "thread-count", ["threads=128)"]),
        (gemm().replace("threads=128", "threads=96"), "gemm-tile", ["threads=64)", "threads=128)"]),
        (gemm().replace("threads=128", "threads=int(100)"), "thread-count", []),
    ],
)
def test_resource_fixes(body: str, rule: str, expected: list[str]):
    text = source(body)
    problem = next(p for p in _problems(text) if p.rule == rule)
    assert len(problem.fixes) == len(expected)
    for fix, wanted in zip(problem.fixes, expected, strict=True):
        after = fixed(text, fix)
        assert wanted in after
        assert [p for p in _problems(after) if p.rule in (rule, "gemm-tile")] == []


@pytest.mark.parametrize(
    "statement",
    [
        "B[i] *= A[i, j]",
        "B[i] = B[i] + B[0] * A[i, j]",
        "B[i] = 2 * B[i] + A[i, j]",
    ],
)
def test_no_atomic_where_there_is_none(statement: str):
    text = source(SUMMED.replace("B[i] += A[i, j]", statement))
    problems = check_source("k.py", text, "cuda:sm_90").all_problems()
    races = [p for p in problems if p.rule == "parallel-reduction-race"]
    assert races and all(p.fixes == () for p in races)


def test_no_fix_for_a_serial_loop_that_does_not_start_at_zero():
    body = SERIAL.replace("for i in T.serial(16)", "for i in T.serial(2, 16)")
    (problem,) = [p for p in _problems(source(body)) if p.rule == "fragment-serial-access"]
    assert problem.fixes == ()


def test_no_fix_where_the_text_is_not_that_of_a_call():
    body = gemm(TALL, clear=False).replace("        c = T.alloc", "        if bx == 0: pass; c = T.alloc")
    for problem in _problems(source(body)):
        assert not problem.fixes or problem.rule != "uninitialised-accumulator"


def test_clear_is_spelled_like_the_gemm():
    text = source(gemm(clear=False)).replace(
        "import tilelang.language as T", "import tilelang.language as lang"
    )
    text = text.replace("T.", "lang.")
    (problem,) = [p for p in _problems(text) if p.rule == "uninitialised-accumulator"]
    assert problem.fixes[0].edits[0].new_text == "        lang.clear(c)\n"


def _problems(text: str) -> list[Problem]:
    """All but the hint that most kernels over tensors of any size have."""
    found = check_source("kernel.py", text, "cuda:sm_90").all_problems()
    return [p for p in found if p.rule != "guarded-tail"]


BROADCAST = """
N = T.dynamic("n")

@tilelang.jit
def k(A, B, C):
    A: T.Tensor((64,), T.float32)
    B: T.Tensor((N, 64), T.float32)
    C: T.Tensor((N + 1, 64), T.float32)
    with T.Kernel(1, threads=128) as bx:
        f = T.alloc_fragment((32, 64), T.float32)
        {statement}
        T.copy(f, B[0:32, 0:64])
        C[0, 0] = 1
"""


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "T.copy(A, f)  # each row",
            "for i, j in T.Parallel(32, 64):\n            f[i, j] = A[j]  # each row",
        ),
        ("T.clear(f); T.copy(A, f)", "T.copy(A, f[0, 0:64])"),
        ("T.clear(f)\n        T.copy(B, C)", "T.copy(B, C[0:N, 0:64])"),
    ],
)
def test_copies_that_do_not_fit(statement: str, expected: str):
    text = source(BROADCAST.format(statement=statement))
    problem = next(p for p in _problems(text) if p.rule == "copy-shape")
    (fix,) = problem.fixes
    after = fixed(text, fix)
    assert expected in after
    assert _problems(after) == []


def test_no_slice_that_ends_before_it_begins():
    text = source(one_statement("T.copy(B[0:128, 64 * bx + 64 : 64 * bx], s)"))
    problems = [p for p in _problems(text) if p.rule == "copy-shape"]
    assert problems and all(p.fixes == () for p in problems)


def test_a_misspelt_import_is_corrected_with_its_uses():
    text = source("from tilelang.language import gemmm\n\n\ndef product(a, b, c):\n    gemmm(a, b, c)\n")
    (problem,) = [p for p in _problems(text) if p.rule == "unknown-language-name"]
    after = fixed(text, problem.fixes[0])
    assert "import gemm\n" in after and "    gemm(a, b, c)" in after


def test_no_swap_of_a_grid_that_fits_elsewhere():
    body = SWAPPED.replace("B: T.Tensor((M, N)", "B: T.Tensor((N, M)").replace(
        "B[by * 32, bx", "B[by * 32, bx"
    )
    (problem,) = [p for p in _problems(source(body)) if p.rule == "grid-order"]
    assert problem.fixes == ()


def test_an_output_that_is_forgotten_goes_behind_the_others_or_before_them():
    """Callers see the order, so it is their choice, and nothing that is made without asking."""
    body = (
        RETURNED.replace("    with", "    C = T.empty((64,), T.float32)\n    with") + "    return C  # all\n"
    )
    text = source(body)
    (problem,) = (p for p in _problems(text) if p.rule == "output-not-returned")
    assert [fix.title for fix in problem.fixes] == ["Write `return C, B`", "Write `return B, C`"]
    for fix, returned in zip(problem.fixes, ("return C, B  # all", "return B, C  # all"), strict=True):
        mended = fixed(text, fix)
        assert returned in mended
        assert not [p for p in _problems(mended) if p.rule == "output-not-returned"]
