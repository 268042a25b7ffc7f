"""Modules that are only read: discovery, keys, imports, specialisations."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

import pytest

from tilelang.frontend.environments.specialise import known_specialisations, trace_static
from tilelang.frontend.environments.static_module import StaticModule

KERNEL = """
def k(A):
    A: T.Tensor((BLOCK,), T.float32)
    with T.Kernel(1):
        T.clear(A)
"""


def module(text: str, path: str = "kernel.py") -> StaticModule:
    return StaticModule(path, textwrap.dedent(text).lstrip("\n"))


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("import tilelang", "@tilelang.jit"),
        ("import tilelang as tl", "@tl.jit"),
        ("import tilelang as tl", "@tl.jit(target='cuda')"),
        ("from tilelang import jit", "@jit"),
        ("from tilelang import jit as compiled", "@compiled()"),
        ("import tilelang\nmy_jit = tilelang.jit", "@my_jit"),
        ("import tilelang", "@tilelang.autotune(configs=[])\n@tilelang.jit"),
        ("import tilelang\nimport functools", "@functools.lru_cache\n@tilelang.jit"),
    ],
)
def test_decorators_under_any_name(imports: str, decorator: str):
    text = f"{imports}\nimport tilelang.language as T\nBLOCK = 64\n{decorator}{KERNEL}"
    found = module(text)
    assert [k.qualified_name for k in found.kernels] == ["k"]
    assert trace_static(found, found.kernels[0]).complete


@pytest.mark.parametrize(
    "imports",
    [
        "import tilelang.language as T",
        "from tilelang import language as T",
        "import tilelang.language\nT = tilelang.language",
    ],
)
def test_the_language_under_any_name(imports: str):
    text = f"import tilelang\n{imports}\nBLOCK = 64\n@tilelang.jit{KERNEL}"
    assert trace_static(module(text), module(text).kernels[0]).complete


def test_star_imports_bring_the_language():
    text = """
        import tilelang
        from tilelang.language import *

        @tilelang.jit
        def k(A):
            A: Tensor((64,), float32)
            with Kernel(1):
                clear(A)
    """
    assert trace_static(module(text), module(text).kernels[0]).complete


def test_kernels_in_classes_factories_and_functions():
    text = """
        import tilelang
        import tilelang.language as T

        class Ops:
            @tilelang.jit(out_idx=[-1])
            def add(self, n=8):
                @T.prim_func
                def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
                    with T.Kernel(1):
                        T.copy(A, B)
                return main

        def plain_factory(n=16):
            @T.prim_func
            def main(A: T.Tensor((n,), "float32")):
                with T.Kernel(1):
                    T.clear(A)
            return main

        def make(n=32):
            @tilelang.jit
            def inner(A):
                A: T.Tensor((n,), "float32")
                with T.Kernel(1):
                    T.clear(A)
            return inner

        @T.prim_func
        def alone(A: T.Tensor((64,), "float32")):
            with T.Kernel(1):
                T.clear(A)
    """
    found = module(text)
    assert [(k.qualified_name, k.style) for k in found.kernels] == [
        ("Ops.add", "lazy"),
        ("plain_factory", "lazy"),
        ("make.inner", "eager"),
        ("alone", "lazy"),
    ]
    programs = [trace_static(found, k) for k in found.kernels]
    assert all(p.complete for p in programs)
    assert [p.params[0].buffer.shape for p in programs] == [(8,), (16,), (32,), (64,)]
    assert programs[0].outputs == (1,)


HEAD = "import tilelang\nimport tilelang.language as T\nBLOCK = 64\nOTHER = 1\n"


def key(text: str, name: str = "k") -> str:
    return module(text).kernel(name).key


def test_a_key_does_not_depend_on_where_the_kernel_stands():
    text = f"{HEAD}@tilelang.jit{KERNEL}"
    assert key(text) == key(text.replace("OTHER = 1\n", "OTHER = 1\n\n\n# more\n\n"))
    assert key(text) == key(text.replace("OTHER = 1", "OTHER = 2"))
    assert key(text) == key(text + "\ndef later():\n    return 1\n")


def test_a_key_depends_on_text_and_on_what_it_takes_from_the_module():
    text = f"{HEAD}@tilelang.jit{KERNEL}"
    assert key(text) != key(text.replace("BLOCK = 64", "BLOCK = 32"))
    assert key(text) != key(text.replace("T.clear(A)", "T.clear( A)"))
    assert key(text) != key(text.replace("@tilelang.jit", "@tilelang.jit(target='cpu')"))
    indirect = text.replace("BLOCK = 64", "SIZE = 8\nBLOCK = SIZE * 8")
    assert key(indirect) != key(indirect.replace("SIZE = 8", "SIZE = 4"))
    changed_later = text.replace("BLOCK = 64", "BLOCK = [64]\nBLOCK.append(1)")
    assert key(changed_later) != key(changed_later.replace("append(1)", "append(2)"))


def test_workspace_modules_are_read_and_count_in_the_key(tmp_path: Path):
    (tmp_path / "sizes.py").write_text("BLOCK = 64\nimport kernel_file\n")
    path = str(tmp_path / "kernel_file.py")
    text = f"import tilelang\nimport tilelang.language as T\nfrom sizes import BLOCK\n@tilelang.jit{KERNEL}"
    (tmp_path / "kernel_file.py").write_text(text)
    first = StaticModule(path, text)
    program = trace_static(first, first.kernels[0])
    assert program.params[0].buffer.shape == (64,)
    (tmp_path / "sizes.py").write_text("BLOCK = 32\n")
    assert StaticModule(path, text).kernels[0].key != first.kernels[0].key


def test_nothing_of_the_users_is_executed(tmp_path: Path):
    mark = tmp_path / "mark"
    text = f"""
        import tilelang
        import tilelang.language as T
        import touches
        open({str(mark)!r}, "w")
        __import__("pathlib").Path({str(mark)!r}).touch()

        class Meta(type):
            def __getattr__(cls, name):
                open({str(mark)!r}, "w")

        class Box(metaclass=Meta):
            pass

        BLOCK = Box.anything or 64
        [].__class__.__base__.__subclasses__()

        @tilelang.jit
        def k(A):
            A: T.Tensor((64,), T.float32)
            with T.Kernel(1):
                T.clear(A)
                touches.now()
    """
    (tmp_path / "touches.py").write_text(f"open({str(mark)!r}, 'w')\ndef now(): open({str(mark)!r}, 'w')\n")
    found = module(text, str(tmp_path / "kernel.py"))
    for kernel in found.kernels:
        trace_static(found, kernel)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def k(:\n    pass", "Invalid syntax"),
        ("x = 'never closed", "nterminated string"),
        ("if True:\nx = 1", "xpected an indented block"),
        ("x = \0", "null"),
        ("(" * 500, "never closed"),
    ],
)
def test_text_that_is_no_python_is_one_problem(text: str, said: str):
    found = StaticModule("kernel.py", text)
    (problem,) = found.problems
    assert found.kernels == [] and problem.rule == "syntax-error"
    assert said.lower() in problem.message.lower() or "nest" in problem.message
    assert problem.span.line >= 1 and problem.span.column >= 1


FACTORY = """
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[-1])
def copy_it(N, dtype="float16", block=64):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block)) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i]
    return main
"""


def values(text: str) -> list[dict[str, str]]:
    found = module(text)
    return [dict(s.text()) for s in known_specialisations(found, found.kernels[0])]


def test_calls_in_the_file_give_values():
    host = """
def main(sizes=(100, 200)):
    for n in sizes:
        kernel = copy_it(n, dtype="float32")
"""
    assert values(FACTORY + host) == [
        {"N": "100", "dtype": "float32"},
        {"N": "200", "dtype": "float32"},
    ]
    guard = "\nif __name__ == '__main__':\n    n = 2 ** 10\n    copy_it(n)\n"
    assert values(FACTORY + guard) == [{"N": "1024"}]


def test_autotune_configurations_give_values_beside_calls():
    tuned = FACTORY.replace(
        "@tilelang.jit(out_idx",
        "@tilelang.autotune(configs=[dict(block=b) for b in (32, 64)])\n@tilelang.jit(out_idx",
    )
    assert values(tuned) == [{"block": "32"}, {"block": "64"}]
    assert values(tuned + "\ncopy_it(128)\n") == [
        {"block": "32", "N": "128"},
        {"block": "64", "N": "128"},
    ]


def test_a_comment_at_the_kernel_wins_and_a_choice_over_it():
    text = FACTORY.replace("@tilelang.jit", "# tilelang: specialize(N=512, dtype=T.bfloat16)\n@tilelang.jit")
    text += "\ncopy_it(128)\n"
    found = module(text)
    assert values(text) == [{"N": "512", "dtype": "bfloat16"}]
    program = trace_static(found, found.kernels[0])
    assert program.complete and program.params[0].buffer.shape == (512,)
    assert program.params[0].buffer.dtype == "bfloat16"
    chosen = trace_static(found, found.kernels[0], {"N": "64", "dtype": "float32"})
    assert chosen.params[0].buffer.shape == (64,) and chosen.params[0].buffer.dtype == "float32"
    assert dict(chosen.specialisation) == {"N": "64", "dtype": "float32"}


def test_without_values_sizes_are_missing_and_nothing_is_wrong():
    found = module(FACTORY)
    program = trace_static(found, found.kernels[0])
    assert program.missing == ("N",) and program.problems == [] and not program.complete


@pytest.mark.parametrize(
    "statement",
    [
        "x = sorted(['mark'], key=open)",
        "x = list(map(open, ['mark'], 'w'))",
        "x = itertools.starmap(open, [('mark', 'w')])\nx = list(x)",
        "x = functools.reduce(open, ['mark', 'w'])",
        "x = functools.partial(open, 'mark', 'w')()",
        "x = ['mark']\nx.sort(key=open)",
        "x = max(['mark'], key=lambda p: open(p, 'w'))",
        "x = getattr(__builtins__, 'open')('mark', 'w')",
        "@dataclasses.dataclass\nclass C:\n"
        "    f: object = dataclasses.field(default_factory=lambda: open('mark', 'w'))\nx = C()",
    ],
)
def test_no_way_round_to_a_real_function(statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    StaticModule("kernel.py", f"import dataclasses, functools, itertools\n{statement}\n")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "x = 10 ** 10 ** 10",
        "x = 'a' * 10 ** 12",
        "x = 1\nwhile True:\n    x = x * 2",
        "x = [1]\nfor i in range(100):\n    x.extend(x)",
        "x = 'a'\nfor i in range(100):\n    x = x.replace('a', 'aa')",
        "x = '%1000000000d' % 1",
        "x = f'{1:1000000000}'",
        "x = list(range(10 ** 12))",
        "x = sum(range(10 ** 12))",
        "import itertools\nx = list(itertools.count())",
        "import itertools\nx = list(itertools.product(range(1000), repeat=10))",
        "def f():\n    return f()\nx = f()",
        "x = " + "-" * 5000 + "1",
        "x = " + "+".join(["1"] * 5000),
    ],
)
def test_modules_that_never_end_or_never_fit_are_left_soon(statement: str):
    start = time.perf_counter()
    found = StaticModule("kernel.py", statement + "\n")
    assert time.perf_counter() - start < 3
    assert found.kernels == []


@pytest.mark.parametrize(
    "decorators", ["@staticmethod\n    @tilelang.jit", "@tilelang.jit\n    @staticmethod"]
)
def test_a_static_method_has_no_receiver(decorators: str):
    text = f"""
import tilelang
import tilelang.language as T

class Kernels:
    {decorators}
    def scale(S: int = 64):
        @T.prim_func
        def main(A: T.Tensor((S,), "float32")):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(S):
                    A[i] = A[i] * 2

        return main
"""
    found = module(text)
    program = trace_static(found, found.kernels[0])
    assert not program.problems
    assert program.complete
