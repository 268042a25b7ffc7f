"""Random tile programs: the CPU target computes what the reference says.

Programs are lists of statements over a few tiles of one shape, written out as source text, so that a failing
example is a kernel that can be read and kept.
"""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilelang
from tests.frontend.programs import live_module

TILES = ("s0", "s1", "f0", "f1")
ELEMENT = ("{a}[i, j] + {b}[i, j]", "{a}[i, j] * 0.5 - {b}[i, j]", "T.max({a}[i, j], {b}[i, j])")
CHOICE = ("T.if_then_else(i < j, {a}[i, j], {b}[i, j] + 1)", "T.exp2(T.min({a}[i, j], 3)) - {b}[i, j]")
ROWS = ("{a}[i, j] - r[i]", "{a}[i, j] * r[i]", "T.if_then_else(r[i] > 0, {a}[i, j], 0 - {a}[i, j])")

tile = st.sampled_from(TILES)


@st.composite
def statements(draw, depth: int = 2) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["copy", "fill", "each", "rows", "reduce", "loop", "if", "load"]))
        a, b, c = draw(tile), draw(tile), draw(tile)
        if kind == "copy":
            lines += [f"T.copy({a}, {b})"] if a != b else []
        elif kind == "fill":
            lines.append(f"T.fill({a}, {draw(st.integers(-3, 3))})")
        elif kind == "each":
            value = draw(st.sampled_from([*ELEMENT, *CHOICE])).format(a=a, b=b)
            lines += ["for i, j in T.Parallel(R, C):", f"    {c}[i, j] = {value}"]
        elif kind == "rows":
            value = draw(st.sampled_from(ROWS)).format(a=a)
            lines += ["for i, j in T.Parallel(R, C):", f"    {c}[i, j] = {value}"]
        elif kind == "reduce":
            op = draw(st.sampled_from(["sum", "max", "min", "absmax"]))
            clear = draw(st.booleans())
            lines.append(f"T.reduce_{op}({draw(st.sampled_from(['f0', 'f1']))}, r, dim=1, clear={clear})")
        elif kind == "load":
            lines.append(f"T.copy(A[bx * R, {draw(st.integers(0, 5))}], {a})")
        elif depth:
            body = draw(statements(depth - 1))
            head = (
                f"for k{depth} in T.serial({draw(st.integers(1, 3))}):"
                if kind == "loop"
                else draw(st.sampled_from(["if bx == 0:", "if M > 7:"]))
            )
            lines += [head, *(f"    {line}" for line in body)]
    return lines or ["T.clear(s0)"]


HEAD = """
@tilelang.jit
def k(A, R: int, C: int):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, R), threads=64) as bx:
        s0 = T.alloc_shared((R, C), T.float32)
        s1 = T.alloc_shared((R, C), T.float16)
        f0 = T.alloc_fragment((R, C), T.float32)
        f1 = T.alloc_fragment((R, C), T.float16)
        r = T.alloc_fragment((R,), T.float32)
        T.copy(A[bx * R, 0], s0)
        T.copy(s0, f0)
        T.clear(s1)
        T.clear(f1)
        T.clear(r)
"""
TAIL = """
        for i, j in T.Parallel(R, C):
            if bx * R + i < M and j < N:
                x = T.clamp({a}[i, j], -1e4, 1e4)
                B[bx * R + i, j] = x + r[i] * 0.125 + T.clamp({b}[i, j], -1e4, 1e4)
    return B
"""


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(statements(), tile, tile, st.sampled_from([(4, 8), (5, 7), (8, 16)]), st.integers(0, 99))
def test_the_cpu_target_computes_what_the_program_means(body, a, b, tile_shape, seed):
    text = HEAD + "".join(f"        {line}\n" for line in body) + TAIL.format(a=a, b=b)
    rows, columns = tile_shape
    kernel = tilelang.jit(live_module(text)["k"].function, target="cpu")
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(9, columns - seed % 3, generator=generator)
    compiled = kernel.compile(x, rows, columns)
    found, expected = compiled(x), compiled.reference(x)
    # Tiles of float16 hold sums that float32 and float64 round apart by one step.
    torch.testing.assert_close(
        found, expected, rtol=4e-3, atol=4e-3, equal_nan=True, msg=lambda m: f"{text}\n{m}"
    )
