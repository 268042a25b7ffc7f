"""Atomic updates of the emulated threads: one thread after the other, in the order of their numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.emulator.memory import EmulationError, numpy_dtype

if TYPE_CHECKING:
    from tests.emulator.block import Block

_COMBINE = {
    "add": lambda old, x: old + x,
    "max": np.fmax,
    "min": np.fmin,
    "or": np.bitwise_or,
    "store": lambda old, x: x,
    "load": lambda old, x: old,
}
_NAME = re.compile(
    r"atomic_(add|max|min|or|load|store)_([a-z]+\d+)(?:x(\d+))?(?:_(acquire|release|acq_rel|seq_cst))?"
)


def update(block: Block, name: str, args: list[Any], mask: np.ndarray) -> Any:
    """The old values (poison for threads that take no part); wide forms must be aligned."""
    match = _NAME.fullmatch(name)
    assert match is not None, name
    kind, lanes = match[1], int(match[3] or 1)
    element = args[0].args[0]
    buffer = element.source
    index, _ = block.index(element.indices[0], mask)
    places = index[:, None] + np.arange(lanes)
    block.check(buffer, places[mask], lanes > 1)
    values = [np.broadcast_to(np.asarray(block.e.value(a, mask)), (block.threads,)) for a in args[1:]]
    cells = _cells(block, buffer, places, mask)
    old = np.zeros(block.threads, cells.dtype)
    for thread in block.number[mask]:
        for lane in range(lanes):
            at = places[thread, lane]
            old[thread] = cells[at]
            if kind != "load":
                given = values[lane][thread]
                if given.dtype != cells.dtype:
                    raise EmulationError(f"line {block.line}: {given.dtype} given to {name}")
                cells[at] = _COMBINE[kind](cells[at], given)
    return old


def store_half(block: Block, args: list[Any], mask: np.ndarray) -> None:
    """Half a byte; two threads may write the two halves of a byte at once, but not the same one."""
    element = args[0].args[0]
    buffer = element.source
    index, _ = block.index(element.indices[0], mask)
    block.check(buffer, index[mask], False)
    bit, code = (
        np.broadcast_to(np.asarray(block.e.value(a, mask)), (block.threads,))[mask] for a in args[1:]
    )
    assert code.dtype == np.uint8 and (code < 16).all() and np.isin(bit, (0, 4)).all()
    halves = np.stack([index[mask], bit], 1)
    if len(np.unique(halves, axis=0)) < len(halves):
        raise EmulationError(f"line {block.line}: {buffer.name}: two threads write the same half of a byte")
    cells = _cells(block, buffer, index[:, None], mask)
    for at, shift, value in zip(index[mask], bit, code, strict=True):
        cells[at] = cells[at] & (0xF0 >> shift) | value << shift


def _cells(block: Block, buffer: Any, places: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The elements of the buffer, to be changed in place; ordinary accesses of others are races."""
    if buffer.scope() == "global":
        return block.tensors[buffer.__chandle__()]
    dtype = numpy_dtype(str(buffer.dtype))
    start = block.offsets[buffer.__chandle__()]
    at = start + places[mask].ravel()[:, None] * dtype.itemsize + np.arange(dtype.itemsize)
    owner = np.repeat(block.number[mask], places.shape[1])
    block.shared.touch_atomically(owner, at, f"line {block.line}: {buffer.name}")
    end = start + int(buffer.shape[0]) * dtype.itemsize
    return block.shared.data[start:end].view(dtype)
