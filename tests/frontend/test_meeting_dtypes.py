"""In which dtype the operands of an operator meet, and that kernels compute in it."""

from __future__ import annotations

import ast

import pytest
import torch
from tvm import tirx as X

import tilelang
import tilelang.language as T
import tilelang.reference
from tilelang.frontend.operators import binary, joint_dtype

MEET = [
    ("int32", "uint32", "uint32"),  # as in C
    ("uint8", "int8", "uint8"),
    ("int64", "uint64", "uint64"),
    ("uint32", "int64", "int64"),
    ("uint8", "int32", "int32"),
    ("float16", "int64", "float16"),
    ("float16", "bfloat16", "float32"),
]
WITH_NUMBERS = [
    ("uint8", 8, "int32"),
    ("int8", -1, "int32"),
    ("int16", 70000, "int32"),
    ("uint16", 2**40, "int64"),
    ("int32", 1, "int32"),
    ("int32", 2**31, "int64"),
    ("uint32", 1, "uint32"),
    ("uint32", 2**31, "int64"),
    ("uint32", -1, "int64"),
    ("uint64", 1, "uint64"),
    ("bool", 1, "int32"),
    ("int8", True, "int8"),
    ("int8", 1.5, "float32"),
    ("int64", 1.5, "float32"),
    ("float16", 1, "float16"),
    ("float16", 1.5, "float32"),
    ("bfloat16", 1e-6, "float32"),
    ("float8_e4m3fn", 1, "float8_e4m3fn"),
    ("float8_e4m3fn", 1.5, "float32"),
    ("float64", 1.5, "float64"),
    ("float16x2", 1.5, "float16x2"),
]
ON_BITS = [
    ("uint8", 15, "uint8"),
    ("uint16", 4, "uint16"),
    ("uint32", 2**31, "uint32"),
    ("uint8", 300, "int32"),
]


@pytest.mark.parametrize(("a", "b", "dtype"), MEET)
def test_values_meet(a: str, b: str, dtype: str) -> None:
    assert joint_dtype(X.Var("a", a), X.Var("b", b)) == dtype
    assert joint_dtype(X.Var("b", b), X.Var("a", a)) == dtype


@pytest.mark.parametrize(("a", "number", "dtype"), WITH_NUMBERS)
def test_values_meet_python_numbers(a: str, number: float, dtype: str) -> None:
    assert joint_dtype(X.Var("a", a), number) == dtype
    assert joint_dtype(number, X.Var("a", a)) == dtype


@pytest.mark.parametrize(("a", "number", "dtype"), ON_BITS)
def test_numbers_of_operations_on_bits_take_the_dtype_of_the_bits(a: str, number: int, dtype: str) -> None:
    assert joint_dtype(X.Var("a", a), number, bits=True) == dtype


@tilelang.jit(target="c", out_idx=[2, 3, 4])
def unpacked(n: int):
    @T.prim_func
    def main(
        P: T.Tensor((n,), "uint8"),
        K: T.Tensor((n,), "uint32"),
        Z: T.Tensor((n,), "float16"),
        D: T.Tensor((n,), "int32"),
        H: T.Tensor((n,), "float32"),
    ):
        with T.Kernel(1, threads=n):
            step = T.alloc_var("int32", init=24)
            for i in T.Parallel(n):
                Z[i] = T.cast(((P[i] >> 4) & 0xF) - 8, "float16")
                D[i] = T.cast(K[i] >> step, "int32")
                H[i] = T.cast(P[i], "float16") * 0.1

    return main


def test_nibbles_less_their_zero_point_keys_shifted_down_and_halves_scaled_in_float32() -> None:
    p = torch.arange(0, 256, 4, dtype=torch.uint8)
    k = torch.arange(64, dtype=torch.int64) * 67_000_000
    kernel = unpacked(64)
    keys = k.to(torch.uint32)
    for z, d, h in (kernel(p, keys), tilelang.reference.run(kernel, p, keys)):
        assert torch.equal(z.double(), ((p >> 4).int() - 8).double())
        assert torch.equal(d, (k >> 24).int())
        torch.testing.assert_close(h.float(), p.float() * 0.1, rtol=1e-6, atol=0)


def test_a_key_that_is_shifted_by_a_signed_number_stays_unsigned() -> None:
    made = binary(ast.RShift, X.Var("key", "uint32"), X.Var("step", "int32"))
    assert str(made.ty.dtype) == "uint32"
