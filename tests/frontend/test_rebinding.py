"""Names that a module or a notebook binds several times: a kernel sees what they are when it is called."""

from __future__ import annotations

import pytest

from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.frontend.environments.specialise import known_specialisations
from tilelang.frontend.environments.static_module import StaticModule

HEAD = """import tilelang
import tilelang.language as T

BLOCK = {first}


@tilelang.jit
def k(A):
    A: T.Tensor((64,), T.float32)
    with T.Kernel(1, threads=64):
        f = T.alloc_fragment((BLOCK,), T.float32)
        T.copy(A, f)
        T.copy(f, A)


def make(n):
    @tilelang.jit
    def made(A):
        A: T.Tensor((64,), T.float32)
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((n,), T.float32)
            T.copy(A, f)
            T.copy(f, A)

    return made


"""


def loud(text: str, path: str = "kernel.py") -> list[Problem]:
    found = check_source(path, text, "cuda:sm_90").all_problems()
    return [p for p in found if p.severity in (Severity.ERROR, Severity.WARNING)]


@pytest.mark.parametrize(
    ("first", "host", "wrong"),
    [
        (64, "k(x)\nBLOCK = 48\n", set()),
        (48, "k(x)\nBLOCK = 64\n", {"error"}),
        (48, "BLOCK = 64\nk(x)\n", set()),
        (48, "BLOCK = 64\nk(x)\nBLOCK = 32\n", set()),
        (64, "k(x)\nBLOCK = 48\nk(x)\n", {"warning"}),
        (64, "made = make(BLOCK)\nBLOCK = 48\nmade(x)\nBLOCK = 64\n", set()),
        (48, "made = make(BLOCK)\nBLOCK = 64\nmade(x)\n", {"error"}),
        (48, "def run():\n    k(x)\n\nBLOCK = 64\nrun()\nBLOCK = 48\n", set()),
        (48, "if __name__ == '__main__':\n    BLOCK = 64\n    k(x)\n", set()),
        (48, "if __name__ == '__main__':\n    BLOCK = 64\n    k(x)\n    BLOCK = 32\n    k(x)\n", {"warning"}),
    ],
)
def test_a_call_sees_the_values_of_its_time(first: int, host: str, wrong: set[str]):
    found = loud(HEAD.format(first=first) + host)
    if "made" not in host:
        found = [p for p in found if p.span.line < 15]
    assert {p.severity.value for p in found} == wrong, found


def test_a_container_changed_later_is_seen_as_it_was():
    text = HEAD.format(first="[64]").replace("(BLOCK,)", "(BLOCK[0],)")
    assert loud(text + "k(x)\nBLOCK[0] = 48\n") == []
    assert loud(text + "BLOCK[0] = 48\nk(x)\n") != []


def test_names_that_only_a_program_has_are_not_missing():
    text = HEAD.format(first=64).replace("(BLOCK,)", "(SIZE,)")
    assert loud(text + "if __name__ == '__main__':\n    SIZE = 64\n    k(x)\n") == []
    (*_, last) = loud(text + "if __name__ == '__main__':\n    SIZE = 48\n    k(x)\n")
    assert last.rule == "copy-shape"


def test_a_warning_names_the_value():
    found = loud(HEAD.format(first=64) + "k(x)\nBLOCK = 48\nk(x)\n")
    assert found[0].message.startswith("with BLOCK=48: "), found


def test_a_notebook_whose_calls_are_not_seen_stays_silent():
    cells = HEAD.format(first=64) + "\nBLOCK = 48\n"
    assert loud(cells, "book.ipynb") == []
    assert loud(cells, "module.py") != []  # whoever imports it finds 48
    assert loud(HEAD.format(first=48) + "\nOTHER = 1\nOTHER = 2\n", "book.ipynb") != []


def test_kernels_redefined_in_cells_are_told_apart():
    one = HEAD.format(first=64)
    two = one.replace("BLOCK = 64", "BLOCK = 48").replace("(64,)", "(48,)").replace("(1, threads=64)", "(1)")
    assert loud(one + "k(x)\n" + two + "k(x)\n", "book.ipynb") == []


def test_keys_follow_what_calls_take_from_the_module():
    def keys(host: str, first: int = 64) -> dict[str, str]:
        module = StaticModule("kernel.py", HEAD.format(first=first) + host)
        return {k.qualified_name: k.key for k in module.kernels}

    host = "n = BLOCK\nmade = make(n)\n"
    assert keys(host)["make.made"] != keys(host, 32)["make.made"]
    early, late = "k(x)\nBLOCK = 48\n", "BLOCK = 48\nk(x)\n"
    assert keys(early)["k"] != keys(late)["k"]
    # What another kernel computes says nothing about the calls of this one.
    other = "\n@tilelang.jit\ndef other(A):\n    A: T.Tensor((BLOCK,), T.float32)\n    with T.Kernel(1):\n"
    calls = "\n\ndef main():\n    k(x)\n    other(x)\n"
    one, two = (keys(other + f"        T.fill(A, {n})\n" + calls) for n in (1, 2))
    assert one["k"] == two["k"] and one["other"] != two["other"]


def test_calls_with_the_same_names_are_one_specialisation():
    module = StaticModule("kernel.py", HEAD.format(first=64) + "k(x)\nk(y)\nBLOCK = 48\nk(z)\n")
    found = known_specialisations(module, module.kernel("k"))
    assert [s.text() for s in found] == [(("BLOCK", "64"),), (("BLOCK", "48"),)]


@pytest.mark.parametrize(
    "before",
    [
        "X = []\nX.append(X)\n",
        "X = {}\nX['a'] = X\n",
        "X = []\nfor i in range(5000): X = [X]\n",
        "X = X = []\n",
    ],
)
def test_containers_that_hold_themselves_are_read(before: str):
    assert loud(HEAD.format(first=64) + before) == []


@pytest.mark.parametrize(("value", "stored"), [("T.alloc_var('int32', init=7)", True), ("other", False)])
def test_a_variable_that_an_option_makes_is_stored_to(value: str, stored: bool):
    """`x = T.alloc_var(...) if option else 0` is the variable; another's name on the right is its value."""
    text = f"""import tilelang
import tilelang.language as T


@tilelang.jit
def k(A, option: bool = True):
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1, threads=32):
        other = T.alloc_var("int32", init=1)
        x = {value} if option else 0
        for i in T.serial(8):
            A[i] = x + other
            if option:
                x = A[7 - i]
"""
    rules = {p.rule for p in loud(text)}
    assert rules == (set() if stored else {"rebinding-escapes"})
