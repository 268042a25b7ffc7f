"""What each tile operation means: whole regions in, whole regions out, in float64 and exact integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from tilelang.arch.dtypes import dtype_info
from tilelang.ir import tile_ops
from tilelang.ir.folds import identity
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_sp import CODE_BITS, SparseGemm, group
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
from tilelang.ops.tma import TmaCopy
from tilelang.reference.errors import ReferenceFailure

Update = Callable[[Any, Any], Any]


class Block(Protocol):
    """What an operation may ask of the block that runs it."""

    def read(self, region: Any, needed: Any = True) -> np.ndarray:
        """The elements of a region, with all its dimensions; any numbers where they are not needed."""
        ...

    def exists(self, region: Any) -> np.ndarray:
        """Which elements of a region are there: outside of a global tensor none are."""
        ...

    def write(self, region: Any, values: np.ndarray) -> None:
        """Store values shaped like the region."""
        ...

    def scalar(self, expr: Any) -> Any:
        """A value that is the same for the whole block."""
        ...


UPDATES: Mapping[str, Update] = {
    "add": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "or": np.bitwise_or,
    "store": lambda old, new: new,
    "load": lambda old, new: old,
}

# By the kind of a reducer's update.
FOLDS: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}

_REDUCE: Mapping[str, tuple[Callable[[Any], Any], Callable[..., Any], Update]] = {
    # kind -> (applied to each element, over the dimension, with what stood there)
    "sum": (lambda x: x, np.sum, np.add),
    "max": (lambda x: x, np.fmax.reduce, np.fmax),
    "min": (lambda x: x, np.fmin.reduce, np.fmin),
    "abssum": (np.abs, np.sum, np.add),
    "absmax": (np.abs, np.fmax.reduce, np.fmax),
    "bitand": (lambda x: x, np.bitwise_and.reduce, np.bitwise_and),
    "bitor": (lambda x: x, np.bitwise_or.reduce, np.bitwise_or),
    "bitxor": (lambda x: x, np.bitwise_xor.reduce, np.bitwise_xor),
}
_WITH_NAN: Mapping[Update, np.ufunc] = {np.fmax: np.maximum, np.fmin: np.minimum}  # nan_propagate=True


def copy(block: Block, call: Any) -> None:
    """dst[...] = src[...]: the extents other than 1 match in order."""
    op = Copy.read(call)
    _move(block, op.src, op.dst, op.span)


def tma_copy(block: Block, call: Any) -> None:
    """The same as a copy, complete when it is begun: the bytes that it announces have come."""
    op = TmaCopy.read(call)
    if op.rank is not None or op.mask is not None:
        raise ReferenceFailure(
            "this copy is for other blocks of the cluster, and blocks run one by one", op.span
        )
    _move(block, op.src, op.dst, op.span)


def _move(block: Block, src: Any, dst: Any, span: Any) -> None:
    values = block.read(src, _needed(block, src, dst))
    block.write(dst, _shaped_like(values, block, dst, span))


def _needed(block: Block, src: Any, dst: Any) -> np.ndarray:
    """Which elements of a source go to elements that exist, in the source's shape."""
    exists = block.exists(dst)
    shape = tuple(int(block.scalar(r.extent)) for r in src.region)
    return exists.reshape(shape) if exists.size == np.prod(shape) else np.asarray(True)


def _shaped_like(values: np.ndarray, block: Block, region: Any, span: Any) -> np.ndarray:
    shape = tuple(int(block.scalar(r.extent)) for r in region.region)
    if [n for n in values.shape if n != 1] != [n for n in shape if n != 1]:
        raise ReferenceFailure(f"a tile of {values.shape} does not fit one of {shape}", span)
    return values.reshape(shape)


def fill(block: Block, call: Any) -> None:
    """dst[...] = value."""
    op = Fill.read(call)
    shape = tuple(int(block.scalar(r.extent)) for r in op.dst.region)
    block.write(op.dst, np.broadcast_to(np.asarray(block.scalar(op.value)), shape))


def gemm(block: Block, call: Any) -> None:
    """C += op(A) · op(B), or C = op(A) · op(B) where clear_accum holds. Leading dimensions are 1."""
    op = Gemm.read(call)
    a = _matrix(block.read(op.a))
    _multiply(block, op, a.T if op.transpose_a else a)


def gemm_sp(block: Block, call: Any) -> None:
    """The same with the dense A that is stored by halves; `ops.gemm_sp` says how."""
    op = SparseGemm.read(call)
    stored, held = _matrix(block.read(op.a)), _matrix(block.read(op.e))
    stored, held = stored.T if op.transpose_a else stored, held.T if op.transpose_e else held
    bits = dtype_info(str(op.e.source.dtype)).bits
    words = held.astype(np.int64).view(np.uint64) & np.uint64(2**bits - 1)
    shifts = np.arange(0, bits, CODE_BITS, dtype=np.uint64)
    codes = (words[..., None] >> shifts & np.uint64(15)).reshape(len(stored), -1).astype(np.int64)
    size = group(str(op.a.source.dtype))
    places = np.stack([codes & 3, codes >> 2], -1) if size == 4 else (codes >> 1 & 1)[..., None]
    dense = np.zeros((*codes.shape, size), stored.dtype)
    kept = stored.reshape(*codes.shape, size // 2)
    for k in reversed(range(size // 2)):  # of two with one place the first counts
        np.put_along_axis(dense, places[..., k : k + 1], kept[..., k : k + 1], -1)
    _multiply(block, op, dense.reshape(len(stored), -1))


def _multiply(block: Block, op: Gemm, a: np.ndarray) -> None:
    b = _matrix(block.read(op.b))
    b = b.T if op.transpose_b else b
    old = block.read(op.c)
    wide = np.float64 if old.dtype.kind == "f" else np.int64
    with np.errstate(all="ignore"):
        product = a.astype(wide) @ b.astype(wide)
        kept = np.zeros_like(old) if bool(block.scalar(op.clear_accum)) else old
        block.write(op.c, kept + product.reshape(old.shape))


def _matrix(values: np.ndarray) -> np.ndarray:
    return values.reshape(values.shape[-2:])


def reduce(block: Block, call: Any) -> None:
    """dst = kind over one dimension of src, combined with dst's old contents where `clear` is False."""
    op = Reduce.read(call)
    each, over, combine = _REDUCE[op.kind]
    if op.nan_propagate:
        combine = _WITH_NAN[combine]
        over = combine.reduce
    values = each(block.read(op.src))
    if values.dtype.kind in "iu" and op.kind in ("sum", "abssum"):
        values = values.astype(np.int64)
    with np.errstate(all="ignore"):
        if values.shape[op.dim]:
            found = over(values, axis=op.dim)
        else:
            nothing = np.asarray(block.scalar(identity(op.kind, str(op.dst.source.dtype))))
            found = np.broadcast_to(nothing, (*values.shape[: op.dim], *values.shape[op.dim + 1 :]))
        shape = tuple(int(block.scalar(r.extent)) for r in op.dst.region)
        found = found.reshape(shape)
        if not op.clear:
            found = combine(block.read(op.dst), found)
    block.write(op.dst, found)


def scan(block: Block, call: Any) -> None:
    """dst[.., k, ..] = the sum or the largest of src[.., 0 .. k, ..]; from the end if `reverse`."""
    op = Scan.read(call)
    values = block.read(op.src)
    if values.dtype.kind in "iu" and op.kind == "sum":
        values = values.astype(np.int64)
    turned = np.flip(values, op.dim) if op.reverse else values
    with np.errstate(all="ignore"):
        found = (np.fmax if op.kind == "max" else np.add).accumulate(turned, axis=op.dim)
    block.write(op.dst, np.flip(found, op.dim) if op.reverse else found)


def atomic_tile(block: Block, call: Any) -> None:
    """dst[...] op= src[...]: nothing else runs at the same time here, so every order is the same."""
    op = AtomicTile.read(call)
    values = block.read(op.src, _needed(block, op.src, op.dst))
    values = _shaped_like(values, block, op.dst, op.span)
    block.write(op.dst, UPDATES[op.kind](block.read(op.dst), values))


MEANINGS: Mapping[str, Callable[[Block, Any], None]] = {
    tile_ops.COPY: copy,
    tile_ops.TMA_COPY: tma_copy,
    tile_ops.FILL: fill,
    tile_ops.GEMM: gemm,
    tile_ops.GEMM_SP: gemm_sp,
    tile_ops.REDUCE: reduce,
    tile_ops.SCAN: scan,
    tile_ops.ATOMIC_TILE: atomic_tile,
    tile_ops.WGMMA_WAIT: lambda block, call: None,  # every product is complete here
}
