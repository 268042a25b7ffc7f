"""What benchmarks/examples.py measures: every example at a real size, beside torch's own operation.

One entry per kernel. `work(module, device)` makes the inputs; on the device `meta` they have shapes and no
contents, which is enough to compile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional as F

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


@dataclass(frozen=True)
class Work:
    """One kernel's job. The kernel is compiled from `compiled_from` (the inputs, if None) and `options`."""

    inputs: tuple[Any, ...]
    peer: Callable[[], object]
    peer_name: str
    flops: float = 0  # multiplications and additions of tensor cores
    moved: float = 0  # bytes that must come from memory or go there
    peak: str = "f16"  # which of the device's peaks `flops` count against
    compiled_from: tuple[Any, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One example: where it is, at which size it runs."""

    module: str  # in examples/
    kernel: str
    size: str
    work: Callable[[ModuleType, str], Work]
    meta: bool = True  # whether its inputs can be made without contents

    @property
    def name(self) -> str:
        return f"{self.module}.{self.kernel}"


def randn(*shape: int, dtype: torch.dtype = F16, device: str) -> torch.Tensor:
    return torch.randn(shape, dtype=F32 if dtype.itemsize == 1 else dtype, device=device).to(dtype)


def ints(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32, device: str) -> torch.Tensor:
    return torch.randint(low, high, shape, dtype=dtype, device=device)


def size_of(*tensors: torch.Tensor) -> int:
    """Bytes of tensors that are each read or written once."""
    return sum(t.numel() * t.element_size() for t in tensors)


def workers(device: str) -> int:
    """Multiprocessors, an H200's where there is no GPU."""
    return torch.cuda.get_device_properties(0).multi_processor_count if device == "cuda" else 132


# GEMM


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


# GEMV


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


# Rows and elements


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


# Attention


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


def chunked_retention(m: ModuleType, device: str) -> Work:
    b, s, h, d = 8, 4096, 16, 128
    q, k, v = (randn(b, s, h, d, device=device) for _ in range(3))
    decay = torch.full((h,), -0.01, device=device)
    first = [x.transpose(1, 2) for x in (q, k, v)]
    peer = lambda: sdpa(*first)  # noqa: E731
    return Work((q, k, v, decay), peer, "sdpa, same shape", moved=4 * size_of(q))


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


ENTRIES = (
    Entry("quickstart", "matmul_relu", "4096^3 f16", quickstart),
    Entry("gemm", "gemm", "4096^3 f16", gemm),
    Entry("gemm_dynamic_m", "gemm_any_m", "4096^3 f16", gemm_any_m),
    Entry("gemm_variants.split_k", "gemm_split_k", "128x4096x16384 f16", split_k),
    Entry("gemm_variants.stream_k", "gemm_stream_k", "1920x2048x8192 f16", stream_k),
    Entry("gemm_variants.persistent", "gemm_persistent", "4096^3 f16", persistent),
    Entry("gemm_variants.batched", "gemm_batched", "32x1024^3 bf16", batched),
    Entry("gemm_variants.transposed", "gemm_transposed", "NN 4096^3 f16", transposed(False, False)),
    Entry("gemm_variants.transposed", "gemm_transposed", "NT 4096^3 f16", transposed(False, True)),
    Entry("gemm_variants.transposed", "gemm_transposed", "TN 4096^3 f16", transposed(True, False)),
    Entry("gemm_variants.transposed", "gemm_transposed", "TT 4096^3 f16", transposed(True, True)),
    Entry("gemm_variants.fp8_channel_scaled", "gemm_fp8", "4096^3 e4m3", fp8_scaled),
    Entry("gemm_variants.fp8_block_scaled", "gemm_fp8_block_scaled", "4096^3 e4m3", fp8_block_scaled),
    Entry("gemm_variants.w8a8_epilogue", "linear_w8a8", "4096^3 int8", w8a8),
    Entry("gemm_variants.int4", "gemm_int4_int4", "4096^3 int4", int4),
    Entry("gemm_variants.int4_tensor_cores", "gemm_int4_mma", "4096^3 int4", int4),
    Entry("gemm_variants.grouped", "gemm_grouped", "8 groups 8192x4096x2048 bf16", grouped),
    Entry("gemm_variants.block_sparse", "gemm_block_sparse", "4096^3, 1/4, f16", block_sparse, meta=False),
    Entry("gemm_variants.sparse_2_4", "gemm_sparse", "4096^3 f16", sparse_2_4),
    Entry("gemm_variants.dequantised_int4", "gemm_int4", "4096^3 f16 x int4", dequantised_int4),
    Entry("gemm_variants.dequantised_fp4", "gemm_fp4", "4096^3 f16 x fp4", dequantised_fp4),
    Entry("gemm_variants.dequantised_mxfp4", "gemm_mxfp4", "64x8192^2 bf16 x mxfp4", dequantised_mxfp4),
    Entry("gemv.gemv", "gemv", "16384x8192 f16", gemv),
    Entry("gemv.split_over_threads", "gemv_split", "16384x8192 f16", gemv),
    Entry("gemv.quantised_int4", "gemv_int4", "16384x8192 int4", gemv_int4),
    Entry("gemv.int8_dp4a", "gemv_int8", "16384x8192 int8", gemv_int8),
    Entry("convolution.conv2d", "conv2d", "32x56x56x128 to 256, 3x3", conv2d),
    Entry("moe.fused_moe", "expert_gemm", "4096 tokens, 6 of 64", fused_moe, meta=False),
    *(
        Entry("moe.gate_up_moe", name, "4096 tokens, 6 of 64", gate_up_moe(name), meta=False)
        for name in ("gate_up", "down")
    ),
    Entry("moe.top_k", "top_k", "8 of 65536x256 f32", top_k),
    Entry("selection.radix_top_k", "top_k", "256 of 1024x65536 f32", radix_top_k),
    Entry("rms_norm", "rms_norm", "8192x4096 f16", rms_norm),
    Entry("norms.add_rms_norm", "add_rms_norm", "8192x4096 bf16", add_rms_norm),
    Entry("norms.rms_norm_backward", "rms_norm_backward", "8192x4096 f16", rms_norm_backward),
    Entry(
        "norms.layer_norm",
        "layer_norm",
        "8192x4096 f16",
        reading((8192, 4096), "layer_norm", lambda x, w, b: F.layer_norm(x, (4096,), w, b)),
    ),
    Entry(
        "norms.group_norm",
        "group_norm",
        "16x512x64x64 f16",
        reading((16, 512, 64, 64), "group_norm", lambda x, w, b: F.group_norm(x, 32, w, b)),
    ),
    Entry("softmax", "softmax", "8192x8192 f32", softmax),
    Entry(
        "softmax_variants.in_registers",
        "softmax_in_registers",
        "8192x8192 bf16",
        reading((8192, 8192), "torch.softmax", lambda x: torch.softmax(x, 1)),
    ),
    Entry(
        "softmax_variants.log_sum_exp",
        "log_sum_exp",
        "512x131072 f32",
        reading((512, 131072), "torch.logsumexp", lambda x: torch.logsumexp(x, 1), 0),
    ),
    Entry("softmax_variants.cross_entropy", "cross_entropy", "4096x128256 bf16", cross_entropy),
    Entry("vector_add", "add", "2^26 f32", vector_add),
    Entry("vector_add", "add_lazy", "2^26 f32", lazy_add(1 << 26)),
    Entry("dynamic_vector_add", "add_any", "2^26 f32", lazy_add()),
    Entry("elementwise_2d", "silu_add", "8192x8192 f16", silu_add),
    Entry(
        "elementwise.swiglu",
        "swiglu",
        "8192x14336 bf16",
        reading((8192, 14336), "silu, mul", swiglu_torch, 0.5),
    ),
    Entry(
        "elementwise.rotary_embedding",
        "rotary",
        "4x8192x32x128 bf16",
        reading((4, 8192, 32, 128), "torch, op by op", rotary_torch),
    ),
    Entry(
        "transposes.transpose",
        "transpose",
        "8192x8192 f16",
        reading((8192, 8192), "contiguous", lambda x: x.T.contiguous()),
    ),
    Entry(
        "transposes.channels_last",
        "channels_last",
        "32x256x64x64 f16",
        reading((32, 256, 64, 64), "contiguous", lambda x: x.permute(0, 2, 3, 1).contiguous()),
    ),
    Entry("transforms.hadamard", "hadamard", "16384x4096 f16", hadamard),
    Entry("scans.cumsum", "cumsum", "8192x8192 f32", cumsum),
    Entry("quantise.cast_fp8", "cast_fp8", "8192x8192 f16", cast_fp8),
    Entry(
        "quantise.cast_per_token",
        "cast_int8_per_token",
        "8192x4096 f16",
        lambda m, device: reading((8192, 4096), "torch, op by op", m.ref_program, 0.5)(m, device),
    ),
    Entry(
        "quantise.cast_per_block",
        "cast_fp8_per_block",
        "8192x8192 bf16",
        lambda m, device: reading((8192, 8192), "torch, op by op", m.ref_program, 0.5)(m, device),
    ),
    Entry("attention.flash_attention", "flash_attention", "4x4096, 32/8x128 causal f16", flash_attention),
    Entry(
        "attention.flash_attention_bhsd",
        "flash_attention_bhsd",
        "4x4096, 32/8x128 causal bf16",
        flash_attention_bhsd,
    ),
    Entry(
        "attention.flash_attention_varlen",
        "flash_attention_varlen",
        "5 sequences, 32x128 causal f16",
        flash_attention_varlen,
    ),
    Entry(
        "attention.flash_attention_backward",
        "attention_backward",
        "4x4096, 16x64 causal f16",
        flash_attention_backward,
    ),
    Entry(
        "attention.flash_attention_varlen_backward",
        "varlen_backward",
        "5 sequences, 32/8x128 causal bf16",
        varlen_backward,
        meta=False,
    ),
    Entry(
        "attention.flash_attention_gqa_backward",
        "gqa_backward",
        "2x4096, 32/8x128 causal bf16",
        gqa_backward,
    ),
    Entry("attention.attention_sink", "attention_sink", "2x4096, 64/8x64 causal bf16", attention_sink),
    Entry(
        "attention.block_sparse_attention",
        "block_sparse_attention",
        "8192, 32x128, a quarter, f16",
        block_sparse_attention,
    ),
    Entry("attention.flash_decoding", "flash_decoding", "32x8192, 32/8x128 f16", flash_decoding),
    Entry("attention.mla_decode", "mla_decode", "32x4096, 128x(512+64) f16", mla_decode),
    Entry("attention.paged_decoding", "paged_decoding", "32x8192, 32/8x128 f16", paged_decoding, meta=False),
    Entry(
        "attention.mla_decode_split",
        "mla_decode_split",
        "32x4096, 128x(512+64) bf16",
        mla_decode_split,
        meta=False,
    ),
    Entry(
        "attention.native_sparse_attention",
        "native_sparse_attention",
        "8192, 64/4x128, 16 blocks, f16",
        native_sparse_attention,
    ),
    Entry("attention.lightning_indexer", "indexer_scores", "8192, 32x128 e4m3", indexer_scores),
    Entry("attention.sparse_mla", "sparse_mla", "1024, 128x(512+64), 2048 bf16", sparse_mla),
    Entry("linear_attention.linear_attention", "linear_attention", "8x8192, 16x128 bf16", linear_attention),
    Entry("linear_attention.mamba2_chunk_state", "chunk_state", "8x4096, 80x64, 128 f16", chunk_state),
    Entry("linear_attention.mamba2_chunk_scan", "chunk_scan", "8x4096, 80x64, 128 f16", chunk_scan),
    *(
        Entry("linear_attention.gated_delta_rule", name, "8x4096, 16x128 bf16", delta_rule(name))
        for name in ("wy_representation", "chunk_states", "chunk_outputs")
    ),
    *(
        Entry("linear_attention.kimi_delta_attention", name, "4x4096, 16x128 bf16", channel_delta_rule(name))
        for name in ("pair_products", "wy_representation", "chunk_states", "chunk_outputs")
    ),
    Entry("linear_attention.chunked_retention", "retention", "8x4096, 16x128 f16", chunked_retention),
)
