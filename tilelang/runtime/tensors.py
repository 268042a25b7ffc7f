"""What the runtime needs to know about an argument, the same for torch tensors and numpy arrays."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

# Same bits, tolerated for each other: booleans travel as bytes, and fp8 differs in name between libraries.
_TOLERATED = (
    frozenset({"bool", "int8", "uint8"}),
    frozenset({"float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz"}),
    frozenset({"float8_e5m2", "float8_e5m2fnuz"}),
)


# Dtypes of which two elements share a byte, and what torch and numpy hold them as: half as many bytes in the
# last dimension.
PACKED = {
    "int4": ("int8", "uint8"),
    "uint4": ("uint8", "int8"),
    "float4_e2m1fn": ("float4_e2m1fn_x2", "uint8", "int8"),
}


@dataclass(frozen=True)
class TensorView:
    """An argument as checks see it; strides in elements, `device` as torch writes it (`cpu`, `cuda:0`)."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str


def unpacked(found: TensorView, expected: str) -> TensorView:
    """`found` counted in elements of a dtype that shares bytes, if it holds such; itself otherwise."""
    if found.dtype not in PACKED.get(expected, ()) or not found.shape:
        return found
    *outer, last = found.shape
    *strides, step = found.strides
    shape = (*outer, 2 * last)
    # Elements lie side by side only where bytes do.
    return replace(found, dtype=expected, shape=shape, strides=(*(2 * s for s in strides), step))


def is_torch(value: Any) -> bool:
    """Whether `value` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def view(value: Any) -> TensorView | None:
    """The view of a torch tensor or a numpy array; None for anything else."""
    if is_torch(value):
        return TensorView(
            str(value.dtype).removeprefix("torch."),
            tuple(value.shape),
            tuple(value.stride()),
            str(value.device),
        )
    if isinstance(value, np.ndarray):
        strides = tuple(s // value.itemsize for s in value.strides)
        return TensorView(str(value.dtype), value.shape, strides, "cpu")
    return None


def address(value: Any) -> int:
    """Where a tensor or an array begins, or the number that a pointer argument is; 0 for what is left out or
    has no memory.
    """
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    if isinstance(value, int):
        return value
    try:
        return value.data_ptr()
    except RuntimeError:  # torch's for wrappers of tensors, which have no memory of their own
        return 0


def misfit(value: Any) -> str | None:
    """Why the elements of a tensor or array are not where shape and strides say, with `{name}` for the
    argument; None if they are.
    """
    if isinstance(value, np.ndarray):
        between = any(s % value.itemsize for s in value.strides)
        return "its elements lie a broken number of elements apart; pass {name}.copy()" if between else None
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if value.is_nested:
        return "it is a nested tensor; pass its parts, or {name}.to_padded_tensor(0)"
    if value.layout is not torch.strided:
        layout = str(value.layout).removeprefix("torch._").removeprefix("torch.")
        return f"its layout is {layout}; pass {{name}}.to_dense()"
    if value.is_neg():
        return "it is a view that negates when it is read; pass {name}.resolve_neg()"
    return None


def unwritable(value: Any) -> str | None:
    """Why a kernel must not write into a tensor or array, with `{name}` for the argument; None if it may."""
    if isinstance(value, np.ndarray):
        return None if value.flags.writeable else "the array is read-only; pass {name}.copy()"
    if tracks_gradient(value):
        return (
            "it requires grad, and autograd does not see what a kernel writes; "
            "pass {name}.detach(), or call the kernel under torch.no_grad()"
        )
    return None


def tracks_gradient(value: Any) -> bool:
    """Whether autograd watches what happens to a torch tensor."""
    return value.requires_grad and sys.modules["torch"].is_grad_enabled()


def same_dtype(found: str, expected: str) -> bool:
    """Whether a tensor of dtype `found` may stand where `expected` is declared."""
    return found == expected or any(found in group and expected in group for group in _TOLERATED)


def torch_dtype(name: str) -> Any:
    """The torch dtype called `name`, or what holds two of its elements in a byte. Raises ValueError if this
    torch has none.
    """
    import torch

    for candidate in PACKED.get(name, (name,)):
        found = getattr(torch, candidate, None)
        if isinstance(found, torch.dtype):
            return found
    raise ValueError(f"torch has no dtype {name}")


def maker(dtype: str, shape: tuple[int, ...], device: str, like: Any) -> Callable[[], Any]:
    """What makes fresh output tensors: numpy arrays if the inputs are (`like`), torch tensors otherwise."""
    if dtype in PACKED:
        dtype, shape = PACKED[dtype][0], (*shape[:-1], -(-shape[-1] // 2))
    if isinstance(like, np.ndarray):
        return functools.partial(np.empty, shape, _numpy_dtype(dtype.removesuffix("_x2")))
    import torch

    return functools.partial(torch.empty, shape, dtype=torch_dtype(dtype), device=torch.device(device))


def _numpy_dtype(name: str) -> np.dtype:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # bfloat16 and fp8 for numpy

        return np.dtype(getattr(ml_dtypes, name))
