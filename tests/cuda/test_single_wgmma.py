"""T.ptx_wgmma_ss, T.ptx_wgmma_rs and descriptors, run by the emulator and compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cuda.kernels import lower_text, random
from tests.cuda.single_products import product
from tests.cuda.test_emulated import close
from tests.emulator.block import run
from tests.emulator.memory import EmulationError, poison
from tilelang.analysis.check import check_source
from tilelang.targets.driver import build

HEAD = "import tilelang\nimport tilelang.language as T\n\n"
PRODUCT = (Path(__file__).parent / "single_products.py").read_text()
CASES = [
    {},
    {"n": 24, "sign": False, "registers": True},
    {"b_turned": True, "registers": True},
    {"plain": True, "n": 16},
    {"dtype": "float8_e4m3fn", "short": "e4m3", "n": 32, "K": 128, "registers": True},
]


def named(choice):
    return "-".join(f"{k}={v}" for k, v in choice.items()) or "plain"


@pytest.mark.parametrize("choice", CASES, ids=named)
def test_single_products(choice, rng):
    n, k, dtype = choice.get("n", 64), choice.get("K", 64), choice.get("dtype", "float16")
    a = random(rng, (64, k), dtype)
    b = random(rng, (k, n) if choice.get("b_turned") else (n, k), dtype)
    c = poison((64, n), "float32")
    shown = {key: repr(value) for key, value in choice.items()}
    run(lower_text(PRODUCT, "cuda:sm_90", **shown), {"A": a, "B": b, "C": c})
    right = b.astype(np.float64)
    want = a.astype(np.float64) @ (right if choice.get("b_turned") else right.T)
    close(c, want if choice.get("sign", True) else -want, 1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs an sm_90 GPU"
)
@pytest.mark.parametrize("choice", CASES, ids=named)
def test_single_products_on_a_device(choice):
    n, k = choice.get("n", 64), choice.get("K", 64)
    dtype = getattr(torch, choice.get("dtype", "float16"))
    a = torch.randn(64, k, device="cuda").to(dtype)
    b = torch.randn(*((k, n) if choice.get("b_turned") else (n, k)), device="cuda").to(dtype)
    want = a.double() @ (b.double() if choice.get("b_turned") else b.double().T)
    sign = 1 if choice.get("sign", True) else -1
    near = 1e-2 if dtype.itemsize == 1 else 1e-3  # products of 8 bits are added with 14 bits on sm_90
    torch.testing.assert_close(product(a, b, **choice).double(), sign * want, rtol=near, atol=near)


def test_what_is_not_waited_for_is_found(rng):
    a, b, c = random(rng, (64, 64), "float16"), random(rng, (64, 64), "float16"), poison((64, 64), "float32")
    with pytest.raises(EmulationError, match="ends with wgmma in flight"):
        run(lower_text(PRODUCT, "cuda:sm_90", wait="1"), {"A": a, "B": b, "C": c})


def test_the_source_compiles():
    for choice in ({}, {"registers": "True", "sign": "False"}):
        lowered = lower_text(PRODUCT, "cuda:sm_90", **choice)
        assert build(lowered).binary
    assert "wgmma_rs_n64_f16xf16_f32_nn_mp(" in lowered.source.text
    assert "wgmma_commit();" in lowered.source.text


def test_marks_around_other_products_cost_nothing():
    text = """
@tilelang.jit
def product(A, B):
    A: T.Tensor((64, 64), "float16")
    B: T.Tensor((64, 64), "float16")
    C = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.warpgroup_arrive()
        T.wgmma_gemm(a, b, c, transpose_B=True, clear_accum=True)
        T.warpgroup_commit_batch()
        T.warpgroup_wait(0)
        T.copy(c, C)
    return C
"""
    source = lower_text(HEAD + text, "cuda:sm_90").source.text
    assert "wgmma_commit" not in source and source.count("wgmma_wait<0>();") == 1


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])
def test_a_gemm_with_a_barrier_is_complete_when_it_ends(target, rng):
    text = """
@tilelang.jit
def product(A, B):
    A: T.Tensor((64, 32), "float16")
    B: T.Tensor((32, 64), "float16")
    C = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        BARRIER
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, clear_accum=True, mbar=bar)
        T.copy(c, C)
    return C
"""
    made = "bar = T.alloc_barrier(1)" if target == "cuda:sm_90" else "bar = None"
    a, b, c = random(rng, (64, 32), "float16"), random(rng, (32, 64), "float16"), poison((64, 64), "float32")
    run(lower_text(HEAD + text.replace("BARRIER", made), target), {"A": a, "B": b, "C": c})
    close(c, a.astype(np.float64) @ b.astype(np.float64), 1e-4)


WRONG = [
    ('"m64n64k16"', '"m64n64k8"', "m64nNk16 with N a multiple of 8 up to 256, not m64n64k8"),
    ('"m64n64k16"', '"64x64"', 'is like "m64n128k16"'),
    ("da.data", "c.data", "must be a descriptor made by T.alloc_wgmma_desc"),
    ('"fp32", da', '"int32", da', "no wgmma multiplies float16 by float16 into int32"),
    ("1, True, True)", "1, True, 2)", "True, or False for the operand's negative"),
    ("a[0, 0]", "A[0, 0]", "must lie in shared memory"),
    (", 1, 1, 64)", ", 4, 1, 64)", "0 to 3, not 4"),
    ("db, 32)", "db, 8)", "a multiple of 16, not 8"),
    ("alloc_wgmma_desc()", 'alloc_descriptor("tcgen05")', "which sm_100 has"),
    ('True, True, "fp16", "fp16", "fp32"', 'True, False, "e4m3", "e4m3", "fp32"', "m64nNk32"),
]


@pytest.mark.parametrize(("old", "new", "said"), WRONG, ids=[w[2] for w in WRONG])
def test_what_cannot_be(old, new, said):
    text = """
@tilelang.jit
def product(A):
    A: T.Tensor((64, 64), "float16")
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        c = T.alloc_local((32,), "float32")
        T.copy(A, a)
        da = T.alloc_wgmma_desc()
        db = T.alloc_wgmma_desc()
        T.initialize_wgmma_descriptor(da, T.access_ptr(a[0, 0], "r"), 1, 1, 64)
        T.initialize_wgmma_descriptor(db, T.access_ptr(a[0, 0], "r"), 1, 1, 64)
        T.increase_descriptor_offset(db, 32)
        T.warpgroup_arrive()
        T.ptx_wgmma_ss("float32", "m64n64k16", True, True, "fp16", "fp16", "fp32", da.data, 0,
                       db.data, 0, c.data, 0, 1, True, True)
        T.warpgroup_commit_batch()
        T.warpgroup_wait(0)
"""
    assert old in text
    problems = check_source("kernel.py", HEAD + text.replace(old, new, 1), "cuda:sm_90").all_problems()
    assert any(said in p.message for p in problems), [p.message for p in problems]
