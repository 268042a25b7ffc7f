"""Explicit accesses of 4 to 32 bytes by one thread: T.ldg128, T.stg128, T.lds64, T.sts64 and relatives."""

from __future__ import annotations

from typing import Any

from tilelang.language.values import OutsideKernelError, Scalar


def ldg32(src: Any, pred: Any = None) -> Scalar:
    """4 bytes of a tensor in global memory from the element `src` on, as a uint32.

    src: an element `A[i]`, a slice that begins there, or the whole tensor. pred: where it is false nothing is
    read and the value is 0. The place must be a multiple of the width; the author vouches for that.
    """
    raise OutsideKernelError("ldg32")


def ldg64(src: Any, pred: Any = None) -> Scalar:
    """8 bytes of a tensor in global memory, as a uint32x2; see `T.ldg32`."""
    raise OutsideKernelError("ldg64")


def ldg128(src: Any, pred: Any = None) -> Scalar:
    """16 bytes of a tensor in global memory, as a uint32x4; see `T.ldg32`."""
    raise OutsideKernelError("ldg128")


def ldg256(src: Any, pred: Any = None) -> Scalar:
    """32 bytes of a tensor in global memory, as a uint32x8; see `T.ldg32`."""
    raise OutsideKernelError("ldg256")


def stg32(dst: Any, value: Any, pred: Any = None) -> None:
    """Store 4 bytes into a tensor in global memory from the element `dst` on.

    value: 32 bits, such as what `T.ldg32` gave. pred: where it is false nothing is written. The place must
    be a multiple of the width; the author vouches for that.
    """
    raise OutsideKernelError("stg32")


def stg64(dst: Any, value: Any, pred: Any = None) -> None:
    """Store 8 bytes into a tensor in global memory; see `T.stg32`."""
    raise OutsideKernelError("stg64")


def stg128(dst: Any, value: Any, pred: Any = None) -> None:
    """Store 16 bytes into a tensor in global memory; see `T.stg32`."""
    raise OutsideKernelError("stg128")


def stg256(dst: Any, value: Any, pred: Any = None) -> None:
    """Store 32 bytes into a tensor in global memory; see `T.stg32`."""
    raise OutsideKernelError("stg256")


def lds32(src: Any) -> Scalar:
    """4 bytes of a shared tile from the element `src` on, as a uint32."""
    raise OutsideKernelError("lds32")


def lds64(src: Any) -> Scalar:
    """8 bytes of a shared tile from the element `src` on, as a uint32x2."""
    raise OutsideKernelError("lds64")


def lds128(src: Any) -> Scalar:
    """16 bytes of a shared tile from the element `src` on, as a uint32x4."""
    raise OutsideKernelError("lds128")


def sts32(dst: Any, value: Any) -> None:
    """Store 4 bytes into a shared tile from the element `dst` on."""
    raise OutsideKernelError("sts32")


def sts64(dst: Any, value: Any) -> None:
    """Store 8 bytes into a shared tile from the element `dst` on."""
    raise OutsideKernelError("sts64")


def sts128(dst: Any, value: Any) -> None:
    """Store 16 bytes into a shared tile from the element `dst` on."""
    raise OutsideKernelError("sts128")
