"""AMD CDNA GPUs: LDS per workgroup, and the MFMA instructions.

Sources: AMD Instinct MI200 and MI300 "Instruction Set Architecture" guides, chapter "Matrix Arithmetic
Instructions"; LDS sizes and the 512 vector registers of a thread (VGPRs and AccVGPRs together) from the same
guides (64 KiB; 160 KiB on gfx950).
"""

from __future__ import annotations

from tilelang.arch.features import Features
from tilelang.arch.instruction import Limits, MatrixInstruction

SHARED_BYTES = {"gfx950": 160 * 1024}
_DEFAULT_SHARED_BYTES = 64 * 1024


def _mfma(k: int, suffix: str, operand: str, *accumulators: str) -> MatrixInstruction:
    return MatrixInstruction(f"v_mfma_{suffix}", 16, 16, k, operand, accumulators)


# Only what `targets.hip` emits: a hover must not promise another one.
_COMMON = (
    _mfma(16, "f32_16x16x16f16", "float16", "float32"),
    _mfma(16, "f32_16x16x16bf16_1k", "bfloat16", "float32"),
    _mfma(4, "f32_16x16x4f32", "float32", "float32"),
)
_GFX90A = (*_COMMON, _mfma(16, "i32_16x16x16i8", "int8", "int32"))
_GFX942 = (
    *_COMMON,
    _mfma(32, "i32_16x16x32_i8", "int8", "int32"),
    _mfma(32, "f32_16x16x32_fp8_fp8", "float8_e4m3fnuz", "float32"),
    _mfma(32, "f32_16x16x32_bf8_bf8", "float8_e5m2fnuz", "float32"),
)
# gfx950 has the OCP formats instead.
_GFX950 = (*_COMMON, _mfma(32, "i32_16x16x32_i8", "int8", "int32"))


def limits(arch: str) -> Limits:
    """Limits of an architecture such as `gfx942`."""
    return Limits(SHARED_BYTES.get(arch, _DEFAULT_SHARED_BYTES))


def features() -> Features:
    """What CDNA GPUs can do, as far as this compiler uses it: LDS is filled through registers."""
    return Features(unit="mfma", registers_per_thread=512)


def matrix_instructions(arch: str) -> tuple[MatrixInstruction, ...]:
    """The MFMA instructions of `arch`, one per operand dtype."""
    if arch == "gfx950":
        return _GFX950
    return _GFX942 if arch in ("gfx940", "gfx941", "gfx942") else _GFX90A
