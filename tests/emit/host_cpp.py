"""A dialect for the host's C++ compiler, so that tests can run what the printer prints."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from tilelang.targets.cuda.emit import CUDA
from tilelang.targets.emit.dialect import KernelHead, signature_lines

PREAMBLE = """#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
using std::max; using std::min;
struct Dim { int x, y, z; };
static Dim blockIdx, threadIdx;
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
typedef _Float16 half;
"""


def _kernel(head: KernelHead) -> list[str]:
    return signature_lines(f"static void {head.name}(", [f"{t} {n}" for t, n, _ in head.params], ") {")


HOST = replace(
    CUDA,
    kernel=_kernel,
    type_includes={},
    constant_includes=(),
    infinity="INFINITY",
    nan="NAN",
    align="alignas({0})",
    helper_linkage="static inline",
)


def run_cpp(source: str, folder: Path) -> str:
    """Compile with g++, aliasing and overflow as GPU compilers have them; returns what the program prints."""
    path, program = folder / "t.cpp", folder / "t"
    path.write_text(PREAMBLE + source)
    flags = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-fwrapv", "-w"]
    subprocess.run(["g++", *flags, "-o", str(program), str(path)], check=True, capture_output=True, text=True)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=60).stdout
