"""Vector addition of any length with one compilation: the length is read from the tensors at each launch."""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def add_any(block: int = 256, dtype=T.float32):
    N = T.dynamic("N")

    @T.prim_func
    def add_any_kernel(
        A: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
        C: T.Tensor((N,), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block), threads=block) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return add_any_kernel


def ref_program(A, B):
    return A + B


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = add_any()
    lengths = (1, 255, 256, 257, 1_000_003)
    for n in lengths:
        a, b = torch.randn(n, device=device), torch.randn(n, device=device)
        torch.testing.assert_close(kernel(a, b), ref_program(a, b))
    print(f"add_any on {device}: one kernel, correct for {', '.join(map(str, lengths))} elements")


if __name__ == "__main__":
    main()
