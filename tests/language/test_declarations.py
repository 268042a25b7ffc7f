"""What users write as T.*: every name is declared, typed, documented, and means nothing outside a kernel."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import tilelang.language as T
from tilelang.arch.dtypes import DTYPES
from tilelang.language.dtypes import DTYPE_ALIASES
from tilelang.language.names import LANGUAGE, Entry, declared_name
from tilelang.language.values import DynamicSize, OutsideKernelError, SizeExpression
from tilelang.language.vector_dtypes import VECTOR_NAMES

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = sorted(n for n in LANGUAGE if inspect.isfunction(getattr(T, n)))
# What answers outside kernels too, where plain Python computes with it while a module is imported.
HOST = {
    *("ceildiv", "cdiv", "align_up", "floordiv", "floormod", "truncdiv", "truncmod", "shift_left"),
    *("shift_right", "bitwise_and", "bitwise_or", "bitwise_xor", "max", "min"),  # arithmetic on numbers
    *("get_mma_micro_size", "get_ldmatrix_offset", "get_swizzle_layout", "mma_store_index_map"),
    *("max_value", "min_value", "infinity", "index_to_coordinates"),
    *("dynamic", "symbolic", "Var", "SizeVar"),  # sizes
    *("prim_func", "macro", "inline", "meta_class"),  # decorators
}
# And what is asked about a dtype: arguments that it answers for, its answer, and the same arguments with what
# is no dtype in the dtype's place.
ABOUT_DTYPES: dict[str, tuple[tuple[Any, ...], Any, tuple[Any, ...]]] = {
    "cast": ((3.9, "int8"), 3, (3.9, "int9")),
    "Cast": (("int8", 3.9), 3, ("int9", 3.9)),
    "get_tvm_dtype": (("half",), "float16", ("int9",)),
    "is_float4": (("float4_e2m1fn",), True, ("int9",)),
    "is_float4_e2m1fn": (("int8",), False, ("int9",)),
    "is_float4_e2m1_unpacked": (("float4_e2m1fn",), False, ("int9",)),
    "is_f8f6f4_family": (("float8_e5m2",), True, ("int9",)),
}


def test_all_is_the_language_and_its_error():
    assert set(T.__all__) == {*LANGUAGE, "OutsideKernelError"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_documented_and_annotated(name: str):
    function = getattr(T, name)
    assert (function.__doc__ or "").strip().endswith((".", "`", ":")), function.__doc__
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - HOST - {*ABOUT_DTYPES}))
def test_calling_it_outside_a_kernel_says_so(name: str):
    parameters = inspect.signature(getattr(T, name)).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    required = [1 for p in needed if p.kind is not p.KEYWORD_ONLY]
    named = {p.name: 1 for p in needed if p.kind is p.KEYWORD_ONLY}
    with pytest.raises(OutsideKernelError, match=rf"T\.{name} was called outside a kernel"):
        getattr(T, name)(*required, **named)


@pytest.mark.parametrize("name", ABOUT_DTYPES)
def test_questions_about_dtypes_are_answered_outside_kernels(name: str):
    arguments, answer, wrong = ABOUT_DTYPES[name]
    assert getattr(T, name)(*arguments) == answer
    with pytest.raises(ValueError, match="unknown dtype 'int9'; did you mean 'int'"):
        getattr(T, name)(*wrong)


@pytest.mark.parametrize(("name", "arguments"), [("cast", (None, "int8")), ("Cast", ("int8", None))])
def test_only_numbers_are_cast_outside_kernels(name: str, arguments: tuple[Any, ...]):
    with pytest.raises(OutsideKernelError, match=rf"T\.{name} was called outside a kernel"):
        getattr(T, name)(*arguments)


@pytest.mark.parametrize(("name", "entry"), LANGUAGE.items())
def test_entries_name_real_parameters(name: str, entry: Entry):
    declared = getattr(T, name)
    if entry.unsupported:
        parameters = inspect.signature(declared).parameters
        assert entry.unsupported <= set(parameters)
        assert all(parameters[p].default is not inspect.Parameter.empty for p in entry.unsupported)
    # An operand fixed by the name cannot be given again.
    if entry.fixed and inspect.isfunction(declared):
        assert not set(entry.fixed) & set(inspect.signature(declared).parameters)


def test_signatures_are_those_of_the_language():
    """Names, order and defaults as in release 0.1.15; kernels pass arguments by position and by keyword."""
    expected = {
        "Kernel": "*blocks, threads=None, prelude=None, cluster_dims=None",
        "copy": "src, dst, *, coalesced_width=None, disable_tma=False, eviction_policy=None, "
        "prefer_instruction=None, annotations=None, loop_layout=None",
        "gemm": "A, B, C, transpose_A=False, transpose_B=False, policy=<GemmWarpPolicy.Square: 0>, "
        "clear_accum=False, mbar=None, annotations=None",
        "fill": "buffer, value, annotations=None",
        "clear": "buffer, annotations=None",
        "reduce_sum": "buffer, out, dim=-1, clear=True, batch=1, annotations=None",
        "reduce_max": "buffer, out, dim=-1, clear=True, batch=1, nan_propagate=False, annotations=None",
        "reduce_abssum": "buffer, out, dim=-1, batch=1, annotations=None",
        "Parallel": "*extents, coalesced_width=None, loop_layout=None, prefer_async=None, annotations=None",
        "Pipelined": "start, stop=None, num_stages=0, order=None, stage=None, annotations=None",
        "serial": "start, stop=None, step=None, *, annotations=None",
        "unroll": "start, stop=None, step=None, *, explicit=False, unroll_factor=None, annotations=None",
        "vectorized": "start, stop=None, *, annotations=None",
        "alloc_shared": "shape, dtype, scope='shared.dyn'",
        "alloc_fragment": "shape, dtype, scope='local.fragment'",
        "alloc_local": "shape, dtype, scope='local'",
        "alloc_var": "dtype, *args, scope='local.var', init=None",
        "const": "name, dtype='int32'",
        "dynamic": "name, dtype='int32'",
        "empty": "*shape, dtype=T.float32",
        "reshape": "src, shape",
        "view": "src, shape=None, dtype=None, strides=None",
        "use_swizzle": "panel_size, order='row', enable=True",
        "clamp": "dst, min_val, max_val",
        "if_then_else": "cond, t, f",
    }
    assert {name: _parameters(getattr(T, name)) for name in expected} == expected


def _parameters(function: object) -> str:
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))[1:-1]


def test_declared_name_finds_a_declaration_however_it_was_imported():
    from tilelang.language import copy as move

    assert declared_name(move) == "copy"
    assert declared_name(T.Serial) == "Serial" and LANGUAGE["Serial"].op == "serial"
    assert declared_name(T.float16) == "float16"
    assert declared_name(print) is None and declared_name("copy") is None


def test_dtypes_are_those_of_the_table():
    named = {n for n, e in LANGUAGE.items() if e.kind == "dtype"}
    assert named == {*DTYPES, *DTYPE_ALIASES, *VECTOR_NAMES}
    assert {LANGUAGE[n].op for n in DTYPE_ALIASES} <= set(DTYPES)


def test_tile_operations_name_files_of_ops():
    ops = ROOT / "tilelang" / "ops"
    assert all((ops / f"{e.op}.py").is_file() for e in LANGUAGE.values() if e.kind == "tile_op")


def test_gemm_policy():
    assert issubclass(T.GemmWarpPolicy, Enum)
    assert [p.name for p in T.GemmWarpPolicy] == ["Square", "FullRow", "FullCol"]


def test_dynamic_sizes_at_module_level():
    m = T.dynamic("m")
    assert isinstance(m, DynamicSize) and (m.name, m.dtype) == ("m", "int32")
    a, b = T.dynamic("a, b", "int64")
    assert [(s.name, s.dtype) for s in (a, b)] == [("a", "int64"), ("b", "int64")]
    assert [s.name for s in T.symbolic("x y z")] == ["x", "y", "z"]
    assert T.dynamic("m") != m
    with pytest.raises(ValueError, match="needs a name"):
        T.dynamic(" ")


def test_dynamic_sizes_compute_without_deciding():
    m = T.dynamic("m")
    twice = m * 2
    assert isinstance(twice, SizeExpression) and (twice.operator, twice.left, twice.right) == ("*", m, 2)
    assert str(T.ceildiv(m, 128)) == "(m + 128 - 1) // 128"
    assert str(1 + m % 4 - -m) == "1 + m % 4 - (0 - m)"
    with pytest.raises(ValueError, match="known only when the kernel runs"):
        bool(m)


@pytest.mark.parametrize(("a", "b", "tiles"), [(1024, 128, 8), (1, 128, 1), (129, 128, 2), (0, 7, 0)])
def test_ceildiv_of_numbers(a: int, b: int, tiles: int):
    assert T.ceildiv(a, b) == T.cdiv(a, b) == tiles


def test_tensor_annotations_are_evaluated_when_a_module_is_imported():
    m = T.dynamic("m")

    def kernel(A: T.Tensor((m, 128), T.float16), B: T.Tensor[[m, 64], T.bfloat16], C: T.Tensor(128)): ...

    annotations = inspect.get_annotations(kernel)
    if isinstance(annotations["A"], str):  # this file postpones annotations
        annotations = inspect.get_annotations(kernel, eval_str=True, locals={"m": m})
    assert (annotations["A"].shape, annotations["A"].dtype) == ((m, 128), "float16")
    assert (annotations["B"].shape, annotations["B"].dtype) == ([m, 64], "bfloat16")
    assert (annotations["C"].shape, annotations["C"].dtype) == (128, "float32")


def test_strided_tensor_needs_a_stride_per_dimension():
    assert T.StridedTensor((4, 8), (8, 1), T.int8).strides == (8, 1)
    with pytest.raises(ValueError, match="the shape has 2, the strides have 1"):
        T.StridedTensor((4, 8), (1,))


def test_prim_func_and_macro_keep_the_function_and_are_not_called():
    @T.prim_func
    def main(A: T.Tensor((4,), T.float32)):
        """Doubles."""

    @T.macro
    def helper(x): ...

    assert (main.__name__, main.__doc__, main.function.__name__) == ("main", "Doubles.", "main")
    with pytest.raises(
        TypeError, match=r"main is a kernel that is not compiled yet.*tilelang\.compile\(main\)"
    ):
        main(1)
    with pytest.raises(OutsideKernelError, match=r"T\.helper"):
        helper(1)


def test_inline_and_meta_class_keep_what_they_mark_and_are_not_called():
    @T.meta_class
    class Counter:
        """Counts."""

        @T.inline
        def step(self, by): ...

    @T.inline
    def helper(x): ...

    assert isinstance(Counter, type) and (Counter.__name__, Counter.__doc__) == ("Counter", "Counts.")
    with pytest.raises(OutsideKernelError, match=r"T\.helper"):
        helper(1)
    with pytest.raises(OutsideKernelError, match=r"T\.step"):
        Counter().step(1)


def test_importing_the_language_is_light():
    """Nothing heavy is loaded, and the package costs less than `asyncio`, measured beside it."""
    code = (
        "import json, sys, time; t = time.process_time(); import tilelang; a = time.process_time() - t; "
        "import tilelang.language; "
        "heavy = [m for m in ('tvm', 'torch', 'numpy', 'libcst', 'rich') if m in sys.modules]; "
        "t = time.process_time(); import asyncio; b = time.process_time() - t; "
        "print(json.dumps([a / b, heavy]))"
    )
    ratios = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        ratio, heavy = json.loads(done.stdout)
        assert heavy == []
        ratios.append(ratio)
    assert min(ratios) < 1


def test_version_begins_with_the_release_of_the_language_and_ends_with_ours():
    import tilelang

    assert tilelang.__version__.startswith("0.1.15+")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{tilelang.PACKAGE_VERSION}"\n' in project
    assert tilelang.__version__.endswith(tilelang.PACKAGE_VERSION)


def test_unknown_attribute_of_the_package():
    import tilelang

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = tilelang.nonsense


def test_integers_are_computed_with_outside_a_kernel():
    assert (T.align_up(12, 5), T.floordiv(-7, 2), T.floormod(-7, 2)) == (15, -4, 1)
    assert [T.truncdiv(a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2))] == [3, -3, -3, 3]
    assert [T.truncmod(a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2))] == [1, -1, 1, -1]
    assert (T.bitwise_and(6, 3), T.bitwise_or(6, 3), T.bitwise_xor(6, 3)) == (2, 7, 5)
    assert (T.shift_left(3, 2), T.shift_right(-8, 1)) == (12, -4)
    assert str(T.align_up(T.dynamic("n"), 8)) == "(n + 8 - 1) // 8 * 8"
    with pytest.raises(T.OutsideKernelError, match=r"T\.bitwise_and"):
        T.bitwise_and(T.dynamic("n"), 1)


def test_sizes_read_as_python_writes_them() -> None:
    n, m = T.dynamic("n, m")
    texts = {
        "n - (m + 1)": n - (m + 1),
        "n - m + 1": n - m + 1,
        "(n + 1) * 2": (n + 1) * 2,
        "n * (m // 2)": n * (m // 2),
        "n // 4 * 4 + m": n // 4 * 4 + m,
    }
    assert {text: str(size) for text, size in texts.items()} == {text: text for text in texts}


def test_an_integer_dtype_without_a_number_makes_a_size() -> None:
    assert isinstance(T.int64(), DynamicSize) and T.int64().dtype == "int64"
    with pytest.raises(ValueError, match=r"T\.float16 was called outside"):
        T.float16()


def test_policies_say_how_warps_share_a_tile():
    policies = (T.GemmWarpPolicy.Square, T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol)
    assert [p.compute_warp_partition(128, 128, 4) for p in policies] == [(2, 2), (4, 1), (1, 4)]
    assert [p.compute_warp_partition(16, 128, 4) for p in policies] == [(1, 4)] * 3
    with pytest.raises(ValueError, match="8 warps cannot share a tile of 16 x 8"):
        T.GemmWarpPolicy.Square.compute_warp_partition(16, 8, 8)
    assert [T.GemmWarpPolicy.from_warp_partition(*g) for g in ((2, 2), (4, 1), (1, 4))] == list(policies)
    assert policies[1].is_full_row() and policies[2].is_full_col() and not policies[1].is_square()
