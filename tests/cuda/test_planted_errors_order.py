"""More errors planted in the compiler: orders that are lost, predicates, early copies, remapped blocks.

As in `test_planted_errors`: every kernel is right with the compiler as it is, and goes wrong with its fault.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels import lower_text
from tests.cuda.planted import Fault, FoundError
from tests.emulator.block import run
from tests.emulator.memory import poison
from tilelang.passes import expand_reducers, guard_bounds, insert_sync, plan_pipelines, plan_shared
from tilelang.passes import swizzle_blocks as swizzle
from tilelang.targets.simt.ops import reduce

HEAD = """
@tilelang.jit
def k(A):
    A: T.Tensor((24, 40), T.float32)
    B = T.empty((24, 40), T.float32)
    with T.Kernel({grid}, threads=64) as {blocks}:
        s = T.alloc_shared((8, 40), T.float32)
        f = T.alloc_fragment((8, 40), T.float32)
        r = T.alloc_fragment((8,), T.float32)
"""
TAIL = "    return B\n"


def kernel(body: str, grid: str = "3", blocks: str = "bx") -> str:
    lines = "".join(f"        {line}\n" for line in body.strip("\n").split("\n"))
    return HEAD.format(grid=grid, blocks=blocks) + lines + TAIL


OVERWRITTEN = kernel("""
T.copy(A[bx * 8, 0], s)
for i, j in T.Parallel(8, 40):
    f[i, j] = s[7 - i, 39 - j]
for i, j in T.Parallel(8, 40):
    s[i, j] = f[i, j] + 1
T.copy(s, B[bx * 8, 0])
""")
COMES_BACK = kernel("""
T.clear(f)
for k in T.serial(3):
    for i, j in T.Parallel(8, 40):
        s[i, j] = A[bx * 8 + i, j] + k
    for i, j in T.Parallel(8, 40):
        f[i, j] += s[7 - i, 39 - j]
T.copy(f, B[bx * 8, 0])
""")
BRANCHES = kernel("""
T.copy(A[bx * 8, 0], s)
T.sync_threads()
if bx > 0:
    T.clear(f)
else:
    for i, j in T.Parallel(8, 40):
        s[i, j] = s[i, j] + 1
for i, j in T.Parallel(8, 40):
    B[bx * 8 + i, j] = s[7 - i, 39 - j]
""")
ADDED = kernel(
    """
T.copy(A[bx * 8, 0], B[bx * 8:bx * 8 + 8, 0:40])
T.sync_threads()
for i, j in T.Parallel(8, 40):
    T.atomic_add(B[bx * 8 + i, j], 1.0)
""",
    grid="4",
)
NESTED = kernel("""
T.clear(f)
for n in T.serial(2):
    for k in T.Pipelined(4, num_stages=3):
        T.copy(A[(bx + k) % 3 * 8, 0], s)
        for i, j in T.Parallel(8, 40):
            f[i, j] += s[7 - i, 39 - j] * (n + 1)
T.copy(f, B[bx * 8, 0])
""")
KEPT = kernel("""
T.clear(s)
T.clear(f)
for k in T.Pipelined(3, num_stages=2):
    for i, j in T.Parallel(8, 40):
        f[i, j] += s[i, j]
    T.copy(A[bx * 8, 0], s)
T.copy(f, B[bx * 8, 0])
""")
IN_PART = kernel("""
T.fill(s, 1)
T.clear(f)
for k in T.Pipelined(3, num_stages=2):
    T.copy(A[bx * 8:bx * 8 + 4, :], s[0:4, :])
    for i, j in T.Parallel(8, 40):
        f[i, j] += s[7 - i, 39 - j]
T.copy(f, B[bx * 8, 0])
""")
ROWS = kernel("""
T.fill(r, 3)
T.copy(A[bx * 8, 0], f)
T.reduce_max(f, r, dim=1, clear=False)
for i, j in T.Parallel(8, 40):
    B[bx * 8 + i, j] = r[i]
""")
GOING_ON = kernel("""
rows = T.alloc_shared((8,), T.float32)
T.fill(rows, 3)
T.copy(A[bx * 8, 0], f)
T.reduce_sum(f, rows, dim=1, clear=False)
for i, j in T.Parallel(8, 40):
    B[bx * 8 + i, j] = rows[i]
""")
TWO_TILES = kernel("""
other = T.alloc_shared((8, 40), T.float32)
T.copy(A[bx * 8, 0], s)
for i, j in T.Parallel(8, 40):
    f[i, j] = s[7 - i, 39 - j]
T.copy(f, other)
for i, j in T.Parallel(8, 40):
    B[bx * 8 + i, j] = other[7 - i, 39 - j] * 2
""")
PANELS = kernel(
    """
T.use_swizzle(2)
for i, j in T.Parallel(8, 8):
    B[by * 8 + i, bx * 8 + j] = A[by * 8 + i, bx * 8 + j] * 2
""",
    "5, 3",
    "(bx, by)",
)
LARGEST = kernel("""
q = T.alloc_reducer((8,), T.float32, op="max")
T.copy(A[bx * 8, 0], f)
T.reducer_init(q)
for i, j in T.Parallel(8, 40):
    T.reducer_update(q[i], f[i, j] - 100)
T.finalize_reducer(q, r)
for i, j in T.Parallel(8, 40):
    B[bx * 8 + i, j] = r[i]
""")
NEIGHBOURS = kernel("""
for i, j in T.Parallel(8, 40):
    B[bx * 8 + i, j] = A[bx * 8 + i, j + 1] - A[bx * 8 + i, j]
""")


def of_blocks(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """What is done to the eight rows of every block."""
    return lambda a: np.concatenate([change(a[k : k + 8]) for k in range(0, 24, 8)])


def _turned(a: np.ndarray) -> np.ndarray:
    return a[::-1, ::-1]


def _nested(a: np.ndarray) -> np.ndarray:
    """Four steps over the three blocks: each begins and ends with its own."""
    total = a[:8] + a[8:16] + a[16:]
    return np.concatenate([3 * _turned(total + a[k : k + 8]) for k in range(0, 24, 8)])


def _in_part(a: np.ndarray) -> np.ndarray:
    return _turned(3 * np.concatenate([a[:4], np.ones_like(a[:4])]))


EXPECTED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    OVERWRITTEN: of_blocks(lambda a: _turned(a) + 1),
    COMES_BACK: of_blocks(lambda a: 3 * _turned(a) + 3),
    BRANCHES: lambda a: np.concatenate([_turned(a[:8]) + 1, _turned(a[8:16]), _turned(a[16:])]),
    ADDED: lambda a: a + 1,
    NESTED: _nested,
    KEPT: lambda a: 2 * a,
    IN_PART: of_blocks(_in_part),
    ROWS: lambda a: np.repeat(np.maximum(a.max(axis=1, keepdims=True), 3), 40, 1),
    GOING_ON: lambda a: np.repeat(a.sum(axis=1, keepdims=True) + 3, 40, 1),
    TWO_TILES: lambda a: 2 * a,
    PANELS: lambda a: 2 * a,
    LARGEST: lambda a: np.repeat(a.max(axis=1, keepdims=True) - 100, 40, 1),
    NEIGHBOURS: lambda a: np.pad(a, ((0, 0), (0, 1)))[:, 1:] - a,
}


def execute(text: str) -> None:
    a = np.random.default_rng(0).integers(-8, 9, (24, 40)).astype(np.float32)
    b = poison((24, 40), "float32")
    run(lower_text(text), {"A": a, "B": b})
    wrong = b != EXPECTED[text](a)
    if wrong.any():
        raise FoundError(f"{int(wrong.sum())} elements differ")


def forgets_the_way_back(_: Any) -> Any:
    def fixpoint(self: Any, stmt: Any, entry: Any) -> Any:
        self.count = 0
        body, after = self.statement(stmt.body, entry)
        return body, after, self.count

    return fixpoint


def forgets_the_else(made: Any) -> Any:
    def branch(self: Any, stmt: Any, pending: Any) -> Any:
        new, after = made(self, stmt, pending)
        if stmt.else_case is not None:
            _, after = self.statement(stmt.then_case, pending)
        return new, after

    return branch


def overwrites(made: Any) -> Any:
    def combine(self: Any, *given: Any) -> Any:
        asked = self.reduce
        self.reduce = dataclasses.replace(asked, clear=True)
        try:
            return made(self, *given)
        finally:
            self.reduce = asked

    return combine


def too_short(made: Any) -> Any:
    def fold(self: Any, part: Any) -> Any:
        digits = self._shuffled()
        last = digits[-1]
        self._shuffled = lambda: [*digits[:-1], dataclasses.replace(last, extent=last.extent // 2)]
        try:
            return made(self, part)
        finally:
            del self._shuffled

    return fold


def unclipped(number: Any, size: int, length: Any, _: Any) -> Any:
    panel, inside = number // (length * size), number % (length * size)
    return panel * size + inside % size, inside // size


FAULTS = {
    "no barrier before what is read is overwritten": Fault(
        insert_sync,
        "_conflict",
        lambda made: lambda a, b: a.written and made(a, b),
        partial(execute, OVERWRITTEN),
    ),
    "no barrier on the way back of a loop": Fault(
        insert_sync._Sync, "_fixpoint", forgets_the_way_back, partial(execute, COMES_BACK)
    ),
    "what an else branch wrote is forgotten": Fault(
        insert_sync._Sync, "_if", forgets_the_else, partial(execute, BRANCHES)
    ),
    "atomics outside of the tensor": Fault(
        guard_bounds._Guards,
        "_atomic",
        lambda made: lambda self, call: (made(self, call)[0], []),
        partial(execute, ADDED),
    ),
    "what lies outside reads as the last element": Fault(
        guard_bounds._Guards,
        "_missing",
        lambda made: lambda self, *given: made(self, *given)[:-1],
        partial(execute, NEIGHBOURS),
    ),
    "no barrier before the prologue of an inner pipeline": Fault(
        plan_pipelines._Planner,
        "_pipeline",
        lambda made: lambda self, loop, _: made(self, loop, False),
        partial(execute, NESTED),
    ),
    "copies run early although their tile is read before": Fault(
        plan_pipelines, "hindrance", lambda _: lambda *given: None, partial(execute, KEPT)
    ),
    "tiles that are filled in part have versions": Fault(
        plan_pipelines, "_covers", lambda _: lambda region: True, partial(execute, IN_PART)
    ),
    "a butterfly that is one exchange too short": Fault(
        reduce._Lowering, "_fold_lanes", too_short, partial(execute, ROWS)
    ),
    "a reduction that forgets the old contents": Fault(
        reduce._Lowering, "_combine", overwrites, partial(execute, GOING_ON)
    ),
    "a last panel of blocks as deep as the others": Fault(
        swizzle, "_panels", lambda _: unclipped, partial(execute, PANELS)
    ),
    "a reducer for maxima that begins at 0": Fault(
        expand_reducers,
        "identity",
        lambda made: lambda kind, dtype: made("sum", dtype),
        partial(execute, LARGEST),
    ),
    "tiles whose bytes are given away too early": Fault(
        plan_shared._Life,
        "overlaps",
        lambda _: lambda one, other: one.first < other.last and other.first < one.last,
        partial(execute, TWO_TILES),
    ),
}


@pytest.mark.parametrize("text", EXPECTED, ids=range(len(EXPECTED)))
def test_without_a_fault_nobody_objects(text: str) -> None:
    execute(text)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_error_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    FAULTS[name].must_be_found(monkeypatch)
