"""Warp instructions on the registers of a whole block: matrices from and to the lanes, by the figures of the
PTX ISA.

Written from the figures (9.7.15, fragments of mma.sync), on purpose not from `tilelang.layout.instruction`.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np

from tilelang.arch.float_formats import FORMATS

WARP = 32
_LANE = np.arange(WARP)
_GROUP, _MEMBER = _LANE // 4, _LANE % 4

OPERANDS = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f64": np.dtype(np.float64),
}
RESULTS = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "s32": np.dtype(np.int32)}


def mma(name: str, d: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """D for `mma_m16n8k16_f16_f32` and its kin; registers are [warps, 32, elements]. Exact products, wide
    sums.
    """
    if name == "mma_m8n8k4_f64_f64":
        return _mma_f64(d, a, b)
    if (small := re.fullmatch(r"mma_m8n8k(?:16|32)_([su][48])(?:x([su][48]))?_s32", name)) is not None:
        return _mma_small(d, a, b, small[1], small[2] or small[1])
    match = re.fullmatch(r"mma_m16n8k(\d+)_(\w+?)_(\w+)", name)
    if match is None:
        raise NotImplementedError(name)
    k, operand, result = int(match[1]), match[2].partition("x")[0], match[3]
    if operand in PACKED:
        right_operand = match[2].rpartition("x")[2]
        a, b, per_register = _unpacked(a, operand), _unpacked(b, right_operand), 8
    else:
        per_register = 4 // OPERANDS[operand].itemsize
    rows, columns = a_places(k, per_register)
    left = np.zeros((len(a), 16, k), np.float64)
    left[:, rows, columns] = seen(a, operand)
    depth, width = b_places(k, per_register)
    right = np.zeros((len(b), k, 8), np.float64)
    right[:, depth, width] = seen(b, operand)
    product = left @ right
    row, column = result_places()
    return (d.astype(np.float64) + product[:, row, column]).astype(RESULTS[result])


def result_places() -> tuple[np.ndarray, np.ndarray]:
    """Row and column of element q of D in each lane, of m16n8."""
    q = np.arange(4)
    return _GROUP[:, None] + 8 * (q // 2), 2 * _MEMBER[:, None] + q % 2


PACKED = {"s4": "int4", "u4": "uint4"}  # two in a byte, the first in its low half


def _unpacked(registers: np.ndarray, operand: str) -> np.ndarray:
    """[warps, 32, elements] of bytes that hold two each."""
    assert registers.dtype.itemsize == 1
    codes = registers.view(np.uint8)
    both = np.stack([codes & 15, codes >> 4], -1)
    return decode(PACKED[operand], both).reshape(*codes.shape[:2], -1)


def _mma_f64(d: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """m8n8k4: one element of A[group, member] and of B[member, group] in a lane, two of C."""
    left, right = np.zeros((len(a), 8, 4)), np.zeros((len(b), 4, 8))
    left[:, _GROUP, _MEMBER] = a[:, :, 0]
    right[:, _MEMBER, _GROUP] = b[:, :, 0]
    product = left @ right
    return d + product[:, _GROUP[:, None], 2 * _MEMBER[:, None] + np.arange(2)]


def _mma_small(d: np.ndarray, a: np.ndarray, b: np.ndarray, operand: str, right: str) -> np.ndarray:
    """m8n8k16 and m8n8k32: four bytes of a row of A and of a column of B in a lane, two of C."""
    values = [
        _unpacked(x, kind) if kind in PACKED else x.view(OPERANDS[kind]).astype(np.int64)
        for x, kind in ((a, operand), (b, right))
    ]
    per = values[0].shape[-1]
    rows = [np.zeros((len(x), 8, 4 * per), np.int64) for x in values]
    for row, x in zip(rows, values, strict=True):
        row[:, _GROUP[:, None], per * _MEMBER[:, None] + np.arange(per)] = x
    product = rows[0] @ rows[1].swapaxes(1, 2)
    return d + product[:, _GROUP[:, None], 2 * _MEMBER[:, None] + np.arange(2)].astype(np.int32)


def registers_of(name: str) -> tuple[int, int, int]:
    """Elements of A, B and D in one lane."""
    if name == "mma_m8n8k4_f64_f64":
        return 1, 1, 2
    if name.startswith("mma_m8n8k"):
        return 4, 4, 2
    count = a_registers(name)
    if re.search("_[su]4(x|_)", name):
        count //= 2  # registers are counted in bytes
    return count, count // 2, 4


def a_registers(name: str) -> int:
    """Elements of A in one lane."""
    match = re.fullmatch(r"mma_m16n8k(\d+)_(\w+?)_(\w+)", name)
    assert match is not None, name
    return 16 * int(match[1]) // WARP


def a_places(k: int, per: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of element e of lane l: `per` elements of k in a register; registers go down first, then
    along k.
    """
    e = np.arange(16 * k // WARP)
    register, inside = e // per, e % per
    rows = _GROUP[:, None] + 8 * (register % 2)
    columns = per * _MEMBER[:, None] + inside + 4 * per * (register // 2)
    return rows, columns


def b_places(k: int, per: int) -> tuple[np.ndarray, np.ndarray]:
    """Depth and column of element e of B in each lane."""
    e = np.arange(8 * k // WARP)
    register, inside = e // per, e % per
    depth = per * _MEMBER[:, None] + inside + 4 * per * register
    return depth, np.broadcast_to(_GROUP[:, None], depth.shape)


def seen(x: np.ndarray, operand: str) -> np.ndarray:
    """What the tensor core sees of a 32-bit operand: its low 13 bits are ignored."""
    if operand != "tf32":
        return x.astype(np.float64)
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)


def encode_float4(value: np.ndarray) -> np.ndarray:
    """The codes of the nearest float4_e2m1fn; what is too large becomes the largest."""
    form = FORMATS["float4_e2m1fn"]
    return np.vectorize(form.encode, otypes=[np.uint8])(value)


PACKED_PAIR = re.compile(r"decode_(float4|int4|uint4)x2_b?float16")


def decode(dtype: str, codes: np.ndarray) -> np.ndarray:
    """The numbers of 4-bit codes, as float32."""
    if dtype == "float4":
        magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
        return np.concatenate([magnitudes, -magnitudes])[codes & 15]
    wide = (codes & 15).astype(np.float32)
    return wide - 16 * (wide > 7) if dtype == "int4" else wide


def round_tf32(x: np.ndarray) -> np.ndarray:
    """cvt.rna.tf32.f32: to the nearest, ties away from zero."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x1000) & 0xFFFFE000).astype(np.uint32)
    return np.where(np.isfinite(x), rounded.view(np.float32), x).astype(np.float32)


def ldmatrix(rows: np.ndarray, count: int, transposed: bool) -> np.ndarray:
    """[warps, 32, count] 32-bit registers from the rows [warps, 32, 16 bytes] that the lanes point at."""
    warps = len(rows)
    matrices = rows[:, : 8 * count].reshape(warps, count, 8, 16).view(np.uint16)  # [warp, matrix, row, 8]
    if transposed:
        matrices = matrices.swapaxes(2, 3)
    pairs = np.ascontiguousarray(matrices).view(np.uint32)  # [warp, matrix, row, 4]
    return np.ascontiguousarray(pairs[:, :, _GROUP, _MEMBER].swapaxes(1, 2))
