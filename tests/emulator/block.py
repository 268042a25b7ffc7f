"""Runs a lowered CUDA kernel block by block, all threads of a block in step, and watches what they do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tests.emulator import calls
from tests.emulator.actor import Actor, Meeting, Ready, Steps
from tests.emulator.expressions import Expressions, dtype_of
from tests.emulator.mbarrier import Mbarrier
from tests.emulator.memory import EmulationError, SharedMemory, bytes_of, numpy_dtype, poison
from tests.emulator.order import GROUP
from tilelang.passes import walk
from tilelang.targets.lowered import LoweredKernel


class Statistics:
    """What a run was like."""

    def __init__(self) -> None:
        self.barriers = 0  # of one block
        self.printed: list[str] = []
        self.ldmatrix_conflicts = 1  # turns of the worst ldmatrix
        self.instructions: dict[str, int] = {}  # executed statements by name, of one block


def run(
    lowered: LoweredKernel, tensors: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None
) -> Statistics:
    """Run the whole grid on `tensors`, which are changed in place; `sizes` are the plan's symbols and
    scalars.
    """
    if lowered.parts:  # several launches, one after the other
        return [run(part, tensors, sizes) for part in lowered.parts][-1]
    known = dict(sizes or {})
    statistics = Statistics()
    grid = [_number(e, known) for e in lowered.plan.grid]
    flat = {name: array.reshape(-1) for name, array in tensors.items()}
    for name, array in tensors.items():
        assert np.shares_memory(flat[name], array), f"{name} must be contiguous"
    places = itertools.product(*(range(n) for n in reversed(grid)))
    blocks = (Block(lowered, flat, known, tuple(reversed(place)), statistics) for place in places)
    if "tl.sync_grid" not in _names(lowered):
        for block in blocks:
            for _ in block.run():
                raise EmulationError("a block waits for others without T.sync_grid")
        return statistics
    going = [block.run() for block in blocks]
    while going:  # each block goes as far as the next meeting of all of them
        met = [block for block in going if next(block, None) is not None]
        if met and len(met) < len(going):
            raise EmulationError("some blocks of the grid have ended while others wait for all of them")
        going = met
    return statistics


def _names(lowered: LoweredKernel) -> set[str]:
    return {str(c.op.name) for c in walk.calls(lowered.func.body) if isinstance(c.op, ir.Op)}


def _number(expr: int | str, known: Mapping[str, int]) -> int:
    return expr if isinstance(expr, int) else int(eval(expr, {"min": min, "max": max}, dict(known)))


class Block:
    def __init__(
        self,
        lowered: LoweredKernel,
        tensors: Mapping[str, np.ndarray],
        sizes: Mapping[str, int],
        place: tuple[int, ...],
        statistics: Statistics,
    ) -> None:
        self.lowered, self.place, self.statistics = lowered, place, statistics
        self.thread_shape = lowered.plan.threads
        self.threads = int(np.prod(self.thread_shape))
        self.all = np.ones(self.threads, bool)
        self.number = np.arange(self.threads)
        self.shared = SharedMemory(lowered.plan.shared_bytes, self.threads)
        self.sizes = sizes
        self.maps = {m.name: m for m in lowered.plan.descriptors}
        self.meetings: dict[int, Meeting] = {}
        self.offsets = {b.__chandle__(): at for b, at in lowered.shared_offsets.items()}
        self.tensors: dict[int, np.ndarray] = {}
        self.local: dict[int, np.ndarray] = {}
        self.e = Expressions(self.threads, self.load, partial(calls.execute, self))
        self.mbarriers: dict[int, Mbarrier] = {}
        self.read: list[Any] = []  # bytes that the current wgmma read
        for p in lowered.func.params:
            if X.is_buffer_var(p):
                self.tensors[p.__chandle__()] = tensors[str(p.name)]
            elif str(p.name) in self.maps:
                self.e.values[p.__chandle__()] = self.maps[str(p.name)]
            else:
                self.e.values[p.__chandle__()] = numpy_dtype(dtype_of(p)).type(sizes[str(p.name)])

        self.by_name = tensors
        self.actors = self._actors()
        self.actor = self.actors[0]
        self.grids, self.at_grid = 0, 0  # meetings of the whole grid, and actors that wait for the next one

    def _actors(self) -> list[Actor]:
        """Warp groups are on their own where the kernel has barriers for them."""
        alone = not _names(self.lowered) & {"tl.mbarrier_wait", "tl.named_sync"}
        groups = -(-self.threads // GROUP)
        masks = [self.all] if alone else [self.number // GROUP == g for g in range(groups)]
        nobody = np.zeros(self.threads, bool)
        return [Actor(m, dict(self.e.values), left=[nobody.copy()], skipped=[nobody.copy()]) for m in masks]

    @property
    def line(self) -> int:
        return self.actor.line

    def run(self) -> Iterator[bool]:
        """Each actor in turn, as far as it gets without the others. Yields where the whole grid meets."""
        self.statistics.barriers = 0
        self.statistics.instructions = {}
        going = [(a, self._statement(self.lowered.func.body, a.mask)) for a in self.actors]
        waiting: list[tuple[Actor, Steps, Ready]] = [(a, steps, lambda: True) for a, steps in going]
        while waiting:
            able = next((w for w in waiting if w[2]()), None)
            if able is None and self.at_grid == len(self.actors):
                yield True
                self.at_grid, self.grids = 0, self.grids + 1
                continue
            if able is None:
                lines = ", ".join(str(a.line) for a, _, _ in waiting)
                raise EmulationError(f"line {lines}: threads wait for ever at a barrier")
            waiting.remove(able)
            self._become(able[0])
            ready = next(able[1], None)
            if ready is not None:
                waiting.append((able[0], able[1], ready))
        for actor in self.actors:
            if any(actor.groups) or actor.open:
                raise EmulationError("the kernel ends with asynchronous copies in flight")
            if actor.products or actor.begun or any(actor.groups_of_products):
                raise EmulationError("the kernel ends with wgmma in flight")
            if any(actor.stores) or actor.leaving:
                raise EmulationError("the kernel ends while a bulk store still reads shared memory")

    def _become(self, actor: Actor) -> None:
        self.actor, self.e.values = actor, actor.values

    # Statements

    def _statement(self, s: Any, mask: np.ndarray) -> Steps:
        if s.span is not None:
            self.actor.line = int(s.span.line)
        if isinstance(s, X.SeqStmt):
            for part in s.seq:
                going = mask & ~self.actor.left[-1] & ~self.actor.skipped[-1]
                if going.any():
                    yield from self._statement(part, going)
        elif isinstance(s, X.AttrStmt):
            self._axis(s)
            yield from self._statement(s.body, mask)
        elif isinstance(s, X.AllocBuffer):
            self._allocate(s.buffer, mask)
        elif isinstance(s, X.DeclBuffer):
            base = next(v for v in walk.variables(s.data) if X.is_buffer_var(v))
            if base.__chandle__() in self.tensors:
                array = self.tensors[base.__chandle__()]
                self.tensors[s.buffer.__chandle__()] = array.view(numpy_dtype(str(s.buffer.dtype)))
                return
            if base.__chandle__() in self.local:
                array = self.local[base.__chandle__()]
                self.local[s.buffer.__chandle__()] = array.view(numpy_dtype(str(s.buffer.dtype)))
                return
            self.offsets[s.buffer.__chandle__()] = self.offsets[base.__chandle__()]
        elif isinstance(s, X.Bind):
            self.e.values[s.var.__chandle__()] = self.e.value(s.value, mask)
        elif isinstance(s, X.BufferStore):
            self._store(s, mask)
        elif isinstance(s, X.Evaluate):
            yield from self._evaluate(s.value, mask)
        elif isinstance(s, X.IfThenElse):
            yield from self._if(s, mask)
        elif isinstance(s, X.For):
            yield from self._for(s, mask)
        elif isinstance(s, X.While):
            yield from self._while(s, mask)
        elif isinstance(s, X.Break):
            self.actor.left[-1] |= mask
        elif isinstance(s, X.Continue):
            self.actor.skipped[-1] |= mask
        else:
            raise NotImplementedError(type(s).__name__)

    def _axis(self, s: X.AttrStmt) -> None:
        kind, _, axis = str(s.node.thread_tag).partition(".")
        k = "xyz".index(axis)
        if kind == "blockIdx":
            value: Any = np.int32(self.place[k])
        else:
            value = (self.number // int(np.prod(self.thread_shape[:k])) % self.thread_shape[k]).astype(
                np.int32
            )
        self.e.values[s.node.var.__chandle__()] = value

    def _evaluate(self, value: Any, mask: np.ndarray) -> Steps:
        """A call; those that wait let the others run meanwhile."""
        name = str(value.op.name) if isinstance(value, ir.Call) and isinstance(value.op, ir.Op) else ""
        if name in ("tl.sync", "tl.named_sync"):
            self.count(name)
            number = 0 if name == "tl.sync" else int(value.args[0].value)
            expected = self.threads if name == "tl.sync" else int(value.args[1].value)
            if len(self.actors) > 1 and expected == mask.sum():
                self.whole(mask, "a barrier", 32, absent=True)
                who = self.number[mask]  # warps that are here together wait for nobody else
                self.shared.order.learn(who, self.shared.order.publish(who))
                return
            if name == "tl.sync" or len(self.actors) > 1:
                self.together(mask, "a barrier")
            yield from self.meet(number, expected, mask, True)
            self.statistics.barriers += name == "tl.sync" and self.actor is self.actors[-1]
        elif name == "tl.sync_grid":
            self.count(name)
            self.together(mask, "the barrier of the grid")
            yield from self.meet(-1, self.threads, mask, True)
            self.at_grid += 1
            grids = self.grids
            yield lambda: self.grids > grids
        elif name == "tl.mbarrier_wait":
            self.count(name)
            yield from self._wait_for_phase(value, mask)
        elif isinstance(value, ir.Call):
            self.e.value(value, mask)

    def count(self, name: str) -> None:
        short = name.removeprefix("tl.").removeprefix("cuda.")
        self.statistics.instructions[short] = self.statistics.instructions.get(short, 0) + 1

    def meet(self, number: int, expected: int, mask: np.ndarray, waits: bool) -> Steps:
        """Barrier `number`: complete when `expected` threads are there."""
        if len(self.actors) == 1:  # all are in step
            self.shared.barrier()
            return
        meeting, who = self.meetings.setdefault(number, Meeting()), self.number[mask]
        told = self.shared.order.publish(who)
        meeting.row = told if meeting.row is None else np.maximum(meeting.row, told)
        meeting.came = np.append(meeting.came, who)
        if waits:
            meeting.waiting = np.append(meeting.waiting, who)
        rounds = meeting.rounds
        if len(meeting.came) == expected:
            self.shared.order.learn(meeting.waiting, meeting.row)
            meeting.rounds += 1
            meeting.came = meeting.waiting = np.zeros(0, int)
            meeting.row = None
        elif len(meeting.came) > expected:
            raise EmulationError(f"line {self.line}: more threads than expected at barrier {number}")
        elif waits:
            yield lambda: meeting.rounds > rounds

    def _wait_for_phase(self, call: Any, mask: np.ndarray) -> Steps:
        load = call.args[0].args[0]
        index = np.broadcast_to(np.asarray(self.e.value(load.indices[0], mask)), (self.threads,))
        parity = np.broadcast_to(np.asarray(self.e.value(call.args[1], mask)), (self.threads,))
        places = self.byte(load.source, index, False)
        for at in np.unique(places[mask]):
            who = self.number[mask & (places == at)]
            barrier, phase = self.barrier_at(int(at)), int(parity[who[0]])
            while not self._complete(barrier, phase):
                yield lambda barrier=barrier, phase=phase: self._complete(barrier, phase)
            if barrier.known is not None:
                self.shared.order.learn(who, barrier.known)

    def _complete(self, barrier: Mbarrier, phase: int) -> bool:
        """Whether a phase has passed; copies land as late as can be, when nothing else is missing."""
        if not barrier.passed(phase) and not barrier.left and barrier.landings:
            barrier.land(self.shared)
        return barrier.passed(phase)

    def barrier_at(self, at: int) -> Mbarrier:
        if at not in self.mbarriers:
            raise EmulationError(f"line {self.line}: byte {at} holds no barrier")
        return self.mbarriers[at]

    def _allocate(self, buffer: Any, mask: np.ndarray) -> None:
        if buffer.scope().startswith("shared"):
            if buffer.__chandle__() not in self.offsets:
                raise EmulationError(f"{buffer.name} has no place in the arena")
            return
        fresh = poison((self.threads, int(buffer.shape[0])), str(buffer.dtype))
        known = self.local.setdefault(buffer.__chandle__(), fresh)
        known[mask] = fresh[mask]

    def _if(self, s: X.IfThenElse, mask: np.ndarray) -> Steps:
        condition = np.broadcast_to(np.asarray(self.e.value(s.condition, mask), bool), (self.threads,))
        for branch, active in ((s.then_case, mask & condition), (s.else_case, mask & ~condition)):
            if branch is not None and active.any():
                yield from self._statement(branch, active)

    def _for(self, s: X.For, mask: np.ndarray) -> Steps:
        first = np.broadcast_to(np.asarray(self.e.value(s.min, mask)), (self.threads,))
        count = np.broadcast_to(np.asarray(self.e.value(s.extent, mask)), (self.threads,))
        step = 1 if s.step is None else int(s.step.value)
        turns = -(-count // step)
        self._enter()
        for k in range(int(turns[mask].max(initial=0))):
            active = self._next(mask & (k < turns))
            if not active.any():
                break
            value = (first + k * step).astype(np.int32)
            self.e.values[s.loop_var.__chandle__()] = value[0] if (value == value[0]).all() else value
            yield from self._statement(s.body, active)
        self._leave()

    def _while(self, s: X.While, mask: np.ndarray) -> Steps:
        self._enter()
        while True:
            mask = self._next(mask)
            mask = mask & np.broadcast_to(np.asarray(self.e.value(s.condition, mask), bool), (self.threads,))
            if not mask.any():
                break
            yield from self._statement(s.body, mask)
        self._leave()

    def _enter(self) -> None:
        self.actor.left.append(np.zeros(self.threads, bool))
        self.actor.skipped.append(np.zeros(self.threads, bool))

    def _next(self, mask: np.ndarray) -> np.ndarray:
        """Threads that begin another iteration: those that did not leave the loop by `break`."""
        self.actor.skipped[-1][:] = False
        return mask & ~self.actor.left[-1]

    def _leave(self) -> None:
        self.actor.left.pop()
        self.actor.skipped.pop()

    def _store(self, s: X.BufferStore, mask: np.ndarray) -> None:
        value = np.asarray(self.e.value(s.value, mask))
        index, vector = self.index(s.indices[0], mask)
        if value.dtype != numpy_dtype(str(s.buffer.dtype)):
            raise EmulationError(
                f"line {self.line}: {value.dtype} stored into {s.buffer.name} of {s.buffer.dtype}"
            )
        if value.ndim == 1 and vector:
            value = value[:, None]
        value = np.broadcast_to(value, index.shape)
        active = self.number[mask]
        self.check(s.buffer, index[mask], vector)
        scope = s.buffer.scope()
        if scope == "global":
            self.tensors[s.buffer.__chandle__()][index[mask]] = value[mask]
        elif scope.startswith("shared"):
            bytes_ = bytes_of(value[mask], vector)
            self.shared.write(active, self.byte(s.buffer, index[mask], vector), bytes_, self.what(s.buffer))
        else:
            array = self.local[s.buffer.__chandle__()]
            array[active[:, None] if vector else active, index[mask]] = value[mask]

    # Memory

    def index(self, expr: Any, mask: np.ndarray) -> tuple[np.ndarray, bool]:
        index = np.asarray(self.e.value(expr, mask))
        vector = isinstance(expr, X.Ramp)
        return (index if vector else np.broadcast_to(index, (self.threads,))), vector

    def load(self, buffer: Any, expr: Any, mask: np.ndarray) -> np.ndarray:
        index, vector = self.index(expr, mask)
        result = poison(index.shape, str(buffer.dtype))
        if not mask.any():
            return result
        active = self.number[mask]
        self.check(buffer, index[mask], vector)
        scope = buffer.scope()
        if scope == "global":
            result[mask] = self.tensors[buffer.__chandle__()][index[mask]]
        elif scope.startswith("shared"):
            count = (index.shape[1] if vector else 1) * result.dtype.itemsize
            start = self.byte(buffer, index[mask], vector)
            found = self.shared.read(active, start, count, self.what(buffer))
            result[mask] = np.ascontiguousarray(found).view(result.dtype).reshape(result[mask].shape)
        else:
            array = self.local[buffer.__chandle__()]
            result[mask] = array[active[:, None] if vector else active, index[mask]]
        return result

    def check(self, buffer: Any, index: np.ndarray, vector: bool) -> None:
        """Inside the buffer, and aligned as wide accesses must be."""
        size = self.size(buffer)
        if index.size and (index.min() < 0 or index.max() >= size):
            worst = index.max() if index.max() >= size else index.min()
            raise EmulationError(f"line {self.line}: {buffer.name}[{worst}] of {size} elements")
        if vector and index.size:
            wide = min(index.shape[1] * numpy_dtype(str(buffer.dtype)).itemsize, 16)
            start = index[:, 0] * numpy_dtype(str(buffer.dtype)).itemsize + self.offsets.get(
                buffer.__chandle__(), 0
            )
            if (start % wide).any():
                raise EmulationError(
                    f"line {self.line}: {buffer.name} accessed {wide} bytes wide, not aligned"
                )

    def size(self, buffer: Any) -> int:
        if buffer.scope() == "global":
            return len(self.tensors[buffer.__chandle__()])
        return int(buffer.shape[0])

    def byte(self, buffer: Any, index: np.ndarray, vector: bool) -> np.ndarray:
        first = index[:, 0] if vector else index
        return self.offsets[buffer.__chandle__()] + first * numpy_dtype(str(buffer.dtype)).itemsize

    def what(self, buffer: Any) -> str:
        return f"line {self.line}: {buffer.name}"

    def together(self, mask: np.ndarray, what: str) -> None:
        if not mask[self.actor.mask].all():
            raise EmulationError(f"line {self.line}: {what} where only some threads pass")

    def whole(self, mask: np.ndarray, what: str, size: int, absent: bool = False) -> None:
        """An instruction of whole warps or groups. absent: threads that the block lacks need not be there."""
        rest = np.full(-len(mask) % size, absent and bool(mask[-1]))
        units = np.concatenate([mask, rest]).reshape(-1, size)
        if (units.any(axis=1) != units.all(axis=1)).any():
            raise EmulationError(f"line {self.line}: {what} where only some threads pass")

    def words(self, load: Any, count: int) -> np.ndarray:
        """[threads, count] registers of 32 bits beginning at the pointer."""
        per = 32 // walk.bits_of(str(load.source.dtype))
        at = self.pointed(load)[:, None] + np.arange(count * per)
        self.check(load.source, at, False)
        held = self.local[load.source.__chandle__()][self.number[:, None], at]
        return np.ascontiguousarray(held).view(np.uint32)

    def pointed(self, load: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.e.value(load.indices[0], self.all)), (self.threads,))

    def registers(self, load: Any, count: int, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[warps, 32, count] registers beginning at the pointer, and where they are."""
        at = np.broadcast_to(np.asarray(self.e.value(load.indices[0], self.all)), (self.threads,))
        lanes = (at[:, None] + np.arange(count))[mask]
        self.check(load.source, lanes, False)
        found = self.local[load.source.__chandle__()][self.number[mask][:, None], lanes]
        return found.reshape(-1, 32, count), lanes
