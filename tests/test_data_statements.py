"""Workspaces, transposes, windows, safe values, assumptions, views, prints and assertions on both devices."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES, compiled_for, random

pytestmark = pytest.mark.parametrize("device", DEVICES)


@tilelang.jit
def through_workspace(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float32")
    B = T.empty((N, M), "float32")
    with T.Kernel(T.ceildiv(M, 32), T.ceildiv(N, 32), threads=64) as (bx, by):
        space = T.alloc_global((M, N), "float32")
        a = T.alloc_shared((32, 32), "float32")
        b = T.alloc_shared((32, 32), "float32")
        T.copy(A[bx * 32, by * 32], a)
        T.copy(a, space[bx * 32, by * 32])
        T.copy(space[bx * 32, by * 32], a)
        T.transpose(a, b)
        T.copy(b, B[by * 32, bx * 32])
    return B


@pytest.mark.parametrize("shape", [(64, 96), (50, 70)])
def test_workspace_and_transpose(device, shape):
    a = random(*shape, device=device)
    kernel = compiled_for(through_workspace, device)
    assert torch.equal(kernel(a), a.T)
    assert [p.name for p in kernel.compile(a).params] == ["A", "B"]


@tilelang.jit
def convolution(X, W, stride: int, dilation: int, pad: int, kernel: int):
    N, H, Wd, C, F = T.const("N, H, Wd, C, F")
    X: T.Tensor((N, H, Wd, C), "float16")
    W: T.Tensor((kernel * kernel * C, F), "float16")
    OH = (H + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    OW = (Wd + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    Y = T.empty((N * OH * OW, F), "float32")
    with T.Kernel(T.ceildiv(F, 32), T.ceildiv(N * OH * OW, 64), threads=128) as (bx, by):
        col = T.alloc_shared((64, 32), "float16")
        w = T.alloc_shared((32, 32), "float16")
        acc = T.alloc_fragment((64, 32), "float32")
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(kernel * kernel * C, 32), num_stages=2):
            T.im2col(X, col, by, k, kernel, stride, dilation, pad)
            T.copy(W[k * 32, bx * 32], w)
            T.gemm(col, w, acc)
        T.copy(acc, Y[by * 64, bx * 32])
    return Y


@tilelang.jit
def second_of_two(X, Y):
    X: T.Tensor((2, 4, 4, 8), "float32")
    Y: T.Tensor((2, 16, 8), "float32")
    with T.Kernel(1, threads=32):
        windows = T.alloc_shared((16, 8), "float32")
        planes = T.alloc_shared((2, 8, 16), "float32")
        turned = T.alloc_shared((2, 16, 8), "float32")
        T.im2col(X[1, :, :, :], windows, 0, 0, 1, 1, 1, 0)
        for n, i, j in T.Parallel(2, 8, 16):
            planes[n, i, j] = windows[j, i] * (n + 1)
        T.transpose(planes, turned)
        T.copy(turned, Y)


def test_windows_of_one_image_and_planes_turned_over(device):
    x, y = random(2, 4, 4, 8, device=device), random(2, 16, 8, device=device)
    compiled_for(second_of_two, device)(x, y)
    windows = x[1].reshape(16, 8)
    assert torch.equal(y, torch.stack([windows, windows * 2]))


@tilelang.jit
def rows_of_a_view(A, B):
    N = T.dynamic("N")
    A: T.Tensor((N, 64), "float32")
    B: T.Tensor((N * 2, 32), "float32")
    with T.Kernel(N * 2, threads=32) as b:
        view = T.reshape(A, (-1, 32))
        for j in T.Parallel(32):
            B[b, j] = view[b, j]


def test_what_is_left_of_a_size_of_the_call(device):
    a, b = random(5, 64, device=device), random(10, 32, device=device)
    compiled_for(rows_of_a_view, device)(a, b)
    assert torch.equal(b, a.reshape(10, 32))


WINDOWS = [(1, 1, 1, 3), (2, 1, 0, 3), (1, 2, 2, 3), (1, 1, 0, 1)]


@pytest.mark.parametrize(("stride", "dilation", "pad", "kernel"), WINDOWS)
def test_im2col(device, stride, dilation, pad, kernel):
    x = random(2, 10, 12, 16, dtype=torch.float16, device=device)
    w = random(kernel, kernel, 16, 32, dtype=torch.float16, device=device)
    found = compiled_for(convolution, device)(
        x, w.reshape(-1, 32), stride=stride, dilation=dilation, pad=pad, kernel=kernel
    )
    want = torch.nn.functional.conv2d(
        x.double().permute(0, 3, 1, 2), w.double().permute(3, 2, 0, 1), None, stride, pad, dilation
    )
    torch.testing.assert_close(
        found.double(), want.permute(0, 2, 3, 1).reshape(found.shape), rtol=1e-3, atol=1e-2
    )


@tilelang.jit
def outside(A, value: float):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((64,), "float32")
    with T.Kernel(1, threads=64):
        T.annotate_safe_value({A: value})
        T.annotate_l2_hit_ratio({A: 0.5})
        T.annotate_restrict_buffers(A, B)
        tile = T.alloc_shared((64,), "float32")
        T.copy(A[0], tile)
        T.copy(tile, B)
    return B


def test_safe_values(device):
    a = random(40, device=device)
    found = compiled_for(outside, device)(a, value=-1.5)
    assert torch.equal(found, torch.cat([a, torch.full((24,), -1.5, device=device)]))


@tilelang.jit
def assumed(A):
    N = T.dynamic("N")
    A: T.Tensor((16, N), "float16")
    B = T.empty((16, N), "float16")
    with T.Kernel(T.ceildiv(N, 256), 16, threads=32) as (bx, by):
        T.assume(N % 8 == 0)
        for i in T.Parallel(256):
            B[by, bx * 256 + i] = A[by, bx * 256 + i] * 2
    return B


@pytest.mark.parametrize("n", [8, 256, 520])
def test_assumptions(device, n):
    a = random(16, n, dtype=torch.float16, device=device)
    assert torch.equal(compiled_for(assumed, device)(a), a * 2)


@tilelang.jit
def viewed(A):
    A: T.Tensor((32, 64), "float32")
    B = T.empty((4, 8, 64), "float32")
    C = T.empty((32, 128), "float16")
    with T.Kernel(1, threads=128):
        f = T.alloc_fragment((32, 64), "float32")
        T.copy(A, f)
        g = T.reshape(f, (4, 8, 64))
        for i, j, k in T.Parallel(4, 8, 64):
            g[i, j, k] = g[i, j, k] * 2 + i
        T.copy(g, B)
        h = T.view(f, (32, 128), "float16")
        T.copy(h, C)
    return B, C


def test_views_of_fragments(device):
    a = random(32, 64, device=device)
    b, c = compiled_for(viewed, device)(a)
    want = a.reshape(4, 8, 64) * 2 + torch.arange(4, device=device).reshape(4, 1, 1)
    assert torch.equal(b, want)
    assert torch.equal(c.view(torch.int16), want.reshape(32, 64).view(torch.int16))


@tilelang.jit
def gathered(A, Index):
    N, M = T.const("N, M")
    A: T.Tensor((N, 8), "float32")
    Index: T.Tensor((M,), "int32")
    B = T.empty((M, 8), "float32")
    C = T.empty((N, 8), "float32")
    with T.Kernel(1, threads=64):
        for i, j in T.Parallel(N, 8):
            C[i, j] = 0
        for i, j in T.Parallel(M, 8):
            B[i, j] = A[Index[i], j]
        for i, j in T.Parallel(M, 8):
            C[Index[i], j] = 1
    return B, C


def test_indices_from_memory_may_lie_anywhere(device):
    a = random(50, 8, device=device)
    index = torch.randint(-(10**8), 10**8, (70,), generator=torch.Generator().manual_seed(1)).int()
    index[::2] = torch.randint(0, 50, (35,), generator=torch.Generator().manual_seed(2)).int()
    index = index.to(device)
    b, c = compiled_for(gathered, device)(a, index)
    inside = (index >= 0) & (index < 50)
    assert torch.equal(b, torch.where(inside[:, None], a[index.clamp(0, 49).long()], 0.0))
    want = torch.zeros_like(c)
    want[index[inside].long()] = 1
    assert torch.equal(c, want)


@tilelang.jit
def talking(A, limit: int):
    A: T.Tensor((4,), "int32")
    B = T.empty((4,), "int32")
    with T.Kernel(1, threads=32):
        tile = T.alloc_shared((4,), "int32")
        T.copy(A, tile)
        T.print(tile, msg="tile")
        T.device_assert(tile[0] < limit, "too large")
        for i in T.Parallel(4):
            assert tile[i] < limit
        T.copy(tile, B)
    return B


def test_print_and_assert(device, capfd):
    a = torch.tensor([3, 4, 5, 6], dtype=torch.int32, device=device)
    compiled_for(talking, device)(a, limit=100)
    if device == "cuda":
        torch.cuda.synchronize()
    lines = capfd.readouterr().out.splitlines()
    assert [line.partition("index=")[2] for line in lines if "buffer=tile" in line] == [
        f"({k}), dtype=int32 value={k + 3}" for k in range(4)
    ]
    if device == "cpu":  # a failing assertion ends the device's context, so it is tried on the CPU alone
        with pytest.raises(RuntimeError, match=r"test_data_statements\.py:\d+: assertion failed: too large"):
            compiled_for(talking, device)(a, limit=3)
        with pytest.raises(RuntimeError, match=r"assertion failed: `tile\[i\] < limit` does not hold"):
            compiled_for(talking, device)(a, limit=5)


@tilelang.jit
def with_strides(A):
    A: T.Tensor((32, 64), "float32")
    B = T.empty((64, 32), "float32")
    C = T.empty((16, 64), "float32")
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((32, 64), "float32")
        T.copy(A, s)
        T.copy(T.view(s, (64, 32), strides=(1, 64)), B)
        T.copy(T.view(s, (2, 16, 64), strides=(64, 128, 1))[1, :, :], C)
    return B, C


def test_views_with_strides(device):
    a = random(32, 64, device=device)
    b, c = compiled_for(with_strides, device)(a)
    assert torch.equal(b, a.T)
    assert torch.equal(c, a[1::2])


@tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS: True})
def unguarded(A):
    N = T.dynamic("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(N // 32, threads=32) as bx:
        for i in T.Parallel(32):
            T.assume(N >= 32)
            B[bx * 32 + i] = A[bx * 32 + i]
    return B


def test_guards_are_left_out_where_the_author_vouches(device):
    a = random(96, device=device)
    kernel = compiled_for(unguarded, device)
    assert torch.equal(kernel(a), a)
    assert "if" not in kernel.compile(a).get_kernel_source().partition("{")[2]
