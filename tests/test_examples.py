"""Every example against torch: sizes that its tiles divide and sizes that they do not, all its dtypes."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.on_device import DEVICES, compiled_for, random

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(p.stem for p in (ROOT / "examples").glob("*.py") if p.stem != "__init__")

F32, F16, BF16, I8 = torch.float32, torch.float16, torch.bfloat16, torch.int8
# A result rounded to the dtype is off by half a unit in the last place, sums before it by a little more.
TOLERANCE = {
    F32: {"rtol": 2e-5, "atol": 2e-5},
    F16: {"rtol": 2e-3, "atol": 2e-3},
    BF16: {"rtol": 1.6e-2, "atol": 1.6e-2},
    torch.int32: {"rtol": 0, "atol": 0},
}

on_devices = pytest.mark.parametrize("device", DEVICES)


def example(name: str):
    return importlib.import_module(f"examples.{name}")


def close(found: torch.Tensor, expected: torch.Tensor, **tolerance: float) -> None:
    torch.testing.assert_close(found, expected, **(TOLERANCE[found.dtype] | tolerance))


@on_devices
@pytest.mark.parametrize("n", [1, 255, 256, 1000, 4096])
def test_vector_add(device, n):
    module = example("vector_add")
    a, b = random(n, device=device), random(n, device=device, seed=1)
    close(compiled_for(module.add, device)(a, b), module.ref_program(a, b))
    for dtype in (F32, F16, BF16):
        x, y = a.to(dtype), b.to(dtype)
        close(compiled_for(module.add_lazy, device)(n, dtype=dtype)(x, y), module.ref_program(x, y))


@on_devices
def test_vector_add_of_any_length(device):
    module = example("dynamic_vector_add")
    kernel = compiled_for(module.add_any, device)()
    for n in (1, 7, 256, 1000, 5120):
        a, b = random(n, device=device), random(n, device=device, seed=1)
        close(kernel(a, b), module.ref_program(a, b))


@on_devices
@pytest.mark.parametrize("shape", [(64, 256), (33, 129), (1, 1)])
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_elementwise_2d(device, shape, dtype):
    module = example("elementwise_2d")
    a, b = random(*shape, dtype=dtype, device=device), random(*shape, dtype=dtype, device=device, seed=1)
    found = compiled_for(module.silu_add, device)(a, b, dtype=dtype)
    close(found, module.ref_program(a, b))


@on_devices
@pytest.mark.parametrize("shape", [(8, 1024), (5, 700), (1, 3)])
@pytest.mark.parametrize("dtype", [F32, F16])
def test_softmax(device, shape, dtype):
    module = example("softmax")
    x = random(*shape, dtype=dtype, device=device) * 4
    found = compiled_for(module.softmax, device)(x, dtype=dtype)
    close(found, module.ref_program(x), atol=1e-6 if dtype is F32 else 1e-3)


@on_devices
@pytest.mark.parametrize("shape", [(8, 1024), (5, 700), (1, 3)])
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_rms_norm(device, shape, dtype):
    module = example("rms_norm")
    x, w = random(*shape, dtype=dtype, device=device), random(shape[1], dtype=dtype, device=device)
    kernel = compiled_for(module.rms_norm, device)(*shape, dtype=dtype)
    close(kernel(x, w), module.ref_program(x, w))


SIZES = [(128, 256, 64), (100, 136, 72), (1, 8, 200)]


@on_devices
@pytest.mark.parametrize("transpose_b", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize(
    ("dtype", "accum", "out"),
    [
        (F16, F32, F16),
        (F16, F32, F32),
        (F16, F16, F16),
        (BF16, F32, F32),
        (F32, F32, F32),
        (I8, torch.int32, torch.int32),
    ],
    ids=["f16", "f16-to-f32", "f16-in-f16", "bf16", "f32", "int8"],
)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gemm(device, size, dtype, accum, out, transpose_b):
    module = example("gemm")
    m, n, k = size
    a = random(m, k, dtype=dtype, device=device)
    b = random(*((n, k) if transpose_b else (k, n)), dtype=dtype, device=device, seed=1)
    kernel = compiled_for(module.gemm, device)(m, n, k, dtype, accum, out, transpose_b)
    tolerance = {}
    if dtype is F32 and device == "cuda":  # TF32 keeps 10 bits of each factor
        tolerance = {"rtol": 1e-2, "atol": 2e-3 * k**0.5}
    if accum is F16:  # each of K additions rounds to 10 bits
        tolerance = {"rtol": 1e-2, "atol": 5e-3 * k**0.5}
    if out is F32 and dtype is not F32:
        tolerance = {"rtol": 1e-4, "atol": 1e-4 * k**0.5}
    close(kernel(a, b), module.ref_program(a, b if transpose_b else b.t()).to(out), **tolerance)


@on_devices
@pytest.mark.parametrize("size", [(256, 256, 96), (100, 136, 72), (1, 8, 200)], ids=str)
def test_quickstart(device, size):
    module = example("quickstart")
    m, n, k = size
    a, b = random(m, k, dtype=F16, device=device), random(k, n, dtype=F16, device=device)
    close(compiled_for(module.matmul_relu, device)(a, b), module.ref_program(a, b))


@on_devices
@pytest.mark.parametrize(("n", "k"), [(128, 64), (136, 72)])
def test_gemm_of_any_number_of_rows(device, n, k):
    module = example("gemm_dynamic_m")
    kernel = compiled_for(module.gemm_any_m, device)(n, k)
    b = random(k, n, dtype=F16, device=device)
    for m in (1, 64, 100):
        a = random(m, k, dtype=F16, device=device)
        close(kernel(a, b), module.ref_program(a, b))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_as_a_script(name):
    """On the GPU where there is one: the script chooses its device by itself."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "correct" in done.stdout


def test_every_example_is_tested():
    tested = Path(__file__).read_text()
    assert EXAMPLES
    for name in EXAMPLES:
        assert f'example("{name}")' in tested, f"examples/{name}.py has no test"
