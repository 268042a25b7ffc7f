"""Kernels of tests on the CPU target with poisoned allocations, and on the GPU where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tilelang.arch.target import Target, parse_target
from tilelang.jit.functions import JITFunction
from tilelang.jit.pass_configs import PassConfigKey

# One test body, two devices: `-m gpu` runs those on a GPU, they are skipped where there is none.
DEVICES = [
    pytest.param("cpu", id="cpu"),
    pytest.param(
        "cuda",
        id="gpu",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU, torch finds none"),
        ],
    ),
]


def compiled_for(kernel: JITFunction, device: str, effort: str = "-O0") -> JITFunction:
    """The same kernel for a device; on the CPU every allocation starts as NaN, so that no unwritten read
    hides.

    effort: of LLVM. Its optimiser takes ten times as long over a large kernel, whose meaning is the same.
    """
    if device == "cuda":
        return JITFunction(kernel.function, replace(kernel.options, target=_gpu()))
    configs = {**kernel.options.pass_configs, PassConfigKey.TL_CPU_POISON_ALLOCATIONS.value: True}
    options = replace(
        kernel.options, target=parse_target("cpu"), pass_configs=configs, compile_flags=(effort,)
    )
    return JITFunction(kernel.function, options)


def _gpu() -> Target:
    """Torch's current GPU, whatever default target the tests of a folder have set."""
    major, minor = torch.cuda.get_device_capability()
    return Target("cuda", f"sm_{major}{minor}")


def random(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu", seed: int = 0) -> Any:
    """Seeded values: normal floats, integers over the whole range of 8 bits."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype).to(device)
    return torch.randint(-128, 128, shape, generator=generator).to(dtype).to(device)
