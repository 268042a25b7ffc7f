"""CUDA C++: the dialect record, and the text of a thread-level function in it."""

from __future__ import annotations

from dataclasses import replace

from tilelang.targets.cuda.intrinsics import INTRINSICS
from tilelang.targets.cuda.tma import DECLARATION, TENSOR_MAP
from tilelang.targets.cuda.wgmma import generated
from tilelang.targets.emit.c_types import c_types
from tilelang.targets.emit.dialect import Dialect, KernelHead, PairConversion, floats, signature_lines


def _kernel(head: KernelHead) -> list[str]:
    # Without a number of blocks the compiler takes registers that let more blocks onto a multiprocessor. The
    # release writes 1: on an H200 (2026-12-01) that made attention of variable length 25 % slower (135
    # registers for 128) and of 35 kernels none faster by more than 7 %.
    bounds = f"{head.threads}" if head.min_blocks is None else f"{head.threads}, {head.min_blocks}"
    cluster = f" __cluster_dims__({head.cluster})" if head.cluster else ""
    opening = f'extern "C" __global__ void{cluster} __launch_bounds__({bounds}) {head.name}('
    return signature_lines(
        opening,
        [f"{t}{' __restrict__' if p and n not in head.aliased else ''} {n}" for t, n, p in head.params],
        ") {",
    )


def _halves(spelling: str) -> dict[str, str]:
    return {"float16": spelling, "bfloat16": spelling}


_UNARY_NAMES = """
exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf
floor ceil trunc round nearbyint
"""
_BINARY_NAMES = ("pow", "fmod", "atan2", "hypot", "copysign", "ldexp", "nextafter")

FUNCTIONS = {
    **{name: floats(f"{name}f({{0}})") for name in _UNARY_NAMES.split()},
    **{name: floats(f"{name}f({{0}}, {{1}})") for name in _BINARY_NAMES},
    "max": {**floats("fmaxf({0}, {1})"), **_halves("__hmax({0}, {1})"), "int": "max({0}, {1})"},
    "min": {**floats("fminf({0}, {1})"), **_halves("__hmin({0}, {1})"), "int": "min({0}, {1})"},
    "fabs": {**floats("fabsf({0})"), **_halves("__habs({0})")},
    "abs": {"int": "abs({0})"},
    "fma": floats("fmaf({0}, {1}, {2})"),
    "sigmoid": {
        "float32": "(1.0f / (1.0f + expf(-({0}))))",
        "float64": "(1.0 / (1.0 + exp(-({0}))))",
    },
    "isnan": {"float32": "isnan({0})", "float64": "isnan({0})"},
    "popcount": {"int": "__popc({0})", "int64": "__popcll({0})", "uint64": "__popcll({0})"},
    "clz": {"int": "__clz({0})", "int64": "__clzll({0})", "uint64": "__clzll({0})"},
}

# Hardware approximations, for kernels that ask for fast math.
_FAST = {
    "exp": {"float32": "__expf({0})"},
    "exp2": {"float32": "@exp2_approx"},
    "exp10": {"float32": "__exp10f({0})"},
    "log": {"float32": "__logf({0})"},
    "log2": {"float32": "__log2f({0})"},
    "log10": {"float32": "__log10f({0})"},
    "sin": {"float32": "__sinf({0})"},
    "cos": {"float32": "__cosf({0})"},
    "tan": {"float32": "__tanf({0})"},
    "pow": {"float32": "__powf({0}, {1})"},
    "sigmoid": {"float32": "__fdividef(1.0f, 1.0f + __expf(-({0})))"},
}

_FP8 = {"float8_e4m3fn": "__NV_E4M3", "float8_e5m2": "__NV_E5M2"}
_BYTES = "__nv_fp8x2_storage_t"
PAIRS = {
    ("float32", "float16"): PairConversion("float2", "half2", "__float22half2_rn({0})"),
    ("float16", "float32"): PairConversion("half2", "float2", "__half22float2({0})"),
    ("float32", "bfloat16"): PairConversion("float2", "__nv_bfloat162", "__float22bfloat162_rn({0})"),
    ("bfloat16", "float32"): PairConversion("__nv_bfloat162", "float2", "__bfloat1622float2({0})"),
}
for _dtype, _kind in _FP8.items():
    _to, _from = f"({{0}}, __NV_SATFINITE, {_kind})", f"__half2(__nv_cvt_fp8x2_to_halfraw2({{0}}, {_kind}))"
    PAIRS |= {
        ("float32", _dtype): PairConversion("float2", _BYTES, f"__nv_cvt_float2_to_fp8x2{_to}"),
        ("float16", _dtype): PairConversion("__half2_raw", _BYTES, f"__nv_cvt_halfraw2_to_fp8x2{_to}"),
        (_dtype, "float16"): PairConversion(_BYTES, "half2", _from),
        (_dtype, "float32"): PairConversion(_BYTES, "float2", f"__half22float2({_from})"),
    }

CUDA = Dialect(
    name="cuda",
    types={
        **c_types("half", "__nv_bfloat16"),
        "float8_e4m3fn": "__nv_fp8_e4m3",
        "float8_e5m2": "__nv_fp8_e5m2",
        "handle": f"const __grid_constant__ {TENSOR_MAP}",  # of bulk tensor copies, by value
    },
    type_includes={
        "float16": "cuda_fp16.h",
        "bfloat16": "cuda_bf16.h",
        "float8_e4m3fn": "cuda_fp8.h",
        "float8_e5m2": "cuda_fp8.h",
    },
    extern_helpers={
        "cudaTriggerProgrammaticLaunchCompletion": "pdl_trigger",
        "cudaGridDependencySynchronize": "pdl_sync",
    },
    functions=FUNCTIONS,
    intrinsics=INTRINSICS,
    pair_conversions=PAIRS,
    declarations={TENSOR_MAP: DECLARATION},
    generated=generated,
    kernel=_kernel,
    infinity="CUDART_INF_F",
    nan="CUDART_NAN_F",
    constant_includes=("math_constants.h",),
    align="__align__({0})",
    arena="extern __shared__ {align} unsigned char smem[];",
    shared_array="__shared__",
    helper_linkage="static __device__ __forceinline__",
    axes={f"{kind}.{d}": f"{kind}.{d}" for kind in ("blockIdx", "threadIdx") for d in "xyz"},
)
CUDA_FAST_MATH = replace(
    CUDA, functions={**FUNCTIONS, **{name: {**FUNCTIONS[name], **fast} for name, fast in _FAST.items()}}
)
