"""T.rng_*: Philox4x32-10 as cuRAND numbers it, against a plain implementation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.emulator.memory import poison
from tests.on_device import DEVICES, compiled_for
from tilelang.analysis.check import check_source
from tilelang.targets.driver import build


def philox(seed: int, sequence: int, number: int) -> int:
    """Word `number` of the sequence (Salmon et al. 2011, Philox4x32-10; counter and key as in cuRAND)."""
    low = 2**32 - 1
    block = number // 4
    x = [block & low, block >> 32, sequence & low, sequence >> 32]
    key = [seed & low, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ key[0], b & low, (a >> 32) ^ x[3] ^ key[1], a & low]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return x[number % 4]


def test_the_reference_is_philox():
    """The vectors of the paper's library (Random123, kat_vectors) for philox4x32 with 10 rounds and zeros."""
    assert [philox(0, 0, k) for k in range(4)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


TEXT = """
@tilelang.jit
def numbers(seed: int = 1234567890123):
    A = T.empty((2, 32, 6), T.uint32)
    U = T.empty((2, 32), T.float32)
    N = T.empty((2, 32, 3), T.float32)
    with T.Kernel(2, threads=32) as bx:
        tx = T.get_thread_binding()
        T.rng_init(seed)
        for k in T.serial(6):
            A[bx, tx, k] = T.rng_rand()
        T.rng_init(seed, seq=tx, off=7)
        U[bx, tx] = T.rng_rand_float()
        for k in T.serial(3):
            N[bx, tx, k] = T.rng_rand_float(dist="normal")
    return A, U, N
"""
SEED = 1234567890123


def check(bits: np.ndarray, uniform: np.ndarray, normal: np.ndarray) -> None:
    expected = [[[philox(SEED, b * 32 + t, k) for k in range(6)] for t in range(32)] for b in range(2)]
    np.testing.assert_array_equal(bits, np.array(expected, np.uint32))
    step = np.float32(2.3283064e-10)
    for t in range(32):
        words = [philox(SEED, t, 7 + k) for k in range(5)]
        assert uniform[0, t] == uniform[1, t] == np.float32(words[0]) * step + step / 2
        values = []
        for left, right in (words[1:3], words[3:5]):
            length = np.sqrt(-2 * np.log(left * float(step) + float(step) / 2))
            angle = 2 * np.pi * (right * float(step) + float(step) / 2)
            values += [length * np.sin(angle), length * np.cos(angle)]
        np.testing.assert_allclose(normal[0, t], values[:3], rtol=1e-4, atol=1e-5)


@tilelang.jit
def numbers(seed: int = SEED):
    A = T.empty((2, 32, 6), T.uint32)
    U = T.empty((2, 32), T.float32)
    N = T.empty((2, 32, 3), T.float32)
    with T.Kernel(2, threads=32) as bx:
        tx = T.get_thread_binding()
        T.rng_init(seed)
        for k in T.serial(6):
            A[bx, tx, k] = T.rng_rand()
        T.rng_init(seed, seq=tx, off=7)
        U[bx, tx] = T.rng_rand_float()
        for k in T.serial(3):
            N[bx, tx, k] = T.rng_rand_float(dist="normal")
    return A, U, N


@pytest.mark.parametrize("effort", ["-O0", "-O3"])
@pytest.mark.parametrize("device", DEVICES)
def test_the_numbers_of_every_thread(device: str, effort: str):
    bits, uniform, normal = (t.cpu() for t in compiled_for(numbers, device, effort)())
    check(bits.to(torch.int64).numpy().astype(np.uint32), uniform.numpy(), normal.numpy())


def test_in_the_emulator():
    tensors = {
        "A": poison((2, 32, 6), "uint32"),
        "U": poison((2, 32), "float32"),
        "N": poison((2, 32, 3), "float32"),
    }
    run(lower_text(TEXT), tensors)
    check(*tensors.values())


@pytest.mark.parametrize("target", ["cuda:sm_80", "hip:gfx942"])
def test_compiles(target: str):
    assert build(lower_text(TEXT, target)).binary


REFUSED = {
    "T.rng_rand()": "T.rng_init(seed) must come before it",
    'T.rng_init(1, generator="curandStateXORWOW_t")': "is not supported",
    "T.rng_init(1); T.rng_rand_float(bit=64)": "random floats have 32 bits",
    'T.rng_init(1); T.rng_rand_float(dist="cauchy")': 'dist is "uniform" or "normal"',
}


@pytest.mark.parametrize(("statement", "said"), REFUSED.items())
def test_refusals_help(statement: str, said: str):
    text = f"""
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A):
    A: T.Tensor((64,), T.float32)
    with T.Kernel(1, threads=32):
        {statement}
        A[0] = 1.0
"""
    assert any(said in problem.message for problem in check_source("k.py", text, "cuda:sm_90").all_problems())
