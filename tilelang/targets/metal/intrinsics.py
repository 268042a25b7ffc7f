"""Device helpers of the Metal target: names of the Metal Shading Language, printed where they are called.

To add one, see `targets.emit.intrinsic`. Sections name the Metal Shading Language Specification: 6.9
(synchronisation), 6.9.2 (simdgroup functions), 6.7 (simdgroup matrices).
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.intrinsic import Intrinsic

_MATRIX_HEADERS = ("metal_simdgroup_matrix",)

INTRINSICS: Mapping[str, Intrinsic] = {
    "sync": Intrinsic(inline="threadgroup_barrier(mem_flags::mem_threadgroup)"),
    "shuffle_xor": Intrinsic(inline="simd_shuffle_xor({0}, ushort({1}))"),
    # d, value
    "simdgroup_fill": Intrinsic(
        inline="{0} = make_filled_simdgroup_matrix<{2}, 8, 8>({1})", includes=_MATRIX_HEADERS
    ),
    # matrix, address, elements between rows, whether rows and columns are swapped
    "simdgroup_load": Intrinsic(
        inline="simdgroup_load({0}, {1}, {2}, ulong2(0), {3})", includes=_MATRIX_HEADERS
    ),
    "simdgroup_store": Intrinsic(
        inline="simdgroup_store({0}, {1}, {2})", includes=_MATRIX_HEADERS, writes=(1,)
    ),
    # d += a · b
    "simdgroup_multiply_accumulate": Intrinsic(
        inline="simdgroup_multiply_accumulate({0}, {1}, {2}, {0})", includes=_MATRIX_HEADERS
    ),
}
