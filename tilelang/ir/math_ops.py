"""Scalar functions of the language that TIRX has no operation for: fast approximations, chosen rounding.

Each is a call `tl.<name>` on scalars. GPUs with an instruction print it by their table of intrinsics;
elsewhere `passes.plain_math` writes it out.
"""

from __future__ import annotations

from tvm import tirx as X

# Approximations of float32 functions: the name of the language -> the operation.
FAST = {
    "__exp": "tl.fast_exp",
    "__exp10": "tl.fast_exp10",
    "__log": "tl.fast_log",
    "__log2": "tl.fast_log2",
    "__log10": "tl.fast_log10",
    "__sin": "tl.fast_sin",
    "__cos": "tl.fast_cos",
    "__tan": "tl.fast_tan",
    "fast_rcp": "tl.fast_rcp",
}
# What they approximate, in the dtype of their operand.
EXACT = {
    "__exp": X.exp,
    "__exp10": X.exp10,
    "__log": X.log,
    "__log2": X.log2,
    "__log10": X.log10,
    "__sin": X.sin,
    "__cos": X.cos,
    "__tan": X.tan,
    "fast_rcp": lambda x: X.Div(X.const(1.0, str(x.ty.dtype)), x),
}
# The number of the lowest bit that is set, from 1 on, 0 for 0, of 32 and of 64 bits: int32.
FFS = {32: "tl.ffs", 64: "tl.ffs_64"}
# A read of global memory that nothing writes while the kernel runs; the argument is the element.
LDG = "tl.ldg"
# The larger and the smaller of two floats, NaN where either is. Kernels name them through TVM's own registry.
NAN_KEEPING = {"tl.max_nan": X.Max, "tl.min_nan": X.Min}
# Dtypes that it can be asked for.
READ_ONLY = (
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)
# Arithmetic rounded as asked for, `tl.ieee_add_rz` on float32, `tl.ieee_add_rz_f64` on float64, and how many
# operands it has.
IEEE = {
    "ieee_add": 2,
    "ieee_sub": 2,
    "ieee_mul": 2,
    "ieee_fdiv": 2,
    "ieee_fmaf": 3,
    "ieee_frcp": 1,
    "ieee_fsqrt": 1,
    "ieee_frsqrt": 1,
}
# To the nearest, towards zero, up, down.
ROUNDINGS = ("rn", "rz", "ru", "rd")


def ieee_name(function: str, rounding: str, dtype: str) -> str:
    """The operation: `tl.ieee_add_rz`."""
    return f"tl.{function}_{rounding}{'_f64' if dtype == 'float64' else ''}"


def read_ieee(name: str) -> tuple[str, str, str] | None:
    """(function, rounding, dtype) of an operation; None for any other name."""
    bare = name.removeprefix("tl.")
    dtype = "float64" if bare.endswith("_f64") else "float32"
    function, _, rounding = bare.removesuffix("_f64").rpartition("_")
    return (function, rounding, dtype) if function in IEEE and rounding in ROUNDINGS else None
