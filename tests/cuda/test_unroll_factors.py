"""How many iterations nvcc is asked to write out: `unroll_factor=` of T.unroll, and tvm's name for it."""

from __future__ import annotations

import pytest

from tests.cuda.kernels import HEAD, lower_text

TEXT = """
@T.prim_func
def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        for i in T.unroll({arguments}):
            A[tx] += B[i]
"""


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ("16", "#pragma unroll\n"),
        ("16, unroll_factor=4", "#pragma unroll 4\n"),
        ("0, 16, 2, unroll_factor=4", "#pragma unroll 4\n"),
        ('16, annotations={"pragma_unroll_factor": 2}', "#pragma unroll 2\n"),
    ],
)
def test_factors(arguments, written):
    assert written in lower_text(HEAD + TEXT.replace("{arguments}", arguments)).source.text
