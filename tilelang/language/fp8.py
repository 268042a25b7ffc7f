"""Which 8-bit float the device computes with: AMD's CDNA 3 has one of its own (no negative zero)."""

from __future__ import annotations

from typing import Any

_OF_KIND = {
    "e4m3": ("float8_e4m3fn", "float8_e4m3fnuz"),
    "e5m2": ("float8_e5m2", "float8_e5m2fnuz"),
}


def determine_fp8_type(fp8_format: str = "e4m3", device: Any = None) -> str:
    """The dtype that the device (torch's current one if None) computes `e4m3` or `e5m2` in.

    Raises ValueError for another format.
    """
    if fp8_format not in _OF_KIND:
        raise ValueError(f"Unsupported FP8 format: {fp8_format}")
    plain, cdna3 = _OF_KIND[fp8_format]
    return cdna3 if _is_cdna3(device) else plain


def determine_torch_fp8_type(fp8_format: str = "e4m3", device: Any = None) -> Any:
    """The same as a dtype of torch."""
    import torch

    return getattr(torch, determine_fp8_type(fp8_format, device))


def _is_cdna3(device: Any) -> bool:
    import torch

    if torch.version.hip is None or not torch.cuda.is_available():
        return False
    arch = str(torch.cuda.get_device_properties(device).gcnArchName)
    return arch.startswith(("gfx940", "gfx941", "gfx942"))
