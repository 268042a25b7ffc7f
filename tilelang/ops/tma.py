"""T.tma_copy: a copy between global and shared memory that the tensor memory accelerator does by itself.

Its record is that of a copy, with `tma` set and, for loads, the address of the barrier. T.copy_cluster with a
barrier is one too: from shared memory to that of another block of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.ir import tile_ops
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region
from tilelang.ops.build import attributes
from tilelang.ops.operands import declared, dtype_name

from tvm import ir, sym  # isort: skip
from tvm import tirx as X  # isort: skip

_CALLEE = "T.tma_copy"


@dataclass(frozen=True, eq=False)
class TmaCopy:
    """`dst[...] = src[...]`, begun by one thread, or by one of each `leader` threads. `barrier`: address of
    the mbarrier of a load, None for a store. `arrive`: who begins a load arrives at the barrier too. `mask`:
    the blocks of the cluster that a load is for, a bit for each rank; the lowest one begins it. `rank`: the
    block of the cluster whose `dst` and barrier are meant; then `src` is in shared memory too.
    """

    src: Any  # TensorRegion
    dst: Any  # TensorRegion
    barrier: Any = None
    eviction_policy: str | None = None
    leader: int | None = None
    arrive: bool = False
    mask: int | None = None
    rank: Any = None
    span: Any = None

    @property
    def tile(self) -> Any:
        """The side in shared memory."""
        return self.dst if self.barrier is not None else self.src

    @property
    def tensor(self) -> Any:
        """The side in global memory."""
        return self.src if self.barrier is not None else self.dst

    def call(self) -> Any:
        """The statement `tl.tma_copy(src, dst[, barrier])`."""
        args = [a for a in (self.src, self.dst, self.barrier, self.rank) if a is not None]
        attrs = {
            "eviction_policy": self.eviction_policy,
            "leader": self.leader,
            "arrive": self.arrive,
            "mask": self.mask,
        }
        return X.Evaluate(tile_ops.call(tile_ops.TMA_COPY, args, attrs, span=self.span), self.span)

    @staticmethod
    def read(call: ir.Call) -> TmaCopy:
        """The operation a `tl.tma_copy` call stands for."""
        barrier, rank = [*call.args[2:], None, None][:2]
        return TmaCopy(call.args[0], call.args[1], barrier, rank=rank, **attributes(call), span=call.span)


def whole_atoms(region: Any, atom: int) -> bool:
    """Whether a part of a tile begins and ends where a swizzle's pattern does: 8 rows of `atom` elements."""
    analyzer = sym.Analyzer()
    rows, columns = region[-2:]
    parts = ((rows.min, 8), (columns.min, atom), (columns.extent, atom))
    return all(_multiple(analyzer.simplify(value), n) for value, n in parts)


def _multiple(value: Any, n: int) -> bool:
    if isinstance(value, X.IntImm):
        return int(value.value) % n == 0
    rest = sym.Analyzer().simplify(X.FloorMod(value, X.const(n, value.ty.dtype)))  # such as `half * 64`
    return isinstance(rest, X.IntImm) and int(rest.value) == 0


def is_tma(record: OpRecord) -> bool:
    """Whether a copy was written as T.tma_copy."""
    return bool(record.value("tma", False))


def verify_tma(record: OpRecord, src: Region, dst: Region) -> Iterator[Problem]:
    """bad-arguments: from global to shared memory with a barrier, or back without one, in one dtype."""
    scopes = (src.buffer.scope, dst.buffer.scope)
    barrier = record.value("barrier")
    if record.value("rank") is not None:
        yield from _verify_remote(record, src, dst)
        return
    if scopes not in (("global", "shared"), ("shared", "global")):
        what = f"copies between global and shared memory, not from {scopes[0]} to {scopes[1]}"
        yield _problem(record, "dst", what, src, dst)
        return
    if scopes[0] == "global" and barrier is None:
        what = "needs `barrier=` for a copy into shared memory: the barrier that tells when the tile is there"
        yield _problem(record, "dst", what, src, dst)
    if scopes[0] == "shared" and barrier is not None:
        what = "takes no `barrier` for a copy out of shared memory: T.tma_store_wait waits for it"
        yield _problem(record, "barrier", what, src, dst)
    dtypes = [dtype_name(r.buffer) for r in (src, dst)]
    if None not in dtypes and dtypes[0] != dtypes[1]:
        what = f"converts nothing: {src.buffer.name} is {dtypes[0]}, {dst.buffer.name} is {dtypes[1]}"
        yield _problem(record, "dst", what, src, dst)


def _verify_remote(record: OpRecord, src: Region, dst: Region) -> Iterator[Problem]:
    """bad-arguments: between tiles in shared memory, in one dtype."""
    callee = "T.copy_cluster"
    if (src.buffer.scope, dst.buffer.scope) != ("shared", "shared"):
        what = f"copies between tiles in shared memory, not from {src.buffer.scope} to {dst.buffer.scope}"
        yield _problem(record, "dst", what, src, dst, callee)
        return
    dtypes = [dtype_name(r.buffer) for r in (src, dst)]
    if None not in dtypes and dtypes[0] != dtypes[1]:
        what = f"converts nothing: {src.buffer.name} is {dtypes[0]}, {dst.buffer.name} is {dtypes[1]}"
        yield _problem(record, "dst", what, src, dst, callee)


def _problem(
    record: OpRecord, argument: str, what: str, src: Region, dst: Region, callee: str = _CALLEE
) -> Problem:
    related = declared(src.buffer, dst.buffer)
    return BAD_ARGUMENTS.at(record.span_of(argument), related=related, callee=callee, what=what)
