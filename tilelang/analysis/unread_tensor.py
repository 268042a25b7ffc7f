"""unread-tensor: a tensor is never touched, and another one of its shape stands where it belongs.

An argument that a kernel does not use is no mistake by itself. But where `gamma` is read nowhere and one
statement reads the same element of `beta` twice, where two tiles are loaded with one piece of V, or where a
tile called `q` is loaded from V, a name was mixed up.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.affine import affine
from tilelang.analysis.subject import Subject, is_tile
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import LOADED_TWICE, NAMED_AFTER_ANOTHER, UNREAD_TENSOR
from tilelang.ir.expressions import loads_of
from tilelang.ir.tile_program import Loop, OpRecord, Store, walk
from tilelang.ir.values import Buffer, Region, Unknown, Value

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
        not one.same_as(other)  # else written once: the compiler squares, rounds, ... what stands there
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
    alike = {b for b in subject.program.buffers if _alike(subject, tensor, b)}
    odd: list[Value] = []
    pieces: dict[tuple[Buffer, tuple[Loop, ...], tuple[object, ...]], list[tuple[OpRecord, Buffer]]] = {}
    for record in subject.records:
        source, tile = _source(record), _tile(record)
        if source is None or tile is None or source.buffer not in alike or not source.fits_rank:
            continue
        if not any(isinstance(s, Unknown) for s in source.starts):
            starts = tuple(_start(subject, s, odd) for s in source.starts)
            key = source.buffer, record.context.loops, starts
            pieces.setdefault(key, []).append((record, tile))
    for (source, *_), loads in pieces.items():
        one, first = loads[0]
        for other, second in loads[1:]:
            if second is not first:
                yield LOADED_TWICE.at(
                    other.span,
                    related=(
                        Related(one.span, f"{first.name} is loaded here"),
                        Related(tensor.span, f"{tensor.name} is declared here"),
                    ),
                    first=first.name,
                    second=second.name,
                    other=source.name,
                    tensor=tensor.name,
                )


def _start(subject: Subject, start: Value, odd: list[Value]) -> object:
    """A start as it can be looked up, one for equal ones; `odd`: those so far that are no sums."""
    form = affine(start)
    if form is not None:
        return form.constant, frozenset(form.terms.items())
    found = next((s for s in odd if subject.prover.equal(s, start) is True), None)
    if found is None:
        odd.append(start)
    return id(start if found is None else found)


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
