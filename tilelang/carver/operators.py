"""Which operator a TIRX function of plain loops is: its template, found by the blocks that TVM's te makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.carver.template import (
    ElementwiseTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)
from tilelang.carver.template.base import BaseTemplate

_REDUCTION = 2  # TVM's number for an axis that is summed over


@dataclass(frozen=True)
class LoopBlock:
    """One block of loops: its axes that stay and its axes that are summed over, each with its extent, the
    axes that index each tensor read, and the dtypes of what is read and written.
    """

    stays: dict[str, int]
    summed: dict[str, int]
    reads: list[tuple[list[str], str]]
    writes: tuple[list[str], str]


def blocks_of(func: Any) -> list[LoopBlock]:
    """The blocks of a TIRX function in their order, but for those without axes.

    Raises ValueError for extents that are no numbers.
    """
    import tvm_ffi
    from tvm.s_tir import SBlock

    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (SBlock, found.append))
    return [_block(node) for node in found if len(node.iter_vars)]


def template_of(func: Any) -> BaseTemplate:
    """The operator that a function computes: a product of matrices, of a matrix and a vector, another
    reduction, or one element at a time. Raises ValueError for a function without such loops.
    """
    blocks = blocks_of(func)
    if not blocks:
        raise ValueError("expected a function of loops over blocks, as tvm.te.create_prim_func makes them")
    block = next((b for b in blocks if b.summed), None)
    result = blocks[-1].writes[1]
    if block is None:
        return ElementwiseTemplate(shape=list(blocks[-1].stays.values()), dtype=result)
    return _product(block, result) or _reduction(block)


def _product(block: LoopBlock, result: str) -> BaseTemplate | None:
    """A product of two operands that share the one summed axis and have one other axis each."""
    if len(block.stays) != 2 or len(block.summed) != 1 or len(block.reads) != 2:
        return None
    (m, M), (n, N) = block.stays.items()
    ((k, K),) = block.summed.items()
    (a, in_dtype), (b, _) = block.reads
    if sorted(a) != sorted([m, k]) or sorted(b) != sorted([n, k]):
        return None
    dtypes: dict[str, Any] = {"in_dtype": in_dtype, "out_dtype": result, "accum_dtype": block.writes[1]}
    if M == 1:
        return GEMVTemplate(N=N, K=K, trans_B=b == [n, k], **dtypes)
    return MatmulTemplate(M=M, N=N, K=K, trans_A=a == [k, m], trans_B=b == [n, k], **dtypes)


def _reduction(block: LoopBlock) -> BaseTemplate:
    """Any other sum: by the axes of the largest tensor it reads."""
    extents = {**block.stays, **block.summed}
    axes, dtype = max(block.reads, key=lambda read: len(read[0]), default=(list(extents), block.writes[1]))
    axes = axes if set(axes) >= set(extents) else list(extents)
    structure = "".join("R" if axis in block.summed else "S" for axis in axes)
    return GeneralReductionTemplate(structure=structure, shape=[extents[a] for a in axes], dtype=dtype)


def _block(node: Any) -> LoopBlock:
    stays, summed = {}, {}
    for axis in node.iter_vars:
        extent = getattr(axis.dom.extent, "value", None)
        if extent is None:
            raise ValueError(f"the extent {axis.dom.extent} of {axis.var.name} is no number")
        (summed if axis.iter_type == _REDUCTION else stays)[axis.var.name] = int(extent)
    known = {*stays, *summed}
    reads = [(_axes(r, known), str(r.source.dtype)) for r in node.reads]
    written = node.writes[0]
    return LoopBlock(stays, summed, reads, (_axes(written, known), str(written.source.dtype)))


def _axes(region: Any, known: set[str]) -> list[str]:
    """The axes that index a tensor, dimension by dimension; what is no axis alone is left out."""
    names = [str(getattr(r.min, "name", "")) for r in region.region]
    return [name for name in names if name in known]
