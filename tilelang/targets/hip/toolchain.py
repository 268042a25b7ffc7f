"""HIP C++ to an AMD code object, by any clang with the AMDGPU backend; ROCm itself is not needed.

Looked for in this order: ROCm's own clang, then clang-NN of the distribution from the newest on, then clang.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilelang.arch.target import Target
from tilelang.facts.reports import GeneratedSource
from tilelang.runtime.artifact import Artifact
from tilelang.targets.foreign_code import NO_FOREIGN_CODE, ForeignCode, foreign_code
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.toolchain_error import ToolchainError

# Device libraries and headers are left out: the source declares what it uses.
FLAGS = (
    "-x",
    "hip",
    "--cuda-device-only",
    "--no-gpu-bundle-output",
    "-nogpulib",
    "-nogpuinc",
    "-O3",
    "-std=c++17",
)
_CANDIDATES = ("/opt/rocm/llvm/bin/clang", "amdclang", *(f"clang-{n}" for n in range(22, 16, -1)), "clang")


def build(lowered: LoweredKernel, flags: Sequence[str] = ()) -> Artifact:
    """Compile for the target's architecture, with further `flags`.

    Raises ToolchainError that names the Python lines.
    """
    return lowered.artifact(
        compile_source(lowered.source, lowered.target, flags, foreign_code(lowered)), "hsaco"
    )


def compile_source(
    source: GeneratedSource,
    target: Target,
    flags: Sequence[str] = (),
    foreign: ForeignCode = NO_FOREIGN_CODE,
) -> bytes:
    """The code object (ELF) of `source`; `foreign`: what of it the author wrote. Raises ToolchainError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.o"
        _clang(source, target, ("-c", *flags), path, foreign)
        return path.read_bytes()


def assembly(source: GeneratedSource, target: Target) -> str:
    """The assembly of `source`, with its register and LDS counts. Raises ToolchainError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.s"
        _clang(source, target, ("-S",), path)
        return path.read_text()


def _clang(
    source: GeneratedSource,
    target: Target,
    options: tuple[str, ...],
    output: Path,
    foreign: ForeignCode = NO_FOREIGN_CODE,
) -> None:
    compiler = clang()
    if compiler is None:
        raise ToolchainError(
            "no clang with the AMDGPU backend found: install ROCm, or the packages clang-19 and lld-19"
        )
    path = output.with_suffix(".hip")
    path.write_text(source.text)
    command = [compiler, *FLAGS, f"--offload-arch={target.arch}", *options, str(path), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise ToolchainError(_at_python_lines(source, done.stderr, f"{compiler} for {target.arch}", foreign))


@functools.cache
def clang() -> str | None:
    """The first compiler of the list that is there and knows AMDGPU."""
    for name in _CANDIDATES:
        path = shutil.which(name)
        if path is None:
            continue
        done = subprocess.run([path, "--print-targets"], capture_output=True, text=True, timeout=30)
        if "amdgcn" in done.stdout:
            return path
    return None


def _at_python_lines(source: GeneratedSource, log: str, compiler: str, foreign: ForeignCode) -> str:
    """The compiler's errors, each with the Python line that its line of the source came from."""
    lines = [f"{compiler} refused the source of {source.kernel}:"]
    for match in re.finditer(r"kernel\.hip:(\d+):\d+: (error: .*)", log):
        number = int(match.group(1))
        line = source.line_map[number - 1] if number <= len(source.line_map) else 0
        place = f"line {line} of the kernel" if line else f"line {number} of the generated source"
        theirs = foreign.explain(source.text.splitlines(), number, match.group(2))
        lines.append(f"  {place}: {theirs or match.group(2)}")
    return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}\n{log}"
