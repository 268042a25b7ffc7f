"""Names of TVM's own script that kernels of the language may use: nodes of expressions, declarations, hints.

Each means what the language writes in another way; the documentation says how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.language.dtypes import DType, DTypeLike
from tilelang.language.values import DynamicSize, OutsideKernelError, Scalar, Tile


class AnyDType:
    """Annotation of a parameter that takes a dtype in any spelling."""


PrimExpr = Scalar  # `isinstance(size, T.PrimExpr)`, and the annotation of a macro's parameter
Var = DynamicSize


class SizeVar(DynamicSize):
    """A size solved at each launch, as `T.dynamic(name, dtype)` makes it."""


def Add(a: Any, b: Any) -> Scalar:
    """`a + b`."""
    raise OutsideKernelError("Add")


def Sub(a: Any, b: Any) -> Scalar:
    """`a - b`."""
    raise OutsideKernelError("Sub")


def Mul(a: Any, b: Any) -> Scalar:
    """`a * b`."""
    raise OutsideKernelError("Mul")


def Div(a: Any, b: Any) -> Scalar:
    """The quotient; of integers rounded towards 0, as `T.truncdiv`."""
    raise OutsideKernelError("Div")


def Mod(a: Any, b: Any) -> Scalar:
    """The remainder of `T.truncdiv`: it has the sign of `a`."""
    raise OutsideKernelError("Mod")


def FloorDiv(a: Any, b: Any) -> Scalar:
    """`a // b`."""
    raise OutsideKernelError("FloorDiv")


def FloorMod(a: Any, b: Any) -> Scalar:
    """`a % b`."""
    raise OutsideKernelError("FloorMod")


def Max(a: Any, b: Any) -> Scalar:
    """The larger number, as `T.max`."""
    raise OutsideKernelError("Max")


def Min(a: Any, b: Any) -> Scalar:
    """The smaller number, as `T.min`."""
    raise OutsideKernelError("Min")


def EQ(a: Any, b: Any) -> Scalar:
    """`a == b`."""
    raise OutsideKernelError("EQ")


def NE(a: Any, b: Any) -> Scalar:
    """`a != b`."""
    raise OutsideKernelError("NE")


def LT(a: Any, b: Any) -> Scalar:
    """`a < b`."""
    raise OutsideKernelError("LT")


def LE(a: Any, b: Any) -> Scalar:
    """`a <= b`."""
    raise OutsideKernelError("LE")


def GT(a: Any, b: Any) -> Scalar:
    """`a > b`."""
    raise OutsideKernelError("GT")


def GE(a: Any, b: Any) -> Scalar:
    """`a >= b`."""
    raise OutsideKernelError("GE")


def And(a: Any, b: Any) -> Scalar:
    """`a and b`."""
    raise OutsideKernelError("And")


def Or(a: Any, b: Any) -> Scalar:
    """`a or b`."""
    raise OutsideKernelError("Or")


def Not(a: Any) -> Scalar:
    """`not a`."""
    raise OutsideKernelError("Not")


def IntImm(dtype: DTypeLike, value: int) -> Scalar:
    """An integer constant of `dtype`."""
    raise OutsideKernelError("IntImm")


def FloatImm(dtype: DTypeLike, value: float) -> Scalar:
    """A floating-point constant of `dtype`."""
    raise OutsideKernelError("FloatImm")


def StringImm(value: str) -> Any:
    """A text, such as an argument of T.call_extern."""
    raise OutsideKernelError("StringImm")


def boolean(expr: Any = None) -> Scalar:
    """Whether `expr` is not 0, as `T.bool(expr)`."""
    raise OutsideKernelError("boolean")


def BufferLoad(buffer: Any, indices: Sequence[Any]) -> Scalar:
    """The element `buffer[indices]`."""
    raise OutsideKernelError("BufferLoad")


def buffer_store(buffer: Any, value: Any, indices: Sequence[Any]) -> None:
    """`buffer[indices] = value`."""
    raise OutsideKernelError("buffer_store")


def bind(value: Any) -> Scalar:
    """`value`, evaluated once where the call stands: `x = T.bind(A[i])`."""
    raise OutsideKernelError("bind")


def ignore_loop_partition(predicate: Any) -> Scalar:
    """`predicate`; a hint to TVM's loop partition, which this compiler does not run."""
    raise OutsideKernelError("ignore_loop_partition")


def tvm_thread_invariant(cond: Any) -> Scalar:
    """`cond`, of which the author says that all threads find it the same."""
    raise OutsideKernelError("tvm_thread_invariant")


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function in TVM's script; accepted, none of them changes a kernel's meaning."""
    raise OutsideKernelError("func_attr")


def alloc_buffer(
    shape: Any, dtype: DTypeLike = "float32", scope: str = "global", annotations: Any = None
) -> Tile:
    """Memory of `scope`: "shared", "shared.dyn", "local", "local.fragment" or "global"; as T.alloc_shared,
    T.alloc_local, T.alloc_fragment and T.alloc_global make it.
    """
    raise OutsideKernelError("alloc_buffer")


def sblock_alloc_buffer(
    shape: Any, dtype: DTypeLike = "float32", scope: str = "global", annotations: Any = None
) -> Tile:
    """Memory of `scope`; see `T.alloc_buffer`."""
    raise OutsideKernelError("sblock_alloc_buffer")


def allocate(
    shape: Any, dtype: DTypeLike = "float32", scope: str = "global", annotations: Any = None
) -> Tile:
    """Memory of `scope`; see `T.alloc_buffer`."""
    raise OutsideKernelError("allocate")


def match_buffer(param: Any, shape: Any, dtype: DTypeLike = "float32", strides: Any = None) -> Tile:
    """The memory behind a parameter annotated with `T.handle` as a tensor; see `T.make_tensor`."""
    raise OutsideKernelError("match_buffer")


def tvm_storage_sync(storage_scope: str) -> None:
    """A barrier: of the block for "shared" and "shared.dyn", as T.sync_threads; of the warp for "warp"."""
    raise OutsideKernelError("tvm_storage_sync")


def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: Any, warp_size: Any) -> Scalar:
    """The `value` of lane `warp_id`; `T.shfl_sync` with its arguments in another order."""
    raise OutsideKernelError("tvm_warp_shuffle")


def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> Scalar:
    """The `value` of the lane `offset` below; `T.shfl_up` with its arguments in another order."""
    raise OutsideKernelError("tvm_warp_shuffle_up")


def tvm_warp_shuffle_down(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> Scalar:
    """The `value` of the lane `offset` above; `T.shfl_down` with its arguments in another order."""
    raise OutsideKernelError("tvm_warp_shuffle_down")


def tvm_warp_activemask() -> Scalar:
    """One bit for each lane of the warp that runs here together with this one (uint32)."""
    raise OutsideKernelError("tvm_warp_activemask")


def __fns(mask: Any, base: Any, offset: Any) -> Scalar:
    """The place (0 to 31) of the `offset`-th set bit of a 32-bit mask, counted from bit `base`, itself the
    first; a negative `offset` counts downwards, 0 asks for the bit at `base` alone. 0xffffffff if there is
    none.
    """
    raise OutsideKernelError("__fns")


def is_float4(value: DTypeLike) -> bool:
    """Whether a dtype holds floats of 4 bits."""
    return DType(value).startswith("float4_e2m1fn")


def is_float4_e2m1fn(value: DTypeLike) -> bool:
    """Whether a dtype holds floats of 4 bits, two in a byte."""
    return DType(value).startswith("float4_e2m1fn")


def is_f8f6f4_family(value: DTypeLike) -> bool:
    """Whether a dtype holds floats of 8, 6 or 4 bits that NVIDIA's tensor cores multiply."""
    return DType(value).startswith(("float8_", "float6_", "float4_"))


def get_tvm_dtype(value: DTypeLike) -> Any:
    """The dtype that `value` spells; this package's own, which equals the name."""
    return DType(value)


def is_float4_e2m1_unpacked(value: DTypeLike) -> bool:
    """Whether a dtype holds floats of 4 bits, each in a byte of its own: none does here."""
    DType(value)  # what is no dtype is told, here as in the questions above
    return False


def validate_gemm_ab_dtypes(
    a_dtype: DTypeLike, b_dtype: DTypeLike, *, a_in_tmem: bool = False, allow_f8f6f4_mixed: bool = False
) -> None:
    """An error unless a gemm may have operands of these two dtypes.

    They are the same; with allow_f8f6f4_mixed both may be floats of 8, 6 or 4 bits. Nothing is asked with
    a_in_tmem.
    """
    raise OutsideKernelError("validate_gemm_ab_dtypes")


def meta_var(value: Any) -> Any:
    """`value`, known while the kernel is compiled."""
    raise OutsideKernelError("meta_var")


def type_annotation(dtype: DTypeLike) -> Any:
    """The dtype of elements behind a pointer, for `T.tvm_access_ptr`."""
    raise OutsideKernelError("type_annotation")


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: int) -> Any:
    """The address of element `offset`, counted row by row, of the buffer whose `.data` is given.

    ptype: `T.type_annotation(dtype)`, the buffer's. extent: how many elements are used from there on.
    rw_mask: 1 to read, 2 to write, 3 for both. `T.access_ptr(buffer[...], "r")` says the same.
    """
    raise OutsideKernelError("tvm_access_ptr")


def Assert(condition: Any, message: Any, error_kind: str = "RuntimeError") -> Any:
    """A check that each thread makes, as `T.device_assert`; alone, or before a block, `with T.Assert(...):`.

    error_kind: for compatibility.
    """
    raise OutsideKernelError("Assert")


def decl_buffer(
    shape: Any,
    dtype: DTypeLike = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> Tile:
    """The memory of another buffer (`data=A.data`) as a buffer of this shape and dtype, as `T.view` makes it.

    Without `data` it is new memory of `scope`, as by `T.alloc_buffer`.
    """
    raise OutsideKernelError("decl_buffer")
