"""Tensors made for a kernel's parameters, and a comparison that tolerates a share of mismatches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilelang.profiler.supply import TensorSupplyType, input_for

if TYPE_CHECKING:
    import torch

__all__ = [
    "TensorSupplyType",
    "fp8_remove_negative_zeros_",
    "get_tensor_supply",
    "is_float8_dtype",
    "torch_assert_close",
]


def get_tensor_supply(
    supply_type: TensorSupplyType = TensorSupplyType.Integer,
) -> Callable[[Any], Any]:
    """A function that makes the tensor for one of `kernel.params`, whose sizes are numbers."""
    return lambda param: input_for(getattr(param, "record", param), supply_type)


def is_float8_dtype(dtype: torch.dtype) -> bool:
    """Whether `dtype` is one of torch's 8-bit floats."""
    return str(dtype).startswith("torch.float8")


def fp8_remove_negative_zeros_(tensor: torch.Tensor) -> None:
    """Replace the negative zeros of an 8-bit float tensor by zeros, in place: `fnuz` formats have none (their
    code means NaN).
    """
    import torch

    bits = tensor.view(torch.uint8)
    bits[bits == 0x80] = 0


def torch_assert_close(
    tensor_a: torch.Tensor,
    tensor_b: torch.Tensor,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 1e-3,
    verbose: bool = False,
    equal_nan: bool = True,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    base_name: str = "LHS",
    ref_name: str = "RHS",
) -> bool:
    """True if at most `max_mismatched_ratio` of the elements differ by more than atol + rtol * |tensor_b|.

    Raises AssertionError that names the first mismatch and the largest difference, or what of device, dtype,
    layout, strides and shape does not agree. verbose: print the share of mismatches.
    """
    import torch

    agree = {
        "shape": (True, tuple(tensor_a.shape), tuple(tensor_b.shape)),
        "device": (check_device, tensor_a.device, tensor_b.device),
        "dtype": (check_dtype, tensor_a.dtype, tensor_b.dtype),
        "layout": (check_layout, tensor_a.layout, tensor_b.layout),
        "strides": (check_stride, tensor_a.stride(), tensor_b.stride()),
    }
    for what, (asked, a, b) in agree.items():
        if asked and a != b:
            raise AssertionError(
                f"The values for attribute '{what}' do not match: {base_name} has {what} {a}, {ref_name} {b}"
            )
    found = tensor_a.detach().to(torch.float64)
    expected = tensor_b.detach().to(torch.float64).to(found.device)
    wrong = ~torch.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    count, total = int(wrong.sum()), wrong.numel()
    if verbose:
        print(f"{count} of {total} elements of {base_name} and {ref_name} differ")
    if count <= max_mismatched_ratio * total:
        return True
    where = tuple(int(i) for i in wrong.nonzero()[0])
    largest = (found - expected).abs().nan_to_num(float("inf")).max().item()
    raise AssertionError(
        f"Too many mismatched elements: {base_name} and {ref_name} differ in {count} of {total} elements "
        f"(rtol {rtol}, atol {atol}, allowed share {max_mismatched_ratio}): largest {largest:.4g}, "
        f"first at {where}: {found[where].item():.6g} and {expected[where].item():.6g}"
    )
