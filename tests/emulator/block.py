"""Runs a lowered CUDA kernel block by block, all threads of a block in step, and watches what they do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tests.emulator import atomics, bulk, collectives, instructions, sparse, wgmma
from tests.emulator.expressions import Expressions, dtype_of
from tests.emulator.mbarrier import Mbarrier
from tests.emulator.memory import EmulationError, SharedMemory, numpy_dtype, poison
from tests.emulator.order import GROUP
from tilelang.ir import thread_ops
from tilelang.layout.banks import conflict_degree
from tilelang.passes.walk import bits_of, calls, variables
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
    blocks = (_Block(lowered, flat, known, tuple(reversed(place)), statistics) for place in places)
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
    return {str(c.op.name) for c in calls(lowered.func.body) if isinstance(c.op, ir.Op)}


def _number(expr: int | str, known: Mapping[str, int]) -> int:
    return expr if isinstance(expr, int) else int(eval(expr, {"min": min, "max": max}, dict(known)))


_NO_EFFECT = ("fence_barrier_init", "pdl_trigger", "pdl_sync", "setmaxnreg_inc", "setmaxnreg_dec")
_COLLECTIVES = frozenset(
    name.removeprefix("tl.")
    for name in (
        *thread_ops.COLLECTIVES,
        *thread_ops.PART_WARP_REDUCTIONS,
        thread_ops.SYNC_WARP,
        thread_ops.NAMED_ARRIVE,
    )
)
Ready = Callable[[], bool]
Steps = Iterator[Ready]  # what runs until it has to wait for something


@dataclass
class _Product:
    """A wgmma on its way: (array of registers, first thread), where its results go, what it read."""

    key: tuple[int, ...]
    registers: np.ndarray
    at: tuple[np.ndarray, np.ndarray]
    new: np.ndarray
    read: list[Any]
    held: Any = None  # (array, places, values) of an operand in registers


@dataclass(eq=False)
class _Actor:
    """Threads of a block that run in step: all of them, or a warp group where groups wait for each other."""

    mask: np.ndarray
    values: dict[int, Any]
    line: int = 0
    groups: list[Any] = field(default_factory=list)  # cp.async, committed
    open: list[Any] = field(default_factory=list)  # cp.async, since the last commit
    left: list[np.ndarray] = field(default_factory=list)  # by loop: threads that left it by `break`
    skipped: list[np.ndarray] = field(default_factory=list)  # threads that skip the rest of an iteration
    products: list[Any] = field(default_factory=list)  # wgmma, committed
    begun: list[Any] = field(default_factory=list)  # single wgmma, since the last commit
    groups_of_products: list[Any] = field(default_factory=list)  # single wgmma, committed
    stores: list[Any] = field(default_factory=list)  # bulk stores, committed
    leaving: list[Any] = field(default_factory=list)  # bulk stores, since the last commit


class _Meeting:
    """Threads that wait for each other at a barrier."""

    def __init__(self) -> None:
        self.rounds, self.came = 0, np.zeros(0, int)
        self.waiting = np.zeros(0, int)
        self.row: np.ndarray | None = None


class _Block:
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
        self.meetings: dict[int, _Meeting] = {}
        self.offsets = {b.__chandle__(): at for b, at in lowered.shared_offsets.items()}
        self.tensors: dict[int, np.ndarray] = {}
        self.local: dict[int, np.ndarray] = {}
        self.e = Expressions(self.threads, self._load, self._call)
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

    def _actors(self) -> list[_Actor]:
        """Warp groups are on their own where the kernel has barriers for them."""
        alone = not _names(self.lowered) & {"tl.mbarrier_wait", "tl.named_sync"} or self.threads % GROUP
        masks = [self.all] if alone else [self.number // GROUP == g for g in range(self.threads // GROUP)]
        nobody = np.zeros(self.threads, bool)
        return [_Actor(m, dict(self.e.values), left=[nobody.copy()], skipped=[nobody.copy()]) for m in masks]

    @property
    def line(self) -> int:
        return self.actor.line

    def run(self) -> Iterator[bool]:
        """Each actor in turn, as far as it gets without the others. Yields where the whole grid meets."""
        self.statistics.barriers = 0
        self.statistics.instructions = {}
        going = [(a, self._statement(self.lowered.func.body, a.mask)) for a in self.actors]
        waiting: list[tuple[_Actor, Steps, Ready]] = [(a, steps, lambda: True) for a, steps in going]
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

    def _become(self, actor: _Actor) -> None:
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
            base = next(v for v in variables(s.data) if X.is_buffer_var(v))
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
            self._count(name)
            number = 0 if name == "tl.sync" else int(value.args[0].value)
            expected = self.threads if name == "tl.sync" else int(value.args[1].value)
            if len(self.actors) > 1 and expected == mask.sum():
                self._whole(mask, "a barrier", 32, absent=True)
                who = self.number[mask]  # warps that are here together wait for nobody else
                self.shared.order.learn(who, self.shared.order.publish(who))
                return
            if name == "tl.sync" or len(self.actors) > 1:
                self._together(mask, "a barrier")
            yield from self._meet(number, expected, mask, True)
            self.statistics.barriers += name == "tl.sync" and self.actor is self.actors[-1]
        elif name == "tl.sync_grid":
            self._count(name)
            self._together(mask, "the barrier of the grid")
            yield from self._meet(-1, self.threads, mask, True)
            self.at_grid += 1
            grids = self.grids
            yield lambda: self.grids > grids
        elif name == "tl.mbarrier_wait":
            self._count(name)
            yield from self._wait_for_phase(value, mask)
        elif isinstance(value, ir.Call):
            self.e.value(value, mask)

    def _count(self, name: str) -> None:
        short = name.removeprefix("tl.").removeprefix("cuda.")
        self.statistics.instructions[short] = self.statistics.instructions.get(short, 0) + 1

    def _meet(self, number: int, expected: int, mask: np.ndarray, waits: bool) -> Steps:
        """Barrier `number`: complete when `expected` threads are there."""
        if len(self.actors) == 1:  # all are in step
            self.shared.barrier()
            return
        meeting, who = self.meetings.setdefault(number, _Meeting()), self.number[mask]
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
        places = self._byte(load.source, index, False)
        for at in np.unique(places[mask]):
            who = self.number[mask & (places == at)]
            barrier, phase = self._barrier_at(int(at)), int(parity[who[0]])
            if not barrier.passed(phase) and not barrier.left and barrier.landings:
                barrier.land(self.shared)
            while not barrier.passed(phase):
                yield lambda barrier=barrier, phase=phase: self._complete(barrier, phase)
            if barrier.known is not None:
                self.shared.order.learn(who, barrier.known)

    def _complete(self, barrier: Mbarrier, phase: int) -> bool:
        if not barrier.passed(phase) and not barrier.left and barrier.landings:
            barrier.land(self.shared)
        return barrier.passed(phase)

    def _barrier_at(self, at: int) -> Mbarrier:
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
        index, vector = self._index(s.indices[0], mask)
        if value.dtype != numpy_dtype(str(s.buffer.dtype)):
            raise EmulationError(
                f"line {self.line}: {value.dtype} stored into {s.buffer.name} of {s.buffer.dtype}"
            )
        if value.ndim == 1 and vector:
            value = value[:, None]
        value = np.broadcast_to(value, index.shape)
        active = self.number[mask]
        self._check(s.buffer, index[mask], vector)
        scope = s.buffer.scope()
        if scope == "global":
            self.tensors[s.buffer.__chandle__()][index[mask]] = value[mask]
        elif scope.startswith("shared"):
            bytes_ = _bytes(value[mask], vector)
            self.shared.write(active, self._byte(s.buffer, index[mask], vector), bytes_, self._what(s.buffer))
        else:
            array = self.local[s.buffer.__chandle__()]
            array[active[:, None] if vector else active, index[mask]] = value[mask]

    # Memory

    def _index(self, expr: Any, mask: np.ndarray) -> tuple[np.ndarray, bool]:
        index = np.asarray(self.e.value(expr, mask))
        vector = isinstance(expr, X.Ramp)
        return (index if vector else np.broadcast_to(index, (self.threads,))), vector

    def _load(self, buffer: Any, expr: Any, mask: np.ndarray) -> np.ndarray:
        index, vector = self._index(expr, mask)
        result = poison(index.shape, str(buffer.dtype))
        if not mask.any():
            return result
        active = self.number[mask]
        self._check(buffer, index[mask], vector)
        scope = buffer.scope()
        if scope == "global":
            result[mask] = self.tensors[buffer.__chandle__()][index[mask]]
        elif scope.startswith("shared"):
            count = (index.shape[1] if vector else 1) * result.dtype.itemsize
            start = self._byte(buffer, index[mask], vector)
            found = self.shared.read(active, start, count, self._what(buffer))
            result[mask] = np.ascontiguousarray(found).view(result.dtype).reshape(result[mask].shape)
        else:
            array = self.local[buffer.__chandle__()]
            result[mask] = array[active[:, None] if vector else active, index[mask]]
        return result

    def _check(self, buffer: Any, index: np.ndarray, vector: bool) -> None:
        """Inside the buffer, and aligned as wide accesses must be."""
        size = self._size(buffer)
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

    def _size(self, buffer: Any) -> int:
        if buffer.scope() == "global":
            return len(self.tensors[buffer.__chandle__()])
        return int(buffer.shape[0])

    def _byte(self, buffer: Any, index: np.ndarray, vector: bool) -> np.ndarray:
        first = index[:, 0] if vector else index
        return self.offsets[buffer.__chandle__()] + first * numpy_dtype(str(buffer.dtype)).itemsize

    def _what(self, buffer: Any) -> str:
        return f"line {self.line}: {buffer.name}"

    # Calls

    def _call(self, call: ir.Call, mask: np.ndarray) -> Any:
        name = str(call.op.name).removeprefix("tl.").removeprefix("cuda.")
        self._count(name)
        if name == "shuffle_xor":
            self._whole(mask, "a shuffle", 32, absent=True)
            value = np.broadcast_to(np.asarray(self.e.value(call.args[0], mask)), (self.threads,))
            source = self.number ^ int(call.args[1].value)
            if (source[mask] >= self.threads).any():
                raise EmulationError(f"line {self.line}: a shuffle reads a lane that is not there")
            return value[np.minimum(source, self.threads - 1)]
        if name in _COLLECTIVES:
            return self._collective(name, list(call.args), mask)
        if name.startswith("tma_"):
            self._tma(name, list(call.args), mask)
            return None
        if name == "cp_async_arrive":
            self._copies_arrive(call.args[0].args[0], mask)
            return None
        if name.startswith("mbarrier_"):
            return self._mbarrier(name, list(call.args), mask)
        if name == "fence_proxy_async":
            self.shared.fence(self.number[mask])
            return None
        if name in _NO_EFFECT:
            return None
        if name == "round_tf32":
            return instructions.round_tf32(np.asarray(self.e.value(call.args[0], mask)))
        if name.startswith("cp_async_commit"):
            self.actor.groups.append(self.actor.open)
            self.actor.open = []
            return None
        if name == "cp_async_wait":
            self._wait(int(call.args[0].value))
            return None
        if name.startswith("cp_async_"):
            self._copy(name, list(call.args), mask)
            return None
        if name.startswith("ldmatrix"):
            self._whole(mask, name, 32)
            self._ldmatrix(name, call.args[0].args[0], call.args[1].args[0], mask)
            return None
        if name.startswith("stmatrix"):
            self._whole(mask, name, 32)
            self._stmatrix(name, call.args[0].args[0], list(call.args)[1:], mask)
            return None
        if name == "bulk_load":
            self._bulk_load(list(call.args), mask)
            return None
        if name.startswith("print_"):
            self._print(list(call.args), mask)
            return None
        if name == "check":
            self._assert(call.args[0], str(call.args[1].value), mask)
            return None
        if name == "store_half":
            return atomics.store_half(self, list(call.args), mask)
        if name == "encode_float4":
            return instructions.encode_float4(np.asarray(self.e.value(call.args[0], mask)))
        if (pair := instructions.PACKED_PAIR.fullmatch(name)) is not None:
            return self._decode_pair(pair[1], call.args[0].args[0], call.args[1], mask)
        if name.startswith("decode_float4"):
            codes = np.asarray(self.e.value(call.args[0], mask))
            return instructions.decode("float4", codes).astype(numpy_dtype(dtype_of(call)))
        if name.startswith("atomic_"):
            return atomics.update(self, name, list(call.args), mask)
        if name == "wgmma_wait":
            self._finish_products(int(call.args[0].value))
            self._finish_groups(int(call.args[0].value))
            return None
        if name.startswith("hold_") or name == "wgmma_arrive":
            return None
        if name == "wgmma_commit":
            self.actor.groups_of_products.append(self.actor.begun)
            self.actor.begun = []
            return None
        if name == "matrix_descriptor":
            return self._descriptor(list(call.args), mask)
        if (single := wgmma.single(name)) is not None:
            self._whole(mask, name, GROUP)
            self._single_product(single, list(call.args), mask)
            return None
        if name.startswith("wgmma_"):
            self._whole(mask, name, GROUP)
            self._wgmma(name, list(call.args), mask)
            return None
        if name.startswith("mma_sp_"):
            self._whole(mask, name, 32)
            self._mma_sp(name, int(call.args[0].value), [a.args[0] for a in call.args[1:]], mask)
            return None
        if name.startswith("mma_"):
            self._whole(mask, name, 32)
            self._mma(name, *(a.args[0] for a in call.args), mask)
            return None
        raise NotImplementedError(name)

    def _decode_pair(self, dtype: str, to: Any, byte: Any, mask: np.ndarray) -> None:
        """Both numbers of a byte to two neighbouring registers."""
        whole = np.broadcast_to(np.asarray(self.e.value(byte, mask)), (self.threads,))
        first = np.broadcast_to(np.asarray(self.e.value(to.indices[0], mask)), (self.threads,))
        at = (first[:, None] + np.arange(2))[mask]
        self._check(to.source, at, True)
        both = np.stack([whole & 15, whole >> 4], 1)[mask]
        self.local[to.source.__chandle__()][self.number[mask][:, None], at] = instructions.decode(dtype, both)

    def _collective(self, name: str, args: list[Any], mask: np.ndarray) -> Any:
        """Threads exchange values where they are."""
        values = [np.broadcast_to(np.asarray(self.e.value(a, mask)), (self.threads,)) for a in args]
        if name == "named_arrive":
            for _ in self._meet(int(args[0].value), int(args[1].value), mask, False):
                raise AssertionError("an arrival waits for nobody")
            return None
        if name == "sync_warp":
            if len(self.actors) == 1:
                self.shared.barrier()
            else:
                who = self.number[mask]
                self.shared.order.learn(who, self.shared.order.publish(who))
            return None
        if name.startswith("shfl_"):
            try:
                return collectives.shuffle(name, *values[:3], mask)
            except ValueError as error:
                raise EmulationError(f"line {self.line}: {error}") from None
        if name.startswith("match_"):
            return collectives.match(name, values[0], mask)
        if name.startswith("warp_reduce_"):
            self._whole(mask, name, 32)
            return collectives.reduce(name, values[0])
        if name.startswith("part_warp_reduce_"):
            self._whole(mask, name, 32, absent=True)
            try:
                return collectives.reduce_part(name, *values, mask)
            except ValueError as error:
                raise EmulationError(f"line {self.line}: {error}") from None
        if name.startswith("syncthreads_"):
            self._whole(mask, name, self.threads)
            self.shared.barrier()
            flags = values[0].astype(bool)
            found = {"count": flags.sum(), "and": flags.all(), "or": flags.any()}[name.partition("_")[2]]
            return np.int32(found)
        everyone = np.full(self.threads, 0xFFFFFFFF, np.uint64)
        predicate = values[0].astype(bool) if values else np.ones(self.threads, bool)
        lanes = values[1].astype(np.uint64) if len(values) > 1 else everyone
        return collectives.vote(name, predicate, lanes, mask)

    def _print(self, args: list[Any], mask: np.ndarray) -> None:
        """One line for each thread, as `printf` writes it."""
        values = [np.broadcast_to(np.asarray(self.e.value(a, mask)), (self.threads,)) for a in args[1:]]
        place = (*self.place, 0, 0)[:3]
        for thread in self.number[mask]:
            at = [thread // int(np.prod(self.thread_shape[:k])) % n for k, n in enumerate(self.thread_shape)]
            given = (*place, *[*at, 0, 0][:3], *(v[thread].item() for v in values))
            self.statistics.printed.append(re.sub("ll[du]", "d", str(args[0].value)) % given)

    def _assert(self, condition: Any, text: str, mask: np.ndarray) -> None:
        holds = np.broadcast_to(np.asarray(self.e.value(condition, mask), bool), (self.threads,))
        if not holds[mask].all():
            raise EmulationError(text)

    def _mbarrier(self, name: str, args: list[Any], mask: np.ndarray) -> None:
        """mbarriers by their byte in shared memory."""
        load = args[0].args[0]
        index = np.broadcast_to(np.asarray(self.e.value(load.indices[0], mask)), (self.threads,))[mask]
        value = (
            np.broadcast_to(np.asarray(self.e.value(args[1], mask)), (self.threads,)) if args[1:] else None
        )
        places, numbers = self._byte(load.source, index, False).tolist(), self.number[mask]
        if name == "mbarrier_arrive_warp":
            self._whole(mask, name, 32)
            for first in range(0, len(numbers), 32):
                lanes = slice(first, first + 32)
                if len(set(places[lanes])) > 1:
                    raise EmulationError("the lanes of a warp arrive at different barriers")
                self._barrier_at(places[first]).arrive(numbers[lanes], self.shared)
            return
        for at, number in zip(places, numbers, strict=True):
            if name == "mbarrier_init":
                assert value is not None
                self.mbarriers[at] = Mbarrier(int(value[number]), int(value[number]))
                continue
            barrier = self._barrier_at(at)
            if name in ("mbarrier_expect_tx", "mbarrier_arrive_expect_tx"):
                assert value is not None
                barrier.bytes += int(value[number])
            if name in ("mbarrier_arrive", "mbarrier_arrive_expect_tx"):
                barrier.arrive(np.array([number]), self.shared)
            elif name != "mbarrier_expect_tx":
                raise NotImplementedError(name)

    def _copies_arrive(self, load: Any, mask: np.ndarray) -> None:
        """An arrival at an mbarrier by each thread, whose cp.async copies land before it counts."""
        index = np.broadcast_to(np.asarray(self.e.value(load.indices[0], mask)), (self.threads,))
        places = self._byte(load.source, index, False)
        copies = [*(c for group in self.actor.groups for c in group), *self.actor.open]
        self.actor.groups, self.actor.open = [], []
        for thread, start, data in copies:
            for at, owner in enumerate(thread.tolist()):

                def landing(k: int = at, copy: Any = (thread, start, data)) -> int:
                    self.shared.land(*(part[k : k + 1] for part in copy))
                    return 0

                self._barrier_at(int(places[owner])).landings.append((owner, landing))
        for owner in self.number[mask].tolist():
            self._barrier_at(int(places[owner])).arrive(np.array([owner]), self.shared)

    def _tma(self, name: str, args: list[Any], mask: np.ndarray) -> None:
        if name == "tma_store_arrive":
            self.actor.stores.append(self.actor.leaving)
            self.actor.leaving = []
        elif name.startswith("tma_store_wait"):
            while len(self.actor.stores) > int(args[0].value):
                for finish in self.actor.stores.pop(0):
                    finish()
        else:
            for thread in self.number[mask]:
                self._bulk_copy(name, args, int(thread), mask)

    def _bulk_copy(self, name: str, args: list[Any], thread: int, mask: np.ndarray) -> None:
        """One box between a tensor and shared memory, by a descriptor."""

        def scalar(expr: Any) -> int:
            return int(np.broadcast_to(np.asarray(self.e.value(expr, mask)), (self.threads,))[thread])

        load = name.startswith("tma_load")
        pointer = args[0 if load else 1].args[0]
        descriptor = self.e.value(args[2 if load else 0], mask)
        first = 3 if load else 2
        corner = [scalar(c) for c in args[first : first + len(descriptor.box)]]
        index, inside = bulk.elements(descriptor, corner, self.sizes)
        tensor = self.by_name[descriptor.tensor]
        if numpy_dtype(descriptor.dtype).itemsize != tensor.itemsize:
            tensor = tensor.view(numpy_dtype(descriptor.dtype))
        begin = self._byte(pointer.source, np.array([scalar(pointer.indices[0])]), False)
        if begin[0] % 128:
            raise EmulationError(f"line {self.line}: a bulk copy of {pointer.source.name} is not aligned")
        place = bulk.places(descriptor, int(begin[0]))
        owners, what = np.full(len(place), thread), self._what(pointer.source)
        if load:
            data = np.zeros(len(index), tensor.dtype)
            data[inside] = tensor[index[inside]]
            bytes_ = data.view(np.uint8).reshape(-1, 16)
            self.shared.begin(owners, place, 16, what)
            at = self._byte(args[1].args[0].source, np.array([scalar(args[1].args[0].indices[0])]), False)

            def landing() -> int:
                self.shared.land(owners, place, bytes_, proxy=True)
                return bytes_.size

            self._barrier_at(int(at[0])).landings.append((thread, landing))
            return
        found = self.shared.read_by_proxy(owners, place, 16, what)
        self.shared.leave(place, 16, True)

        def finish() -> None:
            self.shared.leave(place, 16, False)
            values = np.ascontiguousarray(found).view(tensor.dtype).ravel()
            tensor[index[inside]] = values[inside]

        self.actor.leaving.append(finish)

    def _together(self, mask: np.ndarray, what: str) -> None:
        if not mask[self.actor.mask].all():
            raise EmulationError(f"line {self.line}: {what} where only some threads pass")

    def _whole(self, mask: np.ndarray, what: str, size: int, absent: bool = False) -> None:
        """An instruction of whole warps or groups. absent: threads that the block lacks need not be there."""
        rest = np.full(-len(mask) % size, absent and bool(mask[-1]))
        units = np.concatenate([mask, rest]).reshape(-1, size)
        if (units.any(axis=1) != units.all(axis=1)).any():
            raise EmulationError(f"line {self.line}: {what} where only some threads pass")

    def _copy(self, name: str, args: list[Any], mask: np.ndarray) -> None:
        size = int(name.split("_")[2])
        to, come = args[0].args[0], args[1].args[0]
        inside = mask.copy()
        if len(args) == 3:
            inside &= np.broadcast_to(np.asarray(self.e.value(args[2], mask), bool), (self.threads,))
        source = self.tensors[come.source.__chandle__()]
        count = size // source.dtype.itemsize
        index = np.broadcast_to(np.asarray(self.e.value(come.indices[0], mask)), (self.threads,))
        lanes = index[:, None] + np.arange(count)
        self._check(come.source, lanes[inside], True)
        data = np.zeros((self.threads, count), source.dtype)
        data[inside] = source[lanes[inside]]
        place = np.broadcast_to(np.asarray(self.e.value(to.indices[0], mask)), (self.threads,))
        self._check(to.source, (place[:, None] + np.arange(count))[mask], True)
        start, active = self._byte(to.source, place[mask], False), self.number[mask]
        self.shared.begin(active, start, size, self._what(to.source))
        self.actor.open.append((active, start, _bytes(data[mask], True)))

    def _wait(self, in_flight: int) -> None:
        while len(self.actor.groups) > in_flight:
            for thread, start, data in self.actor.groups.pop(0):
                self.shared.land(thread, start, data)

    def _ldmatrix(self, name: str, to: Any, come: Any, mask: np.ndarray) -> None:
        count = int(name[len("ldmatrix_x")])
        index = np.broadcast_to(np.asarray(self.e.value(come.indices[0], self.all)), (self.threads,))
        start = self._byte(come.source, index, False)
        if (start[mask] % 16).any():
            raise EmulationError(f"line {self.line}: ldmatrix rows are not aligned to 16 bytes")
        used = (self.number % 32 < 8 * count) & mask
        rows = np.zeros((self.threads, 16), np.uint8)
        rows[used] = self.shared.read(self.number[used], start[used], 16, self._what(come.source))
        for first in range(0, self.threads, 8):
            if used[first]:
                degree = conflict_degree([int(x) for x in start[first : first + 8]], 16)
                self.statistics.ldmatrix_conflicts = max(self.statistics.ldmatrix_conflicts, degree)
        registers = instructions.ldmatrix(rows.reshape(-1, 32, 16), count, name.endswith("trans"))
        flat = registers.reshape(self.threads, count)
        array = self.local[to.source.__chandle__()]
        values = flat.view(array.dtype)
        at = np.broadcast_to(np.asarray(self.e.value(to.indices[0], self.all)), (self.threads,))
        lanes = (at[:, None] + np.arange(values.shape[1]))[mask]
        self._check(to.source, lanes, False)
        array[self.number[mask][:, None], lanes] = values[mask]

    def _stmatrix(self, name: str, to: Any, registers: list[Any], mask: np.ndarray) -> None:
        """Lane 8 i + r names the row r of matrix i; register i of lane 4 g + t is its row g, columns 2 t and
        on.
        """
        index = np.broadcast_to(np.asarray(self.e.value(to.indices[0], mask)), (self.threads,))
        start = self._byte(to.source, index, False)
        if (start[mask & (self.number % 32 < 8 * len(registers))] % 16).any():
            raise EmulationError(f"line {self.line}: stmatrix rows are not aligned to 16 bytes")
        for k, register in enumerate(registers):
            held = np.broadcast_to(np.asarray(self.e.value(register, mask)), (self.threads,)).astype(
                np.uint32
            )
            for first in np.flatnonzero(mask)[::32].tolist():
                halves = np.ascontiguousarray(held[first : first + 32]).view(np.uint16).reshape(8, 8)
                rows = np.ascontiguousarray(halves.T if name.endswith("trans") else halves)
                lanes = first + 8 * k + np.arange(8)
                self.shared.write(lanes, start[lanes], rows.view(np.uint8), self._what(to.source))

    def _bulk_load(self, args: list[Any], mask: np.ndarray) -> None:
        """Neighbouring bytes from global to shared memory."""
        to, come, bar = args[0].args[0], args[1].args[0], args[3].args[0]
        at, source_at, barrier_at = self._pointed(to), self._pointed(come), self._pointed(bar)
        size = np.broadcast_to(np.asarray(self.e.value(args[2], mask)), (self.threads,))
        tensor = self.tensors[come.source.__chandle__()]
        for thread in np.flatnonzero(mask).tolist():
            count = int(size[thread])
            first = int(source_at[thread])
            lanes = first + np.arange(count // tensor.itemsize)
            self._check(come.source, lanes, False)
            bytes_ = np.ascontiguousarray(tensor[lanes]).view(np.uint8).reshape(-1, 16)
            place = int(self._byte(to.source, at[thread : thread + 1], False)[0]) + np.arange(0, count, 16)
            if place[0] % 16 or first * tensor.itemsize % 16 or count % 16:
                raise EmulationError(f"line {self.line}: a bulk copy of {to.source.name} is not aligned")
            owners = np.full(len(place), thread)
            self.shared.begin(owners, place, 16, self._what(to.source))

            def landing(owners: Any = owners, place: Any = place, bytes_: Any = bytes_) -> int:
                self.shared.land(owners, place, bytes_, proxy=True)
                return bytes_.size

            barrier = int(self._byte(bar.source, barrier_at[thread : thread + 1], False)[0])
            self._barrier_at(barrier).landings.append((thread, landing))

    def _mma(self, name: str, d: Any, a: Any, b: Any, mask: np.ndarray) -> None:
        of_a, of_b, of_d = instructions.registers_of(name)
        left, _ = self._registers(a, of_a, mask)
        right, _ = self._registers(b, of_b, mask)
        old, at = self._registers(d, of_d, mask)
        new = instructions.mma(name, old, left, right).reshape(-1, of_d)
        self.local[d.source.__chandle__()][self.number[mask][:, None], at] = new

    def _mma_sp(self, name: str, selector: int, loads: list[Any], mask: np.ndarray) -> None:
        of_a, of_b, of_d = sparse.registers_of(name)
        d, a, b, e = loads
        left, right = (self._registers(x, n, mask)[0] for x, n in ((a, of_a), (b, of_b)))
        old, at = self._registers(d, of_d, mask)
        held = self._registers(e, 4 // (bits_of(str(e.source.dtype)) // 8), mask)[0]
        metadata = np.ascontiguousarray(held).view(np.uint32)[..., 0]
        new = sparse.multiply(name, selector, (old, left, right), metadata).reshape(-1, of_d)
        self.local[d.source.__chandle__()][self.number[mask][:, None], at] = new

    def _wgmma(self, name: str, args: list[Any], mask: np.ndarray) -> None:
        op = wgmma.instruction(name)
        pointers = [x.args[0] for x in args[-4 if op.sparse else -3 :]]
        numbers = [int(a.value) for a in args[: -len(pointers)]]
        d, a, b = pointers[:3]
        registers, old = self.local[d.source.__chandle__()], self.number[:, None]
        at = self._pointed(d)[:, None] + np.arange(op.tiles * op.n // 2)
        self._check(d.source, at[mask], False)
        for first in np.flatnonzero(mask)[:: wgmma.GROUP].tolist():
            mine = slice(first, first + wgmma.GROUP)
            right = [
                self._matrix(
                    b, mine, op.n, numbers[-6:-3], k, numbers[-3:], 0, op.b_turned, op.right, op.b_bytes
                )
                for k in range(op.steps)
            ]
            if op.by_registers:
                each = op.k // (4 if op.sparse else 2)  # elements of one step in a thread
                count = op.tiles * op.steps * each
                held = self.local[a.source.__chandle__()][
                    old[mine], self._pointed(a)[mine, None] + np.arange(count)
                ]
                left = [
                    wgmma.fragment(held[:, each * k : each * (k + 1)]) for k in range(op.tiles * op.steps)
                ]
            else:
                left = [
                    self._matrix(
                        a, mine, 64, numbers[:3], k, numbers[4:7], t * numbers[3], op.a_turned, op.operand
                    )
                    for t in range(op.tiles)
                    for k in range(op.steps)
                ]
            if op.sparse:
                held = self._words(pointers[3], op.tiles * op.steps)[mine]
                left = [wgmma.written_out(op, x, held[:, k]) for k, x in enumerate(left)]
            key = (d.source.__chandle__(), first)
            pending = [p for p in self.actor.products if p.key == key]
            before = pending[-1].new if pending else registers[old[mine], at[mine]]
            new = wgmma.multiply(op, before, left, right)
            if op.goes_on:  # until somebody waits the registers hold nothing that could be used
                self.actor.products.append(_Product(key, registers, (old[mine], at[mine]), new, self.read))
                registers[old[mine], at[mine]] = poison(new.shape, str(d.source.dtype))
            else:
                registers[old[mine], at[mine]] = new
            self.read = []

    def _descriptor(self, args: list[Any], mask: np.ndarray) -> np.ndarray:
        mode, leading, stride = (int(a.value) for a in args[:3])
        load = args[3].args[0]
        index = np.broadcast_to(np.asarray(self.e.value(load.indices[0], mask)), (self.threads,))
        self._check(load.source, index[mask], False)
        bytes_ = self._byte(load.source, index, False)
        return np.array([wgmma.descriptor(int(b), mode, leading, stride) for b in bytes_], np.uint64)

    def _single_product(self, op: wgmma.Instruction, args: list[Any], mask: np.ndarray) -> None:
        """One instruction of the author: its results arrive when the group that it is committed to is waited
        for.
        """
        if self.actor.products:
            raise NotImplementedError("products of T.wgmma_gemm on their way beside single ones")
        d, count = args[0].args[0], op.n // 2
        registers = self.local[d.source.__chandle__()]
        at = self._pointed(d)[:, None] + np.arange(count)
        self._check(d.source, at[mask], False)
        values = [
            np.broadcast_to(np.asarray(self.e.value(a, mask)), (self.threads,))
            for a in ([args[3]] if op.by_registers else [args[1]]) + args[2:4]
        ]
        for first in np.flatnonzero(mask)[:: wgmma.GROUP].tolist():
            mine = slice(first, first + wgmma.GROUP)
            own = self.number[mine, None]
            held = None
            if op.by_registers:
                a = args[1].args[0]
                array, places = self.local[a.source.__chandle__()], self._pointed(a)[mine, None]
                places = places + np.arange(16 // self.local[a.source.__chandle__()].itemsize)
                self._check(a.source, places, False)
                given = np.ascontiguousarray(array[own, places])
                held = (array, (own, places), given)
                left = wgmma.fragment(given.view(instructions.OPERANDS[op.operand]))
            else:
                left = self._described(values[0][mine], 64, op.a_turned, op.operand, first)
            right = self._described(values[1][mine], op.n, op.b_turned, op.right, first, op.b_bytes)
            if op.sparse:
                left = wgmma.written_out(op, left, self._words(args[4].args[0], 1)[mine, 0])
            place = (own, at[mine])
            key = (d.source.__chandle__(), first, int(at[first, 0]))
            before = [p for p in self._going_on() if p.key == key]
            scale = int(values[2][first])
            old = before[-1].new if before else registers[place]
            new = wgmma.multiply(op, old if scale else np.zeros_like(old), [left], [right])
            self.actor.begun.append(_Product(key, registers, place, new, self.read, held))
            self.read = []
            registers[place] = poison(new.shape, str(d.source.dtype))

    def _described(
        self, bits: np.ndarray, rows: int, turned: bool, operand: str, thread: int, depth: int = 32
    ) -> np.ndarray:
        """An operand through the descriptor that the threads of a warp group give alike, from `thread` on."""
        if (bits != bits[0]).any():
            raise EmulationError(f"line {self.line}: the threads of a warpgroup give different descriptors")
        one, what = wgmma.described(int(bits[0])), f"line {self.line}: a described tile"

        def read(places: np.ndarray) -> np.ndarray:
            found = self.shared.read_by_proxy(np.full(len(places), thread), places, 16, what)
            self.read.append((places, found.copy(), what))
            return found

        return wgmma.matrix(read, one.start, rows, one.mode, one.leading, one.stride, turned, operand, depth)

    def _going_on(self) -> list[_Product]:
        """Single products on their way, oldest first."""
        return [p for group in (*self.actor.groups_of_products, self.actor.begun) for p in group]

    def _finish_groups(self, in_flight: int) -> None:
        while len(self.actor.groups_of_products) > in_flight:
            for done in self.actor.groups_of_products.pop(0):
                self._finish(done, self._going_on())

    def _finish(self, done: _Product, others: list[_Product]) -> None:
        """A product arrives, unless others go on in its registers; its operands are as it found them."""
        for places, bytes_, what in done.read:
            if (self.shared.data[places[:, None] + np.arange(16)] != bytes_).any():
                raise EmulationError(f"{what} was overwritten while wgmma read it")
        if done.held is not None and (done.held[0][done.held[1]] != done.held[2]).any():
            raise EmulationError("registers were overwritten while wgmma read them")
        if not any(p.key == done.key for p in others):
            done.registers[done.at] = done.new

    def _finish_products(self, in_flight: int) -> None:
        """The oldest products arrive in their registers; nobody may have written to their operands."""
        groups = len({p.key[1] for p in self.actor.products}) or 1
        while len(self.actor.products) > in_flight * groups:
            done = self.actor.products.pop(0)
            self._finish(done, self.actor.products)

    def _matrix(
        self,
        pointer: Any,
        group: slice,
        rows: int,
        descriptor: list[int],
        step: int,
        walk: list[int],
        further: int,
        turned: bool,
        operand: str,
        depth: int = 32,
    ) -> np.ndarray:
        """An operand of one instruction, `depth` bytes of K, through its descriptor, which the threads of the
        group give alike.
        """
        where = self._byte(pointer.source, self._pointed(pointer), False)[group]
        if (where != where[0]).any():
            raise EmulationError(f"line {self.line}: the threads of a warpgroup give different descriptors")
        distance, outer, per = walk
        start = int(where[0]) + 16 * (further + step // per * outer + step % per * distance)
        thread = int(self.number[group][0])

        def read(places: np.ndarray) -> np.ndarray:
            threads = np.full(len(places), thread)
            found = self.shared.read_by_proxy(threads, places, 16, self._what(pointer.source))
            self.read.append((places, found.copy(), self._what(pointer.source)))
            return found

        mode, leading, stride = descriptor
        return wgmma.matrix(read, start, rows, mode, leading, stride, turned, operand, depth)

    def _words(self, load: Any, count: int) -> np.ndarray:
        """[threads, count] registers of 32 bits beginning at the pointer."""
        per = 32 // bits_of(str(load.source.dtype))
        at = self._pointed(load)[:, None] + np.arange(count * per)
        self._check(load.source, at, False)
        held = self.local[load.source.__chandle__()][self.number[:, None], at]
        return np.ascontiguousarray(held).view(np.uint32)

    def _pointed(self, load: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.e.value(load.indices[0], self.all)), (self.threads,))

    def _registers(self, load: Any, count: int, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[warps, 32, count] registers beginning at the pointer, and where they are."""
        at = np.broadcast_to(np.asarray(self.e.value(load.indices[0], self.all)), (self.threads,))
        lanes = (at[:, None] + np.arange(count))[mask]
        self._check(load.source, lanes, False)
        found = self.local[load.source.__chandle__()][self.number[mask][:, None], lanes]
        return found.reshape(-1, 32, count), lanes


def _bytes(value: np.ndarray, vector: bool) -> np.ndarray:
    rows = np.ascontiguousarray(value if vector else value[:, None])
    return rows.view(np.uint8).reshape(len(rows), -1)
