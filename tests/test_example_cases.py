"""Examples that bring inputs and a torch reference along, at sizes that tiles divide and sizes that they do
not: GEMM and GEMV, norms, softmax, casts, rearranging.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.on_device import DEVICES, compiled_for

BF16 = (1.6e-2, 1e-1)  # one rounding to bfloat16, of sums of some hundred products


@dataclass(frozen=True)
class Case:
    """One example at one size: its own inputs, and its torch reference as the expectation."""

    module: str
    kernel: str
    sizes: tuple[Any, ...]
    tolerance: tuple[float, float] = (2e-3, 5e-2)  # relative, absolute
    options: dict[str, Any] = field(default_factory=dict)  # of the kernel
    forms: tuple[Any, ...] = ()  # positional arguments of kernel, reference and inputs alike
    adds: bool = False  # the kernel adds to its last tensor and returns nothing

    @property
    def name(self) -> str:
        return f"{self.module.partition('.')[2]}-{'-'.join(map(str, (*self.sizes, *self.forms)))}"


CASES = [
    Case("gemm_variants.persistent", "gemm_persistent", (200, 136, 72), options={"workers": 3}),
    Case("gemm_variants.stream_k", "gemm_stream_k", (128, 256, 256), options={"workers": 3}, adds=True),
    Case("gemm_variants.stream_k", "gemm_stream_k", (150, 136, 200), options={"workers": 5}, adds=True),
    Case("gemm_variants.batched", "gemm_batched", (2, 100, 72, 40), BF16),
    Case("gemm_variants.transposed", "gemm_transposed", (100, 72, 40), forms=(False, False)),
    Case("gemm_variants.transposed", "gemm_transposed", (100, 72, 40), forms=(False, True)),
    Case("gemm_variants.transposed", "gemm_transposed", (104, 72, 40), forms=(True, False)),
    Case("gemm_variants.transposed", "gemm_transposed", (104, 72, 40), forms=(True, True)),
    Case("gemm_variants.fp8_block_scaled", "gemm_fp8_block_scaled", (50, 128, 256), BF16),
    Case("gemm_variants.fp8_block_scaled", "gemm_fp8_block_scaled", (70, 72, 160), BF16),
    Case("gemm_variants.fp8_channel_scaled", "gemm_fp8", (50, 72, 144), BF16),
    Case("gemm_variants.w8a8_epilogue", "linear_w8a8", (50, 72, 144), (2e-3, 2e-3)),
    Case("gemm_variants.int4", "gemm_int4_int4", (50, 72, 160), (0, 0)),
    Case("gemm_variants.int4_tensor_cores", "gemm_int4_mma", (50, 72, 160), (0, 0)),
    Case("gemm_variants.grouped", "gemm_grouped", ((130, 1, 0, 29), 72, 40), BF16),
    Case("gemm_variants.block_sparse", "gemm_block_sparse", (100, 256, 256)),
    Case("gemm_variants.sparse_2_4", "gemm_sparse", (100, 72, 96)),
    Case("gemm_variants.dequantised_fp4", "gemm_fp4", (50, 72, 160)),
    Case("gemm_variants.dequantised_mxfp4", "gemm_mxfp4", (30, 72, 288), options={"splits": 2}, adds=True),
    Case("gemv.split_over_threads", "gemv_split", (20, 600)),
    Case("gemv.quantised_int4", "gemv_int4", (20, 640)),
    Case("gemv.int8_dp4a", "gemv_int8", (20, 600), (2e-3, 1e-3)),
    Case("norms.layer_norm", "layer_norm", (5, 384), (2e-3, 2e-3)),
    Case("norms.group_norm", "group_norm", (2, 64, 3, 10), (2e-3, 4e-3)),
    Case("softmax_variants.log_sum_exp", "log_sum_exp", (3, 10000), (1e-5, 1e-5)),
    Case("softmax_variants.in_registers", "softmax_in_registers", (5, 384), (1.6e-2, 1e-5)),
    Case("softmax_variants.cross_entropy", "cross_entropy", (4, 5000), (1e-5, 1e-4)),
    Case("quantise.cast_per_token", "cast_int8_per_token", (5, 384), (0, 1)),
    Case("quantise.cast_per_block", "cast_fp8_per_block", (150, 200), (0.13, 0.02)),
    Case("transforms.hadamard", "hadamard", (3, 512), (2e-3, 2e-3), {"bits": 9}),
    Case("transforms.hadamard", "hadamard", (2, 256), (2e-3, 2e-3), {"bits": 8}),
    Case("elementwise.swiglu", "swiglu", (10, 600), (1.6e-2, 1e-5)),
    Case("elementwise.rotary_embedding", "rotary", (2, 6, 3, 64), (1.6e-2, 1e-5)),
    Case("transposes.transpose", "transpose", (100, 150), (0, 0)),
    Case("transposes.channels_last", "channels_last", (2, 70, 9, 11), (0, 0)),
]


def example(name: str) -> ModuleType:
    return importlib.import_module(f"examples.{name}")


def check(case: Case, device: str) -> None:
    module = example(case.module)
    torch.manual_seed(0)
    given = module.inputs(*case.sizes, device, *case.forms)
    kernel: Callable[..., Any] = compiled_for(getattr(module, case.kernel), device)
    if case.adds:
        expected = given[-1].clone()
        module.ref_program(*given[:-1], expected)
        assert kernel(*given, **case.options) is None
        found = given[-1]
    else:
        expected = module.ref_program(*given, *case.forms)
        found = kernel(*given, *case.forms, **case.options)
    one = isinstance(found, torch.Tensor)
    for f, e in zip((found,) if one else found, (expected,) if one else expected, strict=True):
        assert f.dtype == e.dtype
        rtol, atol = case.tolerance
        torch.testing.assert_close(f.float(), e.float(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_against_torch(case: Case, device: str) -> None:
    check(case, device)


@pytest.mark.parametrize("device", DEVICES)
def test_rms_norm_backward(device: str) -> None:
    module = example("norms.rms_norm_backward")
    torch.manual_seed(0)
    given, d_weight = module.inputs(10, 256, device), torch.zeros(256, device=device)
    found = compiled_for(module.rms_norm_backward, device)(*given, d_weight, workers=3)
    expected, expected_weight = module.ref_program(*given)
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(d_weight, expected_weight, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("device", DEVICES)
def test_add_rms_norm(device: str) -> None:
    module = example("norms.add_rms_norm")
    torch.manual_seed(0)
    given = module.inputs(5, 384, device)
    expected, added = module.ref_program(*given)
    found = compiled_for(module.add_rms_norm, device)(*given)
    torch.testing.assert_close(found, expected, rtol=1.6e-2, atol=1e-5)
    assert torch.equal(given[1], added)


@pytest.mark.parametrize("device", DEVICES)
def test_radix_top_k(device: str) -> None:
    module = example("selection.radix_top_k")
    torch.manual_seed(0)
    (x,) = module.inputs(3, 700, device)
    x[1, ::2] = x[1, 0]  # equal numbers
    x[2] = -x[2].abs()
    for k in (1, 300):
        values, places = compiled_for(module.top_k, device)(x, k=k)
        assert torch.equal(values.sort(dim=1, descending=True).values, module.ref_program(x, k)[0])
        assert torch.equal(x.gather(1, places.long()), values)
        assert all(len(set(row)) == k for row in places.tolist())


def test_every_example_has_a_benchmark_entry() -> None:
    from benchmarks.example_table import ENTRIES

    root = Path(__file__).resolve().parents[1] / "examples"
    files = {p.relative_to(root).with_suffix("").as_posix().replace("/", ".") for p in root.rglob("*.py")}
    measured = {e.module for e in ENTRIES}
    assert sorted(files - measured) == [], "benchmarks/example_table.py says how each example is measured"
    assert sorted(measured - files) == []
    for entry in ENTRIES:
        text = (root / f"{entry.module.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert f"def {entry.kernel}(" in text, entry.name


def test_the_list_of_examples_is_true() -> None:
    root = Path(__file__).resolve().parents[1] / "examples"
    lines = []
    for path in sorted(root.rglob("*.py"), key=lambda p: (p.parent != root, p)):
        first = path.read_text(encoding="utf-8").split('"""')[1].split("\n\n")[0]
        place = path.relative_to(root).as_posix()
        lines.append(f"- [{place}]({place}): {' '.join(first.split())}")
    text = (root / "README.md").read_text(encoding="utf-8")
    head, mark, _ = text.partition("<!-- The first sentences of the files -->\n")
    expected = f"{head}{mark}\n" + "\n".join(lines) + "\n"
    if os.environ.get("TILELANG_UPDATE"):
        (root / "README.md").write_text(expected, encoding="utf-8")
    else:
        assert text == expected, "set TILELANG_UPDATE=1 to renew examples/README.md"
