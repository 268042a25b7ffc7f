"""Functions as values: operators of `operator`, `map` and `reduce`, cached helpers, objects that are called.

They get elements of tiles, and mean in running Python what they mean in a file.
"""

from __future__ import annotations

import sys

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.frontend.programs import jitted, live, script, static
from tilelang.frontend.environments.static_module import StaticModule

HEAD = """
import collections
import functools
import operator
import tilelang
import tilelang.language as T

OPS = {"plus": operator.add, "less": operator.lt, "minus": operator.neg}

@functools.cache
def twice(x):
    return x + x

class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by

scale = Scale(3)
Pair = collections.namedtuple("Pair", "first second")

def k(A, B):
    A: T.Tensor((64,), T.int32)
    B: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=32):
        v = T.alloc_var(T.int32, init=2)
        for i in T.Parallel(64):
            B[i] = {}
"""
SAME = [
    ("operator.add(A[i], B[i])", "A[i] + B[i]"),
    ("OPS['plus'](A[i], v)", "A[i] + v"),
    ("OPS['minus'](operator.mod(A[i], 3))", "-(A[i] % 3)"),
    ("T.if_then_else(OPS['less'](A[i], v), 1, 2)", "T.if_then_else(A[i] < v, 1, 2)"),
    ("functools.reduce(operator.mul, [A[i], B[i], 2])", "B[i] = element * element_1 * 2"),
    ("functools.partial(operator.sub, 5)(A[i])", "5 - A[i]"),
    ("sum(map(operator.mul, [A[i], B[i]], [2, 3]))", "B[i] = element * 2 + element_1 * 3"),
    ("twice(A[i])", "B[i] = x + x"),
    ("scale(A[i])", "B[i] = x * 3"),
    ("functools.reduce(lambda a, b: a - b, [A[i], B[i]], 7)", "B[i] = 7 - element - element_1"),
]


@pytest.mark.parametrize(("written", "meant"), SAME, ids=[w for w, _ in SAME])
def test_both_environments_know_what_is_meant(written: str, meant: str):
    text = HEAD.replace("B[i] = {}", f"B[i] = {written}")
    ran = script(live(text))
    assert ran == script(static(jitted(text)))
    if meant.startswith("B"):  # what a list or a function of the kernel's own gets is read before
        assert meant in ran
    else:
        assert ran == script(live(HEAD.replace("B[i] = {}", f"B[i] = {meant}")))


def test_a_container_keeps_an_element_as_it_was():
    """`append` in running Python reads the element where it stands, as a list display does."""
    text = HEAD.replace(
        "B[i] = {}", "xs = []\n            xs.append(A[i])\n            A[i] = 0\n            B[i] = xs[0]"
    )
    lines = [line.strip() for line in script(live(text)).splitlines()]
    bind = next(k for k, line in enumerate(lines) if line.endswith("= A[i]"))
    assert lines[bind + 1] == "A[i] = 0" and lines[bind + 2] == f"B[i] = {lines[bind].split(':')[0]}"
    assert script(live(text)) == script(static(jitted(text)))


@pytest.mark.parametrize(
    ("written", "rule", "said"),
    [
        ("operator.add(A[i], A)", "tile-as-scalar", "`A` is a tile of (64,)"),
        ("operator.floordiv(A[i], 0)", "python-error", "division by zero"),
        ("operator.lshift(A[i] * 0.5, 1)", "unsupported-python", "`<<` needs integers"),
        ("functools.reduce(operator.add, [])", "python-error", "reduce() of empty iterable"),
    ],
)
def test_mistakes_are_the_same_in_both(written: str, rule: str, said: str):
    text = HEAD.replace("B[i] = {}", f"B[i] = {written}")
    for program in (live(text), static(jitted(text))):
        (problem,) = [p for p in program.problems if p.severity.value == "error"]
        assert problem.rule == rule and said in problem.message
        assert problem.span.column == 20 or rule == "tile-as-scalar"


def test_reduce_at_module_level():
    module = StaticModule(
        "m.py", "import functools, operator\nN = functools.reduce(operator.mul, [2, 3, 4], 5)\n"
    )
    assert module.scope.names["N"] == 120


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not say where instructions stand")
def test_of_several_lambdas_in_a_line_the_right_one_is_read() -> None:
    # fmt: off
    first, second = lambda x: x + 1.0, lambda x: (lambda y: y * 2.0)(x)
    # fmt: on

    def elementwise(function):
        @T.prim_func
        def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(4):
                    B[i] = function(A[i])

        return tilelang.compile(main, target="cpu", out_idx=1)(torch.full((4,), 3.0))

    assert torch.equal(elementwise(first), torch.full((4,), 4.0))
    assert torch.equal(elementwise(second), torch.full((4,), 6.0))
