"""Input tensors for a kernel's parameters, by distribution; seeded, so that two runs see the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from tilelang.runtime.plan import LaunchPlan, ScalarParam, TensorParam
from tilelang.runtime.sizes import compile_size
from tilelang.runtime.tensors import PACKED, torch_dtype


class TensorSupplyType(Enum):
    """How inputs are filled.

    Auto: normal for floats (uniform in [-1, 1) for 8 bits), small numbers for integers.
    """

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


def inputs_for(
    plan: LaunchPlan,
    supply: TensorSupplyType = TensorSupplyType.Auto,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> list[Any]:
    """Tensors (and ones for scalars) for the inputs of a plan.

    sizes: values of run-time sizes by name. Raises ValueError that names those it lacks, RuntimeError where
    the plan's device is missing.
    """
    import torch

    sizes = dict(sizes or {})
    missing = [s for s in plan.symbols if s not in sizes]
    if missing:
        raise ValueError(
            f"{plan.name} has run-time sizes: pass dynamic_symbolic_constraints="
            f"{{{', '.join(f'{m!r}: 1024' for m in missing)}}}"
        )
    device = {"cuda": "cuda", "hip": "cuda", "metal": "mps", "cpu": "cpu"}[plan.kind]
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(
            f"{plan.name} was compiled for {plan.kind}, and torch sees no such device here: there is nothing "
            f"to put its inputs on"
        )
    generator = torch.Generator().manual_seed(seed)
    inputs = (p for i, p in enumerate(plan.params) if i not in plan.allocated)
    return [input_for(p, supply, sizes, generator, device) for p in inputs]


def input_for(
    param: TensorParam | ScalarParam,
    supply: TensorSupplyType = TensorSupplyType.Auto,
    sizes: Mapping[str, int] | None = None,
    generator: Any = None,
    device: str | None = None,
) -> Any:
    """A tensor for one parameter, and 1 for a scalar.

    generator: torch's, on the CPU; None uses its global one. device: default the GPU, if there is one.
    Raises ValueError for a size that `sizes` lacks.
    """
    if isinstance(param, ScalarParam):
        return 1
    import torch

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = sizes or {}
    shape = [compile_size(s).evaluate(sizes) for s in param.shape]
    dtype = torch_dtype(param.dtype)
    strides = None if param.strides is None else [compile_size(s).evaluate(sizes) for s in param.strides]
    if param.dtype in PACKED:
        tensor = _packed(torch, shape, param.dtype, supply, generator)
        if strides is not None:
            tensor = _strided(torch, tensor, [*(s // 2 for s in strides[:-1]), strides[-1]])
        return tensor.view(dtype).to(device)
    tensor = _fill(torch, shape, dtype, supply, generator).to(dtype)
    return (tensor if strides is None else _strided(torch, tensor, strides)).to(device)


def _packed(torch: Any, shape: Sequence[int], dtype: str, supply: TensorSupplyType, generator: Any) -> Any:
    """Bytes of two elements each: zeros, ones, or any numbers of the dtype."""
    held = (*shape[:-1], -(-shape[-1] // 2))
    one = 0x22 if dtype.startswith("float") else 0x11
    if supply in (TensorSupplyType.Zero, TensorSupplyType.One):
        return torch.full(held, 0 if supply is TensorSupplyType.Zero else one, dtype=torch.uint8)
    return torch.randint(0, 256, held, generator=generator, dtype=torch.uint8)


def _fill(torch: Any, shape: Sequence[int], dtype: Any, supply: TensorSupplyType, generator: Any) -> Any:
    if supply is TensorSupplyType.Zero:
        return torch.zeros(shape)
    if supply is TensorSupplyType.One:
        return torch.ones(shape)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator)
    if not dtype.is_floating_point or supply is TensorSupplyType.Integer:
        low = 0 if dtype is torch.uint8 else -2
        return torch.randint(low, 3, shape, generator=generator)
    if supply is TensorSupplyType.Uniform or (supply is TensorSupplyType.Auto and dtype.itemsize == 1):
        return torch.rand(shape, generator=generator) * 2 - 1
    return torch.randn(shape, generator=generator)


def _strided(torch: Any, tensor: Any, strides: Sequence[int]) -> Any:
    size = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, strides, strict=True) if n)
    storage = torch.zeros(max(size, 1), dtype=tensor.dtype)
    return storage.as_strided(tensor.shape, strides).copy_(tensor)
