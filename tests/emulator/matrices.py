"""The matrix instructions: ldmatrix, stmatrix, mma and wgmma, whose operands are read by descriptors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.emulator import instructions, sparse, wgmma
from tests.emulator.actor import Product
from tests.emulator.memory import EmulationError, poison
from tests.emulator.order import GROUP
from tilelang.layout.banks import conflict_degree
from tilelang.passes.walk import bits_of

if TYPE_CHECKING:
    from tests.emulator.block import Block

STARTS = ("ldmatrix", "stmatrix", "mma_", "wgmma_", "hold_", "matrix_descriptor")


def execute(block: Block, name: str, args: list[Any], mask: np.ndarray) -> Any:
    """A call whose name begins with one of STARTS."""
    if name == "matrix_descriptor":
        return _descriptor(block, args, mask)
    if name == "wgmma_wait":
        _finish_products(block, int(args[0].value))
        _finish_groups(block, int(args[0].value))
    elif name == "wgmma_commit":
        block.actor.groups_of_products.append(block.actor.begun)
        block.actor.begun = []
    elif name.startswith("hold_") or name == "wgmma_arrive":
        pass  # said to the compiler, not to the hardware
    elif name.startswith("wgmma_"):
        block.whole(mask, name, GROUP)
        single = wgmma.single(name)
        if single is not None:
            _single_product(block, single, args, mask)
        else:
            _wgmma(block, name, args, mask)
    else:
        block.whole(mask, name, 32)
        _of_a_warp(block, name, args, mask)
    return None


def _of_a_warp(block: Block, name: str, args: list[Any], mask: np.ndarray) -> None:
    if name.startswith("ldmatrix"):
        _ldmatrix(block, name, args[0].args[0], args[1].args[0], mask)
    elif name.startswith("stmatrix"):
        _stmatrix(block, name, args[0].args[0], args[1:], mask)
    elif name.startswith("mma_sp_"):
        _mma_sp(block, name, int(args[0].value), [a.args[0] for a in args[1:]], mask)
    else:
        d, a, b = (a.args[0] for a in args)
        _mma(block, name, d, a, b, mask)


def _ldmatrix(block: Block, name: str, to: Any, come: Any, mask: np.ndarray) -> None:
    count = int(name[len("ldmatrix_x")])
    index = np.broadcast_to(np.asarray(block.e.value(come.indices[0], block.all)), (block.threads,))
    start = block.byte(come.source, index, False)
    if (start[mask] % 16).any():
        raise EmulationError(f"line {block.line}: ldmatrix rows are not aligned to 16 bytes")
    used = (block.number % 32 < 8 * count) & mask
    rows = np.zeros((block.threads, 16), np.uint8)
    rows[used] = block.shared.read(block.number[used], start[used], 16, block.what(come.source))
    for first in range(0, block.threads, 8):
        if used[first]:
            degree = conflict_degree([int(x) for x in start[first : first + 8]], 16)
            block.statistics.ldmatrix_conflicts = max(block.statistics.ldmatrix_conflicts, degree)
    registers = instructions.ldmatrix(rows.reshape(-1, 32, 16), count, name.endswith("trans"))
    flat = registers.reshape(block.threads, count)
    array = block.local[to.source.__chandle__()]
    values = flat.view(array.dtype)
    at = np.broadcast_to(np.asarray(block.e.value(to.indices[0], block.all)), (block.threads,))
    lanes = (at[:, None] + np.arange(values.shape[1]))[mask]
    block.check(to.source, lanes, False)
    array[block.number[mask][:, None], lanes] = values[mask]


def _stmatrix(block: Block, name: str, to: Any, registers: list[Any], mask: np.ndarray) -> None:
    """Lane 8 i + r names the row r of matrix i; register i of lane 4 g + t is its row g, columns 2 t and
    on.
    """
    index = np.broadcast_to(np.asarray(block.e.value(to.indices[0], mask)), (block.threads,))
    start = block.byte(to.source, index, False)
    if (start[mask & (block.number % 32 < 8 * len(registers))] % 16).any():
        raise EmulationError(f"line {block.line}: stmatrix rows are not aligned to 16 bytes")
    for k, register in enumerate(registers):
        held = np.broadcast_to(np.asarray(block.e.value(register, mask)), (block.threads,)).astype(np.uint32)
        for first in np.flatnonzero(mask)[::32].tolist():
            halves = np.ascontiguousarray(held[first : first + 32]).view(np.uint16).reshape(8, 8)
            rows = np.ascontiguousarray(halves.T if name.endswith("trans") else halves)
            lanes = first + 8 * k + np.arange(8)
            block.shared.write(lanes, start[lanes], rows.view(np.uint8), block.what(to.source))


def _mma(block: Block, name: str, d: Any, a: Any, b: Any, mask: np.ndarray) -> None:
    of_a, of_b, of_d = instructions.registers_of(name)
    left, _ = block.registers(a, of_a, mask)
    right, _ = block.registers(b, of_b, mask)
    old, at = block.registers(d, of_d, mask)
    new = instructions.mma(name, old, left, right).reshape(-1, of_d)
    block.local[d.source.__chandle__()][block.number[mask][:, None], at] = new


def _mma_sp(block: Block, name: str, selector: int, loads: list[Any], mask: np.ndarray) -> None:
    of_a, of_b, of_d = sparse.registers_of(name)
    d, a, b, e = loads
    left, right = (block.registers(x, n, mask)[0] for x, n in ((a, of_a), (b, of_b)))
    old, at = block.registers(d, of_d, mask)
    held = block.registers(e, 4 // (bits_of(str(e.source.dtype)) // 8), mask)[0]
    metadata = np.ascontiguousarray(held).view(np.uint32)[..., 0]
    new = sparse.multiply(name, selector, (old, left, right), metadata).reshape(-1, of_d)
    block.local[d.source.__chandle__()][block.number[mask][:, None], at] = new


def _wgmma(block: Block, name: str, args: list[Any], mask: np.ndarray) -> None:
    op = wgmma.instruction(name)
    pointers = [x.args[0] for x in args[-4 if op.sparse else -3 :]]
    numbers = [int(a.value) for a in args[: -len(pointers)]]
    d, a, b = pointers[:3]
    registers, old = block.local[d.source.__chandle__()], block.number[:, None]
    at = block.pointed(d)[:, None] + np.arange(op.tiles * op.n // 2)
    block.check(d.source, at[mask], False)
    for first in np.flatnonzero(mask)[:: wgmma.GROUP].tolist():
        mine = slice(first, first + wgmma.GROUP)
        right = [
            _matrix(
                block, b, mine, op.n, numbers[-6:-3], k, numbers[-3:], 0, op.b_turned, op.right, op.b_bytes
            )
            for k in range(op.steps)
        ]
        if op.by_registers:
            each = op.k // (4 if op.sparse else 2)  # elements of one step in a thread
            count = op.tiles * op.steps * each
            held = block.local[a.source.__chandle__()][
                old[mine], block.pointed(a)[mine, None] + np.arange(count)
            ]
            left = [wgmma.fragment(held[:, each * k : each * (k + 1)]) for k in range(op.tiles * op.steps)]
        else:
            left = [
                _matrix(
                    block, a, mine, 64, numbers[:3], k, numbers[4:7], t * numbers[3], op.a_turned, op.operand
                )
                for t in range(op.tiles)
                for k in range(op.steps)
            ]
        if op.sparse:
            held = block.words(pointers[3], op.tiles * op.steps)[mine]
            left = [wgmma.written_out(op, x, held[:, k]) for k, x in enumerate(left)]
        key = (d.source.__chandle__(), first)
        pending = [p for p in block.actor.products if p.key == key]
        before = pending[-1].new if pending else registers[old[mine], at[mine]]
        new = wgmma.multiply(op, before, left, right)
        if op.goes_on:  # until somebody waits the registers hold nothing that could be used
            block.actor.products.append(Product(key, registers, (old[mine], at[mine]), new, block.read))
            registers[old[mine], at[mine]] = poison(new.shape, str(d.source.dtype))
        else:
            registers[old[mine], at[mine]] = new
        block.read = []


def _descriptor(block: Block, args: list[Any], mask: np.ndarray) -> np.ndarray:
    mode, leading, stride = (int(a.value) for a in args[:3])
    load = args[3].args[0]
    index = np.broadcast_to(np.asarray(block.e.value(load.indices[0], mask)), (block.threads,))
    block.check(load.source, index[mask], False)
    bytes_ = block.byte(load.source, index, False)
    return np.array([wgmma.descriptor(int(b), mode, leading, stride) for b in bytes_], np.uint64)


def _single_product(block: Block, op: wgmma.Instruction, args: list[Any], mask: np.ndarray) -> None:
    """One instruction of the author: its results arrive when the group that it is committed to is waited
    for.
    """
    if block.actor.products:
        raise NotImplementedError("products of T.wgmma_gemm on their way beside single ones")
    d, count = args[0].args[0], op.n // 2
    registers = block.local[d.source.__chandle__()]
    at = block.pointed(d)[:, None] + np.arange(count)
    block.check(d.source, at[mask], False)
    values = [
        np.broadcast_to(np.asarray(block.e.value(a, mask)), (block.threads,))
        for a in ([args[3]] if op.by_registers else [args[1]]) + args[2:4]
    ]
    for first in np.flatnonzero(mask)[:: wgmma.GROUP].tolist():
        mine = slice(first, first + wgmma.GROUP)
        own = block.number[mine, None]
        held = None
        if op.by_registers:
            a = args[1].args[0]
            array, places = block.local[a.source.__chandle__()], block.pointed(a)[mine, None]
            places = places + np.arange(16 // block.local[a.source.__chandle__()].itemsize)
            block.check(a.source, places, False)
            given = np.ascontiguousarray(array[own, places])
            held = (array, (own, places), given)
            left = wgmma.fragment(given.view(instructions.OPERANDS[op.operand]))
        else:
            left = _described(block, values[0][mine], 64, op.a_turned, op.operand, first)
        right = _described(block, values[1][mine], op.n, op.b_turned, op.right, first, op.b_bytes)
        if op.sparse:
            left = wgmma.written_out(op, left, block.words(args[4].args[0], 1)[mine, 0])
        place = (own, at[mine])
        key = (d.source.__chandle__(), first, int(at[first, 0]))
        before = [p for p in _going_on(block) if p.key == key]
        scale = int(values[2][first])
        old = before[-1].new if before else registers[place]
        new = wgmma.multiply(op, old if scale else np.zeros_like(old), [left], [right])
        block.actor.begun.append(Product(key, registers, place, new, block.read, held))
        block.read = []
        registers[place] = poison(new.shape, str(d.source.dtype))


def _described(
    block: Block, bits: np.ndarray, rows: int, turned: bool, operand: str, thread: int, depth: int = 32
) -> np.ndarray:
    """An operand through the descriptor that the threads of a warp group give alike, from `thread` on."""
    if (bits != bits[0]).any():
        raise EmulationError(f"line {block.line}: the threads of a warpgroup give different descriptors")
    one, what = wgmma.described(int(bits[0])), f"line {block.line}: a described tile"

    def read(places: np.ndarray) -> np.ndarray:
        found = block.shared.read_by_proxy(np.full(len(places), thread), places, 16, what)
        block.read.append((places, found.copy(), what))
        return found

    return wgmma.matrix(read, one.start, rows, one.mode, one.leading, one.stride, turned, operand, depth)


def _going_on(block: Block) -> list[Product]:
    """Single products on their way, oldest first."""
    return [p for group in (*block.actor.groups_of_products, block.actor.begun) for p in group]


def _finish_groups(block: Block, in_flight: int) -> None:
    while len(block.actor.groups_of_products) > in_flight:
        for done in block.actor.groups_of_products.pop(0):
            _finish(block, done, _going_on(block))


def _finish(block: Block, done: Product, others: list[Product]) -> None:
    """A product arrives, unless others go on in its registers; its operands are as it found them."""
    for places, bytes_, what in done.read:
        if (block.shared.data[places[:, None] + np.arange(16)] != bytes_).any():
            raise EmulationError(f"{what} was overwritten while wgmma read it")
    if done.held is not None and (done.held[0][done.held[1]] != done.held[2]).any():
        raise EmulationError("registers were overwritten while wgmma read them")
    if not any(p.key == done.key for p in others):
        done.registers[done.at] = done.new


def _finish_products(block: Block, in_flight: int) -> None:
    """The oldest products arrive in their registers; nobody may have written to their operands."""
    groups = len({p.key[1] for p in block.actor.products}) or 1
    while len(block.actor.products) > in_flight * groups:
        done = block.actor.products.pop(0)
        _finish(block, done, block.actor.products)


def _matrix(
    block: Block,
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
    where = block.byte(pointer.source, block.pointed(pointer), False)[group]
    if (where != where[0]).any():
        raise EmulationError(f"line {block.line}: the threads of a warpgroup give different descriptors")
    distance, outer, per = walk
    start = int(where[0]) + 16 * (further + step // per * outer + step % per * distance)
    thread = int(block.number[group][0])

    def read(places: np.ndarray) -> np.ndarray:
        threads = np.full(len(places), thread)
        found = block.shared.read_by_proxy(threads, places, 16, block.what(pointer.source))
        block.read.append((places, found.copy(), block.what(pointer.source)))
        return found

    mode, leading, stride = descriptor
    return wgmma.matrix(read, start, rows, mode, leading, stride, turned, operand, depth)
