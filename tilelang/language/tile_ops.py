"""Operations on whole tiles: copy, gemm, fill, reduce."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Literal

from tilelang.arch.warp_partition import warp_partition
from tilelang.language.values import OutsideKernelError

Annotations = Mapping[str, Any] | None
EvictionPolicy = Literal["evict_normal", "evict_first", "evict_last"]
_MMA_TILE = (16, 8)  # rows and columns of the result of one mma.sync


class GemmWarpPolicy(IntEnum):
    """How the warps of a block divide the result of `T.gemm`."""

    Square = 0  # tiles of each warp as square as possible
    FullRow = 1  # as many warps as possible along M
    FullCol = 2  # as many warps as possible along N

    def is_square(self) -> bool:
        """Whether it is `Square`."""
        return self is GemmWarpPolicy.Square

    def is_full_row(self) -> bool:
        """Whether it is `FullRow`."""
        return self is GemmWarpPolicy.FullRow

    def is_full_col(self) -> bool:
        """Whether it is `FullCol`."""
        return self is GemmWarpPolicy.FullCol

    def compute_warp_partition(self, M: int, N: int, num_warps: int) -> tuple[int, int]:
        """The warps along M and along N of a tile on mma.sync. Raises ValueError where none divide it."""
        found = warp_partition(self.name, M, N, num_warps, *_MMA_TILE)
        if found is None:
            raise ValueError(f"{num_warps} warps cannot share a tile of {M} x {N} in whole parts of 16 x 8")
        return found.m, found.n

    @classmethod
    def from_warp_partition(cls, m_warp: int, n_warp: int) -> GemmWarpPolicy:
        """The policy that such a grid of warps looks like."""
        if m_warp > 1 and n_warp == 1:
            return cls.FullRow
        return cls.FullCol if n_warp > 1 and m_warp == 1 else cls.Square


def copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: EvictionPolicy | None = None,
    prefer_instruction: Literal["tma", "cp_async", "sync"] | None = None,
    annotations: Annotations = None,
    loop_layout: Any = None,
) -> None:
    """Move a tile between global memory, shared memory and fragments: `T.copy(A[by * 128, k * 32],
    A_shared)`.

    src, dst: a tile, a slice, or a start `A[i, j]` that takes its extents from the other side. Extents
    other than 1 must agree in order; nothing is broadcast. Dtypes may differ, elements are converted. Reads
    outside a global tensor give 0, writes outside are skipped. After the statement `dst` may be read.
    coalesced_width: elements one thread moves at a time. eviction_policy, prefer_instruction, disable_tma:
    hints. loop_layout: accepted and passed over, the compiler shares the elements out itself.
    """
    raise OutsideKernelError("copy")


def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    mbar: Any = None,
    annotations: Annotations = None,
) -> None:
    """C += A · B on tiles, with tensor cores where the target has them.

    Shapes: A [M, K] ([K, M] with transpose_A), B [K, N] ([N, K] with transpose_B), C [M, N]; compile-time
    numbers.
    Memory: A and B in shared memory or fragments, C a fragment.
    Dtypes: A and B alike: float16, bfloat16, float32 (computed as TF32 on tensor cores), float64, int8, uint8
    or 8-bit floats; 8-bit ones may be mixed on NVIDIA GPUs.
    policy: how warps divide C. clear_accum: start from zero instead of C, may be an expression such as `k
    == 0`. mbar: where products in tensor memory (sm_100) arrive; others are complete when T.gemm ends, and
    nothing arrives.
    """
    raise OutsideKernelError("gemm")


def gemm_sp(
    A_sparse: Any,
    E: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    wg_wait: int = 0,
    annotations: Annotations = None,
) -> None:
    """C += A · B with an A of which every 4 neighbours along K hold 2 zeros at least, stored without them.

    Shapes: A_sparse [M, K / 2] ([K / 2, M] with transpose_A), in shared memory or a fragment, and E [M, K / g
    / (bits of E / 4)] ([..., M] with transpose_E), in shared memory; B and C as for `T.gemm`. E: integers; 4
    bits for each g = 4 neighbours (2 of 32-bit elements), as mma.sp has them. `tilelang.utils.sparse` makes
    A and E. Sparse tensor cores (mma.sp, wgmma on sm_90a) take A as it is stored; where a target has
    none, or none for these dtypes or this K, A is written out in shared memory first, for a `T.gemm`.
    """
    raise OutsideKernelError("gemm_sp")


def wgmma_gemm_sp(
    A_sparse: Any,
    E: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Annotations = None,
) -> None:
    """`T.gemm_sp` that begins and goes on, as `T.wgmma_gemm` does: `T.wait_wgmma` waits for C.

    Where wgmma is not there or does not fit, C is complete at once.
    """
    raise OutsideKernelError("wgmma_gemm_sp")


def wgmma_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Annotations = None,
) -> None:
    """`T.gemm` that begins and goes on: C may be used, and A and B overwritten, after `T.wait_wgmma`.

    Shapes, memory and dtypes as in `T.gemm`. Where wgmma is not there or does not fit, C is complete at once.
    """
    raise OutsideKernelError("wgmma_gemm")


def wgmma_mma(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Annotations = None,
) -> None:
    """The same as `T.wgmma_gemm`."""
    raise OutsideKernelError("wgmma_mma")


def wait_wgmma(id: int) -> None:
    """Wait until at most the `id` newest of the products that `T.wgmma_gemm` began are on their way."""
    raise OutsideKernelError("wait_wgmma")


def clear(buffer: Any, annotations: Annotations = None) -> None:
    """Set every element of a tile or a slice to zero."""
    raise OutsideKernelError("clear")


def fill(buffer: Any, value: Any, annotations: Annotations = None) -> None:
    """Set every element of a tile or a slice to `value`, converted to its dtype."""
    raise OutsideKernelError("fill")


def reduce_sum(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """out = sum of `buffer` over dimension `dim`.

    out: a tile of buffer's shape without `dim`, or with 1 there. dim: -1 is the last.
    clear: False adds to out's old contents. batch: outputs of one thread that are exchanged together, a hint.
    """
    raise OutsideKernelError("reduce_sum")


def reduce_max(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Annotations = None,
) -> None:
    """out = maximum of `buffer` over dimension `dim`; with clear=False also over out's old contents.

    Shapes as in `T.reduce_sum`. nan_propagate: a NaN among the elements is the result; else it never is.
    """
    raise OutsideKernelError("reduce_max")


def reduce_min(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Annotations = None,
) -> None:
    """out = minimum of `buffer` over dimension `dim`; with clear=False also over out's old contents.

    Shapes as in `T.reduce_sum`. nan_propagate: a NaN among the elements is the result; else it never is.
    """
    raise OutsideKernelError("reduce_min")


def reduce_abssum(
    buffer: Any, out: Any, dim: int = -1, batch: int = 1, annotations: Annotations = None
) -> None:
    """out = sum of absolute values over dimension `dim`. Shapes as in `T.reduce_sum`."""
    raise OutsideKernelError("reduce_abssum")


def reduce_absmax(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Annotations = None,
) -> None:
    """out = largest absolute value over dimension `dim`. Shapes as in `T.reduce_sum`, nan_propagate as in
    `T.reduce_max`.
    """
    raise OutsideKernelError("reduce_absmax")
