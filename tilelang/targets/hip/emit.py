"""HIP C++: the dialect record. The text needs no ROCm headers, and accepts them where they are."""

from __future__ import annotations

from tilelang.targets.emit.c_types import c_types
from tilelang.targets.emit.dialect import Dialect, KernelHead, floats, signature_lines
from tilelang.targets.hip.intrinsics import INTRINSICS


def _kernel(head: KernelHead) -> list[str]:
    opening = f'extern "C" __global__ void __launch_bounds__({head.threads}) {head.name}('
    params = [f"{t} __restrict__ {n}" if is_pointer else f"{t} {n}" for t, n, is_pointer in head.params]
    return signature_lines(opening, params, ") {")


# What LLVM lowers for AMDGPU without a device library.
_UNARY = (
    "exp",
    "exp2",
    "exp10",
    "log",
    "log2",
    "log10",
    "sqrt",
    "sin",
    "cos",
    "floor",
    "ceil",
    "trunc",
    "round",
)
_BINARY = ("fmod", "copysign")


def _builtin(name: str, arguments: str = "{0}") -> dict[str, str]:
    return {"float32": f"__builtin_{name}f({arguments})"}


FUNCTIONS = {
    **{name: _builtin(name) for name in _UNARY},
    **{name: _builtin(name, "{0}, {1}") for name in _BINARY},
    "nearbyint": _builtin("rint"),
    "fabs": floats("__builtin_fabsf({0})"),
    "fma": floats("__builtin_fmaf({0}, {1}, {2})"),
    "max": {**floats("__builtin_fmaxf({0}, {1})"), "int": "@maximum"},
    "min": {**floats("__builtin_fminf({0}, {1})"), "int": "@minimum"},
    "rsqrt": {"float32": "(1.0f / __builtin_sqrtf({0}))"},
    "sigmoid": {
        "float32": "(1.0f / (1.0f + __builtin_expf(-({0}))))",
        "float64": "(1.0 / (1.0 + __builtin_exp(-({0}))))",
    },
    "tan": {"float32": "(__builtin_sinf({0}) / __builtin_cosf({0}))"},
    "pow": {"float32": "@power"},
    **{
        name: {"float32": f"@{name}"}
        for name in ("tanh", "erf", "log1p", "asin", "acos", "atan", "atan2", "sinh", "cosh", "nextafter")
    },
    "abs": {"int": "__builtin_abs({0})"},
    "isnan": floats("__builtin_isnan({0})", "__builtin_isnan({0})"),
    "sqrt": floats("__builtin_sqrtf({0})"),
    "ldexp": {"float32": "__builtin_ldexpf({0}, {1})"},
    "popcount": {
        "int": "__builtin_popcount({0})",
        "int64": "__builtin_popcountll({0})",
        "uint64": "__builtin_popcountll({0})",
    },
    # clang leaves the count for 0 open.
    "clz": {
        "int": "({0} == 0 ? 32 : __builtin_clz({0}))",
        "int64": "({0} == 0 ? 64 : __builtin_clzll({0}))",
        "uint64": "({0} == 0 ? 64 : __builtin_clzll({0}))",
    },
}


def _vector(name: str, element: str, lanes: int) -> tuple[str, str]:
    return name, f"typedef {element} {name} __attribute__((ext_vector_type({lanes})));"


HIP = Dialect(
    name="hip",
    types=c_types("_Float16", "__bf16"),
    functions=FUNCTIONS,
    intrinsics=INTRINSICS,
    kernel=_kernel,
    infinity="__builtin_inff()",
    nan='__builtin_nanf("")',
    align="__attribute__((aligned({0})))",
    arena="extern __shared__ {align} unsigned char smem[];",
    shared_array="__shared__",
    helper_linkage="static __device__ __forceinline__",
    axes={
        f"{kind}.{d}": f"__builtin_amdgcn_{builtin}_id_{d}()"
        for kind, builtin in (("blockIdx", "workgroup"), ("threadIdx", "workitem"))
        for d in "xyz"
    },
    prelude=(
        "#ifndef __global__  // without ROCm's headers",
        "#define __global__ __attribute__((global))",
        "#define __device__ __attribute__((device))",
        "#define __shared__ __attribute__((shared))",
        "#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))",
        "#define __forceinline__ inline __attribute__((always_inline))",
        "#endif",
    ),
    declarations=dict(
        [
            _vector("u32x4", "unsigned", 4),
            _vector("u32x2", "unsigned", 2),
            _vector("f16x4", "_Float16", 4),
            _vector("i16x4", "short", 4),
            _vector("f32x4", "float", 4),
            _vector("i32x4", "int", 4),
        ]
    ),
    vector_types={16: "u32x4", 8: "u32x2", 4: "unsigned", 2: "unsigned short", 1: "unsigned char"},
    reinterpret="__builtin_bit_cast({type}, {0})",
)
