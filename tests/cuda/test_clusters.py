"""Copies for other blocks of a cluster: what is lowered, that it compiles, and on a device what it gives.

The emulator runs one block at a time, so what blocks write into each other is run on devices alone.
"""

from __future__ import annotations

import inspect
import re

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import lower_text
from tests.on_device import random
from tilelang.analysis.check import check_source
from tilelang.targets.driver import build

M, N = 64, 64
needs_sm_90 = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs an sm_90 GPU"
)


@tilelang.jit(target="cuda -arch=sm_90a")
def multicast(A, mask: int = 0b0110):
    A: T.Tensor((4, M, N), "float16")
    B = T.empty((4, M, N), "float16")
    with T.ClusterKernel(4, cluster_dims=(4, 1, 1), threads=128) as bx:
        tile = T.alloc_shared((M, N), "float16")
        there = T.alloc_barrier([1])
        T.cluster_sync()
        tx = T.get_thread_binding()
        T.tma_copy(A[bx, 0:M, 0:N], tile, barrier=there[0], cluster_mask=mask)
        if tx == 0:
            T.mbarrier_arrive(there[0])
        T.mbarrier_wait_parity(there[0], 0)
        T.copy(tile, B[bx, 0, 0])
        T.cluster_sync()
    return B


@tilelang.jit(target="cuda -arch=sm_90a")
def for_several(A, mask: int = 0b0110):
    A: T.Tensor((8, M, N), "float16")
    B = T.empty((8, M, N), "float16")
    with T.ClusterKernel(8, cluster_dims=(4, 1, 1), threads=128) as bx:
        tile = T.alloc_shared((M, N), "float16")
        T.copy_cluster(A[bx, 0:M, 0:N], tile, cluster_mask=mask)
        T.copy(tile, B[bx, 0, 0])
    return B


@tilelang.jit(target="cuda -arch=sm_90a")
def to_another(A, part: bool = False):
    A: T.Tensor((2, M, N), "float16")
    B = T.empty((2, M, N), "float16")
    with T.ClusterKernel(2, cluster_dims=(2, 1, 1), threads=128) as bx:
        mine = T.alloc_shared((M, N), "float16")
        received = T.alloc_shared((M, N), "float16")
        there = T.alloc_cluster_barrier([1])
        T.fill(received, 0)
        T.copy(A[bx, 0, 0], mine)
        T.fence_proxy_async()
        T.cluster_sync()
        if part:
            T.copy_cluster(
                mine[0:16, 0:32], received[8:24, 32:64], dst_block=bx % 2 ^ 1, remote_barrier=there[0]
            )
        else:
            T.copy_cluster(mine, received, dst_block=1 - T.block_rank_in_cluster(), remote_barrier=there[0])
        T.mbarrier_wait_parity(there[0], 0)
        T.copy(received, B[bx, 0, 0])
        T.cluster_sync()
    return B


@tilelang.jit(target="cuda -arch=sm_90a")
def by_threads(A, fragment: bool = False):
    A: T.Tensor((2, M, N), "float16")
    B = T.empty((2, M, N), "float32")
    with T.ClusterKernel(2, cluster_dims=(2, 1, 1), threads=128) as bx:
        received = T.alloc_shared((M, N), "float32")
        mine = T.alloc_fragment((M, N), "float16") if fragment else T.alloc_shared((M, N), "float16")
        T.copy(A[bx, 0, 0], mine)
        T.cluster_sync()
        T.copy_cluster(mine, received, dst_block=1 - T.block_rank_in_cluster())
        T.cluster_sync()
        T.copy(received, B[bx, 0, 0])
        T.cluster_sync()
    return B


def test_a_load_for_several_blocks_is_begun_by_the_lowest() -> None:
    source = multicast.get_kernel_source(mask=0b0110)
    assert re.search(r"if \(cluster_rank\(\) == 1\) \{\s*tma_load_multicast_3d\(", source)
    assert ".multicast::cluster" in source
    assert re.search(r"6 >> cluster_rank\(\)\)? & 1\)? == 0", source), source
    assert source.count("mbarrier_expect_tx(") >= 2  # the helper, and every block for itself


def test_each_block_copies_what_the_lowest_would_for_it() -> None:
    """The same in all blocks that the mask names; nobody writes into a block that still reads."""
    assert "multicast" not in for_several.get_kernel_source(mask=0b0110)
    everyone = for_several.get_kernel_source(mask=0b1111)
    assert re.search(r"A\[bx / 4 \* \d+", everyone), everyone


@pytest.mark.parametrize(("part", "copies", "size"), [(False, 1, 8192), (True, 16, 64)])
def test_bulk_copies_to_another_block(part: bool, copies: int, size: int) -> None:
    source = to_another.get_kernel_source(part=part)
    calls = re.findall(r"bulk_to_block\([^,]+, [^,]+, (\d+)u,", source)
    assert calls == [str(size)] * copies
    assert f"{copies * size}u);" in source  # the bytes that the barrier is told


@pytest.mark.parametrize("fragment", [False, True])
def test_threads_write_into_another_block(fragment: bool) -> None:
    assert "__cluster_map_shared_rank" in by_threads.get_kernel_source(fragment=fragment)


@pytest.mark.parametrize("kernel", [multicast, to_another, by_threads])
def test_it_compiles(kernel) -> None:
    assert build(lower_text(f"M, N = {M}, {N}\n\n{inspect.getsource(kernel.function)}", "cuda:sm_90a")).binary


REFUSED = {
    "T.copy_cluster(A, tile)": "takes either `dst_block`",
    "T.copy_cluster(A, tile, cluster_mask=16)": "one bit for each of the 2 blocks",
    "T.copy_cluster(A, tile, dst_block=1)": "`src` is in global",
    "T.copy_cluster(tile, other, dst_block=2)": "0 to 1",
    "T.copy_cluster(tile, A, cluster_mask=1)": "from global to shared",
    "T.tma_copy(tile, A, cluster_mask=1)": "into shared memory",
}


@pytest.mark.parametrize(("statement", "said"), REFUSED.items())
def test_refusals_help(statement: str, said: str) -> None:
    text = f"""
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A):
    A: T.Tensor((64, 64), T.float16)
    with T.Kernel(2, threads=128, cluster_dims=2) as bx:
        tile = T.alloc_shared((64, 64), "float16")
        other = T.alloc_shared((64, 64), "float16")
        T.fill(tile, 0)
        {statement}
        T.copy(tile, A)
"""
    problems = check_source("k.py", text, "cuda:sm_90").all_problems()
    assert any(said in problem.message for problem in problems), [p.message for p in problems]


# What a block that the mask names has is what the lowest of them loads.
SEEN = {0b0110: [0, 1, 1, 3], 0b1111: [0, 0, 0, 0], 0b1010: [0, 1, 2, 1]}


@pytest.mark.gpu
@needs_sm_90
@pytest.mark.parametrize("mask", SEEN)
def test_loads_for_several_blocks_on_a_device(mask: int) -> None:
    a = random(8, M, N, dtype=torch.float16).cuda()
    assert torch.equal(multicast(a[:4], mask=mask), a[SEEN[mask]])
    again = SEEN[mask] + [4 + k for k in SEEN[mask]]
    assert torch.equal(for_several(a, mask=mask), a[again])


@pytest.mark.gpu
@needs_sm_90
def test_copies_to_another_block_on_a_device() -> None:
    a = random(2, M, N, dtype=torch.float16).cuda()
    assert torch.equal(to_another(a), a.flip(0))
    want = torch.zeros_like(a)
    want[:, 8:24, 32:64] = a.flip(0)[:, 0:16, 0:32]
    assert torch.equal(to_another(a, part=True), want)
    for fragment in (False, True):
        assert torch.equal(by_threads(a, fragment=fragment), a.flip(0).float())
