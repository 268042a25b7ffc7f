"""Memory of an emulated block: poisoned when fresh, watched for races, overruns and misaligned accesses."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.emulator.order import ATOMIC, GROUP, MANY, NOBODY, Order
from tilelang.arch.float_formats import FORMATS

NUMPY_DTYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "bool": np.bool_,
    **{name: getattr(ml_dtypes, name) for name in FORMATS},
}


class EmulationError(AssertionError):
    """The function did something that a GPU would not survive, or would answer differently each time."""


def numpy_dtype(dtype: str) -> np.dtype:
    """The numpy dtype that holds elements of a TIRX dtype."""
    return np.dtype(NUMPY_DTYPES.get(dtype, dtype))


def poison(count: int | tuple[int, ...], dtype: str) -> np.ndarray:
    """Fresh memory: NaN, or an unlikely integer."""
    kind = numpy_dtype(dtype)
    if dtype.startswith(("float", "bfloat")):
        return np.full(count, np.nan, kind)
    return np.full(count, 1 if dtype == "bool" else 0x55, kind)


class SharedMemory:
    """The arena of one block, byte by byte: who touched what, and what came before.

    An access by one thread races with a write by another one that it does not come after, and a write with
    another one's read. Bytes that an asynchronous copy is filling must not be touched at all, those that one
    is reading must not be written.
    """

    def __init__(self, size: int, threads: int = GROUP) -> None:
        self.size, self.order = size, Order(threads)
        self.data = np.full(size, 0xFF, np.uint8)  # NaN in every float format
        groups = -(-threads // GROUP)
        self._writer = np.full(size, NOBODY)
        self._written_at = np.full(size, -1)
        self._reader = np.full((groups, size), NOBODY)
        self._read_at = np.full((groups, size), -1)
        self._in_flight = np.zeros(size, bool)
        self._leaving = np.zeros(size, bool)  # a bulk copy reads them
        self._unfenced = np.zeros(size, bool)  # written, and no proxy fence since

    def barrier(self) -> None:
        self.order.barrier()

    def fence(self, thread: np.ndarray) -> None:
        """fence.proxy.async by `thread` [n]: the asynchronous proxy sees what they wrote, and what others
        wrote that they come after.
        """
        if not len(thread):
            return
        at = np.flatnonzero(self._unfenced)
        writer, stamp = self._writer[at], self._written_at[at]
        done = np.isin(writer, np.append(thread, ATOMIC))
        for one in {int(thread[0]), int(thread[-1])}:
            done |= self.order.after(np.full(len(at), one), writer, stamp)
        self._unfenced[at[done]] = False

    def read_by_proxy(self, thread: np.ndarray, start: np.ndarray, count: int, what: str) -> np.ndarray:
        """`read` by an instruction of the asynchronous proxy."""
        at = self._span(start, count, what)
        if self._unfenced[at].any():
            byte = int(at[self._unfenced[at]][0])
            raise EmulationError(f"{what}: bulk read of byte {byte}, written with no proxy fence since")
        return self.read(thread, start, count, what)

    def read(self, thread: np.ndarray, start: np.ndarray, count: int, what: str) -> np.ndarray:
        """[n, count] bytes for `thread` [n] from byte `start` [n]."""
        at = self._span(start, count, what)
        self._check_flight(at, what)
        writer, mine = self._writer[at], thread[:, None]
        bad = (writer != mine) & (writer != NOBODY) & ~self.order.after(mine, writer, self._written_at[at])
        if bad.any():
            self._race(at, bad, thread, writer, f"{what} reads what", "wrote")
        for group in np.unique(thread // GROUP):
            rows = thread // GROUP == group
            self._note_readers(int(group), thread[rows], at[rows])
        return self.data[at]

    def _note_readers(self, group: int, thread: np.ndarray, at: np.ndarray) -> None:
        reader, when, mine = self._reader[group], self._read_at[group], thread[:, None]
        old = reader[at]
        fresh = (old == NOBODY) | ((old >= 0) & self.order.after(mine, old, when[at]))
        fresh |= (old == MANY) & self.order.after_readers(mine, group, old, when[at])
        reader[at] = np.where(fresh | (old == mine), mine, MANY)
        # Several threads of this very access may read one byte.
        flat, owner = at.ravel(), np.repeat(thread, at.shape[1])
        by_place = np.argsort(flat, kind="stable")
        flat, owner = flat[by_place], owner[by_place]
        shared = (flat[1:] == flat[:-1]) & (owner[1:] != owner[:-1])
        reader[flat[1:][shared]] = MANY
        when[at] = self.order.now

    def write(self, thread: np.ndarray, start: np.ndarray, bytes_: np.ndarray, what: str) -> None:
        if len(start) > 1 and (start == start[0]).all() and (bytes_ == bytes_[0]).all():
            thread, start, bytes_ = thread[-1:], start[-1:], bytes_[-1:]  # one value to one place
        at = self._span(start, bytes_.shape[1], what)
        self._check_flight(at, what)
        self._check_write(thread, at, what)
        self.data[at] = bytes_
        self._unfenced[at] = True
        self._writer[at] = thread[:, None]
        self._written_at[at] = self.order.now

    def begin(self, thread: np.ndarray, start: np.ndarray, count: int, what: str) -> None:
        """An asynchronous write: it may land at any moment until `land`."""
        at = self._span(start, count, what)
        self._check_flight(at, what)
        self._check_write(thread, at, what)
        self._in_flight[at] = True
        self.data[at] = 0xFF

    def land(self, thread: np.ndarray, start: np.ndarray, bytes_: np.ndarray, proxy: bool = False) -> None:
        """What `begin` announced; `proxy`: by the asynchronous proxy, whose readers need no fence then."""
        at = start[:, None] + np.arange(bytes_.shape[1])
        self._in_flight[at] = False
        self._unfenced[at] = not proxy
        self.data[at] = bytes_
        self._writer[at] = thread[:, None]
        self._written_at[at] = self.order.now

    def leave(self, start: np.ndarray, count: int, reading: bool) -> None:
        """A bulk copy begins or ends to read bytes."""
        self._leaving[start[:, None] + np.arange(count)] = reading

    def touch_atomically(self, thread: np.ndarray, at: np.ndarray, what: str) -> None:
        """Atomic updates of the bytes `at` [n, bytes] by `thread` [n]: they race with all but their like."""
        self._check_flight(at, what)
        writer, mine = self._writer[at], thread[:, None]
        bad = (writer != mine) & (writer != ATOMIC) & (writer != NOBODY)
        bad &= ~self.order.after(mine, writer, self._written_at[at])
        if bad.any():
            self._race(at, bad, thread, writer, f"{what} updates what", "wrote")
        self._check_readers(thread, at, f"{what} updates what")
        self._writer[at] = ATOMIC
        self._written_at[at] = self.order.now

    def _span(self, start: np.ndarray, count: int, what: str) -> np.ndarray:
        if len(start) and (start.min() < 0 or start.max() + count > self.size):
            raise EmulationError(
                f"{what}: bytes {start.min()}..{start.max() + count} of an arena of {self.size}"
            )
        return start[:, None] + np.arange(count)

    def _check_flight(self, at: np.ndarray, what: str) -> None:
        if self._in_flight[at].any():
            byte = int(at[self._in_flight[at]][0])
            raise EmulationError(f"{what} touches byte {byte} while an asynchronous copy fills it")

    def _check_write(self, thread: np.ndarray, at: np.ndarray, what: str) -> None:
        flat = at.ravel()
        if np.unique(flat).size < flat.size:
            raise EmulationError(f"{what}: two threads write the same byte in one statement")
        if self._leaving[at].any():
            byte = int(at[self._leaving[at]][0])
            raise EmulationError(f"{what} overwrites byte {byte} while an asynchronous copy reads it")
        writer, mine = self._writer[at], thread[:, None]
        bad = (writer != mine) & (writer != NOBODY) & ~self.order.after(mine, writer, self._written_at[at])
        if bad.any():
            self._race(at, bad, thread, writer, f"{what} overwrites what", "wrote")
        self._check_readers(thread, at, f"{what} overwrites what")

    def _check_readers(self, thread: np.ndarray, at: np.ndarray, verb: str) -> None:
        mine = thread[:, None]
        for group in range(len(self._reader)):
            reader, when = self._reader[group][at], self._read_at[group][at]
            bad = (reader != mine) & (reader != NOBODY)
            bad &= ~self.order.after_readers(mine, group, reader, when)
            if bad.any():
                self._race(at, bad, thread, reader, verb, "read")

    def _race(
        self, at: np.ndarray, bad: np.ndarray, thread: np.ndarray, other: np.ndarray, verb: str, did: str
    ) -> None:
        row, column = np.argwhere(bad)[0]
        who = int(other[row, column])
        name = {MANY: "several threads", ATOMIC: "an atomic"}.get(who, f"thread {who}")
        raise EmulationError(
            f"race: thread {int(thread[row])}: {verb} {name} {did} at byte {int(at[row, column])}, "
            "with no barrier between"
        )


def bytes_of(value: np.ndarray, vector: bool) -> np.ndarray:
    rows = np.ascontiguousarray(value if vector else value[:, None])
    return rows.view(np.uint8).reshape(len(rows), -1)
