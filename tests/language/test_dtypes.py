"""Dtypes in every spelling: strings, T.x, torch.x, numpy.x."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.arch.dtypes import ALIASES, DTYPES, canonical_dtype, dtype_info
from tilelang.language.vector_dtypes import VECTOR_NAMES

# What torch and numpy have no dtype for, or store two elements of in a byte.
PACKED = {"int4", "uint4", "float4_e2m1fn"}
ONLY_HERE = {"float8_e3m4", "float8_e4m3b11fnuz", "float6_e2m3fn", "float6_e3m2fn"}
TORCH_NAMES = sorted(set(DTYPES) - PACKED - ONLY_HERE)


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_canonical_names_stand_for_themselves(name: str):
    assert canonical_dtype(name) == canonical_dtype(T.dtype(name)) == canonical_dtype(f"T.{name}") == name


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_aliases(alias: str):
    assert canonical_dtype(alias) in DTYPES


@pytest.mark.parametrize("name", TORCH_NAMES)
def test_torch_dtypes(name: str):
    torch = pytest.importorskip("torch")
    theirs, ours = getattr(torch, name), T.dtype(name)
    assert canonical_dtype(theirs) == name
    assert ours == theirs and theirs == ours and (ours != theirs) is False
    assert ours.as_torch() is theirs


def test_torch_aliases():
    torch = pytest.importorskip("torch")
    assert [canonical_dtype(d) for d in (torch.half, torch.float, torch.int, torch.long)] == [
        "float16",
        "float32",
        "int32",
        "int64",
    ]


@pytest.mark.parametrize("name", sorted(n for n in DTYPES if hasattr(np, n)))
def test_numpy_dtypes_and_scalar_types(name: str):
    dtype = np.dtype(name)
    assert canonical_dtype(dtype) == canonical_dtype(dtype.type) == name
    ours = T.dtype(name)
    assert ours == dtype and dtype == ours and ours == dtype.type


def test_python_types():
    assert [canonical_dtype(t) for t in (bool, int, float)] == ["bool", "int32", "float32"]


def test_dtype_objects_compare_and_hash_like_their_names():
    assert T.float16 == "float16" and T.float16 != "float32" and T.float16 != 16 and T.float16 is not None
    assert {T.float16: 1}["float16"] == 1 and {"float16": 1}[T.float16] == 1
    assert str(T.float16) == f"{T.float16}" == "float16" and repr(T.float16) == "T.float16"


@pytest.mark.parametrize(
    ("name", "bits", "n_bytes"),
    [
        ("bool", 1, 1),
        ("int4", 4, 1),
        ("int8", 8, 1),
        ("float4_e2m1fn", 4, 1),
        ("float8_e4m3fn", 8, 1),
        ("float16", 16, 2),
        ("bfloat16", 16, 2),
        ("float64", 64, 8),
    ],
)
def test_sizes(name: str, bits: int, n_bytes: int):
    assert (T.dtype(name).bits, T.dtype(name).bytes, T.dtype(name).lanes) == (bits, n_bytes, 1)


@pytest.mark.parametrize("name", sorted(PACKED))
def test_torch_packs_two_elements_of_four_bits(name: str):
    torch = pytest.importorskip("torch")
    found = {"int4": torch.int8, "uint4": torch.uint8, "float4_e2m1fn": torch.float4_e2m1fn_x2}
    assert T.dtype(name).as_torch() is found[name]


@pytest.mark.parametrize("name", sorted(ONLY_HERE))
def test_what_torch_has_not_is_said(name: str):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=f"torch has no dtype {name}"):
        T.dtype(name).as_torch()


def test_names_for_the_same_dtype():
    assert (T.half, T.float, T.double) == (T.float16, T.float32, T.float64)
    assert (T.short, T.int, T.long, T.uint) == (T.int16, T.int32, T.int64, T.uint32)
    assert T.tfloat32 == T.float32 and T.float8_e4m3 == T.float8_e4m3fn
    assert dtype_info("float4_e2m1fn_x2").name == "float4_e2m1fn"


@pytest.mark.parametrize("name", VECTOR_NAMES)
def test_vectors_of_dtypes(name: str):
    vector, (_, _, lanes) = getattr(T, name), name.rpartition("x")
    scalar = vector.with_lanes(1)
    assert vector.lanes == int(lanes) and vector.bits == scalar.bits
    assert vector.bytes == (scalar.bits * vector.lanes + 7) // 8 == vector.itemsize
    assert scalar.with_lanes(int(lanes)) == vector


def test_vector_dtypes_keep_their_lanes():
    info = dtype_info("halfx4")
    assert (info.name, info.kind, info.bits, info.lanes, info.bytes) == ("float16x4", "float", 16, 4, 8)


def test_kinds():
    assert dtype_info("uint8").is_integer and not dtype_info("bool").is_integer
    assert dtype_info("bfloat16").is_float and not dtype_info("int32").is_float


@pytest.mark.parametrize(
    ("spelling", "said"),
    [
        ("flaot16", "did you mean 'float16'"),
        ("floot32", "did you mean 'float32'"),
        ("float8_e2m5", "dtype 'float8_e2m5' is not supported"),
        ("int2", "dtype 'int2' is not supported"),
        ("nonsense", "known are bool, int4, int8"),
        (128, "unknown dtype '128'"),
        ("", "unknown dtype ''"),
    ],
)
def test_refusals_help(spelling: object, said: str):
    with pytest.raises(ValueError, match=said):
        canonical_dtype(spelling)


@pytest.mark.parametrize("dtype", ["float16", "float64", "float8_e5m2", "float4_e2m1fn", "int8", "bool"])
def test_limits_outside_of_kernels_are_numbers_that_know_their_dtype(dtype: str) -> None:
    for limit in (T.max_value(dtype), T.min_value(dtype), -T.max_value(dtype), T.infinity(dtype)):
        assert limit.dtype == dtype and limit.value == limit
        assert pickle.loads(pickle.dumps(limit)).dtype == dtype
    assert T.max_value(torch.float16) == 65504 and isinstance(T.min_value(T.int8), int)


def test_a_limit_computed_at_module_level_is_a_number_in_kernels() -> None:
    lowest = -T.infinity("float32")

    @T.prim_func
    def fill(B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_fragment((8,), "float32")
            T.fill(s, lowest)
            T.copy(s, B)

    assert torch.equal(tilelang.compile(fill, target="cpu", out_idx=0)(), torch.full((8,), -torch.inf))
