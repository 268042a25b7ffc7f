"""Vector addition in both styles of the language.

Eager: a function with tensors as parameters is the kernel; calling it compiles for their sizes, runs, and
returns the outputs. Lazy: a function returns a `@T.prim_func`; calling it with sizes gives a kernel, which is
called with tensors.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def add(A, B, block: int = 256):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)

    with T.Kernel(T.ceildiv(N, block), threads=block) as bx:
        for i in T.Parallel(block):
            # The last block may reach past the end: reads give zero there, writes are skipped.
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return C


@tilelang.jit(out_idx=[-1])
def add_lazy(N: int, block: int = 256, dtype=T.float32):
    @T.prim_func
    def add_kernel(
        A: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
        C: T.Tensor((N,), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block), threads=block) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return add_kernel


def ref_program(A, B):
    return A + B


def main(N: int = 1_000_000) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = torch.randn(N, device=device), torch.randn(N, device=device)
    expected = ref_program(a, b)

    torch.testing.assert_close(add(a, b), expected)

    kernel = add_lazy(N)
    torch.testing.assert_close(kernel(a, b), expected)

    latency = kernel.get_profiler().do_bench()
    print(f"add {N} on {device}: both styles correct, {3 * 4 * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
