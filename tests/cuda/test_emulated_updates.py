"""Parallel loops of which several iterations write one element of a fragment, or write in another order than
they run: threads that hold the element must all come to the same value. Compared with the program's meaning.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.cuda.kernels import lower_text
from tests.emulator.block import run as emulate
from tests.frontend.programs import live_module
from tilelang.arch.target import parse_target
from tilelang.frontend.environments.live import trace_eager
from tilelang.jit.compiling import prim_func_of
from tilelang.reference import run as meaning

HEAD = """
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A):
    A: T.Tensor((64, 64), T.float32)
    O = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads={threads}):
        f = T.alloc_fragment({shape}, T.float32)
        T.fill(O, 0)
        T.fill(f, 1)
{body}
    return O
"""
SHOW_1D = "for i in T.Parallel(64):\n    O[0, i] = f[{at}]"
SHOW_2D = "for i in T.Parallel(64):\n    O[i, 0] = f[i, 0]\n    O[i, 1] = f[i, 1]"
FORMS = [
    # shape of f, statements in and around the loop, how the result is shown
    ("(64,)", "for i, j in T.Parallel(64, 64):\n    f[i] += A[i, j]", SHOW_1D.format(at="i")),
    ("(64,)", "for i, j in T.Parallel(64, 64):\n    f[j] = T.max(f[j], A[i, j])", SHOW_1D.format(at="i")),
    ("(32,)", "for i in T.Parallel(64):\n    f[i // 2] += A[0, i]", SHOW_1D.format(at="i // 2")),
    ("(2,)", "for i in T.Parallel(64):\n    f[i // 32] += A[0, i]", SHOW_1D.format(at="i // 32")),
    ("(4,)", "for i in T.Parallel(64):\n    f[i % 4] += A[0, i]", SHOW_1D.format(at="i % 4")),
    ("(1,)", "for i in T.Parallel(64):\n    f[0] += A[0, i]", SHOW_1D.format(at="0")),
    ("(64, 2)", "for i, j in T.Parallel(64, 64):\n    f[i, j // 32] += A[i, j]", SHOW_2D),
    ("(64, 2)", "for i, j in T.Parallel(64, 64):\n    f[i, j // 32] = A[i, j // 32]", SHOW_2D),
    ("(64,)", "for i in T.Parallel(64):\n    f[63 - i] = A[0, i]", SHOW_1D.format(at="i")),
    ("(64,)", "for i in T.Parallel(32):\n    f[2 * i] = A[0, i]", SHOW_1D.format(at="i")),
    ("(64,)", "for i, j in T.Parallel(8, 8):\n    f[j * 8 + i] = A[i, j]", SHOW_1D.format(at="i")),
    ("(64,)", "for i in T.Parallel(64):\n    if i < 32:\n        f[i * 2] = A[0, i]", SHOW_1D.format(at="i")),
    (
        "(64,)",
        "x = T.alloc_fragment((64, 64), T.float32)\nT.copy(A, x)\n"
        "for i, j in T.Parallel(64, 64):\n    f[i] += x[i, j]",
        SHOW_1D.format(at="i"),
    ),
]


@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize(("shape", "loop", "show"), FORMS, ids=[f[1].split("\n")[-1].strip() for f in FORMS])
def test_every_thread_comes_to_the_same_value(shape: str, loop: str, show: str, threads: int):
    lines = "\n".join(f"        {line}" for line in f"{loop}\n{show}".split("\n"))
    text = HEAD.format(threads=threads, shape=shape, body=lines)
    program = trace_eager(live_module(text)["k"].function, {})
    a = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    wanted = meaning(prim_func_of(program, parse_target("cpu"), text), a).numpy()
    found = np.full((64, 64), np.nan, np.float32)
    emulate(lower_text(text), {"A": a.numpy(), "O": found}, {})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("source", "target"), [("shared", "fragment"), ("fragment", "shared")])
@pytest.mark.parametrize(("dim", "reverse"), [(0, True), (1, False)])
def test_scans_from_one_scope_to_another(source: str, target: str, dim: int, reverse: bool):
    text = f"""
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A):
    A: T.Tensor((16, 40), T.float32)
    O = T.empty((16, 40), T.float32)
    with T.Kernel(1, threads=64):
        a = T.alloc_{source}((16, 40), T.float32)
        b = T.alloc_{target}((16, 40), T.float32)
        T.copy(A, a)
        T.cumsum(a, b, dim={dim}, reverse={reverse})
        T.copy(b, O)
    return O
"""
    a = np.random.default_rng(0).normal(size=(16, 40)).astype(np.float32)
    found = np.full_like(a, np.nan)
    emulate(lower_text(text), {"A": a, "O": found}, {})
    turned = np.flip(a, dim) if reverse else a
    wanted = np.cumsum(turned, axis=dim)
    np.testing.assert_allclose(found, np.flip(wanted, dim) if reverse else wanted, rtol=1e-4, atol=1e-4)
