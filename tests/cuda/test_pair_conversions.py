"""Conversions of neighbouring registers two by two: what is written, where not, and that nvcc takes it."""

from __future__ import annotations

import pytest

from tests.cuda.kernels import HEAD, lower_text
from tilelang.arch.target import parse_target
from tilelang.targets import driver

WHOLE = """
@T.prim_func
def main(A: T.Tensor((256,), "{source}"), B: T.Tensor((256,), "{target}")):
    with T.Kernel(1, threads=32):
        T.copy(A, B)
"""
FRAGMENTS = """
@T.prim_func
def main(A: T.Tensor((256,), "{source}"), B: T.Tensor((256,), "{target}")):
    with T.Kernel(1, threads=32):
        a = T.alloc_fragment((256,), "{source}")
        b = T.alloc_fragment((256,), "{target}")
        T.copy(A, a)
        for i in T.Parallel(256):
            b[i] = a[i]
        T.copy(b, B)
"""
FLOATS = [
    ("float32", "float16", "__float22half2_rn("),
    ("float16", "float32", "__half22float2("),
    ("float32", "bfloat16", "__float22bfloat162_rn("),
    ("bfloat16", "float32", "__bfloat1622float2("),
]
BYTES = [
    case
    for fp8 in ("float8_e4m3fn", "float8_e5m2")
    for case in (
        ("float32", fp8, "__nv_cvt_float2_to_fp8x2("),
        ("float16", fp8, "__nv_cvt_halfraw2_to_fp8x2("),
        (fp8, "float16", "__nv_cvt_fp8x2_to_halfraw2("),
        (fp8, "float32", "__nv_cvt_fp8x2_to_halfraw2("),
    )
]


def lowered(form, source, target, arch="cuda:sm_90"):
    return lower_text(HEAD + form.replace("{source}", source).replace("{target}", target), arch)


@pytest.mark.parametrize(("source", "target", "function"), FLOATS + BYTES)
@pytest.mark.parametrize("form", [WHOLE, FRAGMENTS], ids=["copy", "fragments"])
def test_neighbours_are_converted_at_once(form, source, target, function):
    text = lowered(form, source, target).source.text
    assert function in text and "+= 2" in text


@pytest.mark.parametrize("arch", ["cuda:sm_75", "cuda:sm_80", "cuda:sm_90"])
@pytest.mark.parametrize("form", [WHOLE, FRAGMENTS], ids=["copy", "fragments"])
def test_they_compile(form, arch):
    for source, target, _ in FLOATS + (BYTES if arch == "cuda:sm_90" else []):
        assert driver.build(lowered(form, source, target, arch)).binary


def test_what_is_computed_between_keeps_its_loop():
    scaled = FRAGMENTS.replace("b[i] = a[i]", "b[i] = a[i] * 2")
    assert "+= 2" not in lowered(scaled, "float32", "float16").source.text


def test_other_languages_have_their_own_conversions():
    text = lowered(WHOLE, "float32", "float16", "hip:gfx942").source.text
    assert "+= 2" not in text and str(parse_target("hip:gfx942")) == "hip:gfx942"
