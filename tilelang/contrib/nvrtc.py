"""CUDA C++ of the author's own through NVRTC, in this process: no toolkit is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tilelang.contrib.nvcc import architecture, parse_compute_version, written
from tilelang.targets.cuda import toolchain
from tilelang.targets.toolchain_error import ToolchainError

__all__ = ["compile_cuda", "get_nvrtc_version", "parse_compute_version"]


def get_nvrtc_version() -> tuple[int, int]:
    """The version of NVRTC. Raises ToolchainError without one."""
    return _library().version


def compile_cuda(
    code: str,
    target_format: Literal["ptx", "cubin"] = "ptx",
    arch: int | str | None = None,
    options: str | Sequence[str] | None = None,
    verbose: bool = False,
) -> bytearray:
    """`code` compiled for `arch` (90, "sm_90a"; None: the default target's) as PTX or a cubin.

    verbose: print what the compiler says. Raises ToolchainError in its words, ValueError for another format.
    """
    if target_format not in ("ptx", "cubin"):
        raise ValueError(f"NVRTC makes ptx or cubin, not {target_format!r}")
    more = options.split() if isinstance(options, str) else list(options or ())
    source = written(code)
    if target_format == "ptx":
        return bytearray(_library().ptx(source, f"compute_{architecture(arch)}", more).encode())
    compiled = _library().compile(source, f"sm_{architecture(arch)}", more)
    if verbose and compiled.log:
        print(compiled.log)
    return bytearray(compiled.binary)


def _library() -> toolchain.Nvrtc:
    found = toolchain.nvrtc()
    if found is None:
        raise ToolchainError("NVRTC is not installed: pip install 'tilelang-lsp[cuda]' brings it")
    return found
