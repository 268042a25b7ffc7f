"""What Python statements in a kernel become."""

from __future__ import annotations

import pytest

from tests.frontend.programs import body, jitted, lines_of, live, script, static
from tests.quickstart import MODULE
from tilelang.analysis.check import check_source


def test_quickstart_reads_like_its_source():
    program = static(MODULE, "matmul_relu")
    assert program.problems == [] and program.missing == ()
    assert [p.name for p in program.params] == ["A", "B", "C"] and program.outputs == (2,)
    assert [r.op for r in program.ops()] == ["fill", "copy", "copy", "gemm", "copy"]
    launch = program.launches()[0]
    assert [str(e) for e in launch.grid] == ["(N + 127) // 128", "(M + 127) // 128"]
    assert launch.threads == (128,) and [str(v.name) for v in launch.block_vars] == ["bx", "by"]
    loop = next(r for r in program.ops() if r.op == "gemm").context.loops[0]
    assert loop.kind == "Pipelined" and loop.annotations == {"num_stages": 3}


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("f[0, 0] = bx // 2", 'T.Cast("float32", bx // 2)'),
        ("f[0, 0] = bx / 2", 'T.Cast("float32", bx) / T.float32(2.0)'),
        ("f[0, 0] = bx % 2", 'T.Cast("float32", bx % 2)'),
        ("f[0, 0] = 1.5 * s[0, 0]", 'T.float32(1.5) * T.Cast("float32", s[0, 0])'),
        ("f[0, 0] = 2 * s[0, 0]", 'T.Cast("float32", T.float16(2.0) * s[0, 0])'),
        ("f[0, 0] = s[0, 0] + f[0, 1]", 'T.Cast("float32", s[0, 0]) + f[0, 1]'),
        ("f[0, 0] = bx + 1.5", 'T.Cast("float32", bx) + T.float32(1.5)'),
        ("f[0, 0] = 7", "T.float32(7.0)"),
        ("s[0, 0] = f[0, 0]", 'T.Cast("float16", f[0, 0])'),
        ("f[0, 0] = f[0, 1] ** 2", "f[0, 1] * f[0, 1]"),
        ("f[0, 0] = f[0, 1] if bx > 1 else 0", "T.if_then_else(bx > 1, f[0, 1], T.float32(0.0))"),
        ("f[0, 0] = 1 if 1 < 2 < 3 else 2", "T.float32(1.0)"),
        ("f[0, 0] = T.exp(f[0, 1])", "T.exp(f[0, 1])"),
        ("f[0, 0] = T.max(f[0, 1], 0)", "T.max(f[0, 1], T.float32(0.0))"),
        ("f[0, 0] = T.ceildiv(100, 32)", "T.float32(4.0)"),
        ("f[0, 0] = -T.infinity('float32')", 'T.float32("-inf")'),
        ("f[0, 0] = T.cast(f[0, 1], 'int32') % 3", 'T.Cast("float32", T.Cast("int32", f[0, 1]) % 3)'),
        ("f[0, -1] = f[-2, 0]", "f[62, 0]"),
        ("f[0, 0] = (lambda x, y=2: x * y)(bx)", 'T.Cast("float32", bx * 2)'),
        ("f[0, 0] = sum([f[0, i] for i in (1, 2)])", "element + element_1"),
    ],
)
def test_values(statement: str, value: str):
    store = lines_of(statement)[-1]
    assert store.partition(" = ")[2] == value


@pytest.mark.parametrize(
    ("opened", "loops"),
    [
        ("T.serial(4) as i", "for i in T.serial(4):"),
        ("T.Parallel(4, 8) as (i, j)", "for i, j in T.Parallel(4, 8):"),
        ("T.grid(4, 8) as (i, j)", "for i, j in T.grid(4, 8):"),
        ("T.Pipelined(3, num_stages=2)", "for _ in T.Pipelined(3, num_stages=2):"),
        ("T.serial(4) as i, T.unroll(8) as j", "for i in T.serial(4):\n    for j in T.unroll(8):"),
    ],
)
def test_with_opens_a_loop(opened: str, loops: str):
    inside = "    " * (loops.count("\n") + 1) + "f[0, 0] = 1"
    assert lines_of(f"with {opened}:\n    f[0, 0] = 1") == lines_of(f"{loops}\n{inside}")


@pytest.mark.parametrize(
    "made",
    [
        "a, b = T.alloc_var('int32', init=0), T.alloc_var('int32', init=1)",
        "(a, b) = [T.alloc_var('int32', init=k) for k in range(2)]",
        "if (a := T.alloc_var('int32', init=0)) is not (b := T.alloc_var('int32', init=1)): pass",
    ],
)
def test_variables_made_together_are_variables(made: str):
    lines = lines_of(f"""
        {made}
        for i in T.serial(5):
            a, b = b, a + b
        f[0, 0] = a
    """)
    values = [line.split() for line in lines if " = " in line]
    swapped = [words for words in values if words[-1] in ("value", "value_1")]
    assert len(swapped) == 2 and swapped[0][0] in lines[-1]


def test_numbers_of_numpy_are_numbers():
    text = """
        import numpy as np
        import tilelang.language as T

        def k(A):
            A: T.Tensor((64, 64), T.float32)
            with T.Kernel(np.int64(4), threads=np.int32(128)) as bx:
                f = T.alloc_fragment((np.int64(64), 64), T.float32)
                T.fill(f, np.float16(2))
                for i in T.serial(np.int64(4)):
                    A[np.int32(0), i] = np.float32(0.5) * A[1, 0] + bx // np.int64(2)
                if bx == np.int8(3):
                    A[0, 0] = np.int32(1)
    """
    program = live(text)
    assert program.problems == []
    lines = [line.strip() for line in script(program).splitlines()]
    assert 'A[0, i] = T.float32(0.5) * A[1, 0] + T.Cast("float32", bx // 2)' in lines
    assert "if bx == 3:" in lines and "A[0, 0] = T.float32(1.0)" in lines


def test_enumerations_inside_a_kernel():
    lines = lines_of("""
        from enum import Enum, auto

        class Mode(Enum):
            plain = auto()
            fast = auto()

        f[0, 0] = Mode.fast.value if Mode.fast is not Mode.plain else bx
    """)
    assert lines == ["f[0, 0] = T.float32(2.0)"]


def test_and_or_not_and_chains_are_conditions_of_the_kernel():
    lines = lines_of("""
        if 0 < bx < 3 and not (bx == 1) or f[0, 0] > 0:
            f[0, 0] = 1
        else:
            f[0, 0] = 2
    """)
    assert lines[0] == "if 0 < bx and bx < 3 and not bx == 1 or f[0, 0] > T.float32(0.0):"
    assert lines[2] == "else:"


def test_conditions_that_python_decides_leave_one_branch():
    assert lines_of("""
        if True and 2 > 1:
            f[0, 0] = 1
        else:
            f[0, 0] = 2
    """) == ["f[0, 0] = T.float32(1.0)"]


def test_an_element_bound_to_a_name_is_read_once():
    lines = lines_of("""
        x = f[0, 0]
        f[0, 0] = 5
        f[0, 1] = x + x
    """)
    assert lines == [
        "x: T.let[T.float32] = f[0, 0]",
        "f[0, 0] = T.float32(5.0)",
        "f[0, 1] = x + x",
    ]


def test_a_swap_reads_both_before_it_writes():
    lines = lines_of("f[0, 0], f[0, 1] = f[0, 1], f[0, 0]")
    assert len(lines) == 4 and ": T.let" in lines[0] and ": T.let" in lines[1]
    assert lines[2].endswith("= value") and "value_1" in lines[3]


def test_an_element_kept_in_a_list_is_read_where_the_list_was_made():
    lines = lines_of("""
        pair = [f[0, 0], f[0, 1]]
        f[0, 0] = 0
        f[0, 2] = pair[0]
    """)
    assert lines[0].endswith("= f[0, 0]") and "T.let" in lines[0]
    assert lines[1] == "f[0, 0] = T.float32(0.0)"


def test_index_arithmetic_is_no_statement():
    assert lines_of("""
        row = bx * 16 + 3
        f[row, 0] = 1
    """) == ["f[bx * 16 + 3, 0] = T.float32(1.0)"]


def test_alloc_var_is_assigned_with_plain_names():
    lines = lines_of("""
        n = T.alloc_var(T.int32, init=3)
        n = n + 1
        n += 2
        m = n
        n = 0
        f[m, n] = 1
    """)
    assert "n: T.int32 = 3" in lines[0]
    assert [line.strip() for line in lines[1:]] == [
        "n = n + 1",
        "n = n + 2",
        "m: T.let[T.int32] = n",
        "n = 0",
        "f[m, n] = T.float32(1.0)",
    ]


def test_loops_over_python_values_are_written_out():
    lines = lines_of("""
        table = {"a": 1, "b": 2}
        for k, (name, value) in enumerate(table.items()):
            f[k, 0] = value
        for x, y in zip([1, 2], (3, 4)):
            f[x, y] = 0
    """)
    assert [line.strip() for line in lines] == [
        "f[0, 0] = T.float32(1.0)",
        "f[1, 0] = T.float32(2.0)",
        "f[1, 3] = T.float32(0.0)",
        "f[2, 4] = T.float32(0.0)",
    ]


def test_range_is_a_loop_of_the_kernel_also_with_steps():
    lines = lines_of("""
        for i in range(10, 0, -3):
            f[i, 0] = 1
        for i in range(2, N):
            f[0, 0] = B[i]
    """)
    assert lines[0] == 'for i in T.serial(4, annotations={"tl.kind": "serial"}):'
    assert lines[1] == "    f[10 + i * -3, 0] = T.float32(1.0)"
    assert lines[2] == 'for i in T.serial(2, 2 + (N - 2), annotations={"tl.kind": "serial"}):'


def test_grid_is_loops_inside_each_other():
    lines = lines_of("""
        for i, j in T.grid(4, 8):
            f[i, j] = 1
    """)
    assert [line.strip().partition(" in ")[0] for line in lines] == [
        "for i",
        "for j",
        "f[i, j] = T.float32(1.0)",
    ]


def test_while_break_and_continue():
    lines = lines_of("""
        n = T.alloc_var(T.int32)
        while n < 10:
            n += 1
            if n == 3:
                continue
            if f[n, 0] > 0:
                break
    """)
    assert [line.strip() for line in lines[1:]] == [
        "while n < 10:",
        "n = n + 1",
        "if n == 3:",
        "continue",
        "if f[n, 0] > T.float32(0.0):",
        "break",
    ]


def test_slices_are_regions():
    record = next(static(jitted(body("T.copy(A[bx * 16:bx * 16 + 16, :], f[0:16, 0:64])"))).ops())
    region = record.region("src")
    assert region is not None and region.text() == "A[bx * 16:bx * 16 + 16, 0:64]"
    assert region.extents == (16, 64)
    assert record.region("dst").extents == (16, 64)


def test_a_point_is_the_start_of_a_tile():
    record = next(static(jitted(body("T.copy(A[bx, 0], f)"))).ops())
    assert record.region("src").is_point and record.region("dst").whole


def test_macros_and_helpers_are_interpreted_where_they_are_called():
    text = """
        import tilelang
        import tilelang.language as T

        @T.macro
        def scale(tile, factor):
            for i, j in T.Parallel(tile.shape[0], tile.shape[1]):
                tile[i, j] = square(tile[i, j]) * factor

        def square(x):
            return x * x

        @tilelang.jit
        def k(A):
            A: T.Tensor((8, 16), T.float32)
            with T.Kernel(1, threads=32):
                f = T.alloc_fragment((8, 16), T.float32)
                T.copy(A, f)
                scale(f, 0.5)
                T.copy(f, A)
    """
    program = static(text)
    assert "x: T.let[T.float32] = f[i, j]" in script(program)
    assert "f[i, j] = x * x * T.float32(0.5)" in script(program)
    assert program.accesses[0].span.line == 7  # inside the macro


def test_dtype_spellings_are_one_dtype():
    text = """
        import numpy as np
        import tilelang
        import tilelang.language as T
        import torch

        @tilelang.jit
        def k(A, B, C, D, dtype=torch.float16):
            A: T.Tensor((8,), "float16")
            B: T.Tensor((8,), T.float16)
            C: T.Tensor((8), dtype)
            D: T.Tensor[[8], np.float16]
            with T.Kernel(1):
                T.copy(A, B)
    """
    program = static(text)
    assert [p.buffer.dtype for p in program.params] == ["float16"] * 4
    assert [p.buffer.shape for p in program.params] == [(8,)] * 4


def test_views_share_storage():
    program = static(
        jitted(
            body("""
        flat = T.reshape(s, (4096,))
        bits = T.view(flat, dtype="int16")
        rest = T.reshape(s, (32, -1))
    """)
        )
    )
    by_name = {b.name: b for b in program.buffers}
    assert by_name["flat"].storage is by_name["s"] and by_name["bits"].storage is by_name["s"]
    assert by_name["rest"].shape == (32, 128) and by_name["bits"].dtype == "int16"


def test_block_swizzle_is_an_attribute():
    assert static(jitted(body("T.use_swizzle(10)"))).attrs == {"tl.block_swizzle": "row:10"}
    assert static(jitted(body("T.use_swizzle(4, order='column', enable=True)"))).attrs == {
        "tl.block_swizzle": "column:4"
    }
    assert static(jitted(body("T.use_swizzle(4, enable=False)"))).attrs == {}


def test_threads_and_thread_bindings():
    text = """
        import tilelang
        import tilelang.language as T

        @tilelang.jit
        def k(A):
            A: T.Tensor((4, 32), T.float32)
            with T.Kernel(1, threads=(32, 4)) as bx:
                A[T.get_thread_binding(1), T.get_thread_binding(0)] = 0
    """
    program = static(text)
    assert program.launches()[0].threads == (32, 4)
    assert "A[ty, tx] = T.float32(0.0)" in script(program)


def test_guards_are_noted_with_reads():
    program = static(
        jitted(
            body("""
        for i in T.Parallel(64):
            if i < N:
                f[i, 0] = B[i]
            f[i, 1] = T.if_then_else(i < N, B[i] * 2, 0)
            f[i, 2] = B[i] if i < N else 0
    """)
        )
    )
    reads = [a for a in program.accesses if a.buffer.name == "B"]
    assert len(reads) == 3
    assert all(str(a.context.guards[-1].condition) == "i < N" for a in reads)


def test_columns_count_code_points():
    program = static(
        jitted(body("T.copy(A, f);  T.fill(f, 0)").replace("T.copy(A, f);", "'é∂𝄞'; T.copy(A, f);"))
    )
    copy, fill = program.ops()
    assert copy.callee_span.column == 16 and fill.callee_span.column == 31
    assert copy.span_of("dst").column == 26 and copy.span_of("dst").end_column == 27


def test_live_and_static_are_the_same_program():
    text = body("""
        x = f[0, 0]
        for i, j in T.Parallel(64, 64):
            f[i, j] = A[i, j] + x
        T.copy(f, A)
    """)
    assert script(live(text)) == script(static(jitted(text)))


def test_live_values_are_pythons_own():
    text = """
        import math
        import tilelang.language as T

        class Config:
            block = 32
            scale = math.sqrt(2)

        def k(A, config=Config):
            N = T.const("N")
            A: T.Tensor((N,), T.float32)
            with T.Kernel(T.ceildiv(N, config.block), threads=config.block) as bx:
                for i in T.Parallel(config.block):
                    A[bx * config.block + i] = A[bx * config.block + i] * config.scale
    """
    text_of_function = script(live(text, N=128))
    assert 'T.Buffer((128,), "float32")' in text_of_function
    assert "T.float32(1.4142135623730951)" in text_of_function


DYNAMIC = """
import tilelang
import tilelang.language as T

m = T.dynamic("m")
n, twice = T.dynamic("n"), m * 2

@tilelang.jit
def k(A, B):
    A: T.Tensor((m, n), "float32")
    B: T.Tensor((twice, n), "float32")
    with T.Kernel(T.ceildiv(m, 32), threads=32) as bx:
        for i in T.Parallel(32):
            if bx * 32 + i < m:
                A[bx * 32 + i, 0] = B[twice - 1, n - 1]
"""


def test_sizes_made_at_module_level_are_sizes_of_the_kernel():
    program = static(DYNAMIC)
    assert [(s.name, s.kind) for s in program.symbols] == [("m", "dynamic"), ("n", "dynamic")]
    assert "B[m * 2 - 1, n - 1]" in script(program)
    assert script(program) == script(live(DYNAMIC.replace("@tilelang.jit\n", "")))


def test_tiles_allocated_before_the_launch_belong_to_its_blocks():
    text = """
        import tilelang
        import tilelang.language as T

        @tilelang.jit
        def k(A):
            A: T.Tensor((64,), T.float32)
            s = T.alloc_shared((64,), T.float32)
            with T.Kernel(1, threads=64):
                T.copy(A, s)
    """
    program = static(text)
    assert [type(n).__name__ for n in program.body] == ["Launch"]
    assert [type(n).__name__ for n in program.launches()[0].body] == ["Alloc", "Do"]


@pytest.mark.parametrize(("policy", "said"), [("2", ""), ("0", ""), ("3", "T.GemmWarpPolicy")])
def test_the_policy_of_a_gemm_may_be_its_number(policy: str, said: str) -> None:
    text = f"""
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A, C):
    A: T.Tensor((64, 64), T.float16)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.copy(A, a)
        T.gemm(a, a, c, policy={policy}, clear_accum=True)
        T.copy(c, C)
"""
    found = [p.message for p in check_source("k.py", text, "cuda:sm_80").all_problems()]
    assert len(found) == bool(said) and all(said in m for m in found)
