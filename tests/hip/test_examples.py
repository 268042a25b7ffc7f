"""Every example as HIP: run on the host against numpy, and compiled by clang for the hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emit.example_cases import CASES, KERNELS, Case
from tests.emit.host_run import needs_clang, run_hip
from tests.hip.test_emit import ARCHES, compile_hip


@needs_clang
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_example_runs(case: Case, tmp_path: Path) -> None:
    case.check(case.lower("hip:gfx942"), run_hip, tmp_path)


@pytest.mark.toolchain
@needs_clang
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("case", KERNELS, ids=lambda c: c.name)
def test_example_compiles(case: Case, arch: str) -> None:
    lowered = case.lower(f"hip:{arch}")
    assembly = compile_hip(lowered.source.text, arch)
    if "gemm" in case.kernel or "matmul" in case.kernel:
        instruction = next(iter(lowered.instructions.values()))
        assert "v_mfma" in instruction
        assert "v_mfma_f32_16x16x" in assembly
