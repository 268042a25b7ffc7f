"""How kernels over rows and elements are measured: norms, softmax, casts, scans, selections."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.works.work import F32, Work, randn, size_of, workers


def reading(
    sizes: tuple[int, ...], peer_name: str, peer: Callable[..., object], outputs: float = 1, **options: Any
) -> Callable[[ModuleType, str], Work]:
    """A kernel with its own `inputs(*sizes)` that reads all of them and writes `outputs` times the first."""

    def work(m: ModuleType, device: str) -> Work:
        given = m.inputs(*sizes, device)
        moved = size_of(*given) + outputs * size_of(given[0])
        return Work(given, lambda: peer(*given), peer_name, moved=moved, options=options)

    return work


def rms_norm(m: ModuleType, device: str) -> Work:
    x, w = randn(8192, 4096, device=device), randn(4096, device=device)
    moved = 2 * size_of(x)
    return Work(
        (x, w), lambda: F.rms_norm(x, (4096,), w), "rms_norm", moved=moved, compiled_from=(8192, 4096)
    )


def rms_norm_backward(m: ModuleType, device: str) -> Work:
    x, w, dy = m.inputs(8192, 4096, device)
    d_weight = torch.zeros(4096, device=device)
    leaf, leaf_w = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = F.rms_norm(leaf, (4096,), leaf_w)
    peer = lambda: torch.autograd.grad(y, (leaf, leaf_w), dy, retain_graph=True)  # noqa: E731
    options = {"workers": 2 * workers(device)}
    return Work((x, w, dy, d_weight), peer, "autograd", moved=3 * size_of(x), options=options)


def add_rms_norm(m: ModuleType, device: str) -> Work:
    x, residual, w = m.inputs(8192, 4096, device)
    peer = lambda: F.rms_norm(x + residual, (4096,), w)  # noqa: E731
    return Work((x, residual, w), peer, "add, rms_norm", moved=4 * size_of(x))


def softmax(m: ModuleType, device: str) -> Work:
    x = randn(8192, 8192, dtype=F32, device=device)
    return Work((x,), lambda: torch.softmax(x, 1), "torch.softmax", moved=2 * size_of(x))


def cross_entropy(m: ModuleType, device: str) -> Work:
    x, labels = m.inputs(4096, 128256, device)
    wide = labels.long()
    peer = lambda: F.cross_entropy(x, wide, reduction="none")  # noqa: E731
    return Work((x, labels), peer, "cross_entropy", moved=size_of(x))


def vector_add(m: ModuleType, device: str) -> Work:
    a, b = randn(1 << 26, dtype=F32, device=device), randn(1 << 26, dtype=F32, device=device)
    return Work((a, b), lambda: a + b, "torch.add", moved=3 * size_of(a))


def lazy_add(*compiled_from: Any) -> Callable[[ModuleType, str], Work]:
    def work(m: ModuleType, device: str) -> Work:
        a, b = randn(1 << 26, dtype=F32, device=device), randn(1 << 26, dtype=F32, device=device)
        moved = 3 * size_of(a)
        return Work((a, b), lambda: a + b, "torch.add", moved=moved, compiled_from=compiled_from)

    return work


def silu_add(m: ModuleType, device: str) -> Work:
    a, b = randn(8192, 8192, device=device), randn(8192, 8192, device=device)
    return Work((a, b), lambda: F.silu(a) + b, "silu, add", moved=3 * size_of(a))


def cumsum(m: ModuleType, device: str) -> Work:
    x = randn(8192, 8192, dtype=F32, device=device)
    return Work((x,), lambda: torch.cumsum(x, 1), "torch.cumsum", moved=2 * size_of(x))


def cast_fp8(m: ModuleType, device: str) -> Work:
    x = randn(8192, 8192, device=device)
    return Work((x,), lambda: m.ref_program(x), "torch, op by op", moved=1.5 * size_of(x))


def top_k(m: ModuleType, device: str) -> Work:
    x = randn(65536, 256, dtype=F32, device=device)
    return Work((x,), lambda: torch.topk(x, 8), "torch.topk", moved=size_of(x), options={"k": 8})


def radix_top_k(m: ModuleType, device: str) -> Work:
    (x,) = m.inputs(1024, 65536, device)
    return Work((x,), lambda: torch.topk(x, 256), "torch.topk", moved=size_of(x), options={"k": 256})


def hadamard(m: ModuleType, device: str) -> Work:
    (x,) = m.inputs(16384, 4096, device)
    matrix = randn(4096, 4096, device=device)
    moved = 2 * size_of(x)
    return Work((x,), lambda: x @ matrix, "cuBLAS, the matrix", moved=moved, options={"bits": 12})


def swiglu_torch(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, dim=1)
    return F.silu(gate) * up


def rotary_torch(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=3)
    c, s = cos[None, :, None, :].to(x.dtype), sin[None, :, None, :].to(x.dtype)
    return torch.cat([a * c - b * s, b * c + a * s], dim=3)
