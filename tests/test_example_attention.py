"""The attention examples against torch: grouped heads, masks, ragged lengths, sizes that leave a rest."""

from __future__ import annotations

import importlib

import pytest
import torch

from tests.on_device import DEVICES, compiled_for, random

F16, BF16 = torch.float16, torch.bfloat16
SMALL = {"block_M": 32, "block_N": 32, "threads": 64}

pytestmark = pytest.mark.parametrize("device", DEVICES)


def example(name: str):
    return importlib.import_module(f"examples.attention.{name}")


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 5e-3) -> None:
    torch.testing.assert_close(found.float(), expected.float(), rtol=tolerance, atol=tolerance)


def heads_first(device, seq_q=70, seq_kv=100, heads=2, heads_kv=1, dim=32, dtype=BF16):
    """Q, K and V in [batch, heads, seq, dim]."""
    q = random(1, heads, seq_q, dim, dtype=dtype, device=device)
    return q, *(random(1, heads_kv, seq_kv, dim, dtype=dtype, device=device, seed=s) for s in (1, 2))


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_flash_attention_bhsd(device, causal):
    module = example("flash_attention_bhsd")
    q, k, v = heads_first(device)
    out, log_sum = compiled_for(module.flash_attention_bhsd, device)(1, 2, 1, 70, 100, 32, causal, **SMALL)(
        q, k, v
    )
    expected, expected_sum = module.ref_program(q, k, v, causal)
    close(out, expected, 2e-2)
    close(log_sum, expected_sum, 1e-3)


def test_rows_that_see_nothing(device):
    """Under a causal mask, more queries than keys: the first ones have nothing to attend to."""
    module = example("flash_attention_bhsd")
    q, k, v = heads_first(device, seq_q=70, seq_kv=40)
    out, log_sum = compiled_for(module.flash_attention_bhsd, device)(1, 2, 1, 70, 40, 32, True, **SMALL)(
        q, k, v
    )
    close(out, module.ref_program(q, k, v, True)[0].nan_to_num(0), 2e-2)
    assert (log_sum[:, :, :30] < -1e20).all()


def test_flash_attention_varlen(device):
    module = example("flash_attention_varlen")
    kernel = compiled_for(module.flash_attention_varlen, device)(2, 1, 32, True, **SMALL)
    for lengths_q, lengths_kv in (([40, 1, 33], [40, 1, 33]), ([5, 64], [70, 64]), ([50], [20])):
        starts_q, starts_kv = module.starts(lengths_q, device), module.starts(lengths_kv, device)
        q = random(sum(lengths_q), 2, 32, dtype=F16, device=device)
        k, v = (random(sum(lengths_kv), 1, 32, dtype=F16, device=device, seed=s) for s in (1, 2))
        found = kernel(q, k, v, starts_q, starts_kv, max(lengths_q))
        close(found, module.ref_program(q, k, v, starts_q, starts_kv, True))


@pytest.mark.parametrize("window", [0, 40])
def test_attention_sink(device, window):
    module = example("attention_sink")
    q, k, v = heads_first(device)
    sinks = random(2, dtype=BF16, device=device)
    found = compiled_for(module.attention_sink, device)(q, k, v, sinks, window=window, **SMALL)
    close(found, module.ref_program(q, k, v, sinks, window), 2e-2)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_block_sparse_attention(device, causal):
    module = example("block_sparse_attention")
    q, k, v = heads_first(device, heads_kv=2, dtype=F16)
    visits = random(1, 2, 3, 4, device=device) > 0
    kernel = compiled_for(module.block_sparse_attention, device)(1, 2, 70, 100, 32, causal, **SMALL)
    close(kernel(q, k, v, visits), module.ref_program(q, k, v, visits, causal, 32, 32))


def test_paged_decoding(device):
    module = example("paged_decoding")
    kernel = compiled_for(module.paged_decoding, device)(8, 2, 32, 16, splits=3, threads=64)
    for lengths in ([100, 1, 33], [16]):
        given = module.inputs(lengths, 8, 2, 32, 16, device)
        close(kernel(*given), module.ref_program(*given))


def test_mla_decode_split(device):
    module = example("mla_decode_split")
    given = (*module.inputs([100, 1], 20, 32, 16, 32, device), 0.2)
    kernel = compiled_for(module.mla_decode_split, device)
    found = kernel(*given, splits=3, page=32, block_H=16, threads=64)
    close(found, module.ref_program(*given), 2e-2)


def test_native_sparse_attention(device):
    module = example("native_sparse_attention")
    q = random(1, 70, 4, 32, dtype=F16, device=device)
    k, v = (random(1, 70, 2, 32, dtype=F16, device=device, seed=s) for s in (1, 2))
    chosen = module.choose(1, 70, 2, 2, 16, device)
    found = compiled_for(module.native_sparse_attention, device)(q, k, v, chosen, block_S=16, threads=32)
    close(found, module.ref_program(q, k, v, chosen, 16))


def test_lightning_indexer(device):
    module = example("lightning_indexer")
    given = module.inputs(50, 8, 32, device)
    found = compiled_for(module.indexer_scores, device)(*given, block_Q=2, block_N=32, threads=64)
    compiled_for(module.hide_unscored, device)(found, *given[-2:], block_N=32, threads=32)
    close(found, module.ref_program(*given), 2e-2)


def test_sparse_mla(device):
    module = example("sparse_mla")
    q = random(3, 20, 48, dtype=BF16, device=device)
    cache = random(90, 48, dtype=BF16, device=device)
    chosen = random(3, 90, device=device).topk(50).indices.int()
    chosen[:, 25::3] = -1
    kernel = compiled_for(module.sparse_mla, device)(20, 32, 16, 50, block_H=16, block_N=32, threads=64)
    close(kernel(q, cache, chosen), module.ref_program(q, cache, chosen, 32), 2e-2)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_flash_attention_gqa_backward(device, causal):
    module = example("flash_attention_gqa_backward")
    q, d_out = (random(1, 70, 4, 32, dtype=BF16, device=device, seed=s) for s in (0, 1))
    k, v = (random(1, 70, 2, 32, dtype=BF16, device=device, seed=s) for s in (2, 3))
    out, log_sum = module.ref_forward(q, k, v, causal)
    delta = compiled_for(module.delta_rows, device)(out, d_out, block=32, threads=64)
    d_q = torch.zeros(1, 70, 4, 32, device=device)
    kernel = compiled_for(module.gqa_backward, device)
    d_k, d_v = kernel(q, k, v, d_out, log_sum, delta, d_q, causal=causal, **SMALL)
    for found, expected in zip((d_q, d_k, d_v), module.ref_program(q, k, v, d_out, causal), strict=True):
        close(found, expected, 3e-2)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_flash_attention_varlen_backward(device, causal):
    module = example("flash_attention_varlen_backward")
    torch.manual_seed(0)
    q, k, v, d_out, starts = module.inputs([40, 1, 70, 0, 33], 4, 2, 32, device)
    out, log_sum = module.forward(q, k, v, starts, causal)
    delta = (out * d_out.float()).sum(-1).T.contiguous()
    d_q = torch.zeros(q.shape, device=device)
    kernel = compiled_for(module.varlen_backward, device)
    d_k, d_v = kernel(q, k, v, d_out, log_sum, delta, starts, d_q, longest=70, causal=causal, **SMALL)
    expected = module.ref_program(q, k, v, d_out, starts, causal)
    for found, wanted in zip((d_q, d_k, d_v), expected, strict=True):
        close(found, wanted, 3e-2)
