"""Fragments that kernels ask for by name: every thread holds all of a tile, or a warp the 8×8 matrix of
`ldmatrix`.
"""

from __future__ import annotations

from typing import Any

from tilelang.language.layouts import Fragment


def make_fully_replicated_layout_fragment(buffer: Any, threads: int) -> Fragment:
    """The layout of a tile of one to four dimensions of which each of `threads` threads holds a whole copy.

    For `T.annotate_layout({tile: ...})`. Raises ValueError for more dimensions.
    """
    shape = list(buffer.shape)
    if len(shape) == 1:
        return Fragment(shape, forward_fn=lambda i, rep: (rep, i), replicate=threads)
    if len(shape) == 2:
        n = shape[1]
        return Fragment(shape, forward_fn=lambda i, j, rep: (rep, i * n + j), replicate=threads)
    if len(shape) == 3:
        n, p = shape[1:]
        return Fragment(shape, forward_fn=lambda i, j, k, rep: (rep, (i * n + j) * p + k), replicate=threads)
    if len(shape) == 4:
        n, p, q = shape[1:]
        return Fragment(
            shape,
            forward_fn=lambda i, j, k, m, rep: (rep, ((i * n + j) * p + k) * q + m),
            replicate=threads,
        )
    raise ValueError(f"a tile of one to four dimensions is expected, this one has {len(shape)}")


def make_gemm_fragment_8x8() -> Fragment:
    """The 8×8 matrix of 16-bit elements that `ldmatrix` gives a warp: two neighbours of a row per thread (PTX
    ISA 9.7.15.5.15, "ldmatrix").
    """
    return Fragment([8, 8], forward_fn=lambda i, j: (i * 4 + j // 2, j % 2))


def make_gemm_fragment_8x8_transposed() -> Fragment:
    """The same with rows and columns exchanged, as `ldmatrix` with `.trans` gives it."""
    return Fragment([8, 8], forward_fn=lambda i, j: (j * 4 + i // 2, i % 2))
