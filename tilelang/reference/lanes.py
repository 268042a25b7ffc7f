"""Private memory where lanes become others: of threads, of one block, of the iterations of T.Parallel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilelang.reference.memory import Tensor

Tensors = Mapping[int, Tensor]
Held = dict[int, np.ndarray]  # what private arrays held before, by handle


def one_of_threads(tensors: Tensors, active: np.ndarray) -> tuple[Held, frozenset[int]]:
    """Before a loop of the whole block: one copy of the private arrays that all its threads agree on.
    Returns what the threads held, and the storages of the arrays on which they do not.
    """
    before, apart = {}, set()
    for handle, tensor in tensors.items():
        data = tensor.storage.data
        if not tensor.private or data.shape[0] != active.size or active.size == 1 or not active.any():
            continue
        rows = data[active]
        if (rows == rows[:1]).all():
            before[handle], tensor.storage.data = data, rows[:1].copy()
        else:
            apart.add(id(tensor.storage))
    return before, frozenset(apart)


def spread(tensors: Tensors, count: int, extent: int) -> Held:
    """Give every lane its own copy of the private arrays. Returns what they held before."""
    before = {}
    for handle, tensor in tensors.items():
        data = tensor.storage.data
        # In thread code private arrays are the threads': a loop of the whole block has no use for them.
        if tensor.private and handle not in before and data.shape[0] in (1, count):
            before[handle] = data
            if extent:
                tensor.storage.data = np.repeat(np.broadcast_to(data, (count, data.shape[1])), extent, axis=0)
    return before


def gather(tensors: Tensors, before: Held, count: int, extent: int, inside: np.ndarray) -> None:
    """Private arrays after a loop: what all its iterations agree on, else what they held before it."""
    for handle, old in before.items():
        storage = tensors[handle].storage
        if not extent:
            continue
        lanes = storage.data.reshape(count, extent, -1)
        ran = inside.reshape(count, extent)
        kept = np.array(np.broadcast_to(old, (count, old.shape[1])))
        for lane in range(count):
            if ran[lane].any():
                kept[lane] = lanes[lane][np.flatnonzero(ran[lane])[-1]]
        storage.data = kept if old.shape[0] > 1 or count > 1 else kept[:1]


def agreed(values: Mapping[int, np.ndarray], active: np.ndarray) -> dict[int, np.ndarray]:
    """The variables that all active lanes agree on, each with one value."""
    found = {}
    for handle, value in values.items():
        chosen = value if value.ndim == 0 else np.unique(value[active])
        if np.size(chosen) == 1:
            found[handle] = np.asarray(chosen).reshape(())
    return found
