"""Random products and attention mean the same to the oracle and to the emulated CUDA code, bit by bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from tests.cuda.kernels import HEAD
from tests.emulator.block import run
from tests.emulator.memory import numpy_dtype, poison
from tests.frontend.programs import live_module
from tests.reference.random_products import Composer, Kernel, kernels, tensors
from tests.reference.random_tiles import Writer
from tests.reference.test_random_tiles import inputs
from tilelang.arch.cuda import DISABLE_WARP_SPECIALISED, DISABLE_WGMMA
from tilelang.arch.target import parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.jit.functions import JITFunction
from tilelang.jit.options import CompileOptions
from tilelang.reference import run as meaning
from tilelang.targets.driver import lower

_UNHURRIED = {"deadline": None, "suppress_health_check": list(HealthCheck)}
# Tiles too small for the warps, more of them than there is room for, and what other threads hold.
_REFUSALS = ("gemm-tile", "unsupported-gemm", "shared-memory-budget", "fragment", "gemm-dtype")
_BEFORE_HOPPER = "missing-on-target"  # barriers and TMA of kernels with warp groups by hand
# A target, and what the pass configuration says of it.
WAYS: dict[str, tuple[str, dict[str, bool]]] = {
    "sm_80": ("cuda:sm_80", {}),
    "sm_90": ("cuda:sm_90", {}),
    "sm_90, warp groups": ("cuda:sm_90", {DISABLE_WARP_SPECIALISED: False}),
    "sm_90, one group": ("cuda:sm_90", {DISABLE_WARP_SPECIALISED: True}),
    "sm_90 without wgmma": ("cuda:sm_90", {DISABLE_WGMMA: True}),
}


def array(tensor: torch.Tensor) -> np.ndarray:
    """A copy of the tensor's memory, what lies between its rows too."""
    flat = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,))
    return flat.view(torch.uint8).numpy().copy().view(numpy_dtype(str(tensor.dtype).removeprefix("torch.")))


def check(kernel: Kernel, seed: int, way: str) -> None:
    """Raises AssertionError, with the kernel's text, where emulation and oracle disagree."""
    name, options = WAYS[way]
    target, text = parse_target(name), HEAD + kernel.text
    module = StaticModule("kernel.py", text)
    assert not module.problems, module.problems
    try:
        program = trace_static(module, module.kernels[0], {n: str(kernel.sizes[n]) for n in kernel.fixed})
        func = prim_func_of(program, target, text)
        for key, value in options.items():
            func = func.with_attr(key, value)
        lowered = lower(func, target)
    except KernelError as refused:
        allowed = (*_REFUSALS, _BEFORE_HOPPER) if way == "sm_80" else _REFUSALS
        assert any(word in str(refused) for word in allowed), f"{kernel.text}\n{refused}"
        reject()
    given = tensors(kernel, seed)
    arrays = {n: array(t) for n, t in given.items()}
    found = meaning(func, *given.values())
    want = list(found) if isinstance(found, tuple) else [] if found is None else [found]
    for n, w in zip(kernel.outputs, want, strict=True):
        arrays[n] = poison(tuple(w.shape), str(w.dtype).removeprefix("torch."))
    for part in lowered.parts or (lowered,):
        run(part, arrays, kernel.sizes)
    for n, w in [*zip(kernel.outputs, want, strict=True), *given.items()]:
        differ = array(w).astype(np.float64) != arrays[n].reshape(-1).astype(np.float64)
        assert not differ.any(), f"{way}: {n} differs at {np.flatnonzero(differ)[:5]}\n{kernel.text}"


@settings(max_examples=4, **_UNHURRIED)
@given(kernels(), st.integers(0, 99), st.sampled_from(list(WAYS)))
def test_random_products(kernel: Kernel, seed: int, way: str) -> None:
    check(kernel, seed, way)


@pytest.mark.slow
@settings(max_examples=100, **_UNHURRIED)
@given(kernels(), st.integers(0, 99), st.sampled_from(list(WAYS)))
def test_many_random_products(kernel: Kernel, seed: int, way: str) -> None:
    check(kernel, seed, way)


def on_the_device(
    text: str, given: list[torch.Tensor], sizes: tuple[int, ...], options: dict[str, Any]
) -> None:
    """Compile a random kernel for the attached GPU and compare with the oracle, in-place tensors too."""
    function = live_module(text)["k"].function
    kernel = JITFunction(
        function, CompileOptions(target=parse_target("cuda:sm_90")).with_pass_configs(options)
    )
    try:
        compiled = kernel.compile(*given, *sizes)
    except KernelError as refused:
        assert any(word in str(refused) for word in _REFUSALS), f"{text}\n{refused}"
        return
    on_cpu, on_gpu = ([_like(t, device) for t in given] for device in ("cpu", "cuda"))
    want, found = compiled.reference(*on_cpu), compiled(*on_gpu)
    torch.cuda.synchronize()
    pairs = list(zip(on_gpu, on_cpu, strict=True))
    if want is not None:
        several = isinstance(want, tuple | list)
        pairs += zip(found, want, strict=True) if several else [(found, want)]
    for f, w in pairs:
        assert torch.equal(f.cpu().double(), w.double()), text


def _like(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A copy with the same strides."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return made.copy_(tensor)


needs_hopper = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs an sm_90 GPU"
)


@pytest.mark.gpu
@needs_hopper
@pytest.mark.parametrize("first", range(0, 40, 5))
def test_products_on_a_device(first: int) -> None:
    for seed in range(first, first + 5):
        kernel = Composer(random.Random(seed)).kernel()
        special = {DISABLE_WARP_SPECIALISED: bool(seed % 2)} if seed % 3 else {}
        on_the_device(kernel.text, list(tensors(kernel, seed).values()), (), special)


@pytest.mark.gpu
@needs_hopper
@pytest.mark.parametrize("first", range(0, 40, 5))
def test_tiles_on_a_device(first: int) -> None:
    for seed in range(first, first + 5):
        program = Writer(random.Random(seed)).program()
        on_the_device(program.text, list(inputs(program, seed)), program.shape, {})
