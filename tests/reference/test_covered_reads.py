"""Reads that the guard of their statement's store covers: none is reported, and none leaves its tile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import tilelang
from tests.cuda.kernels import HEAD
from tests.emulator.block import run as emulate
from tilelang.analysis.check import check_source
from tilelang.arch.target import parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.problem import Severity
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.reference import run
from tilelang.targets.driver import lower

Meaning = Callable[[np.ndarray], np.ndarray]
KERNEL = """
@tilelang.jit
def k(A, B):
    A: T.Tensor((128,), T.float32)
    B: T.Tensor({shape}, T.float32)
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((128,), T.float32)
        f = T.alloc_fragment((128,), T.float32)
        p = T.alloc_local((8,), T.float32)
        tx = T.get_thread_binding()
        T.copy(A, s)
        {body}
"""
COPY_IN = "T.copy(A, f)\n        "
PRIVATE = "for m in T.serial(8):\n            p[m] = s[m]\n        "
ROWS = "for i, j in T.Parallel(8, 256):\n            "
ROW = "for j in T.Parallel(256):\n            "


def rows(a: np.ndarray) -> np.ndarray:
    return np.tile(a, (8, 1))


def marked(a: np.ndarray) -> np.ndarray:
    return np.where(np.arange(8)[:, None] == 2, a, 1)


FORMS = {
    "update": ((8, 128), ROWS + "B[i, j] = B[i, j] + s[j]", lambda a: rows(a) + 1),
    "fragment": ((8, 128), COPY_IN + ROWS + "B[i, j] = f[j]", rows),
    "name": ((8, 128), ROWS + "x = s[j]\n            B[i, j] = x + x", lambda a: 2 * rows(a)),
    "serial": ((100,), "for j in T.serial(256):\n            B[j] = s[j]", lambda a: a[:100]),
    "private": ((128,), PRIVATE + "for m in T.serial(16):\n            B[m + 120] = p[m]",
                lambda a: np.concatenate([np.ones(120), a[:8]])),
    "copy": ((8, 128), "T.copy(s[0:256], B[2, 0:256])", marked),
    "atomic": ((8, 128), ROWS + "T.atomic_add(B[i, j], s[j])", lambda a: rows(a) + 1),
}  # fmt: skip
MORE_FORMS = {
    "store": ((8, 128), ROWS + "B[i, j] = s[j]", rows),
    "augmented": ((8, 128), ROWS + "B[i, j] += s[j]", lambda a: rows(a) + 1),
    "condition": ((128,), ROW + "if s[j] > 0:\n                B[j] = s[j]",
                  lambda a: np.where(a > 0, a, 1)),
    "scatter": ((128, 8), ROW + "B[j, T.cast(s[j], 'int32')] = 5", None),
    "several": ((4, 100), "for i in T.serial(8):\n            for j in T.serial(256):\n"
                "                x = s[j]\n                B[i, j] = x\n"
                "                B[i, j] = x + B[i, j]", lambda a: np.tile(2 * a[:100], (4, 1))),
    "before": ((128,), "for j in T.Parallel(128):\n            B[j - 4] = s[j - 4]",
               lambda a: np.concatenate([a[:124], np.ones(4)])),
    "slice": ((1, 128), "B[0, 0:256] = s[0:256]", lambda a: a[None]),
    "threads": ((64,), "B[tx] = s[tx * 2]", lambda a: a[::2]),
    "copies": ((128,), "for m in T.serial(4):\n            T.copy(s[m * 64 : m * 64 + 64], B[m * 64])",
               lambda a: a),
    "atomic max": ((100,), ROW + "T.atomic_max(B[j], s[j])", lambda a: np.maximum(a[:100], 1)),
    "pairs": ((128,), "for j in T.Parallel(128):\n            T.atomic_addx2(B[j * 2], s[j * 2])",
              lambda a: a + 1),
    "atomic tile": ((128,), "T.atomic_add(B[64:192], s[64:192])",
                    lambda a: np.where(np.arange(128) < 64, 1, a + 1)),
}  # fmt: skip


def func_of(body: str, shape: tuple[int, ...], target: str = "cuda:sm_90"):
    text = HEAD + KERNEL.format(body=body, shape=shape)
    module = StaticModule("k.py", text)
    return prim_func_of(trace_static(module, module.kernels[0]), parse_target(target), text)


@pytest.mark.parametrize("name", FORMS)
def test_what_is_not_stored_is_not_read(name: str) -> None:
    check(name, *FORMS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE_FORMS)
def test_nor_in_these_forms(name: str) -> None:
    check(name, *MORE_FORMS[name])


def check(name: str, shape: tuple[int, ...], body: str, meaning: Meaning | None) -> None:
    """Run a kernel in three ways, which stop, or give other numbers, where it reads outside of a tile."""
    a, ones = np.arange(128, dtype=np.float32) % 7, np.ones(shape, np.float32)
    func = func_of(body, shape)  # an error would be raised
    found = []
    for target in ("cuda:sm_80", "cuda:sm_90") if "cop" in name else ("cuda:sm_90",):
        arrays = {"A": a.copy(), "B": ones.copy()}
        emulate(lower(func, parse_target(target)), arrays)  # which stops at any access outside
        found.append(arrays["B"])
    for execute in (lambda *t: run(func, *t), tilelang.compile(func, target="cpu")):
        tensors = torch.from_numpy(a.copy()), torch.from_numpy(ones.copy())
        execute(*tensors)
        found.append(tensors[1].numpy())
    for other in found:
        np.testing.assert_array_equal(other, found[0] if meaning is None else meaning(a))


UNCOVERED = {
    "reads a tensor": ((256,), ROW + "B[j] = A[j] + s[j]"),
    "stores a tile too": ((128,), ROW + "B[j] = s[j]\n            s[j] = 0"),
    "name used elsewhere": ((128,), ROW + "x = s[j]\n            B[j] = x\n            s[j] = x"),
    "finds the place": ((8,), "for j in T.serial(256):\n            B[T.cast(s[j], 'int32')] = 1"),
    "guard further out": ((200,), ROW + "B[j] = s[j]"),
    "copy beyond": ((200,), "T.copy(s[0:256], B[0:256])"),
    "old value": ((128,), ROW + "x = T.atomic_add(B[j], 1.0)\n            s[j] = x"),
}


@pytest.mark.parametrize("name", UNCOVERED)
def test_other_reads_are_errors(name: str) -> None:
    shape, body = UNCOVERED[name]
    with pytest.raises(KernelError, match="out-of-bounds"):
        func_of(body, shape)


def test_nothing_is_covered_where_the_author_vouches_for_all_accesses() -> None:
    text = HEAD + KERNEL.format(body=ROW + "B[j] = s[j]", shape=(128,))
    off = 'pass_configs={"tl.disable_safe_memory_legalize": True}'
    for options, wanted in ((off, [Severity.ERROR]), ('target="cuda"', [])):
        report = check_source("k.py", text.replace("@tilelang.jit", f"@tilelang.jit({options})"), "cuda")
        found = [p for p in report.kernels[0].problems if p.rule == "index-out-of-bounds"]
        assert [p.severity for p in found] == wanted
