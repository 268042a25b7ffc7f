"""What one analysis of a file, one lowering and one run return: plain records, the same in editor and
terminal.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tilelang.diagnostics.once import once
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import KernelFacts


@dataclass(frozen=True)
class KernelReport:
    """Facts and problems of one kernel."""

    facts: KernelFacts
    problems: tuple[Problem, ...]

    def shifted(self, lines: int) -> KernelReport:
        return KernelReport(self.facts.shifted(lines), tuple(p.shifted(lines) for p in self.problems))

    def to_json(self) -> dict[str, Any]:
        return {"facts": self.facts.to_json(), "problems": [p.to_json() for p in self.problems]}

    @staticmethod
    def from_json(data: dict[str, Any]) -> KernelReport:
        return KernelReport(
            KernelFacts.from_json(data["facts"]), tuple(Problem.from_json(p) for p in data["problems"])
        )


@dataclass(frozen=True)
class FileReport:
    """All kernels of one file, and the problems outside kernels (syntax errors, unused ignores)."""

    path: str
    kernels: tuple[KernelReport, ...]
    problems: tuple[Problem, ...] = ()

    def all_problems(self) -> list[Problem]:
        """Every problem of the file, in the order of the text, graver ones first on one place. What several
        kernels have from one macro or helper is one problem.
        """
        groups = once([self.problems, *(k.problems for k in self.kernels)])
        found = [p for problems in groups for p in problems]
        return sorted(found, key=lambda p: (p.span, p.severity.rank, p.rule))

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "kernels": [k.to_json() for k in self.kernels],
            "problems": [p.to_json() for p in self.problems],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> FileReport:
        return FileReport(
            data["path"],
            tuple(KernelReport.from_json(k) for k in data["kernels"]),
            tuple(Problem.from_json(p) for p in data["problems"]),
        )


@dataclass(frozen=True)
class GeneratedSource:
    """Target source of one kernel. `line_map[i]` is the Python line that emitted line `i` came from, 0 if
    none.
    """

    kernel: str
    target: str
    language: str  # "cuda", "hip", "metal", "llvm"
    text: str
    line_map: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"line_map": list(self.line_map)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> GeneratedSource:
        fields: dict[str, Any] = {**data, "line_map": tuple(data["line_map"])}
        return GeneratedSource(**fields)


@dataclass(frozen=True)
class RunCase:
    """One run of a kernel at one size against its reference."""

    sizes: tuple[tuple[str, int], ...]  # ("M", 1000)
    passed: bool
    max_abs_error: float
    max_rel_error: float
    tolerance: tuple[float, float]  # (rtol, atol)
    mismatched: int = 0
    total: int = 0
    first_mismatch: tuple[int, ...] | None = None
    found: float | None = None
    expected: float | None = None
    picture: str | None = None  # where the mismatches are, as a small text grid


@dataclass(frozen=True)
class RunResult:
    """What "run & assert" answers. `error` is set when nothing could be compared."""

    kernel: str
    passed: bool
    device: str  # "NVIDIA H200", "CPU (no GPU found)"
    reference: str | None  # name of the torch reference
    cases: tuple[RunCase, ...] = ()
    latency_ms: float | None = None
    reference_ms: float | None = None
    tflops: float | None = None
    gbytes_per_s: float | None = None
    roofline_share: float | None = None
    error: str | None = None
    error_span: Span | None = None
    output: str = ""  # what the kernel and its file printed

    @property
    def rate(self) -> str | None:
        """How fast it computes, in the unit that suits: `312 TFLOP/s`, `1.93 GFLOP/s` on a CPU."""
        if self.tflops is None:
            return None
        return f"{self.tflops:.3g} TFLOP/s" if self.tflops >= 1 else f"{self.tflops * 1e3:.3g} GFLOP/s"

    @property
    def measured_case(self) -> RunCase | None:
        """The one that the times are of: the last that passed."""
        return next((case for case in reversed(self.cases) if case.passed), None)

    def to_json(self) -> dict[str, Any]:
        data = dataclasses.asdict(self)
        data["error_span"] = self.error_span.to_json() if self.error_span else None
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> RunResult:
        cases = tuple(
            RunCase(
                **(
                    c
                    | {
                        "sizes": tuple((k, v) for k, v in c["sizes"]),
                        "tolerance": tuple(c["tolerance"]),
                        "first_mismatch": tuple(c["first_mismatch"]) if c["first_mismatch"] else None,
                    }
                )
            )
            for c in data["cases"]
        )
        span = Span.from_json(data["error_span"]) if data["error_span"] else None
        return RunResult(**(data | {"cases": cases, "error_span": span}))
