"""`A: Annotated[torch.Tensor, T.Tensor(...)]` says what `A: T.Tensor(...)` says, in text and when called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilelang.analysis.check import check_kernel
from tilelang.frontend.environments.static_module import StaticModule

HEAD = """\
import typing
from typing import Annotated
import torch
import tilelang
import tilelang.language as T

M = T.dynamic("M")


"""
SIGNATURE = """\
@tilelang.jit
def double(A: {annotation}, n: int = 128):
    B = T.empty((M, 128), T.float32)
    with T.Kernel(M, threads=128) as bx:
        for i in T.Parallel(n):
            B[bx, i] = A[bx, i] * 2
    return B
"""
BODY = """\
@tilelang.jit
def double(A, n: int = 128):
    N = T.const("N")
    A: {annotation}
    B = T.empty((N, 128), T.float32)
    with T.Kernel(N, threads=128) as bx:
        for i in T.Parallel(n):
            B[bx, i] = A[bx, i] * 2
    return B
"""
LAZY = """\
@tilelang.jit(out_idx=[-1])
def double(n: int = 128):
    @T.prim_func
    def main(A: {annotation}, B: T.Tensor((M, 128), T.float32)):
        with T.Kernel(M, threads=128) as bx:
            for i in T.Parallel(n):
                B[bx, i] = A[bx, i] * 2

    return main
"""
KINDS = [
    pytest.param(SIGNATURE, "T.Tensor((M, 128), T.float32)", id="signature"),
    pytest.param(BODY, "T.Tensor((N, 128), T.float32)", id="body"),
    pytest.param(LAZY, "T.Tensor((M, 128), T.float32)", id="lazy"),
]
FORMS = ["Annotated[torch.Tensor, {}]", "typing.Annotated[torch.Tensor, 'rows', {}]"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kernel", "tensor"), KINDS)
def test_from_text(kernel: str, tensor: str, form: str):
    def seen(annotation: str):
        module = StaticModule("k.py", HEAD + kernel.format(annotation=annotation))
        report = check_kernel(module, module.kernels[0], "cuda:sm_90")
        assert not [p for p in report.problems if p.severity.value in ("error", "warning")]
        return [(b.name, b.scope, b.shape, b.dtype, b.role) for b in report.facts.buffers]

    plain = seen(tensor)
    assert ("A", "global", (tensor[10], 128), "float32", "parameter") in plain
    assert seen(form.format(tensor)) == plain


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kernel", "tensor"), KINDS)
def test_when_called(kernel: str, tensor: str, form: str, tmp_path: Path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    path = tmp_path / "kernels.py"
    path.write_text(HEAD + kernel.format(annotation=form.format(tensor)), encoding="utf-8")
    names: dict[str, object] = {"__name__": "kernels"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    double = names["double"]
    a = torch.randn(3, 128)
    found = double()(a) if kernel is LAZY else double(a)  # type: ignore[operator]
    torch.testing.assert_close(found, a * 2)
