"""Speed of every example on the attached GPU, beside torch's own operation in the same run.

Prints kernel, size, milliseconds (L2 flushed), the peer's, TFLOP/s or GB/s, and the share of what the device
could do at best. Where there is no GPU, or with --compile, it times compilation: each kernel cold, in a
process of its own, without the disk cache, and exits 1 if one takes longer than --limit seconds. On a machine
that others use too, seconds say little: a fixed piece of work is timed in the same process just before, and
what it took longer than on a quiet machine is taken out. Words name kernels.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # not this folder, in which `examples` is this file

TARGET = "cuda:sm_90"
# Seconds of the fixed piece of work on one quiet core of the machine that the limit is for.
YARDSTICK = 0.1


@dataclass(frozen=True)
class Peaks:
    """What a device can do at best, from its vendor's data sheet: dense TFLOP/s by dtype, GB/s of memory."""

    tflops: dict[str, float]
    gbytes: float


PEAKS = {
    "H200": Peaks({"f16": 989, "fp8": 1979, "int8": 1979}, 4800),
    "H100": Peaks({"f16": 989, "fp8": 1979, "int8": 1979}, 3350),
    "A100": Peaks({"f16": 312, "int8": 624}, 2039),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of kernels' names; all kernels if none")
    parser.add_argument("--compile", action="store_true", help="time compilation, also where there is a GPU")
    parser.add_argument("--limit", type=float, default=3.0, help="seconds that a cold compilation may take")
    parser.add_argument("--cold", metavar="NUMBER", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cold is not None:
        return compile_once(options.cold)

    import torch

    if options.compile:
        return compile_all(options.names, options.limit)
    if not torch.cuda.is_available():
        print("no GPU found: only compilation is timed")
        return compile_all(options.names, options.limit)
    return measure_all(options.names)


def chosen(names: list[str]) -> list[int]:
    """The numbers of the entries with one of `names` in theirs."""
    from benchmarks.example_table import ENTRIES

    return [k for k, e in enumerate(ENTRIES) if not names or any(n in e.name for n in names)]


def measure_all(names: list[str]) -> int:
    import torch

    from benchmarks.example_table import ENTRIES

    device = torch.cuda.get_device_name()
    peaks = next((p for name, p in PEAKS.items() if name in device), None)
    print(f"{device}, torch {torch.__version__}")
    print(f"{'kernel':<52} {'size':<30} {'ms':>9} {'peer ms':>9} {'ratio':>6}  speed, share of the best")
    failed = 0
    for number in chosen(names):
        entry = ENTRIES[number]
        try:
            line = measure(number, peaks)
        except Exception as error:  # noqa: BLE001  a failure is a line of the table, and the exit status
            failed += 1
            line = f"FAILED: {type(error).__name__}: {str(error).splitlines()[0][:150]}"
        print(f"{entry.name:<52} {entry.size:<30} {line}", flush=True)
        torch.cuda.empty_cache()
    return 1 if failed else 0


def measure(number: int, peaks: Peaks | None) -> str:
    """The figures of one entry as a line."""
    from benchmarks.example_table import ENTRIES
    from tilelang.profiler import do_bench

    entry = ENTRIES[number]
    module = importlib.import_module(f"examples.{entry.module}")
    work = entry.work(module, "cuda")
    given = work.inputs if work.compiled_from is None else work.compiled_from
    kernel = getattr(module, entry.kernel).compile(*given, **work.options)
    latency = do_bench(lambda: kernel(*work.inputs))
    try:
        peer = do_bench(work.peer)
        beside = f"{peer:9.3f} {peer / latency:5.2f}x"
    except (RuntimeError, AttributeError) as error:  # this torch cannot do it
        beside = f"{'-':>9} {'-':>6}"
        print(f"  {work.peer_name}: {str(error).splitlines()[0][:120]}")
    speed = f"{work.flops / latency / 1e9:7.1f} TFLOP/s" if work.flops else ""
    if work.moved:
        speed = f"{speed} {work.moved / latency / 1e6:7.0f} GB/s".strip()
    best = 0.0
    if peaks is not None and (not work.flops or work.peak in peaks.tflops):
        compute = work.flops / peaks.tflops[work.peak] / 1e9 if work.flops else 0.0
        best = max(compute, work.moved / peaks.gbytes / 1e6)
    share = f", {best / latency:4.0%}" if best else ""
    return f"{latency:9.3f} {beside}  {speed}{share}  (peer: {work.peer_name})"


def compile_all(names: list[str], limit: float) -> int:
    from benchmarks.example_table import ENTRIES

    print(f"cold compilation for {TARGET}: seconds if quiet (limit {limit:g}), passed, of the processor")
    missed = 0
    for number in chosen(names):
        entry = ENTRIES[number]
        command = [sys.executable, __file__, "--cold", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        words = done.stdout.split()
        if done.returncode or not words:
            missed += 1
            lines = done.stderr.strip().splitlines() or ["nothing was printed"]
            print(f"{entry.name:<52} {entry.size:<30} FAILED: {lines[-1][:200]}", flush=True)
            continue
        passed, busy, yard = (float(w) for w in words[-3:])
        seconds = passed / max(1.0, yard / YARDSTICK)
        missed += seconds > limit
        note = "  MISSED" if seconds > limit else ""
        print(f"{entry.name:<52} {entry.size:<30} {seconds:6.2f} {passed:6.2f} {busy:6.2f}{note}", flush=True)
    print(f"{missed} over the limit" if missed else "all within the limit")
    return 1 if missed else 0


def compile_once(number: int) -> int:
    """Print the seconds from the call of `compile` to a binary in this fresh process: passed, and its own;
    and what the fixed piece of work took here.
    """
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    from benchmarks.example_table import ENTRIES
    from tilelang.arch.target import parse_target
    from tilelang.jit.functions import JITFunction

    entry = ENTRIES[number]
    module = importlib.import_module(f"examples.{entry.module}")
    work = entry.work(module, "meta" if entry.meta else "cpu")
    written = getattr(module, entry.kernel)
    kernel = JITFunction(written.function, replace(written.options, target=parse_target(TARGET)))
    given = work.inputs if work.compiled_from is None else work.compiled_from
    before = yardstick()
    started, busy = time.perf_counter(), time.process_time()
    kernel.compile(*given, **work.options)
    passed, busy = time.perf_counter() - started, time.process_time() - busy
    print(passed, busy, (before + yardstick()) / 2)
    return 0


def yardstick() -> float:
    """Seconds that a fixed piece of work takes now."""
    started, x = time.perf_counter(), 1
    for k in range(1_000_000):
        x = (x * 31 + k) & 0xFFFFFFFF
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
