"""Literate rule tests: kernels in Markdown with the expected problems as comments on their lines.

A page holds prose and Python fences. A fence is a module of its own; `import tilelang` and
`import tilelang.language as T` are put in front unless it has imports. In a line,

    T.gemm(a, b, c)  # error: [gemm-shape] K of a (64, 32) is 32

expects one problem of that severity and rule whose message contains the text, and

    acc = T.alloc_fragment((64, 64), "float32")  # reveal: float32[64, 64] fragment

expects that text among what the compiler knows about the buffers, operations and loops of the line, and

        T.clear(acc)  # silent: the accumulator is written before the product adds to it

marks a near miss of the page's rule: the line where it might fire, and why it does not.
Matching is two-way: every problem must be expected, but for the hint `guarded-tail`, which nearly every
kernel over tensors of any size has: it is matched only in fences that expect one. ```` ```python
target=hip:gfx942 ```` checks for another target than cuda:sm_90; ```` ```python lower ```` also lowers the
kernels that have no errors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tilelang.analysis.check import check_source
from tilelang.arch.target import parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.problem import Problem
from tilelang.facts.reports import FileReport
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.targets import driver

PRELUDE = "import tilelang\nimport tilelang.language as T\n\n"
EVERYWHERE = "guarded-tail"
_FENCE = re.compile(r"^```python([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_EXPECTED = re.compile(
    r"#\s*(error|warning|info|hint):\s*\[([\w-]+)\]\s*(.*?)\s*(?=#\s*(?:error|warning|info|hint|reveal|silent):|$)"
)
_REVEAL = re.compile(r"#\s*reveal:\s*(.*?)\s*(?=#\s*(?:error|warning|info|hint|reveal|silent):|$)")
_SILENT = re.compile(r"#\s*silent:\s*\S")


@dataclass(frozen=True)
class Expected:
    """One comment: on which line of the module, and what it wants."""

    line: int
    severity: str
    rule: str
    text: str

    def fits(self, problem: Problem) -> bool:
        return (
            problem.span.line == self.line
            and problem.severity.value == self.severity
            and problem.rule == self.rule
            and self.text in problem.message
        )

    def __str__(self) -> str:
        return f"{self.severity}: [{self.rule}] {self.text}"


@dataclass(frozen=True)
class Fence:
    """One Python block of a page. `offset` added to a line of `text` gives the line of the page."""

    page: Path
    text: str
    offset: int
    target: str = "cuda:sm_90"
    lower: bool = False
    expected: tuple[Expected, ...] = ()
    reveals: tuple[tuple[int, str], ...] = ()
    silent: tuple[int, ...] = ()


def fences(page: Path) -> list[Fence]:
    """All Python blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [_fence(page, text, m) for m in _FENCE.finditer(text)]


def disagreements(fence: Fence) -> list[str]:
    """What is missing, what is too much, what is revealed otherwise; empty if all is as the page says."""
    report = check_source(str(fence.page), fence.text, fence.target)
    left = report.all_problems()
    if fence.lower:
        left += problems_of_lowering(fence)
    if not any(e.rule == EVERYWHERE for e in fence.expected):
        left = [p for p in left if p.rule != EVERYWHERE]
    found = [
        f"{_at(fence, wanted.line)}: is marked silent and expects {wanted}"
        for wanted in fence.expected
        if wanted.rule == fence.page.stem and wanted.line in fence.silent
    ]
    for wanted in fence.expected:
        match = next((p for p in left if wanted.fits(p)), None)
        if match is None:
            found.append(f"{_at(fence, wanted.line)}: expected {wanted}")
        else:
            left.remove(match)
    for problem in left:
        words = f"{problem.severity.value}: [{problem.rule}] {problem.message}"
        found.append(f"{_at(fence, problem.span.line)}: unexpected {words}")
    for line, text in fence.reveals:
        known = known_on_line(report, line)
        if not any(text in k for k in known):
            found.append(f"{_at(fence, line)}: expected to reveal {text!r}, known is {known}")
    return found


def problems_of_lowering(fence: Fence) -> list[Problem]:
    """What only lowering finds, for the kernels of a fence that have no errors."""
    target, found = parse_target(fence.target), []
    module = StaticModule(str(fence.page), fence.text)
    for kernel in module.kernels:
        try:
            driver.lower(prim_func_of(trace_static(module, kernel), target, fence.text), target)
        except KernelError as error:
            found += error.problems
    return found


def known_on_line(report: FileReport, line: int) -> list[str]:
    """What the facts say about buffers, operations, loops and launches that begin on a line."""
    known = []
    for kernel in report.kernels:
        facts = kernel.facts
        for b in facts.buffers:
            if b.name_span.line == line:
                stages = f", {b.stages} stages" if b.stages > 1 else ""
                layout = f", {b.layout}" if b.layout else ""
                registers = f", {b.registers_per_thread} registers" if b.registers_per_thread else ""
                known.append(f"{b.type_text()}{stages}{layout}{registers}")
        for op in facts.ops:
            if op.span.line == line:
                known += [op.summary, op.instruction or "", *op.notes]
        known += [loop.summary for loop in facts.loops if loop.span.line == line]
        if facts.launch is not None and facts.launch.span.line == line:
            grid = " × ".join(map(str, facts.launch.grid))
            known.append(f"grid {grid}, {facts.launch.threads} threads, {facts.shared_bytes} bytes shared")
    return known


def _fence(page: Path, text: str, match: re.Match[str]) -> Fence:
    code = match.group(2)
    prelude = "" if re.search(r"^(import|from) ", code, re.MULTILINE) else PRELUDE
    first = text.count("\n", 0, match.start(2))
    options = dict(part.split("=", 1) for part in match.group(1).split() if "=" in part)
    module = prelude + code
    expected, reveals, silent = [], [], []
    for number, line in enumerate(module.split("\n"), start=1):
        expected += [Expected(number, *m.groups()) for m in _EXPECTED.finditer(line)]
        reveals += [(number, m.group(1)) for m in _REVEAL.finditer(line)]
        silent += [number for _ in _SILENT.finditer(line)]
    return Fence(
        page,
        module,
        first - prelude.count("\n"),
        options.get("target", "cuda:sm_90"),
        "lower" in match.group(1).split(),
        tuple(expected),
        tuple(reveals),
        tuple(silent),
    )


def _at(fence: Fence, line: int) -> str:
    return f"{fence.page.name}:{line + fence.offset}"
