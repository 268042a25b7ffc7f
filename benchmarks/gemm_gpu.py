"""Speed of f16 GEMM on the attached GPU beside cuBLAS (torch) in the same run: T.gemm as it is compiled by
default, with mma.sync, and on Hopper shared between warp groups by the compiler, and a kernel written for
warp groups, TMA and wgmma.

Prints TFLOP/s (L2 flushed) and the relative error against float32 on the same inputs. Exits 1 if a
result is wrong, 2 where there is no GPU. Sizes are M = N = K.
"""

from __future__ import annotations

import argparse
import sys

import torch

import tilelang
import tilelang.language as T
from tilelang.jit.functions import JITFunction
from tilelang.profiler import do_bench


@tilelang.jit
def matmul(A, B, block_M: int, block_N: int, block_K: int, stages: int, threads: int, panel: int = 0):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        T.use_swizzle(panel_size=panel, enable=panel > 0)
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, acc)
        T.copy(acc, C[by * block_M, bx * block_N])
    return C


@tilelang.jit
def by_groups(A, B, block_M: int, block_N: int, block_K: int, stages: int, threads: int, panel: int = 0):
    """One warp group loads by TMA, the others multiply; `threads` counts those that multiply."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    groups = threads // 128
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads + 128) as (bx, by):
        A_shared = T.alloc_shared((stages, block_M, block_K), T.float16)
        B_shared = T.alloc_shared((stages, block_K, block_N), T.float16)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        ready = T.alloc_barrier([1] * stages)
        done = T.alloc_barrier([threads] * stages)
        T.use_swizzle(panel_size=panel, enable=panel > 0)
        with T.ws(groups):
            T.dec_max_nreg(24)
            if T.get_thread_binding() == threads:
                for k in T.serial(T.ceildiv(K, block_K)):
                    T.mbarrier_wait_parity(done[k % stages], (k // stages % 2) ^ 1)
                    T.tma_copy(
                        A[by * block_M, k * block_K], A_shared[k % stages, :, :], barrier=ready[k % stages]
                    )
                    T.tma_copy(
                        B[k * block_K, bx * block_N], B_shared[k % stages, :, :], barrier=ready[k % stages]
                    )
                    T.mbarrier_arrive(ready[k % stages])
        with T.ws(*range(groups)):
            T.inc_max_nreg(240 if groups < 3 else 160)
            T.clear(acc)
            for k in T.serial(T.ceildiv(K, block_K)):
                s = k % stages
                T.mbarrier_wait_parity(ready[s], k // stages % 2)
                T.wgmma_gemm(A_shared[s, :, :], B_shared[s, :, :], acc, policy=T.GemmWarpPolicy.FullRow)
                T.wait_wgmma(1)
                if k > 0:
                    T.mbarrier_arrive(done[(k + stages - 1) % stages])
            T.wait_wgmma(0)
            T.copy(acc, C[by * block_M, bx * block_N])
    return C


PARAMETERS = ("block_M", "block_N", "block_K", "stages", "threads", "panel")
CONFIGS = [
    (128, 128, 32, 3, 128, 0),
    (128, 128, 32, 4, 128, 10),
    (128, 128, 64, 3, 128, 10),
    (128, 256, 32, 3, 256, 10),
    (128, 256, 64, 3, 256, 10),
    (256, 128, 32, 4, 256, 10),
    (128, 128, 64, 4, 256, 10),
    (256, 128, 64, 3, 256, 10),
    (128, 128, 128, 3, 256, 10),
]

# Warp-specialised: threads are those that multiply.
SPECIALISED = [
    (128, 128, 64, 4, 128, 10),
    (128, 128, 64, 4, 256, 10),
    (128, 256, 64, 4, 256, 0),
    (128, 256, 64, 4, 256, 10),
    (256, 128, 64, 4, 256, 10),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=[4096])
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU found: nothing measured")
        return 2
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    kernels, wrong = variants(), 0
    for size in args.sizes:
        a = torch.randn(size, size, device="cuda", dtype=torch.float16)
        b = torch.randn(size, size, device="cuda", dtype=torch.float16)
        expected = a.float() @ b.float()
        flops = 2 * size**3
        peer = do_bench(lambda a=a, b=b: a @ b)
        print(f"{size}: cuBLAS {flops / peer / 1e9:7.1f} TFLOP/s")
        for name, (kernel, configs) in kernels.items():
            for config in configs:
                run = kernel.compile(M=size, N=size, K=size, **dict(zip(PARAMETERS, config, strict=True)))
                error = ((run(a, b).float() - expected).norm() / expected.norm()).item()
                wrong += not error < 1e-3
                latency = do_bench(lambda run=run, a=a, b=b: run(a, b))
                speed = f"{flops / latency / 1e9:7.1f} TFLOP/s ({peer / latency:4.0%} of cuBLAS)"
                print(f"{size}: {name} {config}: {speed}, relative error {error:.1e}", flush=True)
    return 1 if wrong else 0


def variants() -> dict[str, tuple[JITFunction, list[tuple[int, ...]]]]:
    """Name -> the kernel and its configurations."""
    found = {"default": (matmul, CONFIGS)}
    if torch.cuda.get_device_capability() == (9, 0):
        keys = tilelang.PassConfigKey
        asked = {
            "mma.sync": {keys.TL_DISABLE_WGMMA: True},
            "wgmma by all threads": {keys.TL_DISABLE_WARP_SPECIALIZED: True},
            "warp-specialised by the compiler": {keys.TL_DISABLE_WARP_SPECIALIZED: False},
        }
        for name, configs in asked.items():
            options = matmul.options.with_pass_configs(configs)
            found[name] = (JITFunction(matmul.function, options), CONFIGS)
        found["TMA, warp groups"] = (by_groups, SPECIALISED)
    return found


if __name__ == "__main__":
    sys.exit(main())
