"""The Metal Shading Language: the dialect record."""

from __future__ import annotations

from tilelang.targets.emit.dialect import Dialect, KernelHead, signature_lines
from tilelang.targets.metal.intrinsics import INTRINSICS

# A matrix of 8×8 elements spread over a simdgroup: one element of an array of this scope is one matrix.
SIMDGROUP_SCOPE = "local.simdgroup"
_POSITIONS = {"blockIdx": "threadgroup_position_in_grid", "threadIdx": "thread_position_in_threadgroup"}


def _kernel(head: KernelHead) -> list[str]:
    """Tensors are device pointers, sizes and scalars constant buffers, both in the order of the call."""
    params = [
        f"{type_name} {name} [[buffer({k})]]"
        if is_pointer
        else f"constant {type_name}& {name} [[buffer({k})]]"
        for k, (type_name, name, is_pointer) in enumerate(head.params)
    ]
    kinds = {axis.partition(".")[0] for axis in head.uses}
    params += [f"uint3 {kind} [[{_POSITIONS[kind]}]]" for kind in sorted(kinds)]
    attribute = f"[[max_total_threads_per_threadgroup({head.threads})]]"
    return [attribute, *signature_lines(f"kernel void {head.name}(", params, ") {")]


_UNARY_NAMES = """
exp exp2 exp10 log log2 log10 sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh floor
ceil trunc round
"""

FUNCTIONS = {
    **{name: {"float32": f"{name}({{0}})"} for name in _UNARY_NAMES.split()},
    **{name: {"float32": f"{name}({{0}}, {{1}})"} for name in ("pow", "fmod", "atan2", "copysign", "ldexp")},
    "nextafter": {"float32": "@nextafter"},
    "nearbyint": {"float32": "rint({0})"},
    "fabs": {"float32": "fabs({0})", "float16": "fabs({0})"},
    "fma": {"float32": "fma({0}, {1}, {2})"},
    "max": {"float32": "fmax({0}, {1})", "float16": "fmax({0}, {1})", "int": "max({0}, {1})"},
    "min": {"float32": "fmin({0}, {1})", "float16": "fmin({0}, {1})", "int": "min({0}, {1})"},
    "sigmoid": {"float32": "(1.0f / (1.0f + exp(-({0}))))"},
    "log1p": {"float32": "@log1p"},
    "erf": {"float32": "@erf"},
    "isnan": {"float32": "isnan({0})"},
    "abs": {"int": "abs({0})"},
    "popcount": {"int": "popcount({0})"},
    "clz": {"int": "clz({0})"},
}

METAL = Dialect(
    name="metal",
    exact_overloads=True,
    types={
        "bool": "bool",
        "int8": "char",
        "uint8": "uchar",
        "int16": "short",
        "uint16": "ushort",
        "int32": "int",
        "uint32": "uint",
        "int64": "long",
        "uint64": "ulong",
        "float16": "half",
        "bfloat16": "bfloat",
        "float32": "float",
    },
    functions=FUNCTIONS,
    intrinsics=INTRINSICS,
    kernel=_kernel,
    infinity="INFINITY",
    nan="NAN",
    align="alignas({0})",
    arena="alignas(16) threadgroup uchar smem[{bytes}];",
    shared_array="threadgroup",
    helper_linkage="static inline",
    axes={f"{kind}.{d}": f"{kind}.{d}" for kind in _POSITIONS for d in "xyz"},
    includes=("metal_stdlib",),
    prelude=("using namespace metal;",),
    spaces={"global": "device ", "shared": "threadgroup ", "local": "thread ", "local.var": "thread "},
    opaque_types={SIMDGROUP_SCOPE: "simdgroup_matrix<{type}, 8, 8>"},
    vector_types={16: "uint4", 8: "uint2", 4: "uint", 2: "ushort", 1: "uchar"},
    zero_vector="{type}(0)",
    reinterpret="as_type<{type}>({0})",
    int64_suffix="L",
    line_directives=False,
)
