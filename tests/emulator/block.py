"""Runs a lowered CUDA kernel block by block, all threads of a block in step, and watches what they do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tests.emulator import atomics, collectives, instructions, wgmma
from tests.emulator.expressions import Expressions
from tests.emulator.memory import EmulationError, SharedMemory, numpy_dtype, poison
from tilelang.ir import thread_ops
from tilelang.layout.banks import conflict_degree
from tilelang.passes.walk import variables
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
    for place in itertools.product(*(range(n) for n in reversed(grid))):
        _Block(lowered, flat, known, tuple(reversed(place)), statistics).run()
    return statistics


def _number(expr: int | str, known: Mapping[str, int]) -> int:
    return expr if isinstance(expr, int) else int(eval(expr, {"min": min, "max": max}, dict(known)))


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
        self.shared = SharedMemory(lowered.plan.shared_bytes)
        self.offsets = {b.__chandle__(): at for b, at in lowered.shared_offsets.items()}
        self.tensors: dict[int, np.ndarray] = {}
        self.local: dict[int, np.ndarray] = {}
        self.e = Expressions(self.threads, self._load, self._call)
        self.groups: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = []
        self.open: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.line = 0
        self.mbarriers: dict[int, list[int]] = {}
        self.left = [np.zeros(self.threads, bool)]  # by loop: threads that left it by `break`
        self.skipped = [np.zeros(self.threads, bool)]  # threads that skip the rest of an iteration
        for p in lowered.func.params:
            if X.is_buffer_var(p):
                self.tensors[p.__chandle__()] = tensors[str(p.name)]
            else:
                self.e.values[p.__chandle__()] = np.int32(sizes[str(p.name)])

    def run(self) -> None:
        self.statistics.barriers = 0
        self.statistics.instructions = {}
        self._statement(self.lowered.func.body, self.all)
        if any(self.groups) or self.open:
            raise EmulationError("the kernel ends with asynchronous copies in flight")

    # Statements

    def _statement(self, s: Any, mask: np.ndarray) -> None:
        if s.span is not None:
            self.line = int(s.span.line)
        if isinstance(s, X.SeqStmt):
            for part in s.seq:
                going = mask & ~self.left[-1] & ~self.skipped[-1]
                if going.any():
                    self._statement(part, going)
        elif isinstance(s, X.AttrStmt):
            self._axis(s)
            self._statement(s.body, mask)
        elif isinstance(s, X.AllocBuffer):
            self._allocate(s.buffer)
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
            if isinstance(s.value, ir.Call):
                self.e.value(s.value, mask)
        elif isinstance(s, X.IfThenElse):
            self._if(s, mask)
        elif isinstance(s, X.For):
            self._for(s, mask)
        elif isinstance(s, X.While):
            self._while(s, mask)
        elif isinstance(s, X.Break):
            self.left[-1] |= mask
        elif isinstance(s, X.Continue):
            self.skipped[-1] |= mask
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

    def _allocate(self, buffer: Any) -> None:
        if buffer.scope().startswith("shared"):
            if buffer.__chandle__() not in self.offsets:
                raise EmulationError(f"{buffer.name} has no place in the arena")
            return
        self.local[buffer.__chandle__()] = poison((self.threads, int(buffer.shape[0])), str(buffer.dtype))

    def _if(self, s: X.IfThenElse, mask: np.ndarray) -> None:
        condition = np.broadcast_to(np.asarray(self.e.value(s.condition, mask), bool), (self.threads,))
        for branch, active in ((s.then_case, mask & condition), (s.else_case, mask & ~condition)):
            if branch is not None and active.any():
                self._statement(branch, active)

    def _for(self, s: X.For, mask: np.ndarray) -> None:
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
            self._statement(s.body, active)
        self._leave()

    def _while(self, s: X.While, mask: np.ndarray) -> None:
        self._enter()
        while True:
            mask = self._next(mask)
            mask = mask & np.broadcast_to(np.asarray(self.e.value(s.condition, mask), bool), (self.threads,))
            if not mask.any():
                break
            self._statement(s.body, mask)
        self._leave()

    def _enter(self) -> None:
        self.left.append(np.zeros(self.threads, bool))
        self.skipped.append(np.zeros(self.threads, bool))

    def _next(self, mask: np.ndarray) -> np.ndarray:
        """Threads that begin another iteration: those that did not leave the loop by `break`."""
        self.skipped[-1][:] = False
        return mask & ~self.left[-1]

    def _leave(self) -> None:
        self.left.pop()
        self.skipped.pop()

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
        self.statistics.instructions[name] = self.statistics.instructions.get(name, 0) + 1
        if name == "sync":
            self._together(mask, "a barrier")
            self.shared.barrier()
            self.statistics.barriers += 1
            return None
        if name == "shuffle_xor":
            self._together(mask, "a shuffle")
            value = np.broadcast_to(np.asarray(self.e.value(call.args[0], mask)), (self.threads,))
            return value[self.number ^ int(call.args[1].value)]
        if "tl." + name in thread_ops.COLLECTIVES or name in ("sync_warp", "named_sync", "named_arrive"):
            return self._collective(name, list(call.args), mask)
        if name.startswith("mbarrier_"):
            return self._mbarrier(name, list(call.args), mask)
        if name == "fence_proxy_async":
            self.shared.fence(self.number[mask])
            return None
        if name in ("fence_barrier_init", "pdl_trigger", "pdl_sync"):
            return None
        if name == "round_tf32":
            return instructions.round_tf32(np.asarray(self.e.value(call.args[0], mask)))
        if name.startswith("cp_async_commit"):
            self.groups.append(self.open)
            self.open = []
            return None
        if name == "cp_async_wait":
            self._wait(int(call.args[0].value))
            return None
        if name.startswith("cp_async_"):
            self._copy(name, list(call.args), mask)
            return None
        if name.startswith("ldmatrix"):
            self._together(mask, name)
            self._ldmatrix(name, call.args[0].args[0], call.args[1].args[0])
            return None
        if name.startswith("print_"):
            self._print(list(call.args), mask)
            return None
        if name == "check":
            self._assert(call.args[0], str(call.args[1].value), mask)
            return None
        if name.startswith("atomic_"):
            return atomics.update(self, name, list(call.args), mask)
        if name.startswith("wgmma_"):
            self._together(mask, name)
            self._wgmma(name, list(call.args))
            return None
        if name.startswith("mma_"):
            self._together(mask, name)
            self._mma(name, *(a.args[0] for a in call.args))
            return None
        raise NotImplementedError(name)

    def _collective(self, name: str, args: list[Any], mask: np.ndarray) -> Any:
        """Threads exchange values where they are; a named barrier orders the whole block, as it is run in
        step.
        """
        values = [np.broadcast_to(np.asarray(self.e.value(a, mask)), (self.threads,)) for a in args]
        if name in ("sync_warp", "named_sync", "named_arrive"):
            self.shared.barrier()
            return None
        if name.startswith("shfl_"):
            try:
                return collectives.shuffle(name, *values[:3], mask)
            except ValueError as error:
                raise EmulationError(f"line {self.line}: {error}") from None
        if name.startswith("match_"):
            return collectives.match(name, values[0], mask)
        if name.startswith("warp_reduce_"):
            self._together(mask, name)
            return collectives.reduce(name, values[0])
        if name.startswith("syncthreads_"):
            self._together(mask, name)
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
        """mbarriers by their byte in shared memory: [arrivals of a phase, arrivals to come, its parity]."""
        load = args[0].args[0]
        index = np.broadcast_to(np.asarray(self.e.value(load.indices[0], mask)), (self.threads,))[mask]
        value = (
            np.broadcast_to(np.asarray(self.e.value(args[1], mask)), (self.threads,)) if args[1:] else None
        )
        for at, number in zip(self._byte(load.source, index, False).tolist(), self.number[mask], strict=True):
            if name == "mbarrier_init":
                assert value is not None
                self.mbarriers[at] = [int(value[number]), int(value[number]), 0]
                continue
            state = self.mbarriers[at]
            if name == "mbarrier_arrive":
                state[1] -= 1
                if state[1] == 0:
                    state[1], state[2] = state[0], state[2] ^ 1
                    self.shared.barrier()
            elif name == "mbarrier_wait":
                assert value is not None
                if state[2] == int(value[number]):
                    raise EmulationError(f"line {self.line}: thread {number} waits for ever at a barrier")
            else:
                raise NotImplementedError(name)

    def _together(self, mask: np.ndarray, what: str) -> None:
        if not mask.all():
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
        self.open.append((active, start, _bytes(data[mask], True)))

    def _wait(self, in_flight: int) -> None:
        while len(self.groups) > in_flight:
            for thread, start, data in self.groups.pop(0):
                self.shared.land(thread, start, data)

    def _ldmatrix(self, name: str, to: Any, come: Any) -> None:
        count = int(name[len("ldmatrix_x")])
        index = np.broadcast_to(np.asarray(self.e.value(come.indices[0], self.all)), (self.threads,))
        start = self._byte(come.source, index, False)
        if (start % 16).any():
            raise EmulationError(f"line {self.line}: ldmatrix rows are not aligned to 16 bytes")
        used = self.number % 32 < 8 * count
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
        lanes = at[:, None] + np.arange(values.shape[1])
        self._check(to.source, lanes, False)
        array[self.number[:, None], lanes] = values

    def _mma(self, name: str, d: Any, a: Any, b: Any) -> None:
        of_a, of_b, of_d = instructions.registers_of(name)
        left, _ = self._registers(a, of_a)
        right, _ = self._registers(b, of_b)
        old, at = self._registers(d, of_d)
        new = instructions.mma(name, old, left, right).reshape(self.threads, of_d)
        self.local[d.source.__chandle__()][self.number[:, None], at] = new

    def _wgmma(self, name: str, args: list[Any]) -> None:
        op = wgmma.instruction(name)
        numbers = [int(a.value) for a in args[:-3]]
        d, a, b = (x.args[0] for x in args[-3:])
        registers, old = self.local[d.source.__chandle__()], self.number[:, None]
        at = self._pointed(d)[:, None] + np.arange(op.tiles * op.n // 2)
        self._check(d.source, at, False)
        for first in range(0, self.threads, wgmma.GROUP):
            mine = slice(first, first + wgmma.GROUP)
            right = [
                self._matrix(b, mine, op.n, numbers[-6:-3], k, numbers[-3:], 0, op.b_turned, op.operand)
                for k in range(op.steps)
            ]
            if op.by_registers:
                count = op.tiles * op.steps * 8
                held = self.local[a.source.__chandle__()][
                    old[mine], self._pointed(a)[mine, None] + np.arange(count)
                ]
                left = [wgmma.fragment(held[:, 8 * k : 8 * k + 8]) for k in range(op.tiles * op.steps)]
            else:
                left = [
                    self._matrix(
                        a, mine, 64, numbers[:3], k, numbers[4:7], t * numbers[3], op.a_turned, op.operand
                    )
                    for t in range(op.tiles)
                    for k in range(op.steps)
                ]
            new = wgmma.multiply(op, registers[old[mine], at[mine]], left, right)
            registers[old[mine], at[mine]] = new

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
    ) -> np.ndarray:
        """An operand of one instruction through its descriptor, which the threads of the group give alike."""
        where = self._byte(pointer.source, self._pointed(pointer), False)[group]
        if (where != where[0]).any():
            raise EmulationError(f"line {self.line}: the threads of a warpgroup give different descriptors")
        distance, outer, per = walk
        start = int(where[0]) + 16 * (further + step // per * outer + step % per * distance)
        thread = int(self.number[group][0])

        def read(places: np.ndarray) -> np.ndarray:
            threads = np.full(len(places), thread)
            return self.shared.read_by_proxy(threads, places, 16, self._what(pointer.source))

        mode, leading, stride = descriptor
        return wgmma.matrix(read, start, rows, mode, leading, stride, turned, operand)

    def _pointed(self, load: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.e.value(load.indices[0], self.all)), (self.threads,))

    def _registers(self, load: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
        """[warps, 32, count] registers beginning at the pointer, and where they are."""
        at = np.broadcast_to(np.asarray(self.e.value(load.indices[0], self.all)), (self.threads,))
        lanes = at[:, None] + np.arange(count)
        self._check(load.source, lanes, False)
        found = self.local[load.source.__chandle__()][self.number[:, None], lanes]
        return found.reshape(-1, 32, count), lanes


def _bytes(value: np.ndarray, vector: bool) -> np.ndarray:
    rows = np.ascontiguousarray(value if vector else value[:, None])
    return rows.view(np.uint8).reshape(len(rows), -1)
