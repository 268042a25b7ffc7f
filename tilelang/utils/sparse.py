"""Matrices with 2:4 structured sparsity in the format that `T.gemm_sp` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_CODE_BITS = 4


def compress(A: torch.Tensor, transposed: bool = False, meta_dtype: Any = None) -> tuple[Any, Any]:
    """The stored half of a matrix [M, K] and its codes E, for `T.gemm_sp` (PTX ISA 9.7.15.6, "mma.sp").

    transposed: A is [K, M], and the half is [K / 2, M]; E stays [M, ...]. meta_dtype: of E, an integer dtype
    of torch, int16 if None. Returns (A_sparse, E). Raises ValueError where 4 neighbours along K hold more
    than two numbers other than zero (2 neighbours more than one, for 32-bit elements), or K is no multiple.
    """
    import torch

    dense = A.t() if transposed else A
    if dense.dim() != 2:
        raise ValueError(f"a matrix of two dimensions is expected, not of shape {tuple(A.shape)}")
    meta = torch.int16 if meta_dtype is None else meta_dtype
    group, keep = (2, 1) if dense.element_size() == 4 else (4, 2)
    codes = meta.itemsize * 8 // _CODE_BITS
    rows, size = dense.shape
    if size % (group * codes):
        raise ValueError(
            f"K is {size}, which is no multiple of {group * codes}, the elements that one {meta} codes"
        )
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dense.element_size()]
    groups = dense.contiguous().view(bits).reshape(rows, size // group, group)  # fp8 has no comparisons
    full = groups != 0
    if dense.is_floating_point():
        full = dense.float().reshape(groups.shape) != 0  # a negative zero is zero
    if bool((full.sum(-1) > keep).any()):
        row, column = (int(v) for v in (full.sum(-1) > keep).nonzero()[0])
        raise ValueError(
            f"elements {column * group} to {column * group + group - 1} of row {row} hold more than {keep} "
            "numbers other than zero"
        )
    # The full places first, then others; both in rising order.
    order = torch.argsort((~full).to(torch.int8), dim=-1, stable=True)[..., :keep].sort(-1).values
    stored = torch.gather(groups, -1, order).reshape(rows, size // group * keep).view(dense.dtype)
    if keep == 2:
        code = order[..., 0] | order[..., 1] << 2
    else:
        code = torch.where(order[..., 0] == 0, 0b0100, 0b1110)
    shifts = torch.arange(codes, device=code.device) * _CODE_BITS
    packed = (code.reshape(rows, -1, codes) << shifts).sum(-1)
    width = meta.itemsize * 8
    if meta.is_signed and width < 64:
        packed = torch.where(packed >= 1 << (width - 1), packed - (1 << width), packed)
    half = stored.t().contiguous() if transposed else stored
    return half, packed.to(meta)


def random_sparse(*shape: int, dtype: Any = None, device: Any = "cpu", seed: int = 0) -> torch.Tensor:
    """A random matrix [M, K] that `compress` takes: normal numbers (small integers for integer dtypes)."""
    import torch

    dtype = torch.float16 if dtype is None else dtype
    generator = torch.Generator().manual_seed(seed)
    group, keep = (2, 1) if dtype.itemsize == 4 else (4, 2)
    rows, size = shape
    dense = torch.randn(rows, size // group, group, generator=generator)
    if not dtype.is_floating_point:
        dense = torch.randint(-8, 8, dense.shape, generator=generator).float()
    order = torch.rand(dense.shape, generator=generator).argsort(-1)
    return torch.where(order < keep, dense, 0.0).reshape(rows, size).to(dtype).to(device)
