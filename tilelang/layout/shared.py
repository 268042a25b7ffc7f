"""Where the elements of a tile in shared memory lie: row-major, padded rows, or XOR-swizzled chunks of 16
bytes.

Swizzles are those of the tensor-core instructions (PTX ISA, "Shared memory swizzling"): within an atom of 8
rows and 128, 64 or 32 bytes, the chunk number is xored with a function of the row, so that 8 rows of one
chunk column lie in 8 different groups of banks. Atoms of one column of chunks are stored before the next
column.

Spread tiles are row-major, but for chunks that change places within their row: the chunk number is xored with
the number of the group of `every` rows, so that rows so far apart begin in different banks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tilelang.layout.formula import evaluate_formula
from tilelang.layout.fragment import row_major

CHUNK_BYTES = 16
SWIZZLES = (128, 64, 32)  # bytes of an atom's row
_BASE_ALIGNMENT = {128: 1024, 64: 512, 32: 256}


@dataclass(frozen=True)
class SharedLayout:
    """The layout of a buffer of `shape` with elements of `bits`.

    `kind` linear: row-major. padded: rows of the last dimension are `row_pitch` elements apart. swizzle: the
    last two dimensions swizzled with atoms of `swizzle_bytes`; leading dimensions follow each other. spread:
    chunks within rows by groups of `every` rows. formula: the author's, of the last `inner` dimensions, into
    `size` places; `chunk` neighbours lie side by side.
    """

    shape: tuple[int, ...]
    bits: int
    kind: Literal["linear", "padded", "swizzle", "spread", "formula"] = "linear"
    row_pitch: int = 0
    swizzle_bytes: int = 0
    every: int = 0
    formula: str = ""
    inner: int = 0
    size: int = 0
    chunk: int = 1

    @property
    def elements(self) -> int:
        """Elements of storage, padding included."""
        if self.kind == "padded":
            return math.prod(self.shape[:-1]) * self.row_pitch
        if self.kind == "formula":
            return math.prod(self.shape[: len(self.shape) - self.inner]) * self.size
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return -(-self.elements * self.bits // 8)

    @property
    def alignment(self) -> int:
        """Bytes that the base must be a multiple of."""
        return _BASE_ALIGNMENT[self.swizzle_bytes] if self.kind == "swizzle" else 128

    @property
    def run(self) -> int:
        """Consecutive elements of the last dimension, counted from a multiple of this, that are contiguous in
        memory.
        """
        if self.kind == "formula":
            return self.chunk
        return CHUNK_BYTES * 8 // self.bits if self.kind in ("swizzle", "spread") else self.shape[-1]

    @property
    def row_step(self) -> int:
        """Every element's offset is its column's plus a multiple of this: the alignment that rows keep."""
        if self.kind in ("swizzle", "spread", "formula"):
            return self.run
        return self.row_pitch if self.kind == "padded" else self.shape[-1]

    def offset(self, indices: Sequence[Any]) -> Any:
        """The offset of an element, in elements. Indices are integers, numpy arrays or TIRX expressions."""
        if self.kind == "linear":
            return row_major(indices, self.shape)
        if self.kind == "padded":
            return row_major(indices, (*self.shape[:-1], self.row_pitch))
        if self.kind == "formula":
            lead = len(self.shape) - self.inner
            place = evaluate_formula(self.formula, indices[lead:])
            return place if not lead else row_major(indices[:lead], self.shape[:lead]) * self.size + place
        run, column = self.run, indices[-1]
        if self.kind == "spread":
            row = row_major(indices[:-1], self.shape[:-1])
            chunk = _xor(column // run, row // self.every % _exchanged(self.shape, self.bits))
            return row * self.shape[-1] + chunk * run + column % run
        rows, row = self.shape[-2], indices[-2]
        chunks = self.swizzle_bytes // CHUNK_BYTES
        width = chunks * run
        chunk = (column // run) % chunks if self.shape[-1] > width else column // run
        phase = row % 8 if chunks == 8 else row % 8 // (8 // chunks)
        swizzled = _xor(chunk, phase)
        offset = row * width + swizzled * run + column % run
        if self.shape[-1] > width:
            offset = offset + column // width * (rows * width)
        if len(self.shape) > 2:
            offset = offset + row_major(indices[:-2], self.shape[:-2]) * (rows * self.shape[-1])
        return offset

    def describe(self) -> str:
        """One line for hovers."""
        if self.kind == "linear":
            return "row-major"
        if self.kind == "padded":
            return f"rows padded from {self.shape[-1]} to {self.row_pitch} elements"
        if self.kind == "formula":
            return "as annotated"
        if self.kind == "spread":
            rows = f"groups of {self.every} rows" if self.every > 1 else "rows"
            return f"16-byte chunks exchanged by {rows}, against bank conflicts"
        return f"{self.swizzle_bytes}-byte swizzle"


def linear(shape: tuple[int, ...], bits: int) -> SharedLayout:
    """Row-major."""
    return SharedLayout(shape, bits)


def strided(shape: tuple[int, ...], strides: tuple[int, ...], bits: int) -> SharedLayout:
    """A view whose dimensions are `strides` elements apart."""
    place = " + ".join(f"i{k} * {s}" for k, s in enumerate(strides))
    size = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    chunk = 1
    if strides[-1] == 1:
        chunk = math.gcd(shape[-1], *strides[:-1])
        chunk &= -chunk  # the largest power of two in it
    return SharedLayout(shape, bits, "formula", formula=place, inner=len(shape), size=size, chunk=chunk)


def matrix_operand(shape: tuple[int, ...], bits: int) -> SharedLayout:
    """The layout of a tensor-core operand: the widest swizzle its rows allow, else rows padded against bank
    conflicts.

    A swizzle needs rows of whole atoms, in groups of eight.
    """
    row_bytes = shape[-1] * bits // 8
    for width in SWIZZLES:
        if row_bytes % width == 0 and shape[-2] % 8 == 0:
            return SharedLayout(shape, bits, "swizzle", swizzle_bytes=width)
    return padded_rows(shape, bits)


def padded_rows(shape: tuple[int, ...], bits: int) -> SharedLayout:
    """Rows that are a multiple of 32 bytes get 16 bytes more, so that eight rows begin in different banks."""
    if shape[-1] * bits // 8 % 32:
        return linear(shape, bits)
    return SharedLayout(shape, bits, "padded", row_pitch=shape[-1] + CHUNK_BYTES * 8 // bits)


def spreads(shape: tuple[int, ...], bits: int) -> list[SharedLayout]:
    """The spread layouts of a tile, none if its rows have fewer than two chunks to exchange."""
    if len(shape) < 2 or shape[-1] * bits % (CHUNK_BYTES * 8) or _exchanged(shape, bits) < 2:
        return []
    groups = [1 << k for k in range(6) if 1 << k < math.prod(shape[:-1])]
    return [SharedLayout(shape, bits, "spread", every=n) for n in groups]


def _exchanged(shape: tuple[int, ...], bits: int) -> int:
    """Neighbouring chunks of a row that may change places: what the banks hold, or as far as rows go."""
    return math.gcd(shape[-1] * bits // 8 // CHUNK_BYTES, 8)


def _xor(a: Any, b: Any) -> Any:
    return a ^ b
