"""Numbers made by a dtype outside kernels keep it in the kernels that read them."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

TENTH = T.float32(0.1)
WIDE = T.int64(1 << 33)
FOUR = T.int32(4)
MOST = T.cast(3.9, "int8")


def test_they_are_pythons_numbers_with_a_dtype():
    assert (TENTH.dtype, TENTH.value, T.float16(3) + 1) == ("float32", 0.1, 4)
    assert (MOST, MOST.dtype, T.Cast("float64", FOUR).dtype) == (3, "int8", "float64")
    assert T.bool(True) == 1 and isinstance(T.int32(2.7), int)
    with pytest.raises(ValueError, match="uint8 has no -1: it holds 0 to 255"):
        T.uint8(-1)
    with pytest.raises(RuntimeError, match="outside a kernel"):
        T.float32(T.dynamic("n"))


def test_a_kernel_computes_in_their_dtype():
    @T.prim_func
    def main(A: T.Tensor((FOUR,), "float16"), B: T.Tensor((FOUR,), "float32"), C: T.Tensor((4,), "int64")):
        with T.Kernel(1, threads=1):
            for i in T.serial(FOUR):
                B[i] = A[i] * TENTH
                C[i] = i * WIDE + MOST

    a = torch.arange(4, dtype=torch.float16)
    scaled, wide = tilelang.compile(main, out_idx=[1, 2], target="cpu")(a)
    assert torch.equal(scaled, a.float() * 0.1)  # rounded to float16, a third of them would differ
    assert wide.tolist() == [i * 2**33 + 3 for i in range(4)]


def test_questions_about_dtypes_are_answered_outside_kernels():
    assert T.is_float4("float4_e2m1fn") and not T.is_float4(torch.float16)
    assert [T.is_f8f6f4_family(d) for d in ("float8_e8m0fnu", "float6_e3m2fn", "int8")] == [True, True, False]
    assert not T.is_float4_e2m1_unpacked("float4_e2m1fn") and T.is_float4_e2m1fn("float4_e2m1fnx2")
    assert T.get_tvm_dtype(torch.bfloat16) == "bfloat16"
    with pytest.raises(ValueError, match="no dtype float16x2"):
        T.float16x2.as_torch()
