"""A kernel with a planted mistake, in this style: parametrised."""

import pytest
import torch
import tilelang
import tilelang.language as T
import tilelang.testing


def tl_sum(M, N, bm, dtype):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M,), dtype)):
        with T.Kernel(T.ceildiv(M, bm), threads=128) as b:
            a = T.alloc_fragment((bm, N), dtype)
            s = T.alloc_fragment((bm,), dtype)
            T.copy(A[b * bm, 0], a)
            T.reduce_sum(a, s, dim=0)  # wrong
            T.copy(s, B[b * bm])

    return main


def run(M, N, bm=32, dtype="float32"):
    k = tilelang.compile(tl_sum(M, N, bm, dtype), out_idx=-1)
    x = torch.randn(M, N).cuda()
    torch.testing.assert_close(k(x), x.sum(1))


@pytest.mark.parametrize("M, N", [(128, 256), (512, 128)])
def test_sum(M, N):
    run(M, N)


if __name__ == "__main__":
    tilelang.testing.main()
