"""Modules that kernels import by the paths of release 0.1.15, and names of the tvm that comes with it."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import tilelang.language as T
from tests.diagnostics.fixing import problems
from tilelang.language.released import RELEASED_NAMES
from tilelang.language.released_parts import LANGUAGE_PARTS
from tilelang.released_modules import ELSEWHERE, INTERNALS


@pytest.mark.parametrize("name", [*ELSEWHERE, *LANGUAGE_PARTS])
def test_each_is_imported_and_has_its_names(name):
    module = importlib.import_module(name)
    for home, names in ELSEWHERE.get(name, {}).items():
        for each in () if names == "*" else names.split():
            assert getattr(module, each) is getattr(importlib.import_module(home), each)
    for each in (LANGUAGE_PARTS.get(name) or "").split():
        assert each in RELEASED_NAMES, f"{each} is no name of the language"
        if hasattr(T, each):
            assert getattr(module, each) is getattr(T, each)


def test_parts_of_the_language():
    from tilelang.cuda.language.kernel import Kernel
    from tilelang.language.builtin import sync_threads, tma_store_wait
    from tilelang.language.eager.builder import Macro
    from tilelang.language.tir.op import infinity

    assert (Kernel, sync_threads, tma_store_wait) == (T.Kernel, T.sync_threads, T.tma_store_wait)
    assert infinity is T.infinity and isinstance(T.macro(lambda: None), Macro)


def test_modules_do_not_take_the_place_of_names():
    """Importing a module sets it in its package, where the language may have a function of that name."""
    before = {name: getattr(T, name) for name in dir(T)}
    for module in LANGUAGE_PARTS:
        importlib.import_module(module)
    assert importlib.import_module("tilelang.cuda.language.print").print is T.print
    assert callable(T.print)
    assert {name: getattr(T, name) for name in before} == before


def test_a_kernel_uses_them():
    text = (
        "import tilelang.language as T\n"
        "from tilelang.language.loop import Parallel\n"
        "from tilelang.language.fill_op import fill as set_all\n"
        "@T.prim_func\n"
        "def main(A: T.Tensor((64,), 'float32')):\n"
        "    with T.Kernel(1, threads=32):\n"
        "        s = T.alloc_shared((64,), 'float32')\n"
        "        set_all(s)\n"
        "        for i in Parallel(64):\n"
        "            A[i] = s[i]\n"
    )
    assert [p.span.line for p in problems(text)] == [8]


@pytest.mark.parametrize("name", INTERNALS)
def test_internals_are_refused_in_words(name):
    with pytest.raises(ModuleNotFoundError, match=r"here: \w+"):
        importlib.import_module(f"{name}.gemm_of_the_release")


def test_other_names_are_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'tilelang\.no_such_module'"):
        importlib.import_module("tilelang.no_such_module")
    with pytest.raises(AttributeError, match="has no attribute 'gemm'"):
        _ = importlib.import_module("tilelang.language.loop").gemm


def test_importing_the_package_stays_light():
    code = "import sys, tilelang; print(sorted({'tvm', 'torch', 'tilelang.language'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_of_tvm():
    from tilelang import tvm

    assert tvm.arith.Analyzer is tvm.sym.Analyzer and callable(tvm.ffi.get_global_func)

    def adding(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    A[i] = A[i] + 1.0

        return main

    a, b, other = adding(64), adding(64), adding(128)
    assert tvm.ir.structural_equal(a, b) and not tvm.ir.structural_equal(a, other)
    assert tvm.ir.structural_hash(a) == tvm.ir.structural_hash(b) != tvm.ir.structural_hash(other)


class TestWalks:
    def test_visits(self):
        from tvm import tirx as X
        from tvm.tirx.stmt_functor import post_order_visit, pre_order_visit

        from tilelang import tvm

        n = X.Var("n", "int32")
        value = X.Max(n + 1, n * 2)
        seen = []
        post_order_visit(X.Evaluate(value), lambda node: seen.append(type(node).__name__))
        assert seen[0] == "Var" and seen[-1] == "Evaluate" and seen.count("Var") == 1
        seen.clear()
        pre_order_visit(value, lambda node: seen.append(type(node).__name__) or type(node) is X.Max)
        assert seen == ["Max", "Add", "Mul"]
        assert issubclass(X.Add, tvm.ir.PrimExpr)

    def test_changes(self):
        from tvm import tirx as X

        from tilelang.transform.stmt_functor import ir_transform, substitute

        n = X.Var("n", "int32")
        assert str(substitute(n + 1, {n: X.const(4, "int32")}).a) == "4"
        to_mul = lambda node: X.Mul(node.a, node.b) if isinstance(node, X.Add) else None  # noqa: E731
        assert type(ir_transform(X.Evaluate(n + 1), None, to_mul).value) is X.Mul
        assert type(ir_transform(X.Evaluate(n + 1), None, to_mul, ["tirx.Sub"]).value) is X.Add
        five = lambda node: X.const(5, "int32") if isinstance(node, X.Add) else None  # noqa: E731
        assert int(ir_transform(X.Evaluate(n + 1), five, None).value) == 5

    def test_functions_are_made_with_a_buffer_map(self):
        """As a pass of the author's does that changes a kernel's body."""
        import tvm
        from tvm import tirx as X

        from tilelang.jit.tile_function import TileFunction

        a, n = X.decl_buffer((4,), "float32", "A"), X.Var("n", "int32")
        body = X.Evaluate(n)
        made = TileFunction.of(X.PrimFunc([a, n], body))
        again = X.PrimFunc(
            params=list(made.params), body=body, ret_type=made.ret_type, buffer_map=dict(made.buffer_map)
        )
        assert tvm.ir.structural_equal(made, again)
        handle = X.Var("A_handle", "handle")
        given = X.PrimFunc([handle, n], body, buffer_map={handle: a})
        assert [p.name for p in given.params] == ["A", "n"] and X.is_buffer_var(given.params[0])
