"""Rules about sizes of operands."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

GEMM_SHAPE = Rule(
    "gemm-shape",
    "shape",
    Severity.ERROR,
    "M, N and K of the operands of T.gemm must agree.",
    "{dim} of {left} {left_shape} is {left_size}, {dim} of {right} {right_shape} is {right_size}; "
    "they must be equal",
)
ODD_PACKED_EXTENT = Rule(
    "odd-packed-extent",
    "shape",
    Severity.ERROR,
    "Rows of a tensor whose elements share a byte in pairs must hold whole bytes.",
    "the last dimension of {buffer} is {extent}, but two {dtype} elements share a byte, and a tensor's rows "
    "are whole bytes: make it even",
)
GEMM_SHAPE_TRANSPOSED = replace(
    GEMM_SHAPE,
    message="{dim} of {left} {left_shape} is {left_size}, {dim} of {right} {right_shape} is {right_size}; "
    "they would be equal with {option}",
)
GEMM_RANK = replace(
    GEMM_SHAPE,
    message="{operand} has {rank}, T.gemm needs 2: reshape it with T.reshape",
)
GEMM_LEADING = replace(
    GEMM_SHAPE,
    message="dimension {dim} of {operand} {shape} is {size}; dimensions before the last two must be 1: "
    "take one slice of it",
)
GEMM_POINT = replace(
    GEMM_SHAPE,
    message="{operand} names one element; T.gemm needs a tile: write slices such as {buffer}[i, 0:{rows}]",
)
GEMM_EMPTY = replace(
    GEMM_SHAPE,
    message="{dim} of {operand} {shape} is 0: no instruction multiplies tiles without elements",
)

GEMM_AXES = Rule(
    "gemm-axes",
    "shape",
    Severity.WARNING,
    "T.gemm sums over one dimension that both factors have.",
    "T.gemm sums over {left} and {right}, which are not the same elements; with {option} it would sum over "
    "{left_cure} and {right_cure}",
)

GEMM_AXES_STILL = replace(
    GEMM_AXES,
    message="T.gemm sums over {left} and {right}: {var} goes along one of them, while the tile of {still} "
    "stays where it is",
)

GEMM_AXES_SHIFTED = replace(
    GEMM_AXES,
    message="T.gemm sums over {left} and {right}: both go along together, but never over the same elements",
)

GEMM_RUNTIME_EXTENT = Rule(
    "gemm-runtime-extent",
    "shape",
    Severity.ERROR,
    "M, N and K of a T.gemm tile must be known when the kernel is compiled.",
    "{dim} of {operand} is {size}, known only at run time; a T.gemm tile needs constant extents: "
    "use a constant tile and loop over {size}",
)

COPY_SHAPE = Rule(
    "copy-shape",
    "shape",
    Severity.ERROR,
    "Both sides of T.copy must cover the same extents.",
    "{src} is {src_shape}, {dst} is {dst_shape}; T.copy of whole buffers needs equal shapes and does not "
    "broadcast: copy a slice, or write a T.Parallel loop",
)
COPY_EXTENT_VARIES = replace(
    COPY_SHAPE,
    level=Severity.WARNING,
    message="the slice of dimension {dim} of {buffer} has {extent} elements, which changes with {var}, and "
    "{other} takes {fixed}: its start and end do not move together",
)
COPY_UNMATCHED = replace(
    COPY_SHAPE,
    message="dimension {dim} of {operand} has {size} elements and no partner in {other} {other_shape}; "
    "T.copy does not broadcast: write a T.Parallel loop",
)
COPY_SOURCE_LARGER = replace(
    COPY_SHAPE,
    message="{src} has {src_size} elements along dimension {src_dim}, {dst} has room for {dst_size} "
    "along dimension {dst_dim}",
)
COPY_SOURCE_SMALLER = replace(
    COPY_SHAPE,
    level=Severity.WARNING,
    message="{src} has {src_size} elements along dimension {src_dim}, {dst} takes {dst_size} along dimension "
    "{dst_dim}: the copy reads past the source's slice",
)
COPY_DESTINATION_LARGER = replace(
    COPY_SHAPE,
    level=Severity.WARNING,
    message="{src} has {src_size} elements along dimension {src_dim}, {dst} has {dst_size} along dimension "
    "{dst_dim}: the copy writes the first {src_size} and leaves the others as they are",
)
COPY_TRANSPOSED = replace(
    COPY_SHAPE,
    message="{src} has {src_size} x {dst_size} elements along dimensions {src_dim} and {src_second}, {dst} "
    "has {dst_size} x {src_size}: one of them is written the other way round",
)
COPY_BEGINS_ELSEWHERE = replace(
    COPY_SHAPE,
    level=Severity.WARNING,
    message="{region} begins a tile of {tile} that takes its last dimensions: [{start}, {end}) of dimension "
    "{second}, and of dimension {first} one element, although it goes on by {step} there{instead}",
)
COPY_SHRINKS = replace(
    COPY_SHAPE,
    level=Severity.WARNING,
    message="{slice} has {size} elements along dimension {dim}, which is {count} in the second iteration of "
    "{var}, but {other} has {other_size}: the bounds of the slice do not move together",
)

REDUCE_SHAPE = Rule(
    "reduce-shape",
    "shape",
    Severity.ERROR,
    "The destination of a reduction has the source's shape without the reduced dimension.",
    "{out} is {out_shape}, but reducing dimension {dim} of {buffer} {shape} gives {expected}",
)
REDUCE_OTHER_DIM = replace(
    REDUCE_SHAPE,
    message="{out} is {out_shape}, but reducing dimension {dim} of {buffer} {shape} gives {expected}; "
    "it would fit with dim={cure}",
)
REDUCE_PERHAPS = replace(
    REDUCE_SHAPE,
    level=Severity.WARNING,
    message="{out} is {out_shape}, and reducing dimension {dim} of {buffer} {shape} gives {expected}, which "
    "is the same for some sizes only; with dim={cure} it fits for all",
)
REDUCE_DIM = replace(
    REDUCE_SHAPE,
    message="{buffer} {shape} has no dimension {dim}; it has {rank}, from 0 to {last}",
)

VIEW_SHAPE = Rule(
    "view-shape",
    "shape",
    Severity.ERROR,
    "A view holds exactly as many bits as the buffer it looks at.",
    "{source} is {source_shape} {source_dtype}{source_bits}, {callee} to {shape} {dtype} would hold another "
    "number of bits{bits}",
)

ATOMIC_SHAPE = Rule(
    "atomic-shape",
    "shape",
    Severity.ERROR,
    "Both sides of an atomic update of a tile cover the same extents.",
    "{src} is {src_shape}, {dst} is {dst_shape}; extents other than 1 must agree in order, nothing is "
    "broadcast",
)
ATOMIC_PART = replace(
    ATOMIC_SHAPE,
    level=Severity.WARNING,
    message="{src} is {src_shape}, {dst} is {dst_shape}: {what}",
)

SCAN_SHAPE = Rule(
    "scan-shape",
    "shape",
    Severity.ERROR,
    "A running sum or maximum has the shape of its source.",
    "{src} is {src_shape}, {dst} is {dst_shape}; the result of {op} has its source's shape",
)
SCAN_DIM = replace(
    SCAN_SHAPE, message="{buffer} {shape} has no dimension {dim}; its dimensions are 0 to {last}"
)
SCAN_RUNTIME_EXTENT = replace(
    SCAN_SHAPE,
    message="an extent of {buffer} is known only when the kernel runs; {op} on a GPU needs constant extents: "
    "use a constant tile and loop over it",
)

TRANSPOSE_SHAPE = Rule(
    "transpose-shape",
    "shape",
    Severity.ERROR,
    "T.transpose exchanges the last two dimensions of a tile.",
    "{src} is {src_shape}, {dst} is {dst_shape}; T.transpose exchanges the last two extents, "
    "and keeps the others",
)

IM2COL_SHAPE = Rule(
    "window-shape",
    "shape",
    Severity.ERROR,
    "T.im2col reads an image of four dimensions and writes a matrix tile.",
    "{buffer} is {shape}; T.im2col needs {expected} here",
)
