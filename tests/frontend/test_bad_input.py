"""Files that no author means to write and every tool meets: an honest answer, soon, no wrong error."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule

HEAD = "import tilelang\nimport tilelang.language as T\n"
SECONDS = 60


def kernel(statements: str, before: str = "") -> str:
    body = "\n".join(f"        {line}" for line in statements.split("\n"))
    return (
        f"{HEAD}{before}@tilelang.jit\ndef k(A):\n    A: T.Tensor((128,), T.float32)\n"
        f"    with T.Kernel(1, threads=128) as bx:\n{body}\n"
    )


def problems(text: str) -> list[Problem]:
    start = time.process_time()  # a machine that is busy with other things makes no answer late
    found = check_source("kernel.py", text, "cuda:sm_90").all_problems()
    assert time.process_time() - start < SECONDS
    assert not any(p.rule == "internal-error" for p in found), found
    return found


def nested(opening: str, inner: str, closing: str, depth: int) -> str:
    return opening * depth + inner + closing * depth


@pytest.mark.parametrize(
    "statements",
    [
        "A[0] = " + nested("(", "A[1] + 1", ")", 190),
        "A[0] = " + nested("(A[1] + ", "1", ")", 90),
        "A[0] = " + nested("T.exp(", "A[1]", ")", 90),
        "A[0] = " + " + ".join(f"A[{i % 128}]" for i in range(300)),
        "if " + " and ".join(f"bx > {i}" for i in range(300)) + ":\n    A[0] = 1",
        "x = " + nested("[", "", "]", 150),
        "A[0] = " + " ".join(f"{i} if bx > {i} else" for i in range(150)) + " 0",
        "\n".join("    " * i + f"if bx > {i}:" for i in range(60)) + "\n" + "    " * 60 + "A[0] = 1",
        "\n".join("    " * i + f"for i{i} in T.serial(2):" for i in range(16))
        + "\n"
        + "    " * 16
        + "A[0] = 1",
        "; ".join(["A[0] = 1"] * 500),
        "x" + "y" * 50_000 + " = 1",
        "x = '" + "y" * 500_000 + "'",
    ],
    ids=lambda text: text[:24],
)
def test_long_and_deep_code_is_read(statements: str):
    assert problems(kernel(statements)) == []


@pytest.mark.parametrize(
    "inner",
    ["s[0] = A[bx]\nA[bx] = s[0]", "s[0] = s[0] + A[bx]\nT.copy(s, f)\nT.copy(f, A)\nT.clear(s)"],
    ids=["element", "tiles"],
)
def test_loops_in_loops_are_gone_through_once_for_each_state(inner: str):
    depth = 18
    loops = "\n".join("    " * i + f"for i{i} in T.serial(2):" for i in range(depth))
    body = "\n".join("    " * depth + line for line in inner.split("\n"))
    tiles = "s = T.alloc_shared((128,), T.float32)\nf = T.alloc_fragment((128,), T.float32)\nT.clear(s)\n"

    assert not [p for p in problems(kernel(f"{tiles}{loops}\n{body}")) if p.severity is Severity.ERROR]


@pytest.mark.parametrize("use", ["hash({})", "{} == {}", "str({})", "sorted({})", "f'{{{}}}'"])
def test_containers_of_large_containers_are_left(use: str):
    large = "(((1,) * 10 ** 6,) * 10 ** 6)"
    problems(kernel(f"x = {use.replace('{}', large)}\nA[0] = 1"))


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ("A[0] = " + " + ".join(f"A[{i % 128}]" for i in range(800)), "799 operators behind each other"),
        ("if " + " and ".join(f"bx > {i}" for i in range(2000)) + ":\n    A[0] = 1", "2000 operators"),
        ("if " + " < ".join(["bx"] * 1000) + ":\n    A[0] = 1", "999 operators"),
        ("A[0] = sum([A[i] for i in range(128)] * 4)", "512 operators"),
        ("x = A" + ".shape" * 500, "nested too deeply"),
        ("A[0] = " + "-" * 900 + "A[1]", "nested too deeply"),
        (
            "if bx == 0:\n    A[0] = 1" + "".join(f"\nelif bx == {i}:\n    A[1] = 1" for i in range(1, 500)),
            "nested",
        ),
        ("for i in list(range(1000)):\n    for j in list(range(1000)):\n        A[0] = j", "steps"),
        ("t = [i * j for i in range(10 ** 4) for j in range(10 ** 4)]", "steps"),
        ("f = lambda x: f(x)\nA[0] = f(1)", "calls itself"),
    ],
    ids=lambda text: text[:24],
)
def test_what_is_too_much_is_a_hint_that_says_so(statements: str, said: str):
    found = problems(kernel(statements))
    assert [(p.rule, p.severity) for p in found] == [("step-limit", Severity.HINT)], found
    assert said in found[0].message


@pytest.mark.parametrize(
    ("before", "use", "said"),
    [
        ("x = 0\nfor i in range(10 ** 9):\n    x += 1\n", "A[0] = x", "`x` is made by a loop"),
        ("def f(n):\n    return f(n)\n", "A[0] = f(1)", "calls itself"),
        ("@T.macro\ndef f(t):\n    T.clear(t)\n    f(t)\n", "f(A)", "calls itself"),
        ("def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\n", "A[0] = f(30)", "steps"),
        ("class C:\n    def __init__(self):\n        self.c = C()\n", "C()", "calls itself"),
        (
            "class C:\n    @property\n    def p(self):\n        return self.p\nx = C()\n",
            "A[0] = x.p",
            "calls itself",
        ),
    ],
    ids=["loop", "function", "macro", "branches", "class", "property"],
)
def test_helpers_that_never_end_are_left(before: str, use: str, said: str):
    (problem,) = problems(kernel(use, before))
    assert problem.rule == "step-limit" and said in problem.message


@pytest.mark.parametrize(
    "call",
    ["math.factorial(10 ** 6)", "math.comb(10 ** 6, 5 * 10 ** 5)", "math.perm(10 ** 5)", "pow(3, 10 ** 9)"],
)
def test_numbers_that_take_too_long_are_left(call: str):
    assert problems(kernel(f"A[0] = {call}", "import math\n")) == []


@pytest.mark.parametrize("use", ["A[10 ** 40] = 1", "A[0] = 7 ** 9000", "A[0] = A[-(10 ** 30)]"])
def test_numbers_beyond_all_machines_are_no_failure(use: str):
    problems(kernel(use))


def test_a_kernel_nested_beyond_reason_is_a_hint():
    text = kernel(
        "if bx == 0:\n    A[0] = 1" + "".join(f"\nelif bx == {i}:\n    A[1] = 1" for i in range(1, 990))
    )
    (problem,) = problems(text)
    # Python's own parser gives up on it before 3.12; newer ones hand it on.
    assert problem.rule == "step-limit"
    assert "nested too deeply" in problem.message or "4999 operators behind each other" in problem.message


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads them all but the last")
@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("type X = int", "3.12"),
        ("def f[X](x: X) -> X: return x", "3.12"),
        ("class C[X]: pass", "3.12"),
        ("x = f'{'a'}'", "3.12"),
        ("def f[X = int](x): pass", "3.13"),
        ("x = t'{1}'", "3.14"),
        ("try: pass\nexcept A, B: pass", "3.14"),
    ],
)
def test_what_a_newer_python_may_read_is_no_error(line: str, version: str):
    (problem,) = problems(f"{line}\n{kernel('A[0] = 1')}")
    assert (problem.rule, problem.severity) == ("syntax-error", Severity.WARNING)
    assert f"meant for Python {version} or newer" in problem.message


def test_a_null_byte_is_shown_where_it_is():
    (problem,) = problems(kernel("A[0] = 1\0"))
    assert (problem.span.line, problem.span.column) == (7, 17)


def test_a_file_beyond_the_parser_is_a_hint():
    (problem,) = problems(kernel("A[0] = " + " + ".join(["1"] * 5000)))
    # Python's own parser gives up on it before 3.12; newer ones hand it on.
    assert problem.rule == "step-limit"
    assert "nested too deeply" in problem.message or "4999 operators behind each other" in problem.message


MISSPELT = kernel("A[0] = fooo")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("\ufeff" + MISSPELT, 7, 16),
        (MISSPELT.replace("\n", "\r\n"), 7, 16),
        (MISSPELT.replace("\n", "\r"), 7, 16),
        (MISSPELT.replace("\n", "\r\n", 3), 7, 16),
        (MISSPELT.replace("    ", "\t"), 7, 10),
        (MISSPELT.replace("@tilelang", "\x0c\n@tilelang"), 8, 16),
        (kernel("x = 'a\x0bb\x1cc\u2028d\x85e'; A[0] = fooo"), 7, 33),
        (kernel("x = '🎉🎉'; A[0] = fooo"), 7, 26),
        (kernel("größe = 1; A[0] = größe + fooo"), 7, 35),
        (kernel("A[0] = \\\n    fooo"), 8, 13),
    ],
    ids=["bom", "crlf", "cr", "mixed", "tabs", "form feed", "separators", "emoji", "umlauts", "continued"],
)
def test_places_are_right_whatever_ends_or_indents_lines(text: str, line: int, column: int):
    (problem,) = problems(text)
    assert problem.rule == "unknown-name"
    assert (problem.span.line, problem.span.column) == (line, column)


@pytest.mark.parametrize("text", ["", "\ufeff", "# only a comment", "\n\n\n", "\x0c", "x = 1", "'''text'''"])
def test_files_without_kernels_are_silent(text: str):
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (kernel("A[0] = 1\0"), "null"),
        (kernel("A[0] = " + nested("(", "1", ")", 1000)), "nested"),
        (kernel("A[0] = 1").replace("        A[0]", "\tA[0]"), "tabs"),
    ],
)
def test_what_python_refuses_is_one_error(text: str, said: str):
    (problem,) = problems(text)
    assert problem.rule == "syntax-error" and said in problem.message.lower()


def test_generated_kernels_of_five_thousand_lines():
    lines = "\n".join(f"A[{i % 128}] = A[{i * 7 % 128}] * {i} + {i}" for i in range(5000))
    text = kernel(lines)
    assert problems(text) == []
    module = StaticModule("kernel.py", text)
    assert trace_static(module, module.kernels[0]).complete


def test_imports_in_circles(tmp_path: Path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("from .sizes import BLOCK\n")
    (tmp_path / "pack" / "sizes.py").write_text("from . import tiles\nBLOCK = 64\n")
    (tmp_path / "pack" / "tiles.py").write_text(
        "import tilelang.language as T\nfrom . import sizes\nfrom .sizes import *\n\n\n"
        "@T.macro\ndef load(src, dst):\n    T.copy(src, dst)\n"
    )
    text = HEAD + (
        "from .sizes import BLOCK\nfrom . import tiles, kernel_file\nfrom .tiles import load as fetch\n\n\n"
        "@tilelang.jit\ndef k(A):\n    A: T.Tensor((BLOCK,), T.float32)\n    with T.Kernel(1, threads=64):\n"
        "        s = T.alloc_shared((BLOCK,), T.float32)\n        fetch(A, s)\n        tiles.load(s, A)\n"
    )
    path = tmp_path / "pack" / "kernel_file.py"
    path.write_text(text)
    module = StaticModule(str(path), text)
    program = trace_static(module, module.kernels[0])
    assert program.problems == [] and program.complete
    assert program.params[0].buffer is not None and program.params[0].buffer.shape == (64,)


def test_numbers_beyond_32_bits_stand_where_any_number_may():
    text = """
import tilelang
import tilelang.language as T


@T.prim_func
def main(A: T.Tensor((128,), "int64"), B: T.Tensor((128,), "uint32")):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(128):
            A[i] = T.Select(A[i] > 0, 2**40, 0) + T.if_then_else(A[i] > 5, 2**63, 1)
            A[i] += T.truncdiv(2**40, A[i]) + T.truncdiv(2**40, 3) + T.popcount(2**40)
            B[i] = T.match_any_sync(0xFFFFFFFF, B[i])
            A[i] += T.shfl_sync(2**33, 0)
            T.print(2**40)
"""
    assert [p for p in problems(text) if p.rule != "guarded-tail"] == []


def test_generated_constants_by_the_thousands():
    """A module is read in time that grows with its length only."""

    def seconds(count: int) -> float:
        constants = "\n".join(f"C{i} = {i}" for i in range(count))
        start = time.process_time()
        assert len(StaticModule("kernel.py", kernel("A[0] = C7", f"{constants}\n")).kernels) == 1
        return time.process_time() - start

    seconds(100)
    few, many = (min(seconds(count) for _ in range(2)) for count in (1000, 8000))
    assert many < 40 * max(few, 0.05), "eight times as many take 8 times as long, or 64 times if quadratic"
