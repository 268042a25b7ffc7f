"""T.gemm by MFMA: every dtype and storage order, run on a model and compiled for the hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emit.gemm_cases import PRODUCTS, Product, check_attention, check_product, lower
from tests.emit.host_run import needs_clang, run_hip
from tilelang.arch.target import Target
from tilelang.diagnostics.error import KernelError
from tilelang.targets.hip.toolchain import assembly

INSTRUCTIONS = {
    ("float16", "gfx90a"): "v_mfma_f32_16x16x16f16",
    ("float16", "gfx942"): "v_mfma_f32_16x16x16_f16",
    ("bfloat16", "gfx90a"): "v_mfma_f32_16x16x16bf16_1k",
    ("bfloat16", "gfx942"): "v_mfma_f32_16x16x16_bf16",
    ("float32", "gfx90a"): "v_mfma_f32_16x16x4f32",
    ("float32", "gfx942"): "v_mfma_f32_16x16x4_f32",
    ("int8", "gfx90a"): "v_mfma_i32_16x16x16i8",
    ("int8", "gfx942"): "v_mfma_i32_16x16x32_i8",
}


@needs_clang
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda c: c.name)
def test_product(case: Product, tmp_path: Path) -> None:
    check_product(case, "hip:gfx942", 256, run_hip, tmp_path)


@needs_clang
def test_product_of_int8_on_gfx90a(tmp_path: Path) -> None:
    check_product(Product("int8", "int32", False, True), "hip:gfx90a", 128, run_hip, tmp_path)


@needs_clang
def test_attention(tmp_path: Path) -> None:
    check_attention("hip:gfx942", run_hip, tmp_path)


@pytest.mark.toolchain
@needs_clang
@pytest.mark.parametrize(("dtype", "arch"), INSTRUCTIONS)
def test_the_chosen_instruction_is_in_the_assembly(dtype: str, arch: str) -> None:
    lowered = lower("product", f"hip:{arch}", dtype=dtype, accum="int32" if dtype == "int8" else "float32")
    code = assembly(lowered.source, Target("hip", arch))
    assert INSTRUCTIONS[dtype, arch] in code
    assert ".private_segment_fixed_size: 0" in code


def test_an_accumulator_that_mfma_lacks_is_an_error_of_the_kernel() -> None:
    with pytest.raises(KernelError, match="float16"):
        lower("product", "hip:gfx942", dtype="float16", accum="float16")
