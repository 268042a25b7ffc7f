"""How attention is measured, forward, backward and over caches."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.works.work import BF16, F32, Work, ints, randn, size_of


def attention_flops(batch: int, heads: int, rows: int, columns: int, dim: int, causal: bool) -> float:
    return 4 * batch * heads * rows * columns * dim / (2 if causal else 1)


def sdpa(q: Any, k: Any, v: Any, *, causal: bool = True) -> torch.Tensor:
    """torch's own attention, [batch, heads, seq, dim]; heads of k and v may be shared."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def flash_attention(m: ModuleType, device: str) -> Work:
    b, s, h, h_kv, d = 4, 4096, 32, 8, 128
    q = randn(b, s, h, d, device=device)
    k, v = (randn(b, s, h_kv, d, device=device) for _ in range(2))
    first = [x.transpose(1, 2) for x in (q, k, v)]
    peer = lambda: sdpa(*first)  # noqa: E731
    flops = attention_flops(b, h, s, s, d, True)
    return Work((q, k, v), peer, "sdpa", flops, options={"causal": True})


def flash_attention_bhsd(m: ModuleType, device: str) -> Work:
    b, s, h, h_kv, d = 4, 4096, 32, 8, 128
    q = randn(b, h, s, d, dtype=BF16, device=device)
    k, v = (randn(b, h_kv, s, d, dtype=BF16, device=device) for _ in range(2))
    peer = lambda: sdpa(q, k, v)  # noqa: E731
    made = (b, h, h_kv, s, s, d, True)
    return Work((q, k, v), peer, "sdpa", attention_flops(b, h, s, s, d, True), compiled_from=made)


def flash_attention_varlen(m: ModuleType, device: str) -> Work:
    lengths, h, d = (4096, 1000, 777, 2048, 130), 32, 128
    q, k, v = (randn(sum(lengths), h, d, device=device) for _ in range(3))
    starts = m.starts(list(lengths), "cpu").to(device)
    ends = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    parts = [
        [x[start:end].transpose(0, 1)[None] for x in (q, k, v)] for start, end in itertools.pairwise(ends)
    ]
    peer = lambda: [sdpa(*p) for p in parts]  # noqa: E731
    flops = sum(attention_flops(1, h, n, n, d, True) for n in lengths)
    inputs = (q, k, v, starts, starts, max(lengths))
    return Work(inputs, peer, "sdpa, one by one", flops, compiled_from=(h, h, d, True))


def flash_attention_backward(m: ModuleType, device: str) -> Work:
    b, h, s, d = 4, 16, 4096, 64
    q, k, v, d_out = (randn(b, h, s, d, device=device) for _ in range(4))
    log_sum, delta = (randn(b, h, s, dtype=F32, device=device) for _ in range(2))
    d_q = torch.zeros(b, h, s, d, device=device)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    out = sdpa(*leaves)
    peer = lambda: torch.autograd.grad(out, leaves, d_out, retain_graph=True)  # noqa: E731
    flops = 2.5 * attention_flops(b, h, s, s, d, True)
    return Work((q, k, v, d_out, log_sum, delta, d_q), peer, "sdpa backward", flops, options={"causal": True})


def attention_sink(m: ModuleType, device: str) -> Work:
    b, h, h_kv, s, d = 2, 64, 8, 4096, 64
    q = randn(b, h, s, d, dtype=BF16, device=device)
    k, v = (randn(b, h_kv, s, d, dtype=BF16, device=device) for _ in range(2))
    sinks = randn(h, dtype=BF16, device=device)
    peer = lambda: sdpa(q, k, v)  # noqa: E731
    return Work((q, k, v, sinks), peer, "sdpa, no sink", attention_flops(b, h, s, s, d, True))


def block_sparse_attention(m: ModuleType, device: str) -> Work:
    b, h, s, d, tile, seen = 1, 32, 8192, 128, 64, 0.25
    q, k, v = (randn(b, h, s, d, device=device) for _ in range(3))
    visits = (torch.rand(b, h, s // tile, s // tile) < seen).to(device)
    peer = lambda: sdpa(q, k, v)  # noqa: E731
    flops = seen * attention_flops(b, h, s, s, d, True)
    return Work((q, k, v, visits), peer, "sdpa, dense", flops, compiled_from=(b, h, s, s, d))


def flash_decoding(m: ModuleType, device: str) -> Work:
    b, h, h_kv, s, d, splits = 32, 32, 8, 8192, 128, 4
    q = randn(b, h, d, device=device)
    k, v = (randn(b, s, h_kv, d, device=device) for _ in range(2))
    lengths = torch.full((b,), s, dtype=torch.int32, device=device)
    partial = torch.empty(splits, b, h, d, device=device)
    log_sum = torch.empty(splits, b, h, device=device)
    given = (q[:, :, None], k.transpose(1, 2), v.transpose(1, 2))
    peer = lambda: sdpa(*given, causal=False)  # noqa: E731
    return Work((q, k, v, lengths, partial, log_sum), peer, "sdpa", moved=size_of(k, v))


def mla_decode(m: ModuleType, device: str) -> Work:
    b, h, latent, rope, s = 32, 128, 512, 64, 4096
    given = m.inputs(b, h, latent, rope, lengths=[s] * b, device=device)
    cache = randn(b, 1, s, latent + rope, device=device)
    q = randn(b, h, 1, latent + rope, device=device)
    values = cache[..., :latent]
    peer = lambda: torch.softmax(q @ cache.mT, -1) @ values  # noqa: E731
    flops = 2 * b * h * s * (2 * latent + rope)
    return Work(given, peer, "cuBLAS, softmax", flops, size_of(given[2], given[3]))


def gqa_backward(m: ModuleType, device: str) -> Work:
    b, s, h, h_kv, d = 2, 4096, 32, 8, 128
    q, d_out = (randn(b, s, h, d, dtype=BF16, device=device) for _ in range(2))
    k, v = (randn(b, s, h_kv, d, dtype=BF16, device=device) for _ in range(2))
    log_sum, delta = (randn(b, h, s, dtype=F32, device=device) for _ in range(2))
    d_q = torch.zeros(b, s, h, d, device=device)
    leaves = [x.transpose(1, 2).clone().requires_grad_() for x in (q, k, v)]
    out, above = sdpa(*leaves), d_out.transpose(1, 2)
    peer = lambda: torch.autograd.grad(out, leaves, above, retain_graph=True)  # noqa: E731
    flops = 2.5 * attention_flops(b, h, s, s, d, True)
    return Work((q, k, v, d_out, log_sum, delta, d_q), peer, "sdpa backward", flops)


def varlen_backward(m: ModuleType, device: str) -> Work:
    lengths, h, h_kv, d = (4096, 1000, 777, 2048, 130), 32, 8, 128
    q, k, v, d_out, starts = m.inputs(lengths, h, h_kv, d, "cpu" if device == "meta" else device)
    log_sum, delta = (randn(h, len(q), dtype=F32, device=q.device.type) for _ in range(2))
    d_q = torch.zeros(q.shape, device=q.device)
    runs = []
    for start, end in itertools.pairwise(starts.tolist()):
        leaves = [x[start:end].transpose(0, 1)[None].clone().requires_grad_() for x in (q, k, v)]
        above = d_out[start:end].transpose(0, 1)[None]
        runs.append((sdpa(*leaves) if device == "cuda" else None, leaves, above))
    peer = lambda: [torch.autograd.grad(o, x, a, retain_graph=True) for o, x, a in runs]  # noqa: E731
    flops = 2.5 * sum(attention_flops(1, h, n, n, d, True) for n in lengths)
    return Work(
        (q, k, v, d_out, log_sum, delta, starts, d_q, max(lengths)), peer, "sdpa backward, one by one", flops
    )


def paged_decoding(m: ModuleType, device: str) -> Work:
    b, s, h, h_kv, d = 32, 8192, 32, 8, 128
    given = m.inputs([s] * b, h, h_kv, d, device=device)
    q = given[0][:, :, None]
    k, v = (randn(b, h_kv, s, d, device=device) for _ in range(2))
    peer = lambda: sdpa(q, k, v, causal=False)  # noqa: E731
    return Work(given, peer, "sdpa, not paged", moved=size_of(k, v), compiled_from=(h, h_kv, d))


def mla_decode_split(m: ModuleType, device: str) -> Work:
    b, h, latent, rope, s = 32, 128, 512, 64, 4096
    given, scale = m.inputs([s] * b, h, latent, rope, device=device), (128 + rope) ** -0.5
    cache = randn(b, 1, s, latent + rope, dtype=BF16, device=device)
    q = randn(b, h, 1, latent + rope, dtype=BF16, device=device)
    values = cache[..., :latent]
    peer = lambda: torch.softmax(q @ cache.mT * scale, -1) @ values  # noqa: E731
    flops, read = 2 * b * h * s * (2 * latent + rope), size_of(given[2], given[3])
    return Work(given, peer, "cuBLAS, softmax", flops, read, compiled_from=(*given, scale))


def native_sparse_attention(m: ModuleType, device: str) -> Work:
    s, h, h_kv, d, choices, block = 8192, 64, 4, 128, 16, 64
    q = randn(1, s, h, d, device=device)
    k, v = (randn(1, s, h_kv, d, device=device) for _ in range(2))
    chosen = m.choose(1, s, h_kv, choices, block, device)
    first = [x.transpose(1, 2) for x in (q, k, v)]
    peer = lambda: sdpa(*first)  # noqa: E731
    return Work((q, k, v, chosen), peer, "sdpa, dense", 4 * s * h * choices * block * d)


def indexer_scores(m: ModuleType, device: str) -> Work:
    s, h, d = 8192, 32, 128
    given = m.inputs(s, h, d, device)
    q, k = (randn(n, d, dtype=BF16, device=device) for n in (s * h, s))
    peer = lambda: q @ k.T  # noqa: E731
    return Work(given, peer, "cuBLAS, product only", s * s * h * d, peak="fp8")


def sparse_mla(m: ModuleType, device: str) -> Work:
    tokens, cached, h, latent, rope, chosen = 1024, 8192, 128, 512, 64, 2048
    q = randn(tokens, h, latent + rope, dtype=BF16, device=device)
    cache = randn(cached, latent + rope, dtype=BF16, device=device)
    rows = ints(0, cached, tokens, chosen, device=device)
    keys, values = cache[:chosen], cache[:chosen, :latent]
    peer = lambda: torch.softmax(q @ keys.T, -1) @ values  # noqa: E731
    flops = 2 * tokens * chosen * h * (2 * latent + rope)
    return Work(
        (q, cache, rows), peer, "cuBLAS, nothing gathered", flops, compiled_from=(h, latent, rope, chosen)
    )
