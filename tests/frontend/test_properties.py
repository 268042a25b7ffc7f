"""Properties: both environments make the same program, and traced arithmetic means what Python means."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import ir, sym
from tvm import tirx as X

from tests.frontend.programs import BUILD, body, jitted, live, script, static
from tilelang.frontend.live import trace_eager, trace_lazy
from tilelang.frontend.specialise import known_specialisations, trace_static
from tilelang.frontend.static_module import StaticModule
from tilelang.ir.build import build_prim_func
from tilelang.ir.tile_program import Store, TileProgram, walk

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_are_the_same_program_read_and_run(path: Path):
    module = StaticModule(str(path), path.read_text(encoding="utf-8"))
    running = imported(path)
    assert module.kernels
    for kernel in module.kernels:
        for specialisation in known_specialisations(module, kernel):
            read = trace_static(module, kernel, specialisation=specialisation)
            values = dict(specialisation.values)
            assert read.complete, (read.problems, read.missing)
            ran = run_live(getattr(running, kernel.name), read, values)
            assert [p.span for p in read.params] == [p.span for p in ran.params]
            same = (build_prim_func(read, BUILD), build_prim_func(ran, BUILD))
            tvm.ir.assert_structural_equal(*same, map_free_vars=True)


def run_live(kernel: Any, read: TileProgram, values: dict[str, Any]) -> TileProgram:
    """The program of a decorated function of running Python."""
    function = kernel.function
    if read.style == "eager":
        return trace_eager(function, values)
    return trace_lazy(function(**values), list(read.outputs), read.name)


# -- arithmetic

NAMES = ("a", "b", "c")


def integers(depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from([*NAMES, "1", "2", "3", "7", "-5"])
    if not depth:
        return leaf
    inner, condition = integers(depth - 1), conditions(depth - 1)
    return st.one_of(
        leaf,
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["//", "%"]), st.sampled_from(["2", "3", "-4", "7"])).map(
            lambda t: f"({t[0]} {t[1]} ({t[2]}))"
        ),
        st.tuples(inner, condition, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        inner.map(lambda x: f"(-{x})"),
        st.tuples(inner, inner).map(lambda t: f"T.max({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"T.min({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"(lambda x, y=3: x * y - {t[1]})({t[0]})"),
    )


def conditions(depth: int) -> st.SearchStrategy[str]:
    inner = integers(max(depth - 1, 0))
    compare = st.tuples(inner, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), inner).map(
        lambda t: f"{t[0]} {t[1]} {t[2]}"
    )
    if not depth:
        return compare
    more = conditions(depth - 1)
    return st.one_of(
        compare,
        st.tuples(inner, inner, inner).map(lambda t: f"{t[0]} < {t[1]} <= {t[2]}"),
        st.tuples(more, st.sampled_from(["and", "or"]), more).map(lambda t: f"(({t[0]}) {t[1]} ({t[2]}))"),
        more.map(lambda x: f"(not ({x}))"),
    )


class PythonT:
    """What the functions of the language mean on numbers."""

    max = staticmethod(max)
    min = staticmethod(min)


def traced(expression: str) -> tuple[Any, dict[str, ir.Var]]:
    """The value that an expression of scalar parameters has in a kernel."""
    text = f"""
        import tilelang
        import tilelang.language as T

        @T.prim_func
        def k(O: T.Tensor((1,), "int32"), a: T.int32, b: T.int32, c: T.int32):
            with T.Kernel(1):
                O[0] = {expression}
    """
    program = static(text)
    assert program.problems == [], program.problems
    (store,) = [n for n in walk(program.body) if isinstance(n, Store)]
    return store.value, {p.name: p.scalar for p in program.params if p.scalar is not None}


def number(value: Any, variables: dict[str, ir.Var], at: dict[str, int]) -> int:
    """The value of an expression with numbers for its variables."""
    if isinstance(value, int):
        return int(value)

    def put(node: ir.Var) -> Any:
        name = next((n for n, v in variables.items() if v.same_as(node)), None)
        return node if name is None else X.IntImm("int32", at[name])

    result = sym.Analyzer().simplify(tvm_ffi.structural_map(value, (ir.Var, put)))
    assert isinstance(result, X.IntImm), result
    return int(result.value)


small = st.integers(-20, 20)


@settings(max_examples=150, deadline=None)
@given(integers(3), small, small, small)
def test_integer_arithmetic_means_what_python_means(expression: str, a: int, b: int, c: int):
    at = {"a": a, "b": b, "c": c}
    value, variables = traced(expression)
    assert number(value, variables, at) == eval(expression, {"T": PythonT, **at})


@settings(max_examples=60, deadline=None)
@given(conditions(3), small, small, small)
def test_conditions_mean_what_python_means(condition: str, a: int, b: int, c: int):
    at = {"a": a, "b": b, "c": c}
    expression = f"1 if {condition} else 0"
    value, variables = traced(expression)
    assert number(value, variables, at) == eval(expression, {"T": PythonT, **at})


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), integers(2)), min_size=1, max_size=5))
def test_statements_are_the_same_program_read_and_run(assignments: list[tuple[str, str]]):
    lines = ["a, b, c = bx, bx * 2, T.get_thread_binding()"]
    lines += [f"{name} = {expression}" for name, expression in assignments]
    lines.append("f[0, 0] = a + b - c")
    text = body("\n".join(lines))
    assert script(live(text)) == script(static(jitted(text)))


# -- half-typed text

KERNEL = jitted(
    body("""
        for i, j in T.Parallel(64, 64):
            f[i, j] = T.max(A[i, j] * 2, 0)
        total = T.alloc_var(T.float32, init=0.0)
        for k in T.Pipelined(N, num_stages=2):
            T.copy(A, s)
            if k % 2 == 0 and B[k] > 0:
                total += B[k]
        T.copy(s, A[0:64, :])
    """)
)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, len(KERNEL)),
    st.integers(0, 30),
    st.sampled_from(["", "(", ")", ".", "[", ":", "T.", "x", "'"]),
)
def test_half_typed_kernels_never_fail(start: int, length: int, typed: str):
    text = (
        "import tilelang\nimport tilelang.language as T\n" + KERNEL[:start] + typed + KERNEL[start + length :]
    )
    module = StaticModule("kernel.py", text)
    try:
        ast.parse(text)
    except SyntaxError:
        assert module.problems and module.kernels == []
        return
    for kernel in module.kernels:
        program = trace_static(module, kernel)
        last = len(text.splitlines())
        assert all(1 <= p.span.line <= p.span.end_line <= last for p in program.problems)
        if program.complete:
            build_prim_func(program, BUILD)


def test_a_kernel_of_two_thousand_lines_is_within_the_limits():
    lines = "\n".join(f"f[{k % 64}, 0] = f[{k % 64}, 1] * {k} + T.exp(B[{k}])" for k in range(2000))
    program = static(jitted(body(lines)))
    assert program.complete and program.problems == []
    assert sum(isinstance(n, Store) for n in walk(program.body)) == 2000
