"""T.annotate_layout on both devices: swizzles, functions and fragments; global tensors really move."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES, compiled_for, random
from tilelang.layout import (
    make_fully_replicated_layout_fragment,
    make_gemm_fragment_8x8,
    make_gemm_fragment_8x8_transposed,
    make_swizzled_layout,
)

pytestmark = pytest.mark.parametrize("device", DEVICES)


@tilelang.jit
def gemm(A, B, stages: int = 2, block_M: int = 64, block_N: int = 64, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float16")
    B: T.Tensor((K, N), "float16")
    C = T.empty((M, N), "float16")
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        a = T.alloc_shared((block_M, block_K), "float16")
        b = T.alloc_shared((block_K, block_N), "float16")
        c = T.alloc_shared((block_M, block_N), "float16")
        acc = T.alloc_fragment((block_M, block_N), "float32")
        T.annotate_layout(
            {
                a: make_swizzled_layout(a),
                b: tilelang.layout.make_linear_layout(b),
                c: T.Layout(c.shape, lambda i, j: (i, j ^ (i % 8 * 8))),
            }
        )
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, acc)
        T.copy(acc, c)
        T.copy(c, C[by * block_M, bx * block_N])
    return C


@pytest.mark.parametrize("stages", [0, 2])
@pytest.mark.parametrize("shape", [(128, 64, 96), (70, 65, 40)])
def test_gemm_with_layouts_by_hand(device, stages, shape):
    m, n, k = shape
    a, b = random(m, k, dtype=torch.float16, device=device), random(k, n, dtype=torch.float16, device=device)
    found = compiled_for(gemm, device)(a, b, stages=stages)
    torch.testing.assert_close(found.double(), a.double() @ b.double(), rtol=5e-3, atol=5e-2)


def blocked(X):
    """The order in which a gradient is accumulated: two neighbours of d apart, eight rows together."""
    return T.Layout(X.shape, lambda b, s, h, d: [b, s // 8, h, d // 8, (d % 2), 4 * (s % 8) + (d % 8) // 2])


@tilelang.jit
def store_blocked(X, rows: int = 16):
    B, S, H, D = T.const("B, S, H, D")
    X: T.Tensor((B, S, H, D), "float32")
    Y = T.empty((B, S, H, D), "float32")
    with T.Kernel(T.ceildiv(S, rows), H, B, threads=64) as (bx, by, bz):
        T.annotate_layout({Y: blocked(Y)})
        f = T.alloc_fragment((rows, D), "float32")
        T.copy(X[bz, bx * rows : (bx + 1) * rows, by, :], f)
        T.copy(f, Y[bz, bx * rows : (bx + 1) * rows, by, :])
    return Y


@tilelang.jit
def load_blocked(Y, rows: int = 16):
    B, S, H, D = T.const("B, S, H, D")
    Y: T.Tensor((B, S, H, D), "float32")
    X = T.empty((B, S, H, D), "float32")
    with T.Kernel(T.ceildiv(S, rows), H, B, threads=64) as (bx, by, bz):
        T.annotate_layout({Y: blocked(Y)})
        f = T.alloc_shared((rows, D), "float32")
        T.copy(Y[bz, bx * rows : (bx + 1) * rows, by, :], f)
        T.copy(f, X[bz, bx * rows : (bx + 1) * rows, by, :])
    return X


def test_a_global_tensor_is_stored_in_its_annotated_order(device):
    b, s, h, d = 2, 32, 3, 16
    x = random(b, s, h, d, device=device)
    y = compiled_for(store_blocked, device)(x)
    index = torch.arange(b * s * h * d, device=device).reshape(b, s, h, d)
    ib, is_, ih, id_ = torch.meshgrid(*(torch.arange(n, device=device) for n in (b, s, h, d)), indexing="ij")
    parts = [(ib, b), (is_ // 8, s // 8), (ih, h), (id_ // 8, d // 8), (id_ % 2, 2)]
    place = torch.zeros_like(index)
    for part, extent in [*parts, (4 * (is_ % 8) + id_ % 8 // 2, 32)]:
        place = place * extent + part
    assert torch.equal(y.flatten()[place], x)
    assert not torch.equal(y, x)
    assert torch.equal(compiled_for(load_blocked, device)(y), x)


@tilelang.jit
def twice(X, fragment: str):
    X: T.Tensor((64, 64), "float32")
    Y = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        f = T.alloc_fragment((64, 64), "float32")
        if fragment == "both":
            T.annotate_layout(
                {f: T.Fragment((64, 64), lambda i, j: (i % 32 * 4 + j % 4, i // 32 * 16 + j // 4))}
            )
        elif fragment == "thread":
            T.annotate_layout({f: T.Fragment((64, 64), forward_thread_fn=lambda i, j: i + j // 32 * 64)})
        else:
            T.annotate_layout({f: T.Fragment((64, 64), lambda i, j, copy: (i + copy * 64, j), replicate=2)})
        T.copy(X, f)
        for i, j in T.Parallel(64, 64):
            f[i, j] = f[i, j] * 2
        T.copy(f, Y)
    return Y


@pytest.mark.parametrize("fragment", ["both", "thread", "copies"])
def test_fragments_by_hand(device, fragment):
    x = random(64, 64, device=device)
    assert torch.equal(compiled_for(twice, device)(x, fragment=fragment), x * 2)


def replicated(shape):
    @T.prim_func
    def main(A: T.Tensor(shape, "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment(shape, "float32")
            T.annotate_layout({tile: make_fully_replicated_layout_fragment(tile, 64)})
            T.copy(A, tile)
            T.copy(tile, B)

    return main


@T.prim_func
def matrix(A: T.Tensor((8, 8), "float16"), B: T.Tensor((8, 8), "float16"), C: T.Tensor((8, 8), "float16")):
    with T.Kernel(1, threads=32):
        rows, columns = T.alloc_fragment((8, 8), "float16"), T.alloc_fragment((8, 8), "float16")
        T.annotate_layout({rows: make_gemm_fragment_8x8(), columns: make_gemm_fragment_8x8_transposed()})
        T.copy(A, rows)
        T.copy(rows, B)
        T.copy(A, columns)
        T.copy(columns, C)


@pytest.mark.parametrize("shape", [(5,), (4, 8), (2, 3, 4), (2, 2, 2, 3)])
def test_every_thread_may_hold_a_whole_tile(device, shape):
    elements = torch.Size(shape).numel()
    a = random(*shape, dtype=torch.float32, device=device)
    kernel = tilelang.compile(replicated(shape), out_idx=-1, target="auto" if device == "cuda" else "cpu")
    assert torch.equal(kernel(a), a)
    source = tilelang.lower(replicated(shape), target="cuda:sm_80").kernel_source
    assert f"float tile[{elements}];" in source


def test_the_matrices_of_ldmatrix_have_names(device):
    a = random(8, 8, dtype=torch.float16, device=device)
    kernel = tilelang.compile(matrix, out_idx=[1, 2], target="auto" if device == "cuda" else "cpu")
    assert all(torch.equal(found, a) for found in kernel(a))
    source = tilelang.lower(matrix, target="cuda:sm_80").kernel_source
    assert "*(unsigned*)&rows[0] = *(const unsigned*)&A[tx * 2];" in source
    assert "columns[r] = A[tx % 4 * 16 + r * 8 + tx / 4];" in source
