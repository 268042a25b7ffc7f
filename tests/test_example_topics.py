"""The examples by topic against torch, at sizes that tiles divide and sizes that they do not."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from tests.on_device import DEVICES, compiled_for, random

ROOT = Path(__file__).resolve().parent.parent
TOPICS = sorted(f"{p.parent.name}.{p.stem}" for p in (ROOT / "examples").glob("*/*.py"))
F16, F32 = torch.float16, torch.float32

pytestmark = pytest.mark.parametrize("device", DEVICES)


def example(name: str):
    return importlib.import_module(f"examples.{name}")


def close(found, expected, rtol: float = 2e-3, atol: float = 2e-3) -> None:
    torch.testing.assert_close(found.float(), expected.float(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("shape", [(8, 512), (5, 700), (1, 3)])
def test_cumsum(device, shape):
    module = example("scans.cumsum")
    x = random(*shape, dtype=F32, device=device)
    close(compiled_for(module.cumsum, device)(x), module.ref_program(x), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("seq_q", "seq_kv", "heads_kv"), [(128, 128, 4), (100, 100, 2), (17, 150, 1)])
def test_flash_attention(device, seq_q, seq_kv, heads_kv, causal):
    module = example("attention.flash_attention")
    q = random(2, seq_q, 4, 64, dtype=F16, device=device)
    k, v = (random(2, seq_kv, heads_kv, 64, dtype=F16, device=device, seed=s) for s in (1, 2))
    found = compiled_for(module.flash_attention, device)(q, k, v, causal=causal)
    close(found, module.ref_program(q, k, v, causal))


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("seq", [64, 90])
def test_flash_attention_backward(device, seq, causal):
    module = example("attention.flash_attention_backward")
    q, k, v, d_out = (random(1, 2, seq, 64, dtype=F16, device=device, seed=s) for s in range(4))
    out, log_sum = module.forward(q, k, v, causal)
    delta = (out * d_out.float()).sum(-1)
    d_q = torch.zeros(1, 2, seq, 64, device=device)
    kernel = compiled_for(module.attention_backward, device)
    d_k, d_v = kernel(q, k, v, d_out, log_sum, delta, d_q, causal=causal)
    for found, expected in zip((d_q, d_k, d_v), module.gradients(q, k, v, d_out, causal), strict=True):
        close(found, expected, 1e-2, 1e-2)


@pytest.mark.parametrize(("heads", "heads_kv"), [(8, 2), (20, 1)])
def test_flash_decoding(device, heads, heads_kv):
    module = example("attention.flash_decoding")
    q = random(3, heads, 64, dtype=F16, device=device)
    k, v = (random(3, 300, heads_kv, 64, dtype=F16, device=device, seed=s) for s in (1, 2))
    lengths = torch.tensor([300, 77, 1], dtype=torch.int32, device=device)
    partial = torch.empty(4, 3, heads, 64, device=device)
    log_sum = torch.empty(4, 3, heads, device=device)
    found = compiled_for(module.flash_decoding, device)(q, k, v, lengths, partial, log_sum)
    close(found, module.ref_program(q, k, v, lengths))


def test_mla_decode(device):
    module = example("attention.mla_decode")
    given = module.inputs(2, 40, 128, 32, lengths=[130, 64], device=device)
    close(compiled_for(module.mla_decode, device)(*given), module.ref_program(*given))


@pytest.mark.parametrize("size", [(64, 64, 512), (50, 72, 1000)], ids=str)
def test_split_k(device, size):
    module = example("gemm_variants.split_k")
    m, n, k = size
    a, b = random(m, k, dtype=F16, device=device), random(k, n, dtype=F16, device=device, seed=1)
    c = torch.zeros(m, n, device=device)
    compiled_for(module.gemm_split_k, device)(a, b, c)
    close(c, a.float() @ b.float(), 1e-3, 1e-2)


@pytest.mark.parametrize("size", [(64, 64, 128), (50, 72, 256)], ids=str)
def test_dequantised_int4(device, size):
    module = example("gemm_variants.dequantised_int4")
    m, n, k = size
    a = random(m, k, dtype=F16, device=device)
    b = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device=device)
    scales = random(n, k // 64, device=device).half() / 8
    found = compiled_for(module.gemm_int4, device)(a, b, scales)
    close(found, module.ref_program(a, b, scales), 2e-2, 5e-2)


@pytest.mark.parametrize("seq", [96, 80])
def test_chunked_retention(device, seq):
    module = example("linear_attention.chunked_retention")
    q, k = (random(2, seq, 2, 64, device=device, seed=s).half() / 8 for s in (0, 1))
    v = random(2, seq, 2, 64, dtype=F16, device=device, seed=2)
    decay = torch.log2(1 - 2.0 ** -(5 + torch.arange(2, device=device).float()))
    found = compiled_for(module.retention, device)(q, k, v, decay)
    close(found, module.ref_program(q, k, v, decay), 1e-2, 1e-2)


def test_fused_moe(device):
    module = example("moe.fused_moe")
    x = random(70, 72, dtype=F16, device=device)
    w = random(4, 96, 72, dtype=F16, device=device, seed=1)
    weights, chosen = torch.softmax(random(70, 4, device=device), -1).topk(2)
    rows, owner, shares = module.sort_by_expert(chosen, weights, 4)
    out = torch.zeros(70, 96, device=device)
    compiled_for(module.expert_gemm, device)(x, w, rows, owner, shares, out)
    close(out, module.reference(x, w, chosen, weights), 1e-3, 1e-2)


@pytest.mark.parametrize("sizes", [(70, 72, 96), (20, 64, 64)], ids=str)
def test_gate_up_moe(device, sizes):
    module = example("moe.gate_up_moe")
    torch.manual_seed(0)
    x, gate, up, down, chosen, weights = given = module.inputs(*sizes, 4, 2, device)
    rows, owners, shares = module.sort_by_expert(chosen, weights, 4, 32)
    tiles = {"block_M": 32, "block_N": 32, "block_K": 32, "threads": 64}
    hidden = compiled_for(module.gate_up, device)(x, gate, up, rows, owners, **tiles)
    out = torch.zeros(sizes[0], sizes[1], device=device)
    compiled_for(module.down, device)(hidden, down, rows, owners, shares, out, **tiles)
    close(out, module.ref_program(*given), 2e-2, 2e-2)


@pytest.mark.parametrize("shape", [(64, 64), (50, 37)], ids=str)
def test_top_k(device, shape):
    module = example("moe.top_k")
    x = random(*shape, device=device)
    values, places = compiled_for(module.top_k, device)(x, 3)
    expected = module.ref_program(x, 3)
    close(values, expected[0], 0, 0)
    assert torch.equal(places, expected[1])


@pytest.mark.parametrize("rows", [64, 13])
def test_cast_fp8(device, rows):
    module = example("quantise.cast_fp8")
    x = random(rows, 256, dtype=F16, device=device)
    found, scales = compiled_for(module.cast_fp8, device)(x)
    expected, expected_scales = module.ref_program(x)
    close(scales, expected_scales, 1e-6, 0)
    close(found, expected, 0.13, 0.02)  # one step of the format


@pytest.mark.parametrize("shape", [(64, 512), (50, 333)], ids=str)
def test_gemv(device, shape):
    module = example("gemv.gemv")
    a, x = random(*shape, dtype=F16, device=device), random(shape[1], dtype=F16, device=device)
    close(compiled_for(module.gemv, device)(a, x), module.ref_program(a, x), 2e-3, 2e-2)


@pytest.mark.parametrize("stride", [1, 2])
def test_conv2d(device, stride):
    module = example("convolution.conv2d")
    x = random(2, 9, 10, 24, dtype=F16, device=device)
    w = random(3, 3, 24, 40, dtype=F16, device=device, seed=1)
    found = compiled_for(module.conv2d, device)(x, w, stride=stride)
    close(found, module.ref_program(x, w, stride), 1e-2, 5e-2)


def test_every_example_is_tested(device):
    """By its full name, or by its own in a test file of its topic."""
    tested = "".join(p.read_text() for p in Path(__file__).parent.glob("test_example*.py"))
    assert TOPICS
    for name in TOPICS:
        short = name.rpartition(".")[2]
        asked = (f'example("{name}")', f'Case("{name}"', f'example("{short}")')
        assert any(a in tested for a in asked), f"examples/{name.replace('.', '/')}.py has no test"
