"""wgmma.mma_async on the memory and registers of a block, by the figures of the PTX ISA (9.7.16.5).

Written from the document (and the canonical layouts that CUTLASS states for matrix descriptors), on purpose
not from `tilelang.targets.cuda.ops.wgmma`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.emulator import sparse
from tests.emulator.instructions import OPERANDS, RESULTS, seen

GROUP = 128  # threads of a warpgroup
_UNIT = 16
_WIDTH = {1: 128, 2: 64, 3: 32}  # swizzle mode -> bytes in a row of an atom
_TYPE = "f16|bf16|tf32|e4m3|e5m2|s8|u8"
_NAME = re.compile(
    rf"wgmma(_sp)?_(\d+)x64x(\d+)_(\d+)x(\d+)_({_TYPE})(?:x({_TYPE}))?_(f32|f16|s32)_(ss|rs)([tn])([tn])(_async)?"
)

_SINGLE = re.compile(
    rf"wgmma(_sp)?_(ss|rs)_n(\d+)_({_TYPE})x({_TYPE})_(f32|f16|s32)_([tn])([tn])_([pm])([pm])(?:_([01]))?"
)

Read = Callable[[np.ndarray], np.ndarray]  # byte addresses [n] -> [n, 16] bytes


@dataclass(frozen=True)
class Instruction:
    """What the name of a helper says."""

    tiles: int
    n: int
    steps: int
    k: int  # products of one step
    operand: str
    right: str  # the type of B
    result: str
    by_registers: bool
    a_turned: bool
    b_turned: bool
    goes_on: bool = False  # it is waited for by another statement
    sign: int = 1  # of the products
    sparse: bool = False  # A is the stored half
    selector: int = 0  # which lanes hold the metadata

    @property
    def b_bytes(self) -> int:
        """Of K in an operand B of one instruction."""
        return self.k * OPERANDS[self.right].itemsize


def instruction(name: str) -> Instruction:
    match = _NAME.fullmatch(name)
    assert match is not None, name
    tiles, n, steps, k = (int(match[g]) for g in (2, 3, 4, 5))
    operand, right, result, form, a, b, goes_on = match.groups()[5:]
    right, is_sparse = right or operand, match[1] is not None
    deep = 64 if is_sparse else 32
    assert k * OPERANDS[operand].itemsize == deep and OPERANDS[right].itemsize == OPERANDS[operand].itemsize
    assert n % 8 == 0 and n <= 256 and (result != "s32" or n in (8, 24) or n % 16 == 0), name
    assert OPERANDS[operand].itemsize == 2 or (a == b == "n"), name
    by_registers, turned = form == "rs", (a == "t", b == "t")
    return Instruction(
        tiles, n, steps, k, operand, right, result, by_registers, *turned, bool(goes_on), sparse=is_sparse
    )


def single(name: str) -> Instruction | None:
    """One instruction of the kernel's author; None for a name of another kind."""
    match = _SINGLE.fullmatch(name)
    if match is None:
        return None
    is_sparse, form, n, operand, right, result, a, b, *signs, selector = match.groups()
    k = (64 if is_sparse else 32) // OPERANDS[operand].itemsize
    turned, sign = (a == "t", b == "t"), -1 if signs.count("m") == 1 else 1
    return Instruction(
        1,
        int(n),
        1,
        k,
        operand,
        right,
        result,
        form == "rs",
        *turned,
        True,
        sign,
        bool(is_sparse),
        int(selector or 0),
    )


@dataclass(frozen=True)
class Described:
    """What the 64 bits of a descriptor say (PTX ISA 9.7.16.5.1.2.2); offsets in units of 16 bytes."""

    start: int  # byte
    leading: int
    stride: int
    mode: int


def described(bits: int) -> Described:
    return Described((bits & 0x3FFF) << 4, bits >> 16 & 0x3FFF, bits >> 32 & 0x3FFF, bits >> 62)


def descriptor(byte: int, mode: int, leading: int, stride: int) -> int:
    return (byte & 0x3FFFF) >> 4 | leading << 16 | stride << 32 | mode << 62


def written_out(op: Instruction, stored: np.ndarray, metadata: np.ndarray) -> np.ndarray:
    """[64, k] from the stored half and the 32 bits of each of 128 threads (9.7.16.6: as mma.sp has them)."""
    code = sparse.codes(metadata.reshape(4, 32), op.operand, op.k, op.selector)
    return sparse.written_out(stored, code.reshape(64, -1), op.operand)


def matrix(
    read: Read,
    start: int,
    rows: int,
    mode: int,
    leading: int,
    stride: int,
    turned: bool,
    operand: str,
    depth: int = 32,
) -> np.ndarray:
    """[rows, depth bytes]: rows of M (or N) by those of K, through a descriptor at byte `start`."""
    if mode == 0:
        return _core_matrices(read, start, rows, (leading, stride), turned, operand, depth)
    width, eight, column = _WIDTH[mode], stride * _UNIT, leading * _UNIT
    per = _UNIT // OPERANDS[operand].itemsize  # elements in 16 bytes
    if turned:
        k, chunk = np.meshgrid(np.arange(depth // 2), np.arange(rows // per), indexing="ij")
        in_atom = width // _UNIT
        place = start + chunk // in_atom * column + k // 8 * eight + k % 8 * width + chunk % in_atom * _UNIT
    else:
        assert start % width + depth <= width, "beyond a row of the swizzle atom"
        row, chunk = np.meshgrid(np.arange(rows), np.arange(depth // _UNIT), indexing="ij")
        place = start + row // 8 * eight + row % 8 * width + chunk * _UNIT
    bytes_ = read(_swizzled(place, width).ravel())
    found = np.ascontiguousarray(bytes_).view(OPERANDS[operand]).reshape(*place.shape, per)
    flat = found.reshape(place.shape[0], -1)
    return flat.T if turned else flat


def _core_matrices(
    read: Read, start: int, rows: int, offsets: tuple[int, int], turned: bool, operand: str, depth: int
) -> np.ndarray:
    """Without swizzle: blocks of 8 rows of 16 bytes in one piece, `leading` apart along K, `stride` along M
    (N); the canonical layout ((8, m), (16 bytes, 2)) of the PTX ISA.
    """
    if turned:
        raise NotImplementedError("a turned operand without swizzle")
    leading, stride = offsets
    row, chunk = np.meshgrid(np.arange(rows), np.arange(depth // _UNIT), indexing="ij")
    place = start + row // 8 * stride * _UNIT + row % 8 * _UNIT + chunk * leading * _UNIT
    found = np.ascontiguousarray(read(place.ravel())).view(OPERANDS[operand])
    return found.reshape(rows, -1)


def _swizzled(address: np.ndarray, width: int) -> np.ndarray:
    """Bits 4 and up are xored with bits 7 and up: three for rows of 128 bytes, two for 64, one for 32."""
    bits = {128: 7, 64: 3, 32: 1}[width]
    return address ^ ((address >> 7 & bits) << 4)


def fragment(registers: np.ndarray) -> np.ndarray:
    """[64, 32 bytes] from the four 32-bit registers of A that each of 128 threads holds."""
    per = 4 // registers.dtype.itemsize
    thread, element = np.meshgrid(np.arange(GROUP), np.arange(4 * per), indexing="ij")
    lane, register = thread % 32, element // per
    row = thread // 32 * 16 + lane // 4 + register % 2 * 8
    column = lane % 4 * per + element % per + register // 2 * 4 * per
    found = np.zeros((64, 8 * per), registers.dtype)
    found[row, column] = registers
    return found


def result_places(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of element q of thread t: [128, n / 2] each."""
    thread, q = np.meshgrid(np.arange(GROUP), np.arange(n // 2), indexing="ij")
    lane = thread % 32
    return thread // 32 * 16 + lane // 4 + q // 2 % 2 * 8, q // 4 * 8 + lane % 4 * 2 + q % 2


def multiply(op: Instruction, d: np.ndarray, left: list[np.ndarray], right: list[np.ndarray]) -> np.ndarray:
    """New registers [128, tiles * n / 2] of a warpgroup; `left` by tile and step, `right` by step."""
    row, column = result_places(op.n)
    per_tile = op.n // 2
    new = d.copy()
    for t in range(op.tiles):
        total = d[:, t * per_tile : (t + 1) * per_tile].astype(np.float64)
        for k in range(op.steps):
            product = seen(left[t * op.steps + k], op.operand) @ seen(right[k], op.right).T
            total = total + op.sign * product[row, column]
        new[:, t * per_tile : (t + 1) * per_tile] = total.astype(RESULTS[op.result])
    return new
