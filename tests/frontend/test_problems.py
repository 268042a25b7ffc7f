"""Mistakes in Python code of a kernel: one problem each, at its place, and never a second one that
follows from it.
"""

from __future__ import annotations

import pytest

from tests.frontend.programs import body, jitted, live, problems_of, rules_of, static, whole
from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Severity


def text_at(statements: str) -> tuple[str, str, str]:
    """Rule, message and marked text of the only problem of statements."""
    source = jitted(body(statements))
    lines = ("import tilelang\nimport tilelang.language as T\n" + source.lstrip("\n")).split("\n")
    (problem,) = problems_of(statements)
    span = problem.span
    assert span.line == span.end_line
    return problem.rule, problem.message, lines[span.line - 1][span.column - 1 : span.end_column - 1]


@pytest.mark.parametrize(
    ("statement", "rule", "marked", "said"),
    [
        ("f[0, 0] = min(f[0, 1], 2)", "python-bool", "f[0, 1]", "use `T.min`"),
        ("f[0, 0] = abs(f[0, 1])", "python-bool", "f[0, 1]", "use `T.abs`"),
        ("f[0, 0] = float(f[0, 1])", "python-bool", "f[0, 1]", "T.cast"),
        ("f[0, 0] = len(B)", "python-bool", "B", "`.shape[0]`"),
        ("if bx in (1, 2): f[0, 0] = 1", "python-bool", "bx", "write `(bx == 1 or bx == 2)`"),
        ("print(f'at {bx}')", "traced-text", "bx", "has no value then"),
        ("f[0, 0] = [1, 2][bx]", "traced-python-index", "bx", "loop over the list"),
        ("f[0, 0] = fooo[0]", "unknown-name", "fooo", "`fooo` is not defined"),
        ("T.coppy(A, f)", "unknown-language-name", "coppy", "did you mean `T.copy`?"),
        (
            "T.copy(A, f, coalesce_width=4)",
            "bad-arguments",
            "coalesce_width",
            "did you mean `coalesced_width`?",
        ),
        ("for k in T.Pipelined(4, stages=2): pass", "bad-arguments", "stages", "did you mean `num_stages`?"),
        ("T.copy(A)", "bad-arguments", "T.copy(A)", "`dst` is missing"),
        ("T.copy(A, f, 4)", "bad-arguments", "4", "by name"),
        ("T.gemm(s, s, 3)", "bad-arguments", "3", "`C` must be a buffer"),
        (
            "x = T.nextafter(s[0, 0], s[0, 1])",
            "bad-arguments",
            "T.nextafter(s[0, 0], s[0, 1])",
            "are float16",
        ),
        (
            "x = T.nextafter(T.bfloat16(bx), T.bfloat16(1))",
            "bad-arguments",
            "T.nextafter(T.bfloat16(bx), T.bfloat16(1))",
            "bfloat16",
        ),
        (
            "T.call_extern('handle', 'f', T.if_then_else(bx == 0, T.address_of(s[0, 0]), 0))",
            "bad-arguments",
            "T.address_of(s[0, 0])",
            "must be a number, not an address",
        ),
        (
            "T.annotate_layout({s: T.Layout((64, 64), lambda i, j: (i, j + bx))})",
            "bad-arguments",
            "lambda i, j: (i, j + bx)",
            "depends on `bx`, which is known only while the kernel runs",
        ),
        (
            "if T.all_of(bx < 1, f[0, 0] > 0): pass",
            "bad-arguments",
            "f[0, 0] > 0",
            "one tile or slice, not 2 values; conditions are joined as in `i < m and j < n`",
        ),
        (
            "if T.any_of([bx < 1]): pass",
            "bad-arguments",
            "[bx < 1]",
            "not a list; conditions are joined as in `i < m or j < n`",
        ),
        ("x = T.Range(0, 0.5)", "bad-arguments", "0.5", "`end` must be an integer"),
        (
            "x = T.q_multiply_shift(bx, 3, bx, 1)",
            "bad-arguments",
            "T.q_multiply_shift(bx, 3, bx, 1)",
            "must be numbers known at compile time",
        ),
        ("f[0] = 1", "index-count", "f[0]", "`f` has 2 dimensions (64, 64), but the subscript has 1"),
        ("f[0, bx / 2] = 1", "float-index", "bx / 2", "use `//`"),
        ("f[0, 1.5] = 1", "float-index", "1.5", "must be an integer"),
        ("f += 1", "buffer-augmented", "f += 1", "for i, j in T.Parallel(64, 64): f[i, j] += ..."),
        ("f[0, 0] = f * 2", "tile-as-scalar", "f", "`f` is a tile of (64, 64)"),
        ("f[0, 0] = s[0:4, 0]", "tile-as-scalar", "s[0:4, 0]", "index it inside T.Parallel"),
        ("g = T.alloc_shared((4,), 'float61')", "unknown-dtype", "'float61'", "did you mean 'float64'?"),
        ("g = T.alloc_shared((-1, 4), 'float16')", "bad-arguments", "(-1, 4)", "no extent can be negative"),
        ("g = T.alloc_shared((bx, 4), 'float16')", "bad-arguments", "(bx, 4)", "depends on `bx`"),
        ("for i, j in T.Parallel(4): f[i, 0] = 1", "bad-arguments", "i, j", "the loop has 1 variable"),
        ("assert 1 > 2, 'sizes'", "python-error", "1 > 2", "sizes"),
        ("x = {'a': 1}['b']", "python-error", "{'a': 1}['b']", "no key 'b'"),
        ("x = 1 // 0", "python-error", "1 // 0", "ZeroDivisionError"),
        ("s.shpe", "unknown-attribute", "shpe", "did you mean `shape`?"),
        ("f[0, 0] = f[0, 0] @ 2", "unsupported-python", "f[0, 0] @ 2", "T.gemm"),
        ("with T.Kernel(2): pass", "unsupported-python", "T.Kernel(2)", "inside another"),
        ("x = T.reshape(s, (4, 4))", "view-shape", "(4, 4)", "another number of bits"),
    ],
)
def test_one_mistake_one_problem(statement: str, rule: str, marked: str, said: str):
    found, message, text = text_at(statement)
    assert (found, text) == (rule, marked)
    assert said in message


def test_a_tile_without_elements_may_stand_unused():
    assert rules_of("g = T.alloc_shared((0, 4), 'float16')\nh = T.alloc_fragment((4, 0), 'float32')") == []


def test_a_failed_value_causes_no_further_problems():
    assert rules_of("""
        x = T.alloc_shraed((64, 64), T.float16)
        T.copy(A, x)
        y = x[0, 0] + min(x[0, 1], f[0, 0])
        for i in T.Parallel(x.shape[0]):
            f[i, y] = x[i, 1, 2]
    """) == ["unknown-language-name"]


def test_every_mistake_is_reported_in_one_run():
    assert rules_of("""
        f[0] = 1
        T.copy(A, f, foo=1)
        f += 1
    """) == ["index-count", "bad-arguments", "buffer-augmented"]


def test_misspellings_come_with_an_edit():
    (problem,) = problems_of("T.cler(f)")
    (fix,) = problem.fixes
    assert [e.new_text for e in fix.edits] == ["clear"]
    (problem,) = problems_of("x = max(f[0, 0], 1)")
    assert problem.fixes[0].edits[0].new_text == "T.max(f[0, 0], 1)"


# -- names that change in loops and branches


def test_a_sum_in_a_plain_name_needs_a_variable():
    rule, message, marked = text_at("""
        total = 0.0
        for i in T.serial(64):
            total = total + f[0, i]
    """)
    assert (rule, marked) == ("rebinding-escapes", "total")
    assert "T.alloc_var" in message


def test_a_name_bound_in_a_loop_is_gone_after_it():
    assert rules_of("""
        for i in T.serial(64):
            x = f[0, i]
        f[1, 0] = x
        f[2, 0] = x
    """) == ["rebinding-escapes"]


def test_a_name_rebound_in_a_branch_is_gone_after_it():
    assert rules_of("""
        x = 1
        if f[0, 0] > 0:
            x = 2
        f[0, 0] = x
    """) == ["rebinding-escapes"]


def test_a_tile_allocated_in_a_loop_is_gone_after_it():
    (problem,) = problems_of("""
        for i in T.serial(64):
            t = T.alloc_shared((64, 64), T.float16)
            T.copy(A, t)
        T.copy(t, A)
    """)
    assert problem.rule == "rebinding-escapes" and "allocate it before" in problem.message


@pytest.mark.parametrize(
    "statements",
    [
        # the same name for different things, one after the other
        """
        for i in T.serial(4):
            x = f[0, i]
            f[1, i] = x
        for i in T.serial(4):
            x = f[1, i]
            f[2, i] = x
        """,
        # alike in both branches
        """
        if f[0, 0] > 0:
            x = 2
            f[0, 0] = 1
        else:
            x = 2
        f[0, 0] = x
        """,
        # a variable
        """
        n = T.alloc_var(T.float32)
        for i in T.serial(4):
            if f[0, i] > n:
                n = f[0, i]
        f[0, 0] = n
        """,
        # Python counters in loops that run while tracing
        """
        n = 0
        for step in (1, 2, 3):
            n += step
        f[n, 0] = 1
        """,
        # bound in a decided branch
        """
        if 1 > 0:
            x = f[0, 0]
        f[0, 1] = x
        """,
        # a jump: what follows is reached from one branch only
        """
        for i in T.serial(4):
            x = 1
            if f[0, i] > 0:
                x = 2
                f[0, 0] = x
                break
            f[x, i] = 0
        """,
    ],
)
def test_rebinding_that_is_right(statements: str):
    assert problems_of(statements) == []


def test_a_name_of_the_branch_not_taken():
    (problem,) = problems_of("""
        if 1 > 2:
            x = 1
        f[0, 0] = x
    """)
    assert problem.rule == "unbound-name-in-branch" and "line 12" in problem.message


# -- what is not known


def test_both_branches_of_an_unknown_condition_are_read_as_perhaps():
    text = """
        import tilelang
        import tilelang.language as T
        from somewhere import flag

        @tilelang.jit
        def k(A):
            A: T.Tensor((64,), T.float32)
            with T.Kernel(1) as bx:
                s = T.alloc_shared((64,), T.float32)
                if flag:
                    T.copy(A, s)
                    x = 1
                    s[0, 0] = 1
                else:
                    T.clear(s)
                    x = 2
                s[x] = 0
                if flag:
                    s[0] = y_of_flag = 1
    """
    program = static(text)
    assert [(p.rule, p.severity) for p in program.problems] == [("index-count", Severity.HINT)]
    assert all(r.context.maybe for r in program.ops())
    assert not program.complete


def test_an_unknown_call_may_do_anything_with_its_buffers():
    text = """
        import tilelang
        import tilelang.language as T
        from somewhere import fill_it

        @tilelang.jit
        def k(A):
            A: T.Tensor((64,), T.float32)
            with T.Kernel(1) as bx:
                s = T.alloc_shared((64,), T.float32)
                fill_it(s)
                T.copy(s, A)
    """
    program = static(text)
    assert program.problems == [] and not program.complete
    assert [(a.buffer.name, a.mode) for a in program.accesses] == [("s", "read"), ("s", "write")]


def test_a_parameter_without_a_value_is_unknown_and_silent():
    text = """
        import tilelang
        import tilelang.language as T

        @tilelang.jit
        def k(A, block, threads):
            N = T.const("N")
            A: T.Tensor((N,), T.float32)
            with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
                s = T.alloc_shared((block,), T.float32)
                T.copy(A[bx * block], s)
                for i in T.Parallel(block):
                    s[i] = max(block, 1) * s[i]
    """
    program = static(text)
    assert program.missing == ("block", "threads") and program.problems == []
    assert not program.complete and program.launches()[0].threads is None
    assert static(text, choice={"block": "64", "threads": "128"}).complete


def test_a_name_the_language_has_and_we_do_not_is_a_hint():
    (problem,) = problems_of("T.tcgen05_gemm_sp(f, f, f)")
    assert problem.severity is Severity.HINT and problem.rule == "unsupported-language-name"


# -- signatures


def test_a_const_must_be_an_entry_of_a_shape():
    text = """
        def k(A):
            N, M, unused = T.const("N, M, unused")
            A: T.Tensor((N, M * 2), T.float32)
            with T.Kernel(1):
                T.clear(A)
    """
    found = [(p.rule, p.severity) for p in static(jitted(text)).problems]
    assert found == [("const-unbound", Severity.ERROR), ("const-unused", Severity.ERROR)]


def test_outputs_must_be_returned_and_nothing_else_may_be():
    text = """
        def k(A):
            A: T.Tensor((4,), T.float32)
            B = T.empty((4,), T.float32)
            with T.Kernel(1):
                T.copy(A, B)
            return A
    """
    problems = static(jitted(text)).problems
    assert [p.rule for p in problems] == ["output-not-returned"] * 2
    assert "`A` is returned" in problems[0].message and "`B` is made by T.empty" in problems[1].message


def test_out_idx_names_a_tensor():
    text = """
        @tilelang.jit(out_idx=[3])
        def k():
            @T.prim_func
            def main(A: T.Tensor((4,), T.float32), n: T.int32):
                with T.Kernel(1):
                    A[0] = n
            return main
    """
    assert [p.rule for p in static(text).problems] == ["bad-arguments"]


def test_endless_recursion_ends_with_a_hint():
    text = """
        def again(x):
            return again(x)

        @tilelang.jit
        def k(A):
            A: T.Tensor((4,), T.float32)
            with T.Kernel(1):
                A[0] = again(A[1])
    """
    (problem,) = static(text).problems
    assert problem.rule == "step-limit" and problem.severity is Severity.HINT


def test_endless_loops_end_with_a_hint():
    text = """
        @tilelang.jit
        def k(A):
            n = 0
            while n >= 0:
                n += 1
            A: T.Tensor((4,), T.float32)
            with T.Kernel(1):
                A[0] = 1
    """
    (problem,) = static(text).problems
    assert problem.rule == "step-limit" and problem.severity is Severity.HINT


@pytest.mark.parametrize(
    "statement",
    [
        "x = T.IterVar(0, 4)",  # TVM's own builders are part of the language
        "x = T.completely_new_thing()",  # like nothing we know: perhaps a newer language
    ],
)
def test_what_only_this_compiler_does_not_know_is_a_hint(statement: str):
    program = static(jitted(body(statement)))
    assert [p.severity for p in program.problems] == [Severity.HINT]
    assert not program.complete


def test_a_default_that_waits_for_its_value_is_no_mistake():
    text = """
        import tilelang
        import tilelang.language as T

        @tilelang.jit(out_idx=[-1])
        def k(N=None, block=None, dtype=None):
            half = block // 2
            @T.prim_func
            def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
                with T.Kernel(T.ceildiv(N, block), threads=half) as bx:
                    for i in T.Parallel(block):
                        if bx * block + i < N:
                            B[bx * block + i] = A[bx * block + i]
            return main
    """
    program = static(text)
    assert program.problems == [] and not program.complete
    assert static(text, choice={"N": "100", "block": "64", "dtype": "float16"}).complete


def test_names_that_statements_we_do_not_interpret_bind_are_unknown():
    text = """
        import tilelang
        import tilelang.language as T

        match 3:
            case other:
                block = 64

        async def later():
            pass

        try:
            import fast_helpers
        except ImportError:
            fast_helpers = None

        @tilelang.jit
        def k(A):
            A: T.Tensor((block,), T.float32)
            with T.Kernel(1):
                if fast_helpers:
                    later(other)
                T.clear(A)
    """
    assert static(text).problems == []


def test_what_is_imported_from_elsewhere_is_not_judged():
    text = """
        import tilelang
        import tilelang.language as T
        from elsewhere import BF16, lane, shape

        @tilelang.jit
        def k(A, B, C):
            A: T.Tensor((64, 64), T.uint16)
            B: T.Tensor((64,), T.bfloat16)
            C: T.Tensor(shape, T.float32)
            with T.Kernel(1, threads=64):
                T.call_extern("handle", "f", T.access_ptr(A[lane, 0], "r"), T.address_of(C[0, lane]))
                for i in T.Parallel(64):
                    B[i] = T.reinterpret(BF16, A[0, i]) + T.reinterpret(A[1, i], BF16)
    """
    assert static(text).problems == []
    text = text.replace("T.reinterpret(BF16, A[0, i])", "T.reinterpret(1.5, A[0, i])")
    assert [p.rule for p in static(text).problems] == ["unknown-dtype"]


def test_an_element_without_indices_has_an_address_and_no_neighbour():
    text = """
        @tilelang.jit
        def k(A):
            A: T.Tensor((), T.float32)
            with T.Kernel(1, threads=64):
                T.call_extern("handle", "f", T.access_ptr(A, "r"), T.access_ptr(A, "w", offset=1))
    """
    (problem,) = static(text).problems
    assert problem.rule == "bad-arguments" and "`offset` would lead out of it" in problem.message


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (  # options that go on to the launch
            "build",
            """
        def build(M, N, **options):
            options.setdefault("threads", 64)
            @T.prim_func
            def main(A: T.Tensor((M, N), "int8"), B: T.Tensor((M, N), "int8")):
                with T.Kernel(T.ceildiv(M, 16), **options) as bm:
                    s = T.alloc_shared((16, 32), "int8")
                    T.copy(A[bm * 16, 0], s)
                    T.copy(s, B[bm * 16, 0])
            return main
        f = build(64, 32)
        """,
        ),
        (  # what nobody calls here is called elsewhere, with more than its names
            "outer.inner",
            """
        def outer(M, *dims, **options):
            @tilelang.jit(out_idx=-1)
            def inner():
                n = dims[0]
                @T.prim_func
                def main(A: T.Tensor((M, n), "int8"), B: T.Tensor((M, n), "int8")):
                    with T.Kernel(T.ceildiv(M, 16), threads=options["threads"]) as bm:
                        s = T.alloc_shared((16, 64), "int8")
                        T.copy(A[bm * 16, 0], s)
                        T.copy(s, B[bm * 16, 0])
                return main
            return inner()
        """,
        ),
        (  # a thread for each element of a row, whose length each call gives
            "rows",
            """
        @tilelang.jit
        def rows(X):
            B, N = T.const("B, N")
            X: T.Tensor((B, N), "float32")
            Y = T.empty((B, N), "float32")
            with T.Kernel(B, threads=N) as b:
                s = T.alloc_shared((N,), "float32")
                T.copy(X[b, :], s)
                T.copy(s, Y[b, :])
            return Y
        """,
        ),
    ],
    ids=["options", "rest", "threads"],
)
def test_what_only_a_call_gives_is_no_mistake(kernel: str, text: str):
    program = static(text, kernel)
    assert program.problems == [] and not program.complete


ASKS_CALLERS = """
def make(N=None, block=None):
    assert block is not None, "block must be given"
    assert isinstance(N, int)
    if N % block:
        raise ValueError("block must divide N")

    @T.prim_func
    def k(A: T.Tensor((N,), T.float32)):
        with T.Kernel(N // block, threads=128) as bx:
            for i in T.Parallel(block):
                A[bx * block + i] = 1.0

    return k
{call}
"""


@pytest.mark.parametrize(
    ("call", "said"),
    [("", []), ("make(128, 48)", ["ValueError: block must divide N"]), ("make(128, 64)", [])],
)
def test_what_callers_must_give_is_no_mistake_of_a_kernel_that_nothing_calls(call: str, said: list[str]):
    report = check_source("kernel.py", whole(ASKS_CALLERS.format(call=call)), "cuda:sm_90")
    assert [p.message for p in report.all_problems()] == said


def test_random_numbers_after_a_seed_that_is_not_known():
    text = """
    def k(N, seed, threads):
        @T.prim_func
        def main(A: T.Tensor((N,), T.float32)):
            with T.Kernel(1, threads=threads):
                T.rng_init(seed)
                for i in T.Parallel(N):
                    A[i] = T.rng_rand_float()

        return main
    """
    assert not check_source("kernel.py", whole(text), "cuda:sm_90").all_problems()


def test_outputs_are_counted_among_all_tensors_where_the_rank_of_one_is_not_known():
    text = """
    def make(shape):
        @tilelang.jit(out_idx=[2])
        def k(block):
            @T.prim_func
            def main(
                A: T.Tensor((64,), T.float32),
                D: T.Tensor((shape), T.float32),
                C: T.Tensor((64,), T.float32),
            ):
                with T.Kernel(1, threads=64):
                    for i in T.Parallel(64):
                        C[i] = A[i]

            return main

        return k
    """
    assert not check_source("kernel.py", whole(text), "cuda:sm_90").all_problems()


def test_a_private_array_may_have_a_layout_that_says_nothing():
    text = """
    @tilelang.jit
    def k(A):
        A: T.Tensor((128,), T.float32)
        with T.Kernel(1, threads=128):
            own = T.alloc_local([1], T.float32)
            T.annotate_layout({own: T.Fragment(own.shape, forward_thread_fn=lambda i: i)})
            own[0] = 2.0
            for i in T.Parallel(128):
                A[i] = A[i] * own[0]
    """
    assert not check_source("kernel.py", whole(text), "cuda:sm_90").all_problems()


def test_numbers_that_only_a_call_gives_are_no_mistakes() -> None:
    text = """import tilelang
import tilelang.language as T


@tilelang.jit
def k(A, stages: int, cluster: int, vec: int):
    N = T.const("N")
    A: T.Tensor((64, N), "float32")
    with T.Kernel(8, threads=128, cluster_dims=(cluster, 1, 1)):
        ready = T.alloc_barrier([32 * cluster] * 2)
        free = T.alloc_barrier(stages)
        f = T.alloc_fragment((64, N), "float32")
        T.annotate_layout({f: T.Fragment((64, N), lambda i, j: (i % 32, i // 32 * N + j))})
        T.copy(A, f)
        T.barrier_arrive(ready[0])
        T.barrier_wait(free[0], 0)
"""
    assert rules_with(text) == []
    told = text.replace("alloc_barrier(stages)", "alloc_barrier(0)").replace("(cluster, 1, 1)", "(0,)")
    assert rules_with(told) == ["bad-arguments", "bad-arguments"]


def test_a_kernel_made_in_a_branch_keeps_the_names_around_it() -> None:
    text = """import tilelang
import tilelang.language as T


def small(total: int, heads):
    width, count = 16, heads

    @tilelang.jit
    def build():
        @T.prim_func
        def main(A: T.Tensor((total, count, width), "int8"), B: T.Tensor((total, count, width), "int8")):
            with T.Kernel(total, count, threads=32) as (bx, by):
                for i in T.Parallel(width):
                    B[bx, by, i] = A[bx, by, i]

        return main

    return build()


def chosen(total: int, heads: int):
    if total * heads < 48:
        return small(total, heads)
    return None
"""
    assert rules_with(text) == []
    assert rules_with(text.replace("in T.Parallel(width)", "in T.Parallel(widht)")) == ["unknown-name"]


def test_a_launch_of_either_kind() -> None:
    text = """import tilelang
import tilelang.language as T


def program(cluster: int, blocks: int):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with (
            T.Kernel(1, threads=128)
            if cluster == 1
            else T.ClusterKernel(cluster, cluster_dims=cluster, threads=128)
        ) as bx:
            T.annotate_min_blocks_per_sm(blocks)
            tx = T.get_thread_binding()
            T.sync_threads()
            B[tx, bx] = A[tx, bx]

    return main
"""
    assert rules_with(text) == []


def test_a_dict_keyed_by_tiles() -> None:
    text = """import tilelang
import tilelang.language as T
from tilelang.layout import make_swizzled_layout


def program(both: bool):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            layouts = {a: make_swizzled_layout(a)}
            if both:
                layouts[b] = layouts[a]
            layouts[a] = make_swizzled_layout(a)
            T.annotate_layout(layouts)
            T.copy(A, a)
            T.copy(a, B)

    return main
"""
    assert rules_with(text) == []
    assert (
        rules_with(text.replace("layouts[b] = layouts[a]", "pass").replace("T.copy(a, B)", "B[a, 0] = 1"))
        != []
    )


def rules_with(text: str) -> list[str]:
    """Rules of the errors of a module."""
    found = check_source("k.py", text, "cuda").all_problems()
    return [p.rule for p in found if p.severity is Severity.ERROR]


def test_a_mistake_in_the_language_s_own_code_is_shown_where_the_author_calls_it():
    """Also where that line has a number that the language's own file does not have."""
    call = "T.BaseTileScheduler(s, s)"
    text = "# one of many lines\n" * 3000 + jitted(body(call))
    text = f"import tilelang\nimport tilelang.language as T\n{text}"
    problems = [p for p in live(text).problems if p.severity is Severity.ERROR]
    assert problems
    assert {text.split("\n")[p.span.line - 1].strip() for p in problems} == {call}
