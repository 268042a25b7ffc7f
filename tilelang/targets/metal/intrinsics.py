"""Device helpers of the Metal target: names of the Metal Shading Language, printed where they are called.

To add one, see `targets.emit.intrinsic`. Sections name the Metal Shading Language Specification: 6.9
(synchronisation), 6.9.2 (simdgroup functions), 6.7 (simdgroup matrices).
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.approximations import error_function, logarithm_of_1_plus
from tilelang.targets.emit.intrinsic import Intrinsic
from tilelang.targets.metal.atomics import ATOMICS
from tilelang.targets.metal.thread_ops import THREAD_OPS

_MATRIX_HEADERS = ("metal_simdgroup_matrix",)

INTRINSICS: Mapping[str, Intrinsic] = {
    **THREAD_OPS,
    **ATOMICS,
    "sync": Intrinsic(inline="threadgroup_barrier(mem_flags::mem_threadgroup)"),
    "shuffle_xor": Intrinsic(inline="simd_shuffle_xor({0}, ushort({1}))"),
    "bit_cast": Intrinsic(
        "template <typename To, typename From> To bit_cast(From x) {\n  return as_type<To>(x);\n}"
    ),
    # Arguments that are matrices are passed as addresses, the one that is written first.
    **{
        f"simdgroup_fill_{dtype}": Intrinsic(
            inline=f"*{{0}} = make_filled_simdgroup_matrix<{name}, 8, 8>({{1}})", includes=_MATRIX_HEADERS
        )
        for dtype, name in (("float32", "float"), ("float16", "half"), ("bfloat16", "bfloat"))
    },
    # matrix, address, elements between rows, whether rows and columns are swapped
    "simdgroup_load": Intrinsic(
        inline="simdgroup_load(*{0}, {1}, {2}, ulong2(0), {3})", includes=_MATRIX_HEADERS
    ),
    # d += a · b
    "simdgroup_multiply_accumulate": Intrinsic(
        inline="simdgroup_multiply_accumulate(*{0}, *{1}, *{2}, *{0})", includes=_MATRIX_HEADERS
    ),
    # Metal has neither.
    "log1p": logarithm_of_1_plus("isinf", "log"),
    "erf": error_function("fabs", "copysign", "exp(-square)"),
    # One 8×8 tile between two registers of each lane (row lane / 4, columns lane % 4 * 2 and the next) and a
    # matrix.
    "matrix_from_registers": Intrinsic(
        """template <typename T>
void matrix_from_registers(
    threadgroup T* tile, thread simdgroup_matrix<T, 8, 8>* m, thread const T* r, int lane) {
  tile[lane * 2] = r[0];
  tile[lane * 2 + 1] = r[1];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_load(*m, tile, 8);
  simdgroup_barrier(mem_flags::mem_threadgroup);
}""",
        includes=_MATRIX_HEADERS,
    ),
    "registers_from_matrix": Intrinsic(
        """template <typename T>
void registers_from_matrix(
    threadgroup T* tile, thread const simdgroup_matrix<T, 8, 8>* m, thread T* r, int lane) {
  simdgroup_store(*m, tile, 8);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  r[0] = tile[lane * 2];
  r[1] = tile[lane * 2 + 1];
  simdgroup_barrier(mem_flags::mem_threadgroup);
}""",
        includes=_MATRIX_HEADERS,
    ),
}
