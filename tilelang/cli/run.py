"""`tilelang run FILE::KERNEL`: run a kernel and compare it with its torch reference, on the GPU or, without
one, the CPU.

The file is executed, in a process of its own: the same script that an editor starts for "run & assert".
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilelang.cli.config import choice_for, target_for
from tilelang.cli.notebooks import is_notebook
from tilelang.cli.sources import UnreadableError, read_source
from tilelang.cli.usage import FAILED, FINE, UsageError, add_kernel_argument, read_choice, split_kernel
from tilelang.diagnostics.problem import Severity
from tilelang.facts.reports import KernelReport, RunCase, RunResult
from tilelang.facts.run_request import kernel_text, run_request

_SCRIPT = "tilelang_lsp.runner.run_kernel"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_argument(parser)
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="end the run after so long (default: 120)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def execute(options: argparse.Namespace) -> int:
    file, name = split_kernel(options.kernel)
    if is_notebook(file):
        raise UsageError(f"{file} is a notebook: its kernels are checked and compiled from here, run in it")
    try:
        text = read_source(file)
    except UnreadableError as error:
        raise UsageError(str(error), FAILED) from None
    report = _report(file, text, name, read_choice(options.choice))
    if any(p.severity is Severity.ERROR for p in report.problems):
        from tilelang.diagnostics.render_terminal import print_problems

        lines = text.split("\n")
        print_problems(report.problems, lambda path: lines if path == str(file) else None, sys.stderr)
        return FAILED
    request = run_request(str(file.resolve()), text, report.facts, kernel_text(text, report.facts))
    result = _run(request, file, options.timeout)
    print(json.dumps(result.to_json(), indent=2) if options.format == "json" else _words(result))
    return FINE if result.passed else FAILED


def _report(file: Path, text: str, name: str | None, choice: Mapping[str, str]) -> KernelReport:
    from tilelang.analysis.check import check_kernel
    from tilelang.cli.kernels import check_choice, the_kernel
    from tilelang.frontend.environments.static_module import StaticModule

    qualified_name = the_kernel(file, text, name)
    check_choice(file, text, qualified_name, choice)
    module = StaticModule(str(file), text)
    kernel = next(k for k in module.kernels if k.qualified_name == qualified_name)
    values = choice_for(file, qualified_name, choice)
    return check_kernel(module, kernel, target_for(file, None).name, values)


def _run(request: dict[str, Any], file: Path, timeout_s: float) -> RunResult:
    """Start the script, show its progress, and read its result. Ends it when time is up."""
    process = subprocess.Popen(
        [sys.executable, _script()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=file.resolve().parent,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None and process.stdout is not None
    expired = threading.Event()

    def end() -> None:
        expired.set()
        process.kill()

    timer = threading.Timer(timeout_s, end)
    timer.start()
    try:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.close()
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "result":
                return _read(event["result"])
            print(event["message"], file=sys.stderr)
    except BrokenPipeError:
        pass  # it ended before it read its request; what it said is on standard error
    finally:
        timer.cancel()
        process.kill()
        code = process.wait()
    if expired.is_set():
        raise UsageError(f"the run did not finish within {timeout_s:g} s; raise it with --timeout", FAILED)
    ended = f"by signal {-code}" if code < 0 else f"with exit status {code}"
    raise UsageError(f"the run process ended {ended} before it gave a result", FAILED)


def _script() -> str:
    """The path of the script; looked up, not imported: it must not see our modules."""
    try:
        spec = importlib.util.find_spec(_SCRIPT)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise UsageError("the run script (package tilelang_lsp) is not installed", FAILED)
    return spec.origin


def _read(data: dict[str, Any]) -> RunResult:
    line = data.pop("error_line", None)
    if line and data.get("error"):
        data["error"] = f"line {line}: {data['error']}"
    return RunResult.from_json({"output": "", **data, "error_span": None})


def _words(result: RunResult) -> str:
    if result.error is not None:
        return f"{result.kernel}: {result.error}"
    verdict = "agrees with" if result.passed else "differs from"
    lines = [f"{result.kernel} {verdict} {result.reference} on {result.device}"]
    lines += [_case(case) for case in result.cases]
    speed = [
        f"{result.latency_ms:.3g} ms" if result.latency_ms is not None else None,
        result.rate,
        f"{result.gbytes_per_s:.3g} GB/s" if result.gbytes_per_s is not None else None,
        f"{result.roofline_share:.0%} of the roofline" if result.roofline_share is not None else None,
        f"reference {result.reference_ms:.3g} ms" if result.reference_ms is not None else None,
    ]
    said = ", ".join(filter(None, speed))
    if not said:
        return "\n".join(lines)
    measured = result.measured_case if len(result.cases) > 1 else None
    return "\n".join([*lines, f"{_sizes(measured)}: {said}" if measured else said])


def _case(case: RunCase) -> str:
    sizes = _sizes(case)
    rtol, atol = case.tolerance
    errors = f"max error {case.max_abs_error:.3g}"
    if case.max_rel_error:  # of the values that are wrong by more than the absolute part allows
        errors += f", relative {case.max_rel_error:.3g}"
    tolerance = f"(allowed: {atol:.3g} + {rtol:.3g} of the value)"
    if case.passed:
        return f"  pass  {sizes}: {errors} {tolerance}"
    where = f"; first at {list(case.first_mismatch)}" if case.first_mismatch is not None else ""
    values = f": {case.found:.6g}, expected {case.expected:.6g}" if case.found is not None else ""
    picture = f"\n{case.picture}" if case.picture else ""
    wrong = f"{case.mismatched} of {case.total} elements"
    return f"  FAIL  {sizes}: {errors} {tolerance}; {wrong}{where}{values}{picture}"


def _sizes(case: RunCase) -> str:
    return " ".join(f"{name}={size}" for name, size in case.sizes) or "its sizes"
