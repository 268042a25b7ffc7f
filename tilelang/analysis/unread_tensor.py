"""unread-tensor: a tensor is never touched, and another one of its shape stands where it belongs.

An argument that a kernel does not use is no mistake by itself. But where `gamma` is read nowhere and one
statement reads the same element of `beta` twice, where two tiles are loaded with one piece of V, or where a
tile called `q` is loaded from V, a name was mixed up.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.subject import Subject, is_tile
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import LOADED_TWICE, NAMED_AFTER_ANOTHER, UNREAD_TENSOR
from tilelang.ir.expressions import loads_of
from tilelang.ir.tile_program import OpRecord, Store, walk
from tilelang.ir.values import Buffer, Region, Unknown, Value, as_int

from tvm import ir  # isort: skip

_ENDINGS = ("shared", "smem", "local", "fragment", "frag", "reg", "tile", "buf", "s", "l", "f", "r")


def check(subject: Subject) -> Iterator[Problem]:
    """One for each tensor that is never touched."""
    if subject.launch is None or not subject.program.complete:
        return
    for tensor in _untouched(subject):
        found = next(_twice(subject, tensor), None) or next(_loaded_twice(subject, tensor), None)
        found = found or next(_named(subject, tensor), None)
        if found is not None:
            yield found


def _untouched(subject: Subject) -> list[Buffer]:
    used = {b.storage for _, b in (*subject.program.uses, *subject.program.handed_on)}
    return [
        p.buffer
        for p in subject.program.params
        if p.buffer is not None
        and p.buffer.role == "parameter"
        and p.buffer not in used
        and p.buffer not in subject.elsewhere
        and not p.buffer.is_pointer
        and p.buffer.known
    ]


def _alike(subject: Subject, tensor: Buffer, other: Buffer) -> bool:
    if other.scope != "global" or not other.known or len(other.shape) != len(tensor.shape):
        return False
    return other.dtype == tensor.dtype and all(
        subject.prover.equal(a, b) is True for a, b in zip(tensor.shape, other.shape, strict=True)
    )


def _twice(subject: Subject, tensor: Buffer) -> Iterator[Problem]:
    """One statement that reads one element of another tensor twice."""
    by_var = {b.var: b for b in subject.program.buffers if b.known}
    for node in walk(subject.program.body):
        if not isinstance(node, Store):
            continue
        seen: list[ir.TensorLoad] = []
        for load in loads_of(node.value):
            other = by_var.get(load.source)
            if other is None or not _alike(subject, tensor, other):
                continue
            if any(_same_element(subject, load, s) for s in seen) or _of_itself(subject, node, load, other):
                yield UNREAD_TENSOR.at(
                    node.span,
                    related=(Related(tensor.span, f"{tensor.name} is declared here"),),
                    tensor=tensor.name,
                    other=other.name,
                )
                return
            seen.append(load)


def _same_element(subject: Subject, one: ir.TensorLoad, other: ir.TensorLoad) -> bool:
    return (
        one is not other
        and one.source.same_as(other.source)
        and all(subject.prover.equal(a, b) is True for a, b in zip(one.indices, other.indices, strict=True))
    )


def _of_itself(subject: Subject, node: Store, load: ir.TensorLoad, other: Buffer) -> bool:
    """Whether a statement writes an element of a tensor to itself."""
    return (
        node.buffer is other
        and isinstance(node.value, ir.TensorLoad)
        and all(subject.prover.equal(a, b) is True for a, b in zip(load.indices, node.indices, strict=True))
    )


def _loaded_twice(subject: Subject, tensor: Buffer) -> Iterator[Problem]:
    """Two tiles that hold one piece of another tensor."""
    loads = [r for r in subject.records if _source(r) is not None and _tile(r) is not None]
    for k, one in enumerate(loads):
        for other in loads[k + 1 :]:
            a, b = _source(one), _source(other)
            assert a is not None and b is not None
            if a.buffer is not b.buffer or one.context.loops != other.context.loops:
                continue
            if _tile(one) is _tile(other) or not _alike(subject, tensor, a.buffer):
                continue
            if a.fits_rank and b.fits_rank and _equal(subject, a.starts, b.starts):
                first, second = _tile(one), _tile(other)
                assert first is not None and second is not None
                yield LOADED_TWICE.at(
                    other.span,
                    related=(
                        Related(one.span, f"{first.name} is loaded here"),
                        Related(tensor.span, f"{tensor.name} is declared here"),
                    ),
                    first=first.name,
                    second=second.name,
                    other=a.buffer.name,
                    tensor=tensor.name,
                )


def _named(subject: Subject, tensor: Buffer) -> Iterator[Problem]:
    """A tile that is called as the tensor is, and loaded from another one."""
    for record in subject.records:
        source, tile = _source(record), _tile(record)
        if source is None or tile is None or source.buffer is tensor:
            continue
        if _word(tile.name) != _word(tensor.name) or _word(source.buffer.name) == _word(tensor.name):
            continue
        if len(source.buffer.shape) == len(tensor.shape) and source.buffer.dtype == tensor.dtype:
            yield NAMED_AFTER_ANOTHER.at(
                source.span,
                related=(Related(tensor.span, f"{tensor.name} is declared here"),),
                tile=tile.name,
                other=source.buffer.name,
                tensor=tensor.name,
            )


def _word(name: str) -> str:
    """A name without what says where it is kept: `Q_shared`, `q_s` and `Q` are one."""
    word, _, ending = name.lower().rpartition("_")
    return word if word and ending in _ENDINGS else name.lower()


def _source(record: OpRecord) -> Region | None:
    region = record.region("src") if record.op == "copy" else None
    return region if region is not None and region.buffer.scope == "global" else None


def _tile(record: OpRecord) -> Buffer | None:
    region = record.region("dst") if record.op == "copy" else None
    return region.buffer if region is not None and is_tile(region.buffer) else None


def _equal(subject: Subject, one: tuple[Value, ...], other: tuple[Value, ...]) -> bool:
    return len(one) == len(other) and all(
        not isinstance(a, Unknown)
        and not isinstance(b, Unknown)
        and (as_int(a) == as_int(b) if as_int(a) is not None else subject.prover.equal(a, b) is True)
        for a, b in zip(one, other, strict=True)
    )
