"""How linear attention is measured: retention, state spaces, delta rules."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch

from benchmarks.works.attention import sdpa
from benchmarks.works.work import BF16, F32, Work, randn, size_of


def chunked_retention(m: ModuleType, device: str) -> Work:
    b, s, h, d = 8, 4096, 16, 128
    q, k, v = (randn(b, s, h, d, device=device) for _ in range(3))
    decay = torch.full((h,), -0.01, device=device)
    first = [x.transpose(1, 2) for x in (q, k, v)]
    peer = lambda: sdpa(*first)  # noqa: E731
    return Work((q, k, v, decay), peer, "sdpa, same shape", moved=4 * size_of(q))


def linear_attention(m: ModuleType, device: str) -> Work:
    b, s, h, d = 8, 8192, 16, 128
    q, k, v = (randn(b, s, h, d, dtype=BF16, device=device) for _ in range(3))
    state = torch.zeros(b, h, d, d, device=device)
    norm = torch.zeros(b, h, d, device=device)
    return Work((q, k, v, state, norm), lambda: m.ref_program(q, k, v), "torch, f32", moved=4 * size_of(q))


def chunk_state(m: ModuleType, device: str) -> Work:
    b, s, h, d, n, chunk = 8, 4096, 80, 64, 128, 256
    given = m.inputs(b, s, h, d, 1, n, chunk, device)
    return Work(given, lambda: m.ref_program(*given), "torch, f32", 2 * b * s * h * d * n)


def chunk_scan(m: ModuleType, device: str) -> Work:
    b, s, h, d, n, chunk = 8, 4096, 80, 64, 128, 256
    sizes = (b, s, chunk, 1, h, d, n)
    given = m.inputs(*sizes, device)
    part = [t[:1] for t in given[:-1]]  # the reference keeps the decay of all pairs
    peer = lambda: [m.ref_program(*part, given[-1]) for _ in range(b)]  # noqa: E731
    flops = 2 * b * s * h * d * (chunk / 2 + n)
    return Work(given, peer, "torch, f32", flops, compiled_from=sizes)


def delta_rule(kernel: str) -> Callable[[ModuleType, str], Work]:
    """One of the kernels of the gated delta rule; peers are gemms as large as its own."""

    def work(m: ModuleType, device: str) -> Work:
        b, s, h, d, chunk = 8, 4096, 16, 128, m.CHUNK
        q, k, v = (randn(b, s, h, d, dtype=BF16, device=device) for _ in range(3))
        beta, sums = (randn(b, s, h, dtype=F32, device=device) for _ in range(2))
        states = randn(b, s // chunk, h, d, d, dtype=BF16, device=device)
        inputs = {
            "wy_representation": (k, v, beta, sums),
            "chunk_states": (k, q, v, sums),
            "chunk_outputs": (q, k, v, states, sums),
        }
        rows = q.reshape(-1, chunk, d)
        before = states.reshape(-1, d, d)
        peer = lambda: (rows @ rows.mT) @ (rows @ before)  # noqa: E731
        moved = size_of(*inputs[kernel]) + size_of(v)
        return Work(inputs[kernel], peer, "cuBLAS, three gemms", moved=moved)

    return work


def channel_delta_rule(kernel: str) -> Callable[[ModuleType, str], Work]:
    """One of the kernels of the delta rule with a gate per channel; peers are gemms as large as its own."""

    def work(m: ModuleType, device: str) -> Work:
        b, s, h, d, chunk = 4, 4096, 16, 128, m.CHUNK
        q, k, v, beta, gates = m.inputs(b, s, h, d, d, device)
        products = randn(b, h, s // chunk, chunk, chunk, dtype=F32, device=device)
        states = randn(b, s // chunk, h, d, d, dtype=BF16, device=device)
        inputs = {
            "pair_products": (q, k, gates, beta),
            "wy_representation": (k, v, beta, gates, products),
            "chunk_states": (k, q, v, gates),
            "chunk_outputs": (q, gates, products.to(BF16), v, states),
        }
        rows, before = q.reshape(-1, chunk, d), states.reshape(-1, d, d)
        peer = lambda: (rows @ rows.mT) @ (rows @ before)  # noqa: E731
        moved = size_of(*inputs[kernel]) + size_of(v)
        return Work(inputs[kernel], peer, "cuBLAS, three gemms", moved=moved)

    return work
