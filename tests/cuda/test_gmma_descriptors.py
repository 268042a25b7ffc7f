"""T.compute_gmma_descriptor: the numbers of the release for its layouts, and products by them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import HEAD, lower_text, random
from tests.emulator.block import run
from tests.emulator.memory import poison
from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Severity

PRODUCT = """
from tilelang.layout import make_wgmma_swizzled_layout

@tilelang.jit
def product(A, B):
    A: T.Tensor((64, 128), "float16")
    B: T.Tensor((64, 128), "float16")
    C = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        a, b = T.alloc_shared((64, 128), "float16"), T.alloc_shared((64, 128), "float16")
        c = T.alloc_local((32,), "float32")
        of_a, of_b = make_wgmma_swizzled_layout(a), make_wgmma_swizzled_layout(b)
        T.annotate_layout({a: of_a, b: of_b})
        T.copy(A, a)
        T.copy(B, b)
        p, q = T.compute_gmma_descriptor(of_a, a, False), T.compute_gmma_descriptor(of_b, b, False)
        left, right = T.alloc_wgmma_desc(), T.alloc_wgmma_desc()
        for desc, tile, one in ((left, a, p), (right, b, q)):
            T.initialize_wgmma_descriptor(
                desc, T.access_ptr(tile[0, 0], "r"), one.swizzle_mode.wgmma_layout_type(),
                one.leading_byte_offset, one.stride_byte_offset,
            )
        T.warpgroup_fence_operand(c, num_regs=32)
        T.warpgroup_arrive()
        for k in range(8):
            panel = k // p.k_atom_size * p.k_panel_stride(64) * p.elems_in_bytes
            at = (panel + k % p.k_atom_size * 16 * p.elems_in_bytes) // 16
            T.ptx_wgmma_ss(
                "float32", "m64n64k16", p.is_k_major, q.is_k_major, "fp16", "fp16", "fp32", left.data, at,
                right.data, at, c.data, 0, k > 0, True, True,
            )
        T.warpgroup_commit_batch()
        T.warpgroup_wait(0)
        T.warpgroup_fence_operand(c, num_regs=32)
        for i in T.unroll(32):
            C[tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2] = c[i]
    return C
"""


def errors_of(text):
    problems = check_source("k.py", text, "cuda:sm_90").all_problems()
    return [p for p in problems if p.severity is Severity.ERROR]


def test_a_product_by_its_numbers(rng):
    a, b, c = (
        random(rng, (64, 128), "float16"),
        random(rng, (64, 128), "float16"),
        poison((64, 64), "float32"),
    )
    run(lower_text(HEAD + PRODUCT, "cuda:sm_90"), {"A": a, "B": b, "C": c})
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float).T, rtol=1e-3, atol=1e-3)


# As release 0.1.15 answers: leading, stride offset, elements of an atom's row, instructions along it, panel.
ANSWERS = {
    ((64, 64), "float16", False): (1, 64, 64, 4, None),
    ((64, 64), "float16", True): (0, 64, 64, 4, None),
    ((64, 128), "float16", False): (1, 64, 64, 4, 4096),
    ((64, 128), "float16", True): (512, 64, 64, 4, None),
    ((64, 32), "float16", False): (1, 32, 32, 2, None),
    ((64, 16), "float16", False): (1, 16, 16, 1, None),
    ((128, 128), "int8", True): (0, 64, 128, 8, None),
    ((64, 32), "float32", False): (1, 64, 32, 2, None),
}


@pytest.mark.parametrize(("asked", "answer"), ANSWERS.items())
def test_numbers_of_the_release(asked, answer):
    shape, dtype, turned = asked
    text = f"""{HEAD}
from tilelang.layout import make_wgmma_swizzled_layout

@tilelang.jit
def k(A):
    A: T.Tensor({shape}, "{dtype}")
    with T.Kernel(1, threads=128):
        a = T.alloc_shared({shape}, "{dtype}")
        p = T.compute_gmma_descriptor(make_wgmma_swizzled_layout(a), a, {turned})
        T.device_assert(p.leading_byte_offset == {answer[0]})
        T.device_assert(p.stride_byte_offset == {answer[1]})
        T.device_assert(p.swizzle_atom_elems == {answer[2]})
        T.device_assert(p.k_atom_size == {answer[3]})
        T.device_assert(p.k_panel_stride(7) == {answer[4] or 7 * answer[2]})
        T.copy(A, a)
"""
    assert not errors_of(text)
    wrong = errors_of(text.replace(f"p.k_atom_size == {answer[3]}", "p.k_atom_size == 99"))
    assert ["known to be false" in p.message for p in wrong] == [True]


def test_what_it_cannot_describe():
    text = HEAD + PRODUCT.replace("compute_gmma_descriptor(of_a", "compute_gmma_descriptor(3", 1)
    errors = [
        p for p in check_source("k.py", text, "cuda:sm_90").all_problems() if p.severity is Severity.ERROR
    ]
    assert any("`tl_layout` must be a layout, not" in p.message for p in errors)
