"""Expressions: right by running them in C++, minimal by looking at them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import tirx as X

from tests.emit.host_cpp import HOST, run_cpp
from tests.emit.host_run import needs_clang, run_hip, run_metal
from tilelang.targets.c_printer import print_kernel
from tilelang.targets.cuda.emit import CUDA
from tilelang.targets.emit import literals
from tilelang.targets.emit.dialect import Dialect
from tilelang.targets.emit.expressions import EmitError, Expressions
from tilelang.targets.hip.emit import HIP
from tilelang.targets.metal.emit import METAL

from .thread_level import kernel, statement_in_kernel


def printer(non_negative: str = "xy", free: str = "ab") -> tuple[Expressions, dict[str, Any]]:
    e = Expressions(CUDA)
    variables = {name: X.Var(name, "int32") for name in non_negative + free}
    for name, var in variables.items():
        e.names[var.__chandle__()] = name
        if name in non_negative:
            e.bounds.set(var, (0, 100))
    return e, variables


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x, y, a: x // 4 * 4 + x % 4, "x / 4 * 4 + x % 4"),
        (lambda x, y, a: (x + y) // 4, "(x + y) / 4"),
        (lambda x, y, a: x // (y + 1), "x / (y + 1)"),
        (lambda x, y, a: x - (y - x), "x - (y - x)"),
        (lambda x, y, a: x + (y + a), "x + y + a"),
        (lambda x, y, a: a // 8, "a >> 3"),
        (lambda x, y, a: a % 8, "a & 7"),
        (lambda x, y, a: a // 3, "floordiv(a, 3)"),
        (lambda x, y, a: (127 - x % 128) // 3, "(127 - x % 128) / 3"),
        (lambda x, y, a: (x // 8 ^ x % 8) * 8, "((x / 8) ^ (x % 8)) * 8"),
        (lambda x, y, a: (x << 2) | (y & 3), "(x << 2) | (y & 3)"),
        (lambda x, y, a: X.And(X.Or(x < y, a < 3), X.Not(y < a)), "(x < y || a < 3) && !(y < a)"),
        (lambda x, y, a: X.if_then_else(x < 3, y, X.if_then_else(y < 3, x, a)), "x < 3 ? y : y < 3 ? x : a"),
        (lambda x, y, a: X.max(x, a), "max(x, a)"),
        (lambda x, y, a: X.Add(x, X.const(-5, "int32")), "x - 5"),
        (lambda x, y, a: X.Cast("int64", x) * X.const(5, "int64"), "(long long)x * 5LL"),
    ],
)
def test_text(make: Any, text: str) -> None:
    e, v = printer()
    assert e.show(make(v["x"], v["y"], v["a"])) == text


def _random_expression(rng: random.Random, variables: list[Any], depth: int) -> Any:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(variables) if rng.random() < 0.7 else X.const(rng.randint(-9, 9), "int32")

    def sub() -> Any:
        return _random_expression(rng, variables, depth - 1)

    kind = rng.choice(["+", "-", "*", "//", "%", "min", "max", "&", "|", "^", "if", "<<"])
    a = sub()
    match kind:
        case "//":
            return X.FloorDiv(a, X.const(rng.choice([-3, 2, 3, 8, 7]), "int32"))
        case "%":
            return X.FloorMod(a, X.const(rng.choice([2, 3, 8, 7]), "int32"))
        case "<<":
            return X.LShift(a, X.const(rng.randint(0, 3), "int32"))
        case "if":
            return X.if_then_else(X.LT(sub(), sub()), a, sub())
    node = {
        "+": X.Add,
        "-": X.Sub,
        "*": X.Mul,
        "min": X.Min,
        "max": X.Max,
        "&": X.BitwiseAnd,
        "|": X.BitwiseOr,
        "^": X.BitwiseXor,
    }
    return node[kind](a, sub())


def _evaluate(e: Any, values: dict[str, int]) -> int:
    """What TIRX means, in 32 bits."""
    kind = type(e)
    if kind is X.IntImm:
        return int(e.value)
    if hasattr(e, "name") and not hasattr(e, "op"):
        return values[str(e.name)]
    if kind.__name__ == "Call":
        c, t, f = e.args
        return _evaluate(t if _evaluate(c.a, values) < _evaluate(c.b, values) else f, values)
    a, b = _evaluate(e.a, values), _evaluate(e.b, values)
    result = {
        X.Add: lambda: a + b,
        X.Sub: lambda: a - b,
        X.Mul: lambda: a * b,
        X.FloorDiv: lambda: a // b,
        X.FloorMod: lambda: a % b,
        X.Min: lambda: min(a, b),
        X.Max: lambda: max(a, b),
        X.BitwiseAnd: lambda: a & b,
        X.BitwiseOr: lambda: a | b,
        X.BitwiseXor: lambda: a ^ b,
        X.LShift: lambda: a << b,
    }[kind]()
    return (result + 2**31) % 2**32 - 2**31


def test_random_integer_expressions_run_in_cpp_as_tirx_means_them(tmp_path: Path) -> None:
    rng = random.Random(7)
    n = X.Var("n", "int32")
    a = X.decl_buffer((n,), "int32", "A")
    out = X.decl_buffer((400,), "int32", "Out")
    free = X.Var("m", "int32")
    expressions: list[Any] = []

    def body(bx: Any, tx: Any) -> Any:
        expressions.extend(_random_expression(rng, [bx, tx, free], 4) for _ in range(400))
        stores = [X.BufferStore(out, e, [X.const(k, "int32")]) for k, e in enumerate(expressions)]
        return X.SeqStmt([X.Bind(free, a[0] - 17), *stores])

    func = kernel("k", [a, out], body, 64)
    text = print_kernel(func, HOST).text
    main = """
int main() {
  int cases[][3] = {{0, 0, -17}, {3, 5, -20}, {63, 127, 4}, {17, 31, 33}};
  static int Out[400];
  for (auto& c : cases) {
    int A[1] = {c[2] + 17};
    blockIdx.x = c[0]; threadIdx.x = c[1];
    k_kernel(A, Out, 1);
    for (int v : Out) printf("%d ", v);
  }
}"""
    found = np.array(run_cpp(text + main, tmp_path).split(), dtype=np.int64).reshape(4, 400)
    for case, row in zip([(0, 0, -17), (3, 5, -20), (63, 127, 4), (17, 31, 33)], found, strict=True):
        values = dict(zip(("bx", "tx", "m"), case, strict=True))
        expected = [_evaluate(e, values) for e in expressions]
        wrong = [
            (str(expressions[k]), e, int(f))
            for k, (e, f) in enumerate(zip(expected, row, strict=True))
            if e != f
        ]
        assert not wrong, wrong[:3]


def test_narrow_integers_wrap(tmp_path: Path) -> None:
    def make(a: Any, b: Any, tx: Any) -> Any:
        return X.BufferStore(b, (a[0] + a[1]) // X.const(2, "int8"), [tx])

    text = print_kernel(statement_in_kernel(make, "int8"), HOST).text
    main = 'int main() { signed char A[2] = {100, 100}, B[1]; k_kernel(A, B); printf("%d", B[0]); }'
    assert run_cpp(text + main, tmp_path) == str(-56 // 2)


@pytest.mark.parametrize(
    ("source", "value", "target"),
    [("uint32", 0xFFFFFFFD, "int32"), ("int64", 2**31, "int32"), ("int32", 200, "int8")],
)
def test_a_conversion_that_wraps_is_divided_with_a_floor(
    source: str, value: int, target: str, tmp_path: Path
) -> None:
    """What was never negative may be so in the dtype it is converted to: votes of a warp as int32."""

    def make(a: Any, b: Any, tx: Any) -> Any:
        known = X.BitwiseAnd(a[tx], X.const(2**32 - 1 if source == "int64" else value, source))
        turned = X.Cast(target, known)
        left = X.FloorMod(turned, X.const(8, target)) * X.const(8, target)
        return X.BufferStore(b, X.Cast(source, left + X.FloorDiv(turned, X.const(50, target))), [tx])

    text = print_kernel(statement_in_kernel(make, source), HOST).text
    types = {"uint32": "unsigned", "int64": "long long", "int32": "int"}
    number = f"({types[source]}){value}ull"
    call = 'k_kernel(A, B); printf("%d", (int)B[0]);'
    main = f"int main() {{ {types[source]} A[1] = {{ {number} }}, B[1]; {call} }}"
    wrapped = int(np.array(value).astype(target))
    expected = np.array(wrapped % 8 * 8 + wrapped // 50).astype(target)
    assert run_cpp(text + main, tmp_path) == str(expected)


@needs_clang
@pytest.mark.parametrize("dialect", [HIP, METAL], ids=lambda d: d.name)
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
def test_narrow_integers_beside_literals(dialect: Dialect, dtype: str, tmp_path: Path) -> None:
    """C makes them int, which templates and overloads take for another type."""

    def make(a: Any, b: Any, tx: Any) -> Any:
        five, three = X.const(5, dtype), X.const(3, dtype)
        value = X.Max(X.Min(X.FloorMod(a[tx] - five, five), three), X.FloorDiv(a[tx], three))
        return X.BufferStore(b, value, [tx])

    text = print_kernel(statement_in_kernel(make, dtype), dialect).text
    a = np.arange(100, 228).astype(np.uint8).astype(dtype)
    b = np.zeros_like(a)
    run = run_metal if dialect is METAL else run_hip
    run(text, "k_kernel", (1,), 128, [a, b], tmp_path)
    left = (a - np.array(5, dtype)) % np.array(5, dtype)
    np.testing.assert_array_equal(b, np.maximum(np.minimum(left, 3), a // np.array(3, dtype)))


def test_cuda_chooses_the_type_of_a_template() -> None:
    """NVRTC takes no `floormod(signed char, int)`."""
    e = Expressions(CUDA)
    a = X.Var("a", "int8")
    e.names[a.__chandle__()] = "a"
    assert e.show(X.FloorMod(a, X.const(5, "int8"))) == "floormod<signed char>(a, 5)"
    assert e.show(X.FloorDiv(a, X.const(5, "int8"))) == "floordiv<signed char>(a, 5)"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x: ~x >> X.const(2, "uint8"), (~0x96 & 255) >> 2),
        (lambda x: X.shift_right(X.shift_left(x, X.const(4, "uint8")), X.const(2, "uint8")), 0x60 >> 2),
        (lambda x: X.reinterpret("int8", (x << X.const(1, "uint8")) | x), (0x96 << 1 | 0x96) & 255),
    ],
    ids=["not", "shift", "reinterpret"],
)
def test_bits_of_narrow_integers(make: Any, expected: int, tmp_path: Path) -> None:
    """C computes in int, whose upper bits must not come in."""

    def store(a: Any, b: Any, tx: Any) -> Any:
        return X.BufferStore(b, X.Cast("uint8", make(a[0])), [tx])

    text = print_kernel(statement_in_kernel(store, "uint8"), HOST).text
    main = 'int main() { unsigned char A[1] = {0x96}, B[1]; k_kernel(A, B); printf("%d", B[0]); }'
    assert run_cpp(text + main, tmp_path) == str(expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_float_constants_are_exact(dtype: str) -> None:
    kind = literals._FLOATS[dtype]
    values = [0.1, 1 / 3, 65504.0, 1e-7, 6.1e-5, -0.0, 0.5, 1e30, 3.0, 123456.789, 1.4426950408889634]
    for value in values:
        if dtype == "float16" and abs(value) > 65504:
            continue
        text = literals.decimal(value, dtype)
        assert kind(np.float32(text)) == kind(value), (value, text)
    assert literals.decimal(0.1, dtype) == "0.1"
    assert literals.decimal(2.0, dtype) == "2.0"
    assert literals.decimal(16384.0, dtype) == "16384.0"
    assert literals.decimal(-0.0, dtype) == "-0.0"


def test_infinities_and_16_bit_constants() -> None:
    e, _ = printer()
    assert e.show(X.const(float("-inf"), "float32")) == "-CUDART_INF_F"
    assert e.show(X.const(0.1, "float16")) == "half(0.1f)"
    assert e.show(X.const(float("inf"), "bfloat16")) == "__nv_bfloat16(CUDART_INF_F)"
    assert e.used_includes == {"math_constants.h"}


def test_integer_extremes() -> None:
    assert literals.integer(-(2**31), "int32", "LL") == "(-2147483647 - 1)"
    assert literals.integer(7, "uint32", "LL") == "7u"
    assert literals.integer(7, "uint64", "LL") == "7ULL"
    assert literals.integer(1, "bool", "LL") == "true"


def test_math_of_16_bit_floats_goes_through_float32() -> None:
    e, _ = printer()
    h = X.Var("h", "float16")
    e.names[h.__chandle__()] = "h"
    assert e.show(X.exp(h)) == "half(expf(float(h)))"
    assert e.show(X.Cast("bfloat16", h)) == "__nv_bfloat16(float(h))"
    assert e.show(X.max(h, X.const(0, "float16"))) == "__hmax(h, half(0.0f))"


def test_what_has_no_words_is_named() -> None:
    e, _ = printer()
    s = X.Var("s", "float32")
    e.names[s.__chandle__()] = "s"
    with pytest.raises(EmitError, match="cuda has no popcount for float32"):
        e.show(X.popcount(s))
    with pytest.raises(EmitError, match="has no type for int4"):
        e.show(X.Cast("int4", s))
