"""T.rng_*: the numbers of cuRAND; Philox4x32-10 also against a plain implementation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import lower_text
from tests.emit.host_run import needs_clang
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


@pytest.mark.parametrize("target", ["cuda:sm_80", pytest.param("hip:gfx942", marks=needs_clang)])
def test_compiles(target: str):
    assert build(lower_text(TEXT, target)).binary


# What cuRAND 13.0 gives on the host for seed 1234567890123, sequence 77 from number 1000003 on: six words,
# then two uniform float32, two uniform float64, three normal float32 and three normal float64.
CURAND = {
    "curandStatePhilox4_32_10_t": (
        [907093350, 2904249142, 1665933107, 1148848051, 4182730362, 2211359010],
        [0.598376989, 0.574040234, -0.0479789525, 0.00510894973, -1.50190711],
        [
            0.95947185670956969,
            0.65346860559657216,
            0.14854558020109154,
            0.20897870533768317,
            0.30129986698848055,
        ],
    ),
    "curandStateXORWOW_t": (
        [815213033, 529792583, 842531418, 845676378, 3866993184, 3952225580],
        [0.584901392, 0.342847735, 0.277495533, 0.0748812929, -0.37901032],
        [
            0.87707010074629577,
            0.82337235006598108,
            0.85316799736717785,
            -0.982630397671163,
            -0.57651979282672849,
        ],
    ),
    "curandStateMRG32k3a_t": (
        [2300191534, 3443090916, 2306666986, 478178799, 1380626529, 1220409420],
        [0.529547811, 0.989882708, -1.23561847, -0.0823765919, 0.0317830555],
        [
            0.70503249143990476,
            0.85265840524938119,
            -1.5654871200049767,
            1.7124460120048084,
            -0.4242657328552854,
        ],
    ),
}


@tilelang.jit(target="llvm")
def distributions(generator: str, known: bool):
    W = T.empty((6,), T.uint32)
    F = T.empty((5,), T.float32)
    D = T.empty((5,), T.float64)
    with T.Kernel(1, threads=1):
        if known:
            T.rng_init(SEED, 77, 1000003, generator=generator)
        else:
            sequence = T.alloc_var("int32", init=77)
            T.rng_init(SEED, sequence, sequence + 999926, generator=generator)
        for i in T.serial(6):
            W[i] = T.rng_rand()
        for i in T.serial(2):
            F[i] = T.rng_rand_float()
        for i in T.serial(2):
            D[i] = T.rng_rand_float(bit=64)
        for i in T.serial(3):
            F[2 + i] = T.rng_rand_float(dist="normal")
        for i in T.serial(3):
            D[2 + i] = T.rng_rand_float(bit=64, dist="normal")
    return W, F, D


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("generator", CURAND)
def test_every_generator_gives_the_numbers_of_curand(generator: str, known: bool):
    words, floats, doubles = distributions(generator, known)
    expected = CURAND[generator]
    assert words.to(torch.int64).tolist() == expected[0]
    np.testing.assert_allclose(floats.numpy(), expected[1], rtol=3e-6)
    np.testing.assert_allclose(doubles.numpy(), expected[2], rtol=1e-13)


GRID = """
@tilelang.jit
def numbers():
    A = T.empty((2, 32), T.uint32)
    D = T.empty((2, 32), T.float64)
    with T.Kernel(2, threads=32) as bx:
        tx = T.get_thread_binding()
        T.rng_init(0, generator="{generator}")
        A[bx, tx] = T.rng_rand()
        D[bx, tx] = T.rng_rand_float(bit=64, dist="normal")
    return A, D
"""
# The first number of the sequences 0, 1 and 5 of seed 0, by cuRAND.
FIRST = {
    "curandStateXORWOW_t": [3179217846, 3955638199, 1917059131],
    "curandStateMRG32k3a_t": [545508615, 341016064, 2878123889],
}


SLOWLY = [g if "XOR" not in g else pytest.param(g, marks=pytest.mark.slow) for g in FIRST]


@pytest.mark.parametrize("generator", SLOWLY)
def test_each_thread_begins_with_its_sequence(generator: str):
    tensors = {"A": poison((2, 32), "uint32"), "D": poison((2, 32), "float64")}
    text = GRID.format(generator=generator)
    run(lower_text(text), tensors)
    assert tensors["A"].reshape(-1)[[0, 1, 5]].tolist() == FIRST[generator]
    assert np.isfinite(tensors["D"]).all() and 0.5 < tensors["D"].std() < 1.5
    assert build(lower_text(text, "cuda:sm_80")).binary


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU, torch finds none")
@pytest.mark.parametrize("generator", FIRST)
def test_each_thread_begins_with_its_sequence_on_a_device(generator: str):
    @tilelang.jit
    def numbers():
        A = T.empty((2, 32), T.uint32)
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            T.rng_init(0, generator=generator)
            A[bx, tx] = T.rng_rand()
        return A

    assert numbers().cpu().to(torch.int64).reshape(-1)[[0, 1, 5]].tolist() == FIRST[generator]


REFUSED = {
    "T.rng_rand()": "T.rng_init(seed) must come before it",
    'T.rng_init(1, generator="curandStateSobol32_t")': "there is no generator 'curandStateSobol32_t'",
    "T.rng_init(1); T.rng_rand_float(bit=16)": "random floats have 32 or 64 bits",
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
