"""A compiler of a few lines for the tests of the engine: it can be told to fail, to crash and to hang.

Everything about the language is tested with the real compiler; this one does what that must never do.
A kernel is a decorated function. Calls in it steer the analysis: `T.wrong()` gives an error there, `T.boom()`
raises in the compiler, `T.crash()` ends the process, `T.hang()` never returns, `T.slow()` takes a while.
`T.copy` gets its instruction from the details, where `T.boom_below()` raises, `T.crash_below()` ends the
process, `T.hang_below()` never returns, `T.wrong_below()` gives an error.
"""

from __future__ import annotations

import ast
import hashlib
import os
import time
from dataclasses import dataclass, replace

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import BufferFact, KernelFacts, LaunchFact, OpFact, Use
from tilelang.facts.reports import GeneratedSource, KernelReport


@dataclass(frozen=True)
class FakeKernel:
    name: str
    qualified_name: str
    span: Span
    key: str
    node: ast.FunctionDef


class FakeModule:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.kernels: list[FakeKernel] = []
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            line, column = error.lineno or 1, error.offset or 1
            span = Span(path, line, column, line, column + 1)
            self.problems.append(Problem("syntax-error", Severity.ERROR, error.msg, span))
            return
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                first = node.decorator_list[0]
                span = Span(path, first.lineno, 1, node.end_lineno, node.end_col_offset + 1)
                lines = text.split("\n")[first.lineno - 1 : node.end_lineno]
                key = hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()
                self.kernels.append(FakeKernel(node.name, node.name, span, key, node))


class FakeCompiler:
    def module(self, path: str, text: str) -> FakeModule:
        return FakeModule(path, text)

    def warm_up(self):
        yield from ()

    def check_kernel(self, module: FakeModule, kernel: FakeKernel, target: str, choice) -> KernelReport:
        buffers: list[BufferFact] = []
        uses: list[Use] = []
        ops: list[OpFact] = []
        problems: list[Problem] = []
        names: dict[str, int] = {}
        for node in ast.walk(kernel.node):
            if isinstance(node, ast.Assign) and _call(node.value) == "T.alloc_shared":
                target_name = node.targets[0]
                shape = tuple(e.value for e in node.value.args[0].elts)
                names[target_name.id] = len(buffers)
                n_bytes = 2
                for extent in shape:
                    n_bytes *= extent
                buffers.append(
                    BufferFact(
                        target_name.id,
                        "shared",
                        shape,
                        "float16",
                        _span(module.path, node.value),
                        _span(module.path, target_name),
                        bytes=n_bytes,
                    )
                )
            elif isinstance(node, ast.Call):
                called, span = _call(node), _span(module.path, node)
                if called == "T.wrong":
                    problems.append(Problem("fake-rule", Severity.ERROR, "this is wrong", span))
                elif called == "T.boom":
                    raise RuntimeError("boom")
                elif called == "T.crash":
                    os._exit(3)
                elif called == "T.hang":
                    time.sleep(3600)
                elif called == "T.slow":
                    time.sleep(0.5)
                elif called == "T.copy":
                    callee = _span(module.path, node.func)
                    ops.append(OpFact("copy", span, callee, "64×64 float16", "64×64 float16"))
        for node in ast.walk(kernel.node):
            if isinstance(node, ast.Name) and node.id in names:
                uses.append(Use(_span(module.path, node), names[node.id]))
        name_at = kernel.node.lineno
        facts = KernelFacts(
            kernel.name,
            kernel.qualified_name,
            "eager",
            kernel.span,
            Span(module.path, name_at, 5, name_at, 5 + len(kernel.name)),
            target,
            specialisation=tuple(choice.items()),
            buffers=tuple(buffers),
            uses=tuple(uses),
            ops=tuple(ops),
            launch=LaunchFact(("M",), 128, kernel.span),
            shared_bytes=sum(b.bytes or 0 for b in buffers),
            shared_limit=232448,
        )
        return KernelReport(facts, tuple(problems))

    def detail_steps(self, module: FakeModule, kernel: FakeKernel, target: str, choice):
        report = self.check_kernel(module, kernel, target, choice)
        yield
        problems = list(report.problems)
        for node in ast.walk(kernel.node):
            called = _call(node)
            if called == "T.wrong_below":
                span = _span(module.path, node)
                problems.append(Problem("fake-layout", Severity.ERROR, "this cannot be laid out", span))
            elif called == "T.boom_below":
                raise RuntimeError("boom below")
            elif called == "T.crash_below":
                os._exit(3)
            elif called == "T.hang_below":
                time.sleep(3600)
        ops = tuple(replace(op, instruction="fake.async 16 bytes") for op in report.facts.ops)
        return KernelReport(replace(report.facts, ops=ops), tuple(problems))

    def generate_source(self, path: str, text: str, kernel: str, target: str, choice) -> GeneratedSource:
        module = FakeModule(path, text)
        if module.problems:
            raise KernelError(module.problems)
        found = next((k for k in module.kernels if k.name == kernel), None)
        if found is None:
            raise KeyError(f"no kernel {kernel}")
        report = self.check_kernel(module, found, target, choice)
        if report.problems:
            raise KernelError(list(report.problems))
        body = f"void {kernel}() {{ /* {len(report.facts.buffers)} buffers */ }}\n"
        return GeneratedSource(kernel, target, target.split(":")[0], body, (found.node.lineno,))


def _call(node: ast.AST) -> str | None:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else None


def _span(path: str, node: ast.expr) -> Span:
    return Span(
        path, node.lineno, node.col_offset + 1, node.end_lineno or node.lineno, node.end_col_offset + 1
    )
