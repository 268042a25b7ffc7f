"""Random tile programs mean the same to the oracle, the CPU target and the emulated CUDA code, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import tilelang
from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.emulator.memory import poison
from tests.frontend.programs import live_module
from tests.reference.random_tiles import LIMIT, Program, programs
from tilelang.diagnostics.error import KernelError
from tilelang.jit.pass_configs import PassConfigKey

_POISON = {PassConfigKey.TL_CPU_POISON_ALLOCATIONS.value: True}
_UNHURRIED = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def inputs(program: Program, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A, with ragged edges, the numbers in I, and Z, which blocks add to."""
    rows, columns = program.shape
    generator = torch.Generator().manual_seed(seed)
    shape = max(2 * rows - seed % 2, 1), columns + 2 - seed % 3
    a = torch.randint(-LIMIT, LIMIT + 1, shape, generator=generator).float()
    numbers = torch.randint(-LIMIT, LIMIT + 1, (4,), generator=generator).int()
    return a, numbers, torch.zeros(2, rows, columns)


def check(program: Program, seed: int, targets: tuple[str, ...]) -> None:
    """Raises AssertionError, with the program's text, where two disagree."""
    a, numbers, z = inputs(program, seed)
    rows, columns = program.shape
    kernel: Any = tilelang.jit(
        live_module(program.text)["k"].function, target="cpu", compile_flags=["-O0"], pass_configs=_POISON
    )
    try:
        compiled = kernel.compile(a, numbers, z, rows, columns)
    except KernelError:
        reject()
    of_reference, of_cpu = z.clone(), z.clone()
    want = compiled.reference(a, numbers, of_reference)
    compare(compiled(a, numbers, of_cpu), want, program, "the CPU")
    compare([of_cpu], [of_reference], program, "the CPU", ("Z",))
    sizes = {"M": a.shape[0], "N": a.shape[1], "L": 4}
    fixed = {name: n for name, n in sizes.items() if name in program.fixed}
    for target in targets:
        try:
            lowered = lower_text(program.text, target, **fixed, R=rows, C=columns)
        except KernelError as refused:
            # A part of a fragment asks for what other threads have; a small product has less than the warps.
            assert "fragment" in str(refused) or "gemm-tile" in str(refused), f"{program.text}\n{refused}"
            continue
        found = [poison(tuple(w.shape), str(w.dtype).removeprefix("torch.")) for w in want]
        tensors = dict(zip(program.outputs, found, strict=True))
        for name, dtype in program.workspaces.items():
            tensors[name] = poison((*program.axes, -(-a.shape[0] // rows) * rows, columns), dtype)
        tensors["Z"] = z.numpy().copy()
        run(lowered, {"A": a.numpy().copy(), "I": numbers.numpy().copy(), **tensors}, sizes)
        compare([torch.from_numpy(tensors["Z"])], [of_reference], program, target, ("Z",))
        compare([_torch(f, w) for f, w in zip(found, want, strict=True)], want, program, target)


def _torch(found: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(found.view(np.uint8).copy()).view(like.dtype).reshape(like.shape)


def compare(found: Any, want: Any, program: Program, who: str, names: tuple[str, ...] = ()) -> None:
    for name, f, w in zip(names or program.outputs, found, want, strict=True):
        if not torch.equal(f.double(), w.double()):
            at = (f.double() != w.double()).nonzero()[0].tolist()
            raise AssertionError(f"{who} and the reference differ in {name} at {at}\n{program.text}")


@settings(max_examples=6, **_UNHURRIED)
@given(programs(statements=4), st.integers(0, 99))
def test_random_tiles(program: Program, seed: int) -> None:
    check(program, seed, ("cuda:sm_80",))


@pytest.mark.slow
@settings(max_examples=150, **_UNHURRIED)
@given(programs(), st.integers(0, 99))
def test_many_random_tiles(program: Program, seed: int) -> None:
    check(program, seed, ("cuda:sm_80", "cuda:sm_90"))
