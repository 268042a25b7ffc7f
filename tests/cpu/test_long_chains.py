"""Values that name earlier values, many times over: compiled in time that grows with the text, not as 2^n."""

from __future__ import annotations

import time

import pytest
import torch

from tests.frontend.programs import live_module
from tests.on_device import compiled_for

SECONDS = 20  # of the processor; where each name doubles the work it would be hours

HEAD = """
@tilelang.jit
def k(A):
    N = T.const("N")
    A: T.Tensor((N,), T.{dtype})
    B = T.empty((N,), T.{dtype})
    with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
        for i in T.Parallel(64):
            x0 = A[bx * 64 + i]
"""


def run(dtype: str, step: str, steps: int, given: torch.Tensor) -> torch.Tensor:
    """B of a kernel in which each of `steps` values is `step` of the one before, X."""
    lines = [f"            x{n + 1} = {step.replace('X', f'x{n}')}\n" for n in range(steps)]
    end = f"            B[bx * 64 + i] = x{steps}\n    return B\n"
    kernel = live_module(HEAD.format(dtype=dtype) + "".join(lines) + end)["k"]
    started = time.process_time()
    found = compiled_for(kernel, "cpu")(given)
    assert time.process_time() - started < SECONDS
    return found


def test_a_hash_of_many_rounds():
    a = torch.arange(-50, 50, dtype=torch.int32)
    x = a.clone()
    for _ in range(24):
        x = (x ^ (x << 3)) % 1000003 + torch.where(x > 5, x, -x) % 7
    assert torch.equal(run("int32", "(X ^ (X << 3)) % 1000003 + T.if_then_else(X > 5, X, -X) % 7", 24, a), x)


@pytest.mark.parametrize(
    ("dtype", "steps"), [(torch.float32, 24), (torch.bfloat16, 9), (torch.float8_e5m2, 5)], ids=str
)
def test_an_iteration_of_many_steps(dtype, steps):
    a = torch.linspace(-1.5, 1.5, 70).to(dtype)
    x = a.float()
    for _ in range(steps):
        square = (x * x).to(dtype).float()
        x = (square + x).to(dtype).float() * -0.5
    name = str(dtype).removeprefix("torch.")  # of the constant too, else the product is float32
    found = run(name, f"(X * X + X) * T.cast(-0.5, T.{name})", steps, a)
    torch.testing.assert_close(found.float(), x.to(dtype).float(), rtol=1e-5, atol=1e-12)
