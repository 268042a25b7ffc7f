"""Dtypes in every spelling: strings, T.x, torch.x, numpy.x."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang.language as T
from tilelang.arch.dtypes import ALIASES, DTYPES, canonical_dtype, dtype_info

TORCH_NAMES = sorted(set(DTYPES))


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


@pytest.mark.parametrize("name", sorted(set(DTYPES) - {"bfloat16"}))
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
    [("bool", 1, 1), ("int8", 8, 1), ("float16", 16, 2), ("bfloat16", 16, 2), ("float64", 64, 8)],
)
def test_sizes(name: str, bits: int, n_bytes: int):
    assert (T.dtype(name).bits, T.dtype(name).bytes, T.dtype(name).lanes) == (bits, n_bytes, 1)


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
        ("float8_e4m3fn", "dtype 'float8_e4m3fn' is not supported"),
        ("int4", "dtype 'int4' is not supported"),
        ("nonsense", "known are bool, int8"),
        (128, "unknown dtype '128'"),
        ("", "unknown dtype ''"),
    ],
)
def test_refusals_help(spelling: object, said: str):
    with pytest.raises(ValueError, match=said):
        canonical_dtype(spelling)
