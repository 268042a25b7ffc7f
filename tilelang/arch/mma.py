"""The shapes and operand types of mma.sync that the compiler uses, and what their helpers are called."""

from __future__ import annotations

from collections.abc import Mapping

# (shape, operand dtype, accumulator dtype) -> PTX operand type, PTX result type, registers of A, B, D.
# PTX ISA 9.7.15.5.14.
MMA: Mapping[tuple[str, str, str], tuple[str, str, tuple[int, int, int]]] = {
    ("m16n8k16", "float16", "float32"): ("f16", "f32", (4, 2, 4)),
    ("m16n8k16", "float16", "float16"): ("f16", "f16", (4, 2, 2)),
    ("m16n8k8", "float16", "float32"): ("f16", "f32", (2, 1, 4)),
    ("m16n8k8", "float16", "float16"): ("f16", "f16", (2, 1, 2)),
    ("m16n8k16", "bfloat16", "float32"): ("bf16", "f32", (4, 2, 4)),
    ("m16n8k8", "bfloat16", "float32"): ("bf16", "f32", (2, 1, 4)),
    ("m16n8k8", "float32", "float32"): ("tf32", "f32", (4, 2, 4)),
    ("m16n8k4", "float32", "float32"): ("tf32", "f32", (2, 1, 4)),
    ("m16n8k32", "int8", "int32"): ("s8", "s32", (4, 2, 4)),
    ("m16n8k32", "uint8", "int32"): ("u8", "s32", (4, 2, 4)),
    ("m16n8k64", "int4", "int32"): ("s4", "s32", (4, 2, 4)),
    ("m16n8k64", "uint4", "int32"): ("u4", "s32", (4, 2, 4)),
    ("m16n8k32", "int4", "int32"): ("s4", "s32", (2, 1, 4)),
    ("m16n8k32", "uint4", "int32"): ("u4", "s32", (2, 1, 4)),
    ("m8n8k16", "int8", "int32"): ("s8", "s32", (1, 1, 2)),
    ("m8n8k16", "uint8", "int32"): ("u8", "s32", (1, 1, 2)),
    ("m8n8k32", "int4", "int32"): ("s4", "s32", (1, 1, 2)),
    ("m8n8k32", "uint4", "int32"): ("u4", "s32", (1, 1, 2)),
    ("m16n8k32", "float8_e4m3fn", "float32"): ("e4m3", "f32", (4, 2, 4)),
    ("m16n8k32", "float8_e4m3fn", "float16"): ("e4m3", "f16", (4, 2, 2)),
    ("m16n8k32", "float8_e5m2", "float32"): ("e5m2", "f32", (4, 2, 4)),
    ("m16n8k32", "float8_e5m2", "float16"): ("e5m2", "f16", (4, 2, 2)),
    ("m8n8k4", "float64", "float64"): ("f64", "f64", (1, 1, 2)),
}

# The same for mma.sp, of a stored half of A: PTX ISA 9.7.15.6.
MMA_SP: Mapping[tuple[str, str, str], tuple[str, str, tuple[int, int, int]]] = {
    ("m16n8k32", "float16", "float32"): ("f16", "f32", (4, 4, 4)),
    ("m16n8k32", "float16", "float16"): ("f16", "f16", (4, 4, 2)),
    ("m16n8k16", "float16", "float32"): ("f16", "f32", (2, 2, 4)),
    ("m16n8k16", "float16", "float16"): ("f16", "f16", (2, 2, 2)),
    ("m16n8k32", "bfloat16", "float32"): ("bf16", "f32", (4, 4, 4)),
    ("m16n8k16", "bfloat16", "float32"): ("bf16", "f32", (2, 2, 4)),
    ("m16n8k16", "float32", "float32"): ("tf32", "f32", (4, 4, 4)),
    ("m16n8k8", "float32", "float32"): ("tf32", "f32", (2, 2, 4)),
    ("m16n8k64", "int8", "int32"): ("s8", "s32", (4, 4, 4)),
    ("m16n8k64", "uint8", "int32"): ("u8", "s32", (4, 4, 4)),
    ("m16n8k64", "float8_e4m3fn", "float32"): ("e4m3", "f32", (4, 4, 4)),
    ("m16n8k64", "float8_e5m2", "float32"): ("e5m2", "f32", (4, 4, 4)),
}

# Different types of A and B in one instruction.
MIXED = (("e4m3", "e5m2"), ("e5m2", "e4m3"), ("s8", "u8"), ("u8", "s8"), ("s4", "u4"), ("u4", "s4"))


def mma_name(shape: str, operand: str, accumulator: str, other: str | None = None) -> str | None:
    """The helper for one instruction, None if there is none: `mma_m16n8k16_f16_f32`.

    other: the dtype of B where it is not A's, `mma_m16n8k32_e4m3xe5m2_f32`.
    """
    return _name(MMA, "mma", shape, operand, accumulator, other)


def mma_sp_name(shape: str, operand: str, accumulator: str, other: str | None = None) -> str | None:
    """The same for mma.sp: `mma_sp_m16n8k32_f16_f32`."""
    return _name(MMA_SP, "mma_sp", shape, operand, accumulator, other)


def metadata_selectors(shape: str, helper: str) -> int:
    """How many choices of the lanes that hold the metadata of an mma.sp there are (PTX ISA 9.7.15.6.1).

    A register holds 32 bits, a group of four lanes says where the elements of two rows stand.
    """
    group = 2 if "_tf32_" in helper else 4
    bits = 2 * int(shape.rpartition("k")[2]) // group * 4
    return 4 // (bits // 32)


def _name(
    table: Mapping[tuple[str, str, str], tuple[str, str, tuple[int, int, int]]],
    prefix: str,
    shape: str,
    operand: str,
    accumulator: str,
    other: str | None,
) -> str | None:
    found = table.get((shape, operand, accumulator))
    if found is None or other in (None, operand):
        return None if found is None else f"{prefix}_{shape}_{found[0]}_{found[1]}"
    right = table.get((shape, other or "", accumulator))
    mixed = right is not None and (found[0], right[0]) in MIXED
    return f"{prefix}_{shape}_{found[0]}x{right[0]}_{found[1]}" if mixed and right is not None else None


def mma_names() -> tuple[str, ...]:
    """All helpers, of mma.sync and of mma.sp."""
    names: list[str | None] = []
    for table, name in ((MMA, mma_name), (MMA_SP, mma_sp_name)):
        names += [name(*key) for key in table]
        names += [
            name(shape, a, result, b)
            for (shape, a, result), (left, _, _) in table.items()
            for (other_shape, b, other), (right, _, _) in table.items()
            if (shape, result) == (other_shape, other) and (left, right) in MIXED
        ]
    return tuple(name for name in names if name is not None)
