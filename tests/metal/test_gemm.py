"""T.gemm by simdgroup matrices: every dtype and storage order, and accumulators that change form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emit.example_cases import CASES
from tests.emit.gemm_cases import PRODUCTS, Product, check_attention, check_product, lower
from tests.emit.host_run import check_metal, needs_clang, run_metal

FLOATS = [p for p in PRODUCTS if p.dtype != "int8"]


@pytest.mark.parametrize("case", FLOATS, ids=lambda c: c.name)
def test_product(case: Product, tmp_path: Path) -> None:
    lowered = check_product(case, "metal", 128, run_metal, tmp_path)
    # The accumulator stays in matrices through the loop: it leaves them once, at the end, and never enters.
    assert lowered.source.text.count("    registers_from_matrix(") == 1


def test_attention(tmp_path: Path) -> None:
    lowered = check_attention("metal", run_metal, tmp_path)
    assert "matrix_from_registers(" in lowered.source.text


@needs_clang
def test_attention_is_metal(tmp_path: Path) -> None:
    check_metal(lower("attention", "metal").source.text, tmp_path)


def test_operands_are_not_padded_where_memory_is_short() -> None:
    """Two float32 tiles of 16 KiB fill the memory exactly; the scratch tiles then lie where they lay."""
    case = next(c for c in CASES if "float32" in c.name)
    lowered = case.lower("metal")
    assert lowered.plan.shared_bytes == 32 * 1024
    assert ", 32, ulong2(0), " in lowered.source.text
    smaller = lower("product", "metal", dtype="float32", accum="float32")
    assert ", 36, ulong2(0), " in smaller.source.text
