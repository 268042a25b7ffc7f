"""How the products are measured: gemms, products with vectors, convolutions, experts."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.works.work import BF16, Work, ints, randn, size_of, workers


def square(kernel_size: int = 4096, **options: Any) -> Callable[[ModuleType, str], Work]:
    """A · B of square f16 matrices by an example with its own inputs."""

    def work(m: ModuleType, device: str) -> Work:
        a, b, *rest = m.inputs(kernel_size, kernel_size, kernel_size, device)
        return Work((a, b, *rest), lambda: a @ b, "cuBLAS", 2 * kernel_size**3, options=options)

    return work


def gemm(m: ModuleType, device: str) -> Work:
    a, b = randn(4096, 4096, device=device), randn(4096, 4096, device=device)
    return Work((a, b), lambda: a @ b.T, "cuBLAS", 2 * 4096**3, compiled_from=(4096, 4096, 4096))


def gemm_any_m(m: ModuleType, device: str) -> Work:
    a, b = randn(4096, 4096, device=device), randn(4096, 4096, device=device)
    return Work((a, b), lambda: a @ b, "cuBLAS", 2 * 4096**3, compiled_from=(4096, 4096))


def quickstart(m: ModuleType, device: str) -> Work:
    a, b = randn(4096, 4096, device=device), randn(4096, 4096, device=device)
    return Work((a, b), lambda: torch.relu(a @ b), "cuBLAS, relu", 2 * 4096**3)


def split_k(m: ModuleType, device: str) -> Work:
    a, b = randn(128, 16384, device=device), randn(16384, 4096, device=device)
    c = torch.zeros(128, 4096, device=device)
    flops = 2 * 128 * 4096 * 16384
    return Work((a, b, c), lambda: a @ b, "cuBLAS", flops, size_of(a, b, c), options={"splits": 8})


def stream_k(m: ModuleType, device: str) -> Work:
    a, b, c = m.inputs(1920, 2048, 8192, device)
    flops = 2 * 1920 * 2048 * 8192
    return Work((a, b, c), lambda: a @ b, "cuBLAS", flops, options={"workers": workers(device)})


def persistent(m: ModuleType, device: str) -> Work:
    a, b = m.inputs(4096, 4096, 4096, device)
    return Work((a, b), lambda: a @ b, "cuBLAS", 2 * 4096**3, options={"workers": workers(device)})


def batched(m: ModuleType, device: str) -> Work:
    a, b = m.inputs(32, 1024, 1024, 1024, device)
    return Work((a, b), lambda: torch.bmm(a, b), "torch.bmm", 2 * 32 * 1024**3)


def transposed(ta: bool, tb: bool) -> Callable[[ModuleType, str], Work]:
    def work(m: ModuleType, device: str) -> Work:
        a, b = m.inputs(4096, 4096, 4096, device, ta, tb)
        options = {"transpose_A": ta, "transpose_B": tb}
        peer = lambda: (a.T if ta else a) @ (b.T if tb else b)  # noqa: E731
        return Work((a, b), peer, "cuBLAS", 2 * 4096**3, options=options)

    return work


def fp8_scaled(m: ModuleType, device: str) -> Work:
    given = m.inputs(4096, 4096, 4096, device)
    a, b, row, column = given
    scales = {"scale_a": row[:, None], "scale_b": column[None, :]}
    peer = lambda: torch._scaled_mm(a, b.T, **scales, out_dtype=BF16)  # pyright: ignore  # noqa: E731
    return Work(given, peer, "torch._scaled_mm", 2 * 4096**3, peak="fp8")


def fp8_block_scaled(m: ModuleType, device: str) -> Work:
    given = m.inputs(4096, 4096, 4096, device)
    a, b = given[:2]
    one = torch.ones((), device=device)
    scales = {"scale_a": one, "scale_b": one}
    peer = lambda: torch._scaled_mm(a, b.T, **scales, out_dtype=BF16)  # pyright: ignore  # noqa: E731
    return Work(given, peer, "torch._scaled_mm, one scale", 2 * 4096**3, peak="fp8")


def w8a8(m: ModuleType, device: str) -> Work:
    given = m.inputs(4096, 4096, 4096, device)
    x, w, rows, columns, bias = given

    def peer() -> torch.Tensor:
        acc = torch._int_mm(x, w.T)  # pyright: ignore
        return F.gelu(acc * rows[:, None] * columns + bias).half()

    return Work(given, peer, "torch._int_mm, epilogue", 2 * 4096**3, peak="int8")


def int4(m: ModuleType, device: str) -> Work:
    given = m.inputs(4096, 4096, 4096, device)
    a, b = (ints(-8, 8, 4096, 4096, dtype=torch.int8, device=device) for _ in range(2))
    peer = lambda: torch._int_mm(a, b.T)  # pyright: ignore  # noqa: E731
    return Work(given, peer, "torch._int_mm, 8 bits", 2 * 4096**3, peak="int8")


def grouped(m: ModuleType, device: str) -> Work:
    lengths, n, k = (1000, 24, 2048, 0, 3000, 517, 1, 1602), 4096, 2048
    a, b, offsets = m.inputs(lengths, n, k, device)
    ends = [sum(lengths[:g]) for g in range(len(lengths) + 1)]
    parts = [(a[ends[g] : ends[g + 1]], b[g]) for g in range(len(lengths)) if lengths[g]]
    peer = lambda: [x @ w.T for x, w in parts]  # noqa: E731
    return Work((a, b, offsets), peer, "cuBLAS, group by group", 2 * sum(lengths) * n * k)


def block_sparse(m: ModuleType, device: str) -> Work:
    given = m.inputs(4096, 4096, 4096, device)
    full = randn(4096, 4096, device=device)
    return Work(given, lambda: given[0] @ full, "cuBLAS, dense", 2 * 4096 * given[1].numel())


def sparse_2_4(m: ModuleType, device: str) -> Work:
    a, e, b = m.inputs(4096, 4096, 4096, device)
    full = randn(4096, 4096, device=device)
    return Work((a, e, b), lambda: full @ b, "cuBLAS, dense", 2 * 4096**3)


def dequantised_int4(m: ModuleType, device: str) -> Work:
    a, full = randn(4096, 4096, device=device), randn(4096, 4096, device=device)
    b = ints(0, 256, 4096, 2048, dtype=torch.uint8, device=device)
    scales = randn(4096, 64, device=device)
    return Work((a, b, scales), lambda: a @ full.T, "cuBLAS, f16 weights", 2 * 4096**3)


def dequantised_fp4(m: ModuleType, device: str) -> Work:
    given = m.inputs(4096, 4096, 4096, device)
    full = randn(4096, 4096, device=device)
    return Work(given, lambda: given[0] @ full.T, "cuBLAS, f16 weights", 2 * 4096**3)


def dequantised_mxfp4(m: ModuleType, device: str) -> Work:
    given = m.inputs(64, 8192, 8192, device)
    full = randn(8192, 8192, dtype=BF16, device=device)
    peer = lambda: given[0] @ full.T  # noqa: E731
    return Work(given, peer, "cuBLAS, bf16 weights", 2 * 64 * 8192**2, size_of(*given))


def gemv(m: ModuleType, device: str) -> Work:
    a, x = randn(16384, 8192, device=device), randn(8192, device=device)
    return Work((a, x), lambda: a @ x, "torch.mv", moved=size_of(a, x))


def gemv_int4(m: ModuleType, device: str) -> Work:
    given = m.inputs(16384, 8192, device)
    full = randn(16384, 8192, device=device)
    return Work(given, lambda: full @ given[2], "torch.mv, f16 weights", moved=size_of(*given))


def gemv_int8(m: ModuleType, device: str) -> Work:
    given = m.inputs(16384, 8192, device)
    full, x = randn(16384, 8192, device=device), randn(8192, device=device)
    return Work(given, lambda: full @ x, "torch.mv, f16 weights", moved=size_of(*given))


def conv2d(m: ModuleType, device: str) -> Work:
    x, w = randn(32, 56, 56, 128, device=device), randn(3, 3, 128, 256, device=device)
    image = x.permute(0, 3, 1, 2)
    filters = w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    flops = 2 * 32 * 56 * 56 * 256 * 9 * 128
    return Work((x, w), lambda: F.conv2d(image, filters, padding=1), "cuDNN", flops)


def fused_moe(m: ModuleType, device: str) -> Work:
    tokens, k, n, experts, top = 4096, 2048, 1408, 64, 6
    x, w = randn(tokens, k, device=device), randn(experts, n, k, device=device)
    weights, chosen = torch.softmax(torch.randn(tokens, experts, device=device), -1).topk(top)
    rows, owner, shares = m.sort_by_expert(chosen, weights, experts)
    out = torch.zeros(tokens, n, device=device)
    lists = [(chosen == e).any(1).nonzero()[:, 0] for e in range(experts)]

    def peer() -> None:
        for expert, mine in enumerate(lists):
            out.index_add_(0, mine, (x[mine] @ w[expert].T).float())

    flops = 2 * tokens * top * k * n
    return Work((x, w, rows, owner, shares, out), peer, "cuBLAS, expert by expert", flops)


def gate_up_moe(kernel: str) -> Callable[[ModuleType, str], Work]:
    """One of the two kernels; the peer multiplies as many rows by each expert's weights, gathered already."""

    def work(m: ModuleType, device: str) -> Work:
        tokens, k, inner, experts, top = 4096, 2048, 1408, 64, 6
        x, gate, up, down, chosen, weights = m.inputs(tokens, k, inner, experts, top, device)
        rows, owners, shares = m.sort_by_expert(chosen, weights, experts)
        hidden = randn(len(rows), inner, dtype=BF16, device=device)
        per_expert = tokens * top // experts
        if kernel == "gate_up":
            a, both = randn(experts, per_expert, k, dtype=BF16, device=device), torch.cat([gate, up], 1)
            flops = 4 * tokens * top * k * inner
            return Work((x, gate, up, rows, owners), lambda: a @ both.mT, "torch.bmm, even", flops)
        out = torch.zeros(tokens, k, device=device)
        h = randn(experts, per_expert, inner, dtype=BF16, device=device)
        given = (hidden, down, rows, owners, shares, out)
        return Work(given, lambda: h @ down.mT, "torch.bmm, even", 2 * tokens * top * k * inner)

    return work
