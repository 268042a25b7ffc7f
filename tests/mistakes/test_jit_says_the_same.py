"""What `tilelang check` reports, the JIT raises before it lowers: the same problems, word for word."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tilelang.analysis.check import check_kernel
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.targets import driver

WRONG = sorted((Path(__file__).parent / "wrong").glob("*.py"))
TARGET = "cuda:sm_90"
SIZE = 1024


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"mistake_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(problems: list[Problem]) -> list[tuple[str, str, int, int, str]]:
    """What a person sees of each error, in the order of the text."""
    errors = [p for p in problems if p.severity is Severity.ERROR]
    return sorted((p.rule, p.severity.value, p.span.line, p.span.column, p.message) for p in errors)


def found_by_check(path: Path) -> tuple[dict[str, int], list[Problem]]:
    """The sizes of the file's kernel, and its problems at these sizes."""
    module = StaticModule(str(path), path.read_text(encoding="utf-8"))
    (kernel,) = module.kernels
    sizes = {s.name: SIZE for s in trace_static(module, kernel).symbols if s.kind == "const"}
    report = check_kernel(module, kernel, TARGET, {name: str(size) for name, size in sizes.items()})
    return sizes, list(report.problems)


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_the_jit_raises_what_check_reports(path: Path, monkeypatch: pytest.MonkeyPatch):
    sizes, problems = found_by_check(path)
    expected = words(problems)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", TARGET)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    lowered: list[str] = []

    def lower(func: object, target: object) -> object:
        lowered.append(path.stem)
        raise NotImplementedError("lowering is not under test here")

    monkeypatch.setattr(driver, "lower", lower)
    (kernel,) = [v for v in vars(imported(path)).values() if hasattr(v, "get_kernel_source")]
    if not expected:  # a warning, which keeps nothing from being compiled
        with pytest.raises(NotImplementedError):
            kernel.compile(**sizes)
        return
    with pytest.raises(KernelError) as raised:
        kernel.compile(**sizes)
    assert words(raised.value.problems) == expected
    assert lowered == []
    # The text of the exception shows each with its rule and the line, as the command line does.
    for rule, _, line, column, message in expected:
        assert f"error[{rule}]: {message}" in str(raised.value)
        assert re.search(rf"{path.name}:{line}:{column}\b", str(raised.value))


def test_most_mistakes_are_errors():
    assert sum(bool(words(found_by_check(path)[1])) for path in WRONG) >= len(WRONG) // 2
