"""Memory of an emulated block: poisoned when fresh, watched for races, overruns and misaligned accesses."""

from __future__ import annotations

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from tilelang.arch.float_formats import FORMATS

NUMPY_DTYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "bool": np.bool_,
    **{name: getattr(ml_dtypes, name) for name in FORMATS},
}
NOBODY, MANY, ATOMIC = -1, -2, -3


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


@dataclass
class SharedMemory:
    """The arena of one block, byte by byte: who touched what since the last barrier.

    An access by one thread races with a write by another one in the same stretch between barriers, and a
    write with another one's read. Bytes that an asynchronous copy is filling must not be touched at all.
    """

    size: int
    epoch: int = 0
    data: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.data = np.full(self.size, 0xFF, np.uint8)  # NaN in every float format
        self._writer = np.full(self.size, NOBODY)
        self._written_at = np.full(self.size, -1)
        self._reader = np.full(self.size, NOBODY)
        self._read_at = np.full(self.size, -1)
        self._in_flight = np.zeros(self.size, bool)
        self._unfenced = np.zeros(self.size, bool)  # written, and no proxy fence since

    def barrier(self) -> None:
        self.epoch += 1

    def fence(self, thread: np.ndarray) -> None:
        """fence.proxy.async by `thread` [n]: the asynchronous proxy sees what they wrote, and what others
        wrote before the last barrier.
        """
        theirs = np.isin(self._writer, np.append(thread, ATOMIC))
        if len(thread):
            self._unfenced &= ~theirs & (self._written_at == self.epoch)

    def read_by_proxy(self, thread: np.ndarray, start: np.ndarray, count: int, what: str) -> np.ndarray:
        """`read` by an instruction of the asynchronous proxy."""
        at = self._span(start, count, what)
        if self._unfenced[at].any():
            byte = int(at[self._unfenced[at]][0])
            raise EmulationError(f"{what}: wgmma reads byte {byte}, written with no proxy fence since")
        return self.read(thread, start, count, what)

    def read(self, thread: np.ndarray, start: np.ndarray, count: int, what: str) -> np.ndarray:
        """[n, count] bytes for `thread` [n] from byte `start` [n]."""
        at = self._span(start, count, what)
        self._check_flight(at, what)
        writer = self._writer[at]
        bad = (self._written_at[at] == self.epoch) & (writer != thread[:, None])
        if bad.any():
            self._race(at, bad, thread, writer, f"{what} reads what", "wrote")
        fresh = self._read_at[at] < self.epoch
        same = self._reader[at] == thread[:, None]
        self._reader[at] = np.where(fresh | same, thread[:, None], MANY)
        # Several threads of this very access may read one byte.
        flat, owner = at.ravel(), np.repeat(thread, count)
        order = np.argsort(flat, kind="stable")
        flat, owner = flat[order], owner[order]
        shared = (flat[1:] == flat[:-1]) & (owner[1:] != owner[:-1])
        self._reader[flat[1:][shared]] = MANY
        self._read_at[at] = self.epoch
        return self.data[at]

    def write(self, thread: np.ndarray, start: np.ndarray, bytes_: np.ndarray, what: str) -> None:
        at = self._span(start, bytes_.shape[1], what)
        self._check_flight(at, what)
        self._check_write(thread, at, what)
        self.data[at] = bytes_
        self._unfenced[at] = True
        self._writer[at] = thread[:, None]
        self._written_at[at] = self.epoch

    def begin(self, thread: np.ndarray, start: np.ndarray, count: int, what: str) -> None:
        """An asynchronous write: it may land at any moment until `land`."""
        at = self._span(start, count, what)
        self._check_flight(at, what)
        self._check_write(thread, at, what)
        self._in_flight[at] = True
        self.data[at] = 0xFF

    def land(self, thread: np.ndarray, start: np.ndarray, bytes_: np.ndarray) -> None:
        at = start[:, None] + np.arange(bytes_.shape[1])
        self._in_flight[at] = False
        self._unfenced[at] = True
        self.data[at] = bytes_
        self._writer[at] = thread[:, None]
        self._written_at[at] = self.epoch

    def touch_atomically(self, thread: np.ndarray, at: np.ndarray, what: str) -> None:
        """Atomic updates of the bytes `at` [n, bytes] by `thread` [n]: they race with all but their like."""
        self._check_flight(at, what)
        for owner, when, did in (
            (self._writer, self._written_at, "wrote"),
            (self._reader, self._read_at, "read"),
        ):
            other = owner[at]
            bad = (when[at] == self.epoch) & (other != thread[:, None]) & (other != ATOMIC)
            if bad.any():
                self._race(at, bad, thread, other, f"{what} updates what", did)
        self._writer[at] = ATOMIC
        self._written_at[at] = self.epoch

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
        writer = self._writer[at]
        bad = (self._written_at[at] == self.epoch) & (writer != thread[:, None])
        if bad.any():
            self._race(at, bad, thread, writer, f"{what} overwrites what", "wrote")
        reader = self._reader[at]
        bad = (self._read_at[at] == self.epoch) & (reader != thread[:, None])
        if bad.any():
            self._race(at, bad, thread, reader, f"{what} overwrites what", "read")

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
