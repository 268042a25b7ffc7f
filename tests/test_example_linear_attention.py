"""The linear attention examples against torch, at sizes that leave a rest."""

from __future__ import annotations

import importlib

import pytest
import torch

from tests.on_device import DEVICES, compiled_for, random

BF16 = torch.bfloat16

pytestmark = pytest.mark.parametrize("device", DEVICES)


def example(name: str):
    return importlib.import_module(f"examples.linear_attention.{name}")


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-2) -> None:
    torch.testing.assert_close(found.float(), expected.float(), rtol=tolerance, atol=tolerance)


def test_linear_attention(device):
    module = example("linear_attention")
    q, k, v = (random(1, 150, 2, 32, dtype=BF16, device=device, seed=s) for s in range(3))
    state, norm = torch.zeros(1, 2, 32, 32, device=device), torch.zeros(1, 2, 32, device=device)
    kernel = compiled_for(module.linear_attention, device)
    found = kernel(q, k, v, state, norm, block=32, tiles_per_block=2, threads=64)
    close(found, module.ref_program(q, k, v))


def test_mamba2_chunk_state(device):
    module = example("mamba2_chunk_state")
    given = module.inputs(1, 96, 2, 40, 1, 40, 48, device)
    tiles = {"block_M": 32, "block_N": 32, "block_K": 32, "threads": 64}
    close(compiled_for(module.chunk_state, device)(*given, **tiles), module.ref_program(*given), 1e-2)


def test_mamba2_chunk_scan(device):
    module = example("mamba2_chunk_scan")
    sizes = (1, 96, 48, 1, 2, 40, 32)
    tiles = {"block_M": 32, "block_N": 32, "block_K": 32, "threads": 64}
    given = module.inputs(*sizes, device)
    close(compiled_for(module.chunk_scan, device)(*sizes, **tiles)(*given), module.ref_program(*given))


def test_gated_delta_rule(device):
    module = example("gated_delta_rule")
    q, k, v, beta, gates = module.inputs(1, 100, 2, 32, 48, device)
    tiles = {"chunk": 32, "threads": 64}
    sums = compiled_for(module.gate_sums, device)(gates, block_H=2, **tiles)
    w, u = compiled_for(module.wy_representation, device)(k, v, beta, sums, block=32, **tiles)
    states, new = compiled_for(module.chunk_states, device)(k, w, u, sums, **tiles)
    found = compiled_for(module.chunk_outputs, device)(q, k, new, states, sums, block_V=32, **tiles)
    close(found, module.ref_program(q, k, v, beta, gates), 3e-2)


def test_kimi_delta_attention(device):
    module = example("kimi_delta_attention")
    q, k, v, beta, gates = module.inputs(1, 90, 2, 32, 48, device)
    tiles = {"chunk": 32, "threads": 64}
    sums = compiled_for(module.gate_sums, device)(gates, **tiles)
    keys, scores = compiled_for(module.pair_products, device)(q, k, sums, beta, **tiles)
    w, u = compiled_for(module.wy_representation, device)(k, v, beta, sums, keys, block=32, **tiles)
    states, new = compiled_for(module.chunk_states, device)(k, w, u, sums, **tiles)
    found = compiled_for(module.chunk_outputs, device)(q, sums, scores, new, states, block_V=32, **tiles)
    close(found, module.ref_program(q, k, v, beta, gates), 3e-2)
