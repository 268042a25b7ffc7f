"""Every example as Metal: parsed with its address spaces, and run on the host against numpy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emit.example_cases import CASES, KERNELS, Case
from tests.emit.host_run import check_metal, needs_clang, run_metal


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_example_runs(case: Case, tmp_path: Path) -> None:
    case.check(case.lower("metal"), run_metal, tmp_path)


@needs_clang
@pytest.mark.parametrize("case", KERNELS, ids=lambda c: c.name)
def test_example_is_metal(case: Case, tmp_path: Path) -> None:
    lowered = case.lower("metal")
    assert lowered.plan.shared_bytes <= 32 * 1024
    check_metal(lowered.source.text, tmp_path)
