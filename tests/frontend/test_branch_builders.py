"""`with T.If`, `T.Then`, `T.Else`, `T.While` are `if` and `while`; what they do not fit is refused."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.diagnostics.error import KernelError


def test_builders_mean_what_the_statements_mean():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            with T.If(A[tx] > 0):
                with T.Then(), T.If(A[tx] > 10):
                    with T.Then():
                        B[tx] = 1
                    with T.Else():
                        B[tx] = 2
                with T.Else():
                    B[tx] = 3
            with T.If(tx == 5), T.Then():
                n = T.alloc_var("int32", init=0)
                with T.While(n < 40):
                    n += 7
                B[tx] = n

    a, b = torch.arange(-32, 32, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    tilelang.compile(main, target="cpu")(a, b)
    wanted = torch.where(a > 10, 1, torch.where(a > 0, 2, 3)).to(torch.int32)
    wanted[5] = 42
    assert torch.equal(b, wanted)


def test_a_branch_without_its_condition_is_refused():
    with pytest.raises(KernelError, match=r"T.Then stands outside"):

        @T.prim_func
        def alone(B: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=64), T.Then():
                B[0] = 1

    with pytest.raises(KernelError, match=r"T.If holds one"):

        @T.prim_func
        def empty(B: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=64) as bx, T.If(bx == 0):
                B[0] = 1
