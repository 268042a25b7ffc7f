"""Functions with several launches as rules see them: each launch alone, and what the others touch."""

from __future__ import annotations

import pytest

from tilelang.analysis.launches import launch_by_launch
from tilelang.analysis.subject import Subject
from tilelang.arch.target import parse_target
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule

_BODY = """
import tilelang
import tilelang.language as T

@tilelang.jit
def both(A):
    A: T.Tensor((64, 64), T.float32)
    B = T.empty((64, 64), T.float32)
    C = T.empty((64, 64), T.float32)
    {first}
        B[bx, tx] = A[bx, tx] + 1.0
    {second}
        C[bx, tx] = B[bx, tx] + 1.0
    return B, C
"""
_KERNEL = """with T.Kernel(64, threads=64) as bx:
        tx = T.get_thread_binding()"""
_DIMENSIONS = """with T.launch_thread("blockIdx.x", 64) as bx, T.launch_thread("threadIdx.x", 64) as tx:"""


@pytest.mark.parametrize("first", [_KERNEL, _DIMENSIONS])
@pytest.mark.parametrize("second", [_KERNEL, _DIMENSIONS])
def test_each_launch_has_its_own_accesses(first: str, second: str) -> None:
    text = _BODY.format(first=first, second=second)
    module = StaticModule("k.py", text)
    (program,) = [trace_static(module, kernel) for kernel in module.kernels]
    parts = launch_by_launch(Subject(program, parse_target("cuda"), text))
    assert [sorted({a.buffer.name for a in part.program.accesses}) for part in parts] == [
        ["A", "B"],
        ["B", "C"],
    ]
    assert [sorted(b.name for b in part.elsewhere) for part in parts] == [["B", "C"], ["A", "B"]]
    assert [len(part.program.launches()) for part in parts] == [1, 1]
