"""The result of a run in words: one line for a message, a paragraph for a diagnostic at the kernel."""

from __future__ import annotations

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.run import RUN_FAILED, RUN_MISMATCH
from tilelang.diagnostics.span import Span
from tilelang.facts.reports import RunCase, RunResult

RUN_RULES = (RUN_MISMATCH.name, RUN_FAILED.name)


def one_line(result: RunResult) -> str:
    """`✓ matmul matches ref_program: max error 0.002, 0.31 ms, 3.4 TFLOP/s, on NVIDIA H200`."""
    if result.error is not None:
        return f"✗ {result.kernel}: {result.error.splitlines()[0]}"
    if not result.passed:
        return f"✗ {result.kernel} differs from {result.reference}: {_mismatch(_first_failed(result))}"
    worst = max((c.max_abs_error for c in result.cases), default=0.0)
    parts = [f"max error {worst:.2g} over {_sizes_text(result)}"]
    if result.latency_ms is not None:
        parts.append(f"{result.latency_ms:.3g} ms")
    if result.rate is not None:
        parts.append(result.rate)
    elif result.gbytes_per_s is not None:
        parts.append(f"{result.gbytes_per_s:.3g} GB/s")
    if result.roofline_share is not None:
        parts.append(f"{100 * result.roofline_share:.0f} % of the roofline")
    if result.reference_ms is not None and result.latency_ms:
        parts.append(f"{result.reference_ms / result.latency_ms:.2f}× the reference's speed")
    return f"✓ {result.kernel} matches {result.reference}: {', '.join(parts)}, on {result.device}"


def run_problem(result: RunResult, kernel_span: Span) -> Problem | None:
    """The diagnostic of a run that did not pass; None for one that did."""
    if result.passed:
        return None
    if result.error is not None:
        return RUN_FAILED.at(result.error_span or kernel_span, error=result.error)
    case = _first_failed(result)
    details = []
    passed = [c for c in result.cases if c.passed]
    if passed:
        details.append(f"\nIt is right for {'; '.join(_case_sizes(c) for c in passed)}.")
    if case.picture:
        details.append("\n" + case.picture)
    return RUN_MISMATCH.at(
        kernel_span,
        kernel=result.kernel,
        reference=result.reference,
        device=result.device,
        mismatch=_mismatch(case),
        details="".join(details),
    )


def _first_failed(result: RunResult) -> RunCase:
    return next(c for c in result.cases if not c.passed)


def _mismatch(case: RunCase) -> str:
    text = f"{case.mismatched} of {case.total} values wrong for {_case_sizes(case)}"
    if case.first_mismatch is not None:
        place = ", ".join(map(str, case.first_mismatch))
        text += f", first at [{place}]: {case.found:.6g} instead of {case.expected:.6g}"
    return f"{text} (max error {case.max_abs_error:.3g}, allowed {case.tolerance[1]:.2g})"


def _case_sizes(case: RunCase) -> str:
    return ", ".join(f"{name}={size}" for name, size in case.sizes) or "its fixed shapes"


def _sizes_text(result: RunResult) -> str:
    return " and ".join(f"({_case_sizes(c)})" for c in result.cases) if result.cases else "no case"
