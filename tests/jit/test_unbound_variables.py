"""Variables that nothing gives a value are told by name and place, before any code is generated."""

from __future__ import annotations

import pytest

from tests.cuda.kernels import lower_text
from tilelang.diagnostics.error import KernelError

KERNEL = """
@tilelang.jit
def k(A):
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=64):
        {statement}
"""


@pytest.mark.parametrize("target", ["cuda:sm_90", "cpu"])
@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("A[0] = T.dynamic('n')", "kernel.py:9:9"),
        ("A[0] = T.Var('n', 'int32') + 1", "kernel.py:9:9"),
        ("A[0] = T.SizeVar('n', 'int32')", "kernel.py:9:9"),
        ("for i in T.serial(T.dynamic('n')):\n            A[i] = 0", "kernel.py:9:18"),
    ],
    ids=["dynamic", "variable", "size", "extent"],
)
def test_a_variable_without_a_value(statement: str, place: str, target: str) -> None:
    with pytest.raises(KernelError, match=r"`n` has no value here") as raised:
        lower_text(KERNEL.format(statement=statement), target)
    assert place in str(raised.value)


def test_sizes_in_shapes_have_one() -> None:
    text = KERNEL.replace("T.Tensor((64,), T.int32)", "T.Tensor((T.dynamic('n') * 2,), T.int32)")
    assert lower_text(text.format(statement="A[0] = A.shape[0]")).source.text
