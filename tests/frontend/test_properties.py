"""Properties: both environments make the same program, and traced arithmetic means what Python means."""

from __future__ import annotations

import ast
import importlib.util
import re
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
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.frontend.environments.live import trace_eager, trace_lazy
from tilelang.frontend.environments.specialise import known_specialisations, trace_static
from tilelang.frontend.environments.static_module import StaticModule
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
    found = [p for p in program.problems if p.rule != "same-operands"]  # what is drawn may be `a - a`
    assert found == []
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


# -- forms: Python around a kernel, drawn at random and read both ways

SHAPES = st.sampled_from(
    ["(64, 64)", "TILE", "shape(64)", "[64, 64]", "CFG.tile", "SIZES['tile']", "(BLOCK, BLOCK)"]
)
VALUES = st.sampled_from(
    [
        "f[i, j]",
        "s[i, j]",
        "scale(f[i, j])",
        "scale(s[i, j], by=3)",
        "CFG.apply(f[i, j])",
        "ACT['relu'](f[i, j])",
        "partial_scale(f[i, j])",
        "sum([f[i, j], s[i, j], 1.0])",
        "(lambda x: x - CFG.bias)(f[i, j])",
        "T.if_then_else(i < j, f[i, j], s[j, i])",
        "f[i, j] if i > BLOCK // 2 else 0.0",
        "f[i, j] * [1.0, 2.0][len(PAIRS) % 2]",
        "f[i, j] * (3 if 'x' in PAIRS else 5)",
    ]
)
STATEMENTS = st.one_of(
    SHAPES.map(lambda shape: f"t = T.alloc_fragment({shape}, T.float32)\nT.clear(t)\nT.copy(t, f)"),
    VALUES.map(lambda value: f"for i, j in T.Parallel(64, 64):\n    f[i, j] = {value}"),
    VALUES.map(lambda value: f"for i, j in T.Parallel(*TILE):\n    v = {value}\n    s[i, j] = v"),
    st.sampled_from(["f", "s"]).map(
        lambda tile: f"for t in (s, f):\n    T.copy({tile}, t) if t is not {tile} else None"
    ),
    st.sampled_from(
        ["load(A, s)", "load(A, dst=f, times=2)", "load(*[A, s])", "load(**{'src': A, 'dst': f})"]
    ),
    st.sampled_from(["fill(f)", "fill(s, 2.0)", "f2 = fill(f, value=CFG.bias)\nT.copy(f2, s)"]),
    st.sampled_from(
        [
            "match CFG.mode:\n    case 'fast':\n        T.clear(f)\n    case _:\n        T.clear(s)",
            "if CFG.bias > 1 and BLOCK == 64:\n    T.clear(s)\nelse:\n    T.clear(f)",
            "for n, (a, b) in enumerate(zip(PAIRS, PAIRS.values())):\n    f[n, b] = len(a) * b",
            "for k in range(2):\n    f[k, k] = s[k, 0]",
            "for k in [x for x in (1, 2, 3) if x % 2]:\n    f[k, 0] = s[0, k]",
            "if (half := BLOCK // 2) > 8:\n    f[half, 0] = half",
            "try:\n    extra = PAIRS['none']\nexcept KeyError:\n    extra = 7\nf[0, 0] = extra",
            "n = T.alloc_var(T.int32, init=3)\nn = n + bx\nf[n, 0] = n",
            "if bx == 1:\n    f[0, 0] = bx\nelif bx > 2:\n    s[0, 0] = 1\nelse:\n    T.clear(s)",
            "while n_of(f[0, 0]) > 3:\n    f[0, 0] = f[0, 0] - 1",
            "dims = {axis: size for axis, size in zip('mn', TILE)}\nf[dims['m'] - 1, dims['n'] - 1] = 1",
            "*rest, last = (1, 2, 3)\nf[last, rest[0]] = s[0, 0]",
            "x, y = f[0, 0], s[0, 0]\nx, y = y, x\nf[0, 1] = x\ns[0, 1] = y",
        ]
    ),
)
AROUND = """
import functools
import math
from dataclasses import dataclass, replace

BLOCK = 64
TILE = (BLOCK, 64)
SIZES = {"tile": TILE}
PAIRS = {"x": 1, "yy": 2}
ACT = {"relu": lambda x: T.max(x, 0)}


@dataclass(frozen=True)
class Config:
    bias: float = 2.0
    mode: str = "slow"

    @property
    def tile(self):
        return BLOCK, BLOCK

    def apply(self, x):
        return x * self.bias + math.sqrt(4.0)


CFG = replace(Config(), mode="fast")


@functools.lru_cache(maxsize=None)
def shape(n):
    return n, n


def scale(x, by=2.0):
    return x * by


partial_scale = functools.partial(scale, by=4.0)


def n_of(x):
    return x + 1


@T.macro
def load(src, dst, *, times=1):
    for _ in range(times):
        T.copy(src, dst)


@T.macro
def fill(tile, value=1.0):
    T.fill(tile, value)
    return tile

"""


def around(kernel: str) -> str:
    return f"import tilelang\nimport tilelang.language as T\n{AROUND}\n{kernel.lstrip()}"


def messages(problems: list[Problem]) -> list[str]:
    """What is said, whatever lines it names: the decorator of one of the two texts is a line more."""
    return [re.sub(r"line \d+", "line", p.message) for p in problems]


@settings(max_examples=60, deadline=None)
@given(st.lists(STATEMENTS, min_size=1, max_size=4))
def test_forms_are_the_same_program_read_and_run(statements: list[str]):
    text = body("\n".join(statements))
    read, ran = static(around(jitted(text))), live(around(text))
    assert messages(read.problems) == messages(ran.problems)
    assert read.problems == [] or all(p.severity is not Severity.ERROR for p in read.problems), read.problems
    assert script(ran) == script(read)


MISTAKES = st.sampled_from(
    [
        "f[0, 0] = max(f[0, 1], 2)",
        "f[0, 0] = 1 if bx in (1, 2) else 0",
        "if bool(f[0, 0]):\n    T.clear(f)",
        "T.copy(A)",
        "T.copy(A, f, wide=4)",
        "total = 0.0\nfor i in T.serial(4):\n    total = total + f[0, i]",
        "f[0] = 1",
        "f[0, bx / 2] = 1",
        "f[0, 0] = undefined_name",
        "f[0, 0] = PAIRS['none']",
        "f[0, 0] = [1, 2][bx]",
        "n = T.alloc_var(T.int32)\nfor n in T.serial(4):\n    f[n, 0] = 1",
        "print(f'{bx}')",
        "f += 1",
        "f[0, 0] = scale(f[0, 0], 1, 2)",
        "assert BLOCK == 63",
        "match bx:\n    case 1:\n        T.clear(f)",
        "helper(f)",
        "pause()",
    ]
)
PLAIN = "\ndef helper(tile):\n    T.clear(tile)\n\n\ndef pause():\n    T.sync_threads()\n\n"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(STATEMENTS, MISTAKES), min_size=1, max_size=4))
def test_mistakes_are_the_same_read_and_run(statements: list[str]):
    text = PLAIN + body("\n".join(statements))
    read, ran = static(around(jitted(text))), live(around(text))
    assert [(p.rule, p.severity, shifted(p.span.line, 1)) for p in read.problems] == [
        (p.rule, p.severity, p.span.line) for p in ran.problems
    ]


def shifted(line: int, decorators: int) -> int:
    """A line of the module that is read, in the one that runs: the kernel there has no decorator."""
    return line - decorators if line > len(around(PLAIN).splitlines()) else line
