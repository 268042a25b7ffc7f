"""Operations on whole tiles that move elements by a rule: T.transpose and T.im2col."""

from __future__ import annotations

from typing import Any

from tilelang.language.tile_ops import Annotations, EvictionPolicy
from tilelang.language.values import OutsideKernelError


def transpose(src: Any, dst: Any, annotations: Annotations = None) -> None:
    """dst[j, i] = src[i, j] on tiles of two dimensions: `T.transpose(A_shared, B_shared)`."""
    raise OutsideKernelError("transpose")


def im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: EvictionPolicy | None = None,
    annotations: Annotations = None,
) -> None:
    """One tile of the matrix whose rows are the windows of a convolution, in reading order.

    img: a global tensor [N, H, W, C]. col: a tile [pixels, taps]; row i is output pixel `nhw_step * pixels +
    i`, column j is tap `c_step * taps + j` of kernel · kernel · C. Outside the image elements are 0.
    """
    raise OutsideKernelError("im2col")


def c2d_im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: EvictionPolicy | None = None,
    annotations: Annotations = None,
) -> None:
    """An older name of `T.im2col`."""
    raise OutsideKernelError("c2d_im2col")
