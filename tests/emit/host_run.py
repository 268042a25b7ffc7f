"""Run generated HIP or Metal on the host: threads as fibers, instructions as models of the manuals."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
METAL_INCLUDE = HERE.parent / "metal" / "include"
HIP_INCLUDE = HERE.parent / "hip" / "include"
CLANG = "clang++-19"

_CPP_TYPES = {
    "float32": "float",
    "float16": "_Float16",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "bool": "bool",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
}

needs_clang = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")


def run_metal(text: str, name: str, grid: Sequence[int], threads: int, args: Sequence, folder: Path) -> None:
    """Run a Metal kernel; numpy arrays in `args` are read, and replaced by what the kernel left."""
    source = re.sub(r"(alignas\(\d+\)) threadgroup ", r"\1 static ", text)
    takes = [kind for kind in ("blockIdx", "threadIdx") if f"uint3 {kind} [[" in text]
    block = "uint3{uint(block::group.x), uint(block::group.y), uint(block::group.z)}"
    extra = {"blockIdx": block, "threadIdx": "uint3{uint(block::current), 0, 0}"}
    types = {**_CPP_TYPES, "bfloat16": "bfloat", "int8": "char"}
    main = _main(name, grid, threads, args, types, [extra[t] for t in takes])
    flags = ["-I", str(METAL_INCLUDE), "-std=c++17"]
    _compile_and_run(source + main, args, folder, "g++", flags, "t.cpp")


def run_hip(text: str, name: str, grid: Sequence[int], threads: int, args: Sequence, folder: Path) -> None:
    """Run a HIP kernel, as `run_metal`."""
    source = '#include "amdgcn.h"\n' + text
    main = _main(
        name, grid, threads, args, {**_CPP_TYPES, "bfloat16": "__bf16"}, [], "block::warp_size = 64;"
    )
    _compile_and_run(source + main, args, folder, CLANG, ["-I", str(HIP_INCLUDE), "-std=c++17"], "t.cpp")


def check_metal(text: str, folder: Path) -> None:
    """Parse Metal with clang, its address spaces kept apart."""
    source = re.sub(r"(alignas\(\d+\)) threadgroup ", r"\1 static threadgroup ", text)
    path = folder / "t.metal.cpp"
    path.write_text(source)
    flags = ["-DMETAL_CHECK", "-I", str(METAL_INCLUDE), "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra"]
    quiet = ["-Wno-unknown-attributes", "-Wno-unused-variable", "-Wno-unused-function", "-Wno-sign-compare"]
    done = subprocess.run(
        [CLANG, *flags, *quiet, "-Wno-undefined-inline", "-Wno-undefined-internal", str(path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "warning:" not in done.stderr, done.stderr


def _main(
    name: str,
    grid: Sequence[int],
    threads: int,
    args: Sequence,
    types: dict[str, str],
    extra: Sequence[str],
    setup: str = "",
) -> str:
    lines, calls, ends = [setup], [], []
    for k, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            lines.append(f'  auto a{k} = block::read<{types[str(arg.dtype)]}>("a{k}");')
            calls.append(f"a{k}.data()")
            ends.append(f'  block::write("a{k}", a{k});')
        else:
            calls.append(str(arg))
    x, y, z = (*grid, 1, 1)[:3]
    call = f"{name}({', '.join([*calls, *extra])})"
    launch = f"  block::launch({{{x}, {y}, {z}}}, {threads}, [&] {{ {call}; }});"
    return "\nint main() {\n" + "\n".join([*lines, launch, *ends]) + "\n}\n"


def _compile_and_run(
    text: str, args: Sequence, folder: Path, compiler: str, flags: Sequence[str], file: str
) -> None:
    for k, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            (folder / f"a{k}").write_bytes(np.ascontiguousarray(arg).tobytes())
    (folder / file).write_text(text)
    common = ["-O1", "-w", "-fno-strict-aliasing", "-fwrapv", "-I", str(INCLUDE)]
    built = subprocess.run(
        [compiler, *common, *flags, "-o", "t", file], cwd=folder, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[:3000]
    done = subprocess.run(["./t"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.stdout + done.stderr)[:2000]
    for k, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            arg[...] = np.frombuffer((folder / f"a{k}").read_bytes(), arg.dtype).reshape(arg.shape)


def random_array(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Reproducible values: small integers for int8, uniform in [-1, 1) otherwise."""
    rng = np.random.default_rng(seed)
    if dtype == "int8":
        return rng.integers(-8, 8, shape).astype(np.int8)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return rng.uniform(-1, 1, shape).astype(kind)
