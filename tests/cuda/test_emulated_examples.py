"""Examples lowered for CUDA and run thread by thread against torch, where the lowering is new."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
import torch

from tests.cuda.kernels import EXAMPLES
from tests.emulator.block import run
from tilelang.arch.target import parse_target
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.targets.driver import lower

TARGETS = pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])


def example(name: str) -> ModuleType:
    return importlib.import_module(f"examples.{name}")


def emulated(name: str, kernel: str, target: str, tensors: dict[str, torch.Tensor], **choice: object) -> None:
    """Run one kernel of an example on torch tensors, its outputs included."""
    path = EXAMPLES / f"{name.replace('.', '/')}.py"
    text = path.read_text(encoding="utf-8")
    module = StaticModule(str(path), text)
    found = next(k for k in module.kernels if k.qualified_name == kernel)
    program = trace_static(module, found, {k: str(v) for k, v in choice.items()})
    chosen = parse_target(target)
    run(lower(prim_func_of(program, chosen, text), chosen), {k: v.numpy() for k, v in tensors.items()})


@TARGETS
def test_gate_up(target: str) -> None:
    module = example("moe.gate_up_moe")
    torch.manual_seed(0)
    x, gate, up, _, chosen, weights = module.inputs(20, 72, 40, 3, 2, "cpu")
    x, gate, up = (t.half() for t in (x, gate, up))
    rows, owners, _ = module.sort_by_expert(chosen, weights, 3, 64)
    hidden = torch.zeros(len(rows), 40, dtype=torch.float16)
    tensors = {"X": x, "Gate": gate, "Up": up, "Rows": rows, "Experts": owners, "Hidden": hidden}
    sizes = {"tokens": 20, "K": 72, "experts": 3, "inner": 40, "slots": len(rows), "blocks": len(owners)}
    emulated("moe.gate_up_moe", "gate_up", target, tensors, **sizes, block_K=32, dtype="'float16'")
    for block, owner in enumerate(owners.tolist()):
        for slot in range(block * 64, block * 64 + 64):
            row = x[rows[slot]].float() if rows[slot] >= 0 else torch.zeros(72)
            wanted = torch.nn.functional.silu(row @ gate[owner].float().T) * (row @ up[owner].float().T)
            torch.testing.assert_close(hidden[slot].float(), wanted, rtol=2e-3, atol=2e-3)


@TARGETS
def test_int4_on_tensor_cores(target: str) -> None:
    module = example("gemm_variants.int4_tensor_cores")
    torch.manual_seed(0)
    a, b = module.inputs(40, 72, 160)
    c = torch.zeros(40, 72, dtype=torch.int32)
    sizes = {"M": 40, "N": 72, "K": 160, "block_M": 64, "block_N": 64, "block_K": 64}
    emulated("gemm_variants.int4_tensor_cores", "gemm_int4_mma", target, {"A": a, "B": b, "C": c}, **sizes)
    assert torch.equal(c, module.ref_program(a, b))


@TARGETS
def test_pair_products_of_channels(target: str) -> None:
    module = example("linear_attention.kimi_delta_attention")
    torch.manual_seed(0)
    q, k, _, beta, gates = module.inputs(1, 30, 1, 16, 16, "cpu")
    q, k = q.half(), k.half()
    sums = (gates.cumsum(1) * module.LOG2_E).contiguous()
    keys, scores = torch.zeros(1, 1, 1, 32, 32), torch.zeros(1, 1, 1, 32, 32, dtype=torch.float16)
    tensors = {"Q": q, "K": k, "Sums": sums, "Beta": beta, "Keys": keys, "Scores": scores}
    sizes = {"batch": 1, "seq": 30, "heads": 1, "dim": 16, "chunk": 32, "threads": 64}
    emulated(
        "linear_attention.kimi_delta_attention", "pair_products", target, tensors, **sizes, dtype="'float16'"
    )
    fade = torch.exp2((sums[0, :, None, 0] - sums[0, None, :, 0]).clamp(max=0))  # of row, column, channel
    by_keys = torch.einsum("id,ijd,jd->ij", k[0, :, 0].float(), fade, k[0, :, 0].float())
    by_query = torch.einsum("id,ijd,jd->ij", q[0, :, 0].float(), fade, k[0, :, 0].float()) / 4
    torch.testing.assert_close(keys[0, 0, 0, :30, :30], (by_keys * beta[0]).tril(-1), rtol=5e-3, atol=5e-3)
    torch.testing.assert_close(scores[0, 0, 0, :30, :30].float(), by_query.tril(), rtol=5e-3, atol=5e-3)
