"""Forms that the language's release has or refuses, and with which class of exception."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.ir.skipped_rest import without_continue
from tilelang.ir.tile_program import For as Repeated
from tilelang.ir.tile_program import If, Jump, Launch


def kernel(body: str, name: str) -> T.PrimFunc:
    """A kernel over A and B of 64 numbers, from the lines of its body."""
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    tensors = 'A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")'
    text = f"@T.prim_func\ndef main({tensors}):\n    with T.Kernel(1, threads=64):\n{lines}"
    path = f"<{name}>"
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    names: dict[str, Any] = {"T": T}
    exec(compile(text, path, "exec"), names)
    return names["main"]


@pytest.mark.parametrize(
    "body, kind, said",
    [
        ("while True:\n    B[0] = 1", RuntimeError, "Infinite while loop detected"),
        ("assert 1 > 2", AssertionError, "this assertion does not hold"),
        ("B[0] = T.zork(A[0])", AttributeError, "has no `zork`"),
        ("for i in T.Parallel(64):\n    if A[i] > 0: break\n    B[i] = 1", RuntimeError, "at the same time"),
        ('r = T.alloc_reducer((4,), "float32", "sum", replication="x")', AssertionError, "not 'x'"),
    ],
)
def test_what_is_refused(body, kind, said):
    with pytest.raises(kind, match=said):
        kernel(body, said)


@pytest.mark.parametrize(
    "body",
    [
        'B[0] = T.reinterpret("float32", T.int32(3))',
        'T.import_source("__device__ void f(float *a, float *b) {}")\n'
        'T.call_extern("handle", "f", A.data, B.data)',
        "n = T.alloc_var('int32', 0)\nwhile True:\n    n += 1\n    if n > 3: break",
    ],
)
def test_what_is_taken(body):
    assert tilelang.lower(kernel(body, body[:20]), target="cuda:sm_80").kernel_source


@pytest.mark.parametrize("threads", [32, 64, 128])
def test_continue_in_a_loop_of_threads_skips_the_rest(threads):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(64):
                B[i] = 1.0
                if A[i] > 8:
                    if A[i] > 32:
                        continue
                    B[i] = 2.0
                else:
                    continue
                B[i] = B[i] + A[i]

    a = torch.arange(64.0)
    expected = torch.where((a > 8) & (a <= 32), a + 2, torch.ones(64))
    assert torch.equal(tilelang.compile(main, out_idx=1, target="cpu")(a), expected)
    source = tilelang.lower(main, target="cuda:sm_80").kernel_source
    assert "continue" not in source


def test_statements_behind_a_continue_are_dropped():
    inner = kernel("for i in T.Parallel(64):\n    B[i] = 1\n    continue\n    B[i] = 2", "dropped")
    (launch,) = [n for n in inner.definition.program.body if isinstance(n, Launch)]
    (loop,) = [n for n in launch.body if isinstance(n, Repeated)]
    assert len(without_continue(loop.body)) == 1
    assert not any(isinstance(n, Jump | If) for n in without_continue(loop.body))
