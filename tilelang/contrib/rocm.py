"""What build scripts ask about AMD's toolkit. Kernels need none of it, only a clang that knows AMD GPUs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tilelang.contrib.nvcc import parse_compute_version

__all__ = [
    "find_hipcc",
    "find_lld",
    "find_rocm_path",
    "get_rocm_arch",
    "have_matrixcore",
    "parse_compute_version",
    "rocm_link",
]


def find_rocm_path() -> str:
    """The folder of ROCm: what ROCM_PATH names, else where hipcc is, else /opt/rocm. Raises RuntimeError."""
    compiler = shutil.which("hipcc")
    found = os.environ.get("ROCM_PATH") or (compiler and str(Path(compiler).resolve().parent.parent))
    if found:
        return found
    if Path("/opt/rocm/bin/hipcc").exists():
        return "/opt/rocm"
    raise RuntimeError("Cannot find ROCm path: set ROCM_PATH; kernels do not need it where clang is")


def find_hipcc() -> str:
    """The path of hipcc. Raises RuntimeError without one."""
    usual = Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "bin", "hipcc")
    found = str(usual) if usual.exists() else shutil.which("hipcc")
    if found is None:
        raise RuntimeError("Cannot find hipcc: set ROCM_PATH; kernels do not need it where clang is")
    return found


def find_lld(required: bool = True) -> list[str]:
    """The linkers for AMD's code there are. Raises RuntimeError where there is none and one is required."""
    names = ("ld.lld", "/opt/rocm/llvm/bin/ld.lld")
    found = [path for name in names if (path := shutil.which(name))]
    if required and not found:
        raise RuntimeError(f"cannot find ld.lld, looked for {', '.join(names)}")
    return found


def rocm_link(in_file: str, out_file: str, lld: str | None = None) -> None:
    """Link an object file to a code object. Raises RuntimeError in the linker's words."""
    command = [lld or find_lld()[0], "-shared", in_file, "-o", out_file]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def get_rocm_arch(rocm_path: str = "/opt/rocm") -> str:
    """The architecture of this machine's AMD GPU as rocminfo says it; gfx900 where it says nothing."""
    program = Path(rocm_path, "bin", "rocminfo")
    if not program.exists():
        return "gfx900"
    said = subprocess.run([str(program)], capture_output=True, text=True).stdout
    names: Sequence[str] = re.findall(r"Name:\s+(gfx\w+)", said)
    return names[0] if names else "gfx900"


def have_matrixcore(compute_version: str | None = None) -> bool:
    """Whether the device has matrix cores. compute_version: "9.0"; None asks torch's current GPU.

    Raises RuntimeError if it is None and there is no AMD GPU.
    """
    if compute_version is None:
        import torch

        if torch.version.hip is None or not torch.cuda.is_available():
            raise RuntimeError("there is no AMD GPU whose matrix cores could be asked for")
        major, minor = torch.cuda.get_device_capability()
        compute_version = f"{major}.{minor}"
    return parse_compute_version(compute_version) >= (8, 0)
