"""How long the compiler takes for the quickstart's GEMM: source to text, text to binary, and from the disk
cache.

Each number is the median of several runs in one warm process, beside its goal. The same source is given to
nvcc in the same run where it is installed; upstream TileLang compiles the same kernel where
TILELANG_UPSTREAM_PYTHON names a Python that has it. Exits 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # not this folder, in which `examples` is a file

SIZES = {"M": "1024", "N": "1024", "K": "1024"}
TARGET = "cuda:sm_90"


@dataclass(frozen=True)
class Row:
    """One measured step, in milliseconds."""

    step: str
    found: float
    goal: float | None = None

    def text(self) -> str:
        goal = "" if self.goal is None else f"goal {self.goal:6.0f} ms  {'ok' if self.met else 'MISSED'}"
        return f"{self.step:<44} {self.found:9.1f} ms   {goal}".rstrip()

    @property
    def met(self) -> bool:
        return self.goal is None or self.found <= self.goal


def median_ms(step: Callable[[], object], runs: int) -> float:
    """The median of `runs` timed calls, after one that is not counted."""
    step()
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        step()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def measure(runs: int) -> list[Row]:
    from tilelang.arch.target import parse_target
    from tilelang.jit.static import generate_source
    from tilelang.targets.cuda import toolchain

    path = ROOT / "examples" / "quickstart.py"
    text = path.read_text(encoding="utf-8")
    target = parse_target(TARGET)

    def to_text() -> object:
        return generate_source(str(path), text, "matmul_relu", TARGET, SIZES)

    rows = [Row(f"source to CUDA text, {TARGET}", median_ms(to_text, runs), 150)]
    source = generate_source(str(path), text, "matmul_relu", TARGET, SIZES)
    code, nvrtc = toolchain.code_name(target), toolchain.nvrtc()
    if nvrtc is None:
        print("NVRTC is not installed: text to binary is not measured (pip install 'tilelang-lsp[cuda]')")
    else:
        version = ".".join(map(str, nvrtc.version))
        rows.append(
            Row(f"text to cubin, NVRTC {version}", median_ms(lambda: nvrtc.compile(source, code), 3), 1000)
        )
    compiler = toolchain.nvcc()
    if compiler is not None:
        seconds = median_ms(lambda: toolchain.compile_with_nvcc(compiler, source, code), 1)
        rows.append(Row("the same text, nvcc", seconds))
    rows += cpu_rows(runs)
    return rows


def cpu_rows(runs: int) -> list[Row]:
    """The whole way to a kernel that can be called: compiled, and taken from the disk cache."""
    from tilelang.jit.functions import JITFunction
    from tilelang.jit.options import CompileOptions

    function = importlib.import_module("examples.quickstart").matmul_relu.function
    sizes = {name: int(value) for name, value in SIZES.items()}

    def kernel() -> object:
        made = JITFunction(function, CompileOptions.read(target="cpu")).compile(**sizes)
        made.load()
        return made

    with tempfile.TemporaryDirectory(prefix="tilelang-bench-") as folder:
        os.environ["TILELANG_CACHE_DIR"] = folder
        os.environ["TILELANG_DISABLE_CACHE"] = "1"
        compiled = median_ms(kernel, 3)
        os.environ["TILELANG_DISABLE_CACHE"] = "0"
        cached = median_ms(kernel, runs)
    return [
        Row("traced, compiled and loaded for the CPU", compiled),
        Row("the same from the disk cache", cached, 20),
    ]


UPSTREAM = """
import sys, time
sys.path.insert(0, {examples!r})
import tilelang
tilelang.disable_cache()
from quickstart import matmul_relu
from tvm.target import Target
started = time.perf_counter()
with Target({{"kind": "cuda", "arch": "sm_90"}}):
    artifact = tilelang.lower(matmul_relu.get_tir(M=1024, N=1024, K=1024))
print((time.perf_counter() - started) * 1e3)
"""


def upstream_row() -> Row | None:
    """Upstream's time from source to text for the same file, in its own interpreter."""
    python = os.environ.get("TILELANG_UPSTREAM_PYTHON")
    if not python:
        return None
    program = UPSTREAM.format(examples=str(ROOT / "examples"))
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, cwd=tempfile.gettempdir())
    if done.returncode:
        print(f"upstream could not be measured: {done.stderr.strip().splitlines()[-1]}")
        return None
    return Row("source to CUDA text, upstream (first time)", float(done.stdout.split()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="timed runs of the quick steps")
    options = parser.parse_args()
    rows = measure(options.runs)
    peer = upstream_row()
    if peer is not None:
        rows.append(peer)
    sizes = " ".join(f"{name}={value}" for name, value in SIZES.items())
    print(f"quickstart GEMM + ReLU, {sizes}, f16; {os.cpu_count()} processors")
    for row in rows:
        print(row.text())
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
