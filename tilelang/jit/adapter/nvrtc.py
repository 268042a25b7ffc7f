"""The backend `nvrtc`: whether it is there, and its adapter's name."""

from tilelang.jit.adapter.base import NVRTCKernelAdapter
from tilelang.targets.cuda import toolchain

__path__: list[str] = []  # modules inside it by their released paths: tilelang/released_modules.py
__all__ = ["NVRTCKernelAdapter", "check_nvrtc_available", "is_nvrtc_available"]


def is_nvrtc_available() -> bool:
    """Whether CUDA sources can be compiled in this process."""
    return toolchain.nvrtc() is not None


def check_nvrtc_available() -> None:
    """Raise ImportError where CUDA sources cannot be compiled in this process."""
    if not is_nvrtc_available():
        raise ImportError("NVRTC is not installed: pip install 'tilelang-lsp[cuda]'")
