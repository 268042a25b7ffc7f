"""`tilelang check` on many files, beside a type checker on the same files in the same run.

    python benchmarks/check_many.py [--files 300] [--jobs 2] [--peer pyright|mypy|none]

The files are the examples with other names, sizes and tiles, some with one mistake, so that no two are alike
and nothing can be answered from a cache. Prints one line per tool: seconds, files per second, findings.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent

# (text of an example, what makes it wrong): the mistakes that people make most.
_MISTAKES = (
    ("T.alloc_shared((block_K, block_N)", "T.alloc_shared((block_M, block_N)"),
    ("T.alloc_shared((block_M, block_K)", "T.alloc_shared((block_K, block_M)"),
    ("            T.clear(C_local)\n", ""),
    ("T.alloc_fragment((block_M, block_N)", "T.alloc_fragment((block_M, block_M + 1)"),
)


def make_files(folder: Path, n_files: int, seed: int = 0) -> None:
    """`n_files` variants of the examples."""
    chance = random.Random(seed)
    examples = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "examples").glob("*.py"))]
    for number in range(n_files):
        text = examples[number % len(examples)]
        for name, values in (("block_M", (64, 128)), ("block_N", (64, 128)), ("num_stages", (2, 3))):
            text = re.sub(rf"\b{name}: int = \d+", f"{name}: int = {chance.choice(values)}", text)
        text = re.sub(r"\bdef main\(", f"def main_{number}(", text).replace(
            "    main()", f"    main_{number}()"
        )
        if number % 5 == 0:
            old, new = chance.choice(_MISTAKES)
            text = text.replace(old, new)
        (folder / f"kernels_{number:03}.py").write_text(f"# {number}\n{text}", encoding="utf-8")


@dataclass(frozen=True)
class Measured:
    """`seconds` by the clock, `busy` of all processors: on a machine that does other things too, only the
    second says what the tool costs.
    """

    seconds: float
    busy: float
    out: str


def timed(command: list[str | Path], **environment: str) -> Measured:
    """Run a tool. Findings are no failure, but a tool that does not run is."""
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    seconds, after = time.perf_counter() - started, os.times()
    busy = sum(after[2:4]) - sum(before[2:4])
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stderr}")
    return Measured(seconds, busy, done.stdout)


def check(folder: Path, jobs: int) -> tuple[Measured, str]:
    measured = timed([BIN / "tilelang", "check", "--format", "json", "--jobs", str(jobs), folder])
    found = json.loads(measured.out)
    counts = [sum(p["severity"] == kind for p in found) for kind in ("error", "warning")]
    failed = sum(p["code"] in ("analysis-failed", "internal-error") for p in found)
    return measured, f"{counts[0]} errors, {counts[1]} warnings, {failed} failures of the analysis"


def peer(name: str, folder: Path) -> tuple[Measured, str]:
    if name == "pyright":
        # It refuses call expressions in annotations, so it finds much; its time is what is compared.
        measured = timed(
            [BIN / "pyright", "--outputjson", "--pythonpath", sys.executable, folder],
            PYRIGHT_PYTHON_IGNORE_WARNINGS="1",
        )
        return measured, f"{json.loads(measured.out)['summary']['errorCount']} errors"
    cache = folder / ".mypy_cache"
    measured = timed(
        [BIN / "mypy", "--cache-dir", cache, "--python-executable", sys.executable, folder],
        MYPYPATH=str(ROOT),
    )
    return measured, measured.out.strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--peer", choices=("pyright", "mypy", "none"), default="pyright")
    parser.add_argument("--limit", type=float, help="fail if checking takes longer than so many seconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, options.files)
        lines = sum(p.read_text(encoding="utf-8").count("\n") for p in folder.glob("*.py"))
        print(f"{options.files} files, {lines} lines, {os.cpu_count()} processors")
        measured, found = check(folder, options.jobs)
        _print("tilelang check", measured, found, options.files)
        if options.peer != "none":
            _print(options.peer, *peer(options.peer, folder), n_files=options.files)
    if options.limit is not None and measured.seconds > options.limit:
        raise SystemExit(f"checking took {measured.seconds:.1f} s, allowed are {options.limit:g} s")


def _print(tool: str, measured: Measured, found: str, n_files: int) -> None:
    rate = n_files / measured.seconds
    print(f"{tool:15} {measured.seconds:6.1f} s  {measured.busy:6.1f} s busy  {rate:6.1f} files/s  {found}")


if __name__ == "__main__":
    main()
