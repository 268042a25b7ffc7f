"""What arrives later: cp.async, bulk and TMA copies, and the mbarriers that count them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.emulator import bulk
from tests.emulator.mbarrier import Mbarrier
from tests.emulator.memory import EmulationError, bytes_of, numpy_dtype

if TYPE_CHECKING:
    from tests.emulator.block import Block

STARTS = ("tma_", "cp_async_", "mbarrier_", "bulk_load", "fence_proxy_async")


def execute(block: Block, name: str, args: list[Any], mask: np.ndarray) -> None:
    """A call whose name begins with one of STARTS."""
    if name.startswith("tma_"):
        _tma(block, name, args, mask)
    elif name == "cp_async_arrive":
        _copies_arrive(block, args[0].args[0], mask)
    elif name.startswith("cp_async_commit"):
        block.actor.groups.append(block.actor.open)
        block.actor.open = []
    elif name == "cp_async_wait":
        _wait(block, int(args[0].value))
    elif name.startswith("cp_async_"):
        _copy(block, name, args, mask)
    elif name.startswith("mbarrier_"):
        _mbarrier(block, name, args, mask)
    elif name == "bulk_load":
        _bulk_load(block, args, mask)
    elif name == "fence_proxy_async":
        block.shared.fence(block.number[mask])
    else:
        raise NotImplementedError(name)


def _mbarrier(block: Block, name: str, args: list[Any], mask: np.ndarray) -> None:
    """mbarriers by their byte in shared memory."""
    load = args[0].args[0]
    index = np.broadcast_to(np.asarray(block.e.value(load.indices[0], mask)), (block.threads,))[mask]
    value = np.broadcast_to(np.asarray(block.e.value(args[1], mask)), (block.threads,)) if args[1:] else None
    places, numbers = block.byte(load.source, index, False).tolist(), block.number[mask]
    if name == "mbarrier_arrive_warp":
        block.whole(mask, name, 32)
        for first in range(0, len(numbers), 32):
            lanes = slice(first, first + 32)
            if len(set(places[lanes])) > 1:
                raise EmulationError("the lanes of a warp arrive at different barriers")
            block.barrier_at(places[first]).arrive(numbers[lanes], block.shared)
        return
    for at, number in zip(places, numbers, strict=True):
        if name == "mbarrier_init":
            assert value is not None
            block.mbarriers[at] = Mbarrier(int(value[number]), int(value[number]))
            continue
        barrier = block.barrier_at(at)
        if name in ("mbarrier_expect_tx", "mbarrier_arrive_expect_tx"):
            assert value is not None
            barrier.bytes += int(value[number])
        if name in ("mbarrier_arrive", "mbarrier_arrive_expect_tx"):
            barrier.arrive(np.array([number]), block.shared)
        elif name != "mbarrier_expect_tx":
            raise NotImplementedError(name)


def _copies_arrive(block: Block, load: Any, mask: np.ndarray) -> None:
    """An arrival at an mbarrier by each thread, whose cp.async copies land before it counts."""
    index = np.broadcast_to(np.asarray(block.e.value(load.indices[0], mask)), (block.threads,))
    places = block.byte(load.source, index, False)
    copies = [*(c for group in block.actor.groups for c in group), *block.actor.open]
    block.actor.groups, block.actor.open = [], []
    for thread, start, data in copies:
        for at, owner in enumerate(thread.tolist()):

            def landing(k: int = at, copy: Any = (thread, start, data)) -> int:
                block.shared.land(*(part[k : k + 1] for part in copy))
                return 0

            block.barrier_at(int(places[owner])).landings.append((owner, landing))
    for owner in block.number[mask].tolist():
        block.barrier_at(int(places[owner])).arrive(np.array([owner]), block.shared)


def _tma(block: Block, name: str, args: list[Any], mask: np.ndarray) -> None:
    if name == "tma_store_arrive":
        block.actor.stores.append(block.actor.leaving)
        block.actor.leaving = []
    elif name.startswith("tma_store_wait"):
        while len(block.actor.stores) > int(args[0].value):
            for finish in block.actor.stores.pop(0):
                finish()
    else:
        for thread in block.number[mask]:
            _bulk_copy(block, name, args, int(thread), mask)


def _bulk_copy(block: Block, name: str, args: list[Any], thread: int, mask: np.ndarray) -> None:
    """One box between a tensor and shared memory, by a descriptor."""

    def scalar(expr: Any) -> int:
        return int(np.broadcast_to(np.asarray(block.e.value(expr, mask)), (block.threads,))[thread])

    load = name.startswith("tma_load")
    pointer = args[0 if load else 1].args[0]
    descriptor = block.e.value(args[2 if load else 0], mask)
    first = 3 if load else 2
    corner = [scalar(c) for c in args[first : first + len(descriptor.box)]]
    index, inside = bulk.elements(descriptor, corner, block.sizes)
    tensor = block.by_name[descriptor.tensor]
    if numpy_dtype(descriptor.dtype).itemsize != tensor.itemsize:
        tensor = tensor.view(numpy_dtype(descriptor.dtype))
    begin = block.byte(pointer.source, np.array([scalar(pointer.indices[0])]), False)
    if begin[0] % 128:
        raise EmulationError(f"line {block.line}: a bulk copy of {pointer.source.name} is not aligned")
    place = bulk.places(descriptor, int(begin[0]))
    owners, what = np.full(len(place), thread), block.what(pointer.source)
    if load:
        data = np.zeros(len(index), tensor.dtype)
        data[inside] = tensor[index[inside]]
        bytes_ = data.view(np.uint8).reshape(-1, 16)
        block.shared.begin(owners, place, 16, what)
        at = block.byte(args[1].args[0].source, np.array([scalar(args[1].args[0].indices[0])]), False)

        def landing() -> int:
            block.shared.land(owners, place, bytes_, proxy=True)
            return bytes_.size

        block.barrier_at(int(at[0])).landings.append((thread, landing))
        return
    found = block.shared.read_by_proxy(owners, place, 16, what)
    block.shared.leave(place, 16, True)

    def finish() -> None:
        block.shared.leave(place, 16, False)
        values = np.ascontiguousarray(found).view(tensor.dtype).ravel()
        tensor[index[inside]] = values[inside]

    block.actor.leaving.append(finish)


def _copy(block: Block, name: str, args: list[Any], mask: np.ndarray) -> None:
    size = int(name.split("_")[2])
    to, come = args[0].args[0], args[1].args[0]
    inside = mask.copy()
    if len(args) == 3:
        inside &= np.broadcast_to(np.asarray(block.e.value(args[2], mask), bool), (block.threads,))
    source = block.tensors[come.source.__chandle__()]
    count = size // source.dtype.itemsize
    index = np.broadcast_to(np.asarray(block.e.value(come.indices[0], mask)), (block.threads,))
    lanes = index[:, None] + np.arange(count)
    block.check(come.source, lanes[inside], True)
    data = np.zeros((block.threads, count), source.dtype)
    data[inside] = source[lanes[inside]]
    place = np.broadcast_to(np.asarray(block.e.value(to.indices[0], mask)), (block.threads,))
    block.check(to.source, (place[:, None] + np.arange(count))[mask], True)
    start, active = block.byte(to.source, place[mask], False), block.number[mask]
    block.shared.begin(active, start, size, block.what(to.source))
    block.actor.open.append((active, start, bytes_of(data[mask], True)))


def _wait(block: Block, in_flight: int) -> None:
    while len(block.actor.groups) > in_flight:
        for thread, start, data in block.actor.groups.pop(0):
            block.shared.land(thread, start, data)


def _bulk_load(block: Block, args: list[Any], mask: np.ndarray) -> None:
    """Neighbouring bytes from global to shared memory."""
    to, come, bar = args[0].args[0], args[1].args[0], args[3].args[0]
    at, source_at, barrier_at = block.pointed(to), block.pointed(come), block.pointed(bar)
    size = np.broadcast_to(np.asarray(block.e.value(args[2], mask)), (block.threads,))
    tensor = block.tensors[come.source.__chandle__()]
    for thread in np.flatnonzero(mask).tolist():
        count = int(size[thread])
        first = int(source_at[thread])
        lanes = first + np.arange(count // tensor.itemsize)
        block.check(come.source, lanes, False)
        bytes_ = np.ascontiguousarray(tensor[lanes]).view(np.uint8).reshape(-1, 16)
        place = int(block.byte(to.source, at[thread : thread + 1], False)[0]) + np.arange(0, count, 16)
        if place[0] % 16 or first * tensor.itemsize % 16 or count % 16:
            raise EmulationError(f"line {block.line}: a bulk copy of {to.source.name} is not aligned")
        owners = np.full(len(place), thread)
        block.shared.begin(owners, place, 16, block.what(to.source))

        def landing(owners: Any = owners, place: Any = place, bytes_: Any = bytes_) -> int:
            block.shared.land(owners, place, bytes_, proxy=True)
            return bytes_.size

        barrier = int(block.byte(bar.source, barrier_at[thread : thread + 1], False)[0])
        block.barrier_at(barrier).landings.append((thread, landing))
