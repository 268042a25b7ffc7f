"""T.gemm on the CPU: operands widened and packed row-major, then a register-blocked kernel of vectors.

The micro kernel keeps a block of C in registers (ROWS rows of up to two vectors) while it runs over K: one
broadcast of A and two vectors of B feed two multiply-adds per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx as X

from tilelang.ir.tile_ops import seq
from tilelang.ops.gemm import Gemm
from tilelang.targets.cpu.nests import REGISTERS, at, cast, index, lanes, parallel, plus, serial

# Rows of C in registers: 6 × 2 accumulators, 2 of B and 1 of A fill the 16 vector registers of AVX2 and half
# of AVX-512's.
ROWS = 6

Scratch = Callable[[str, tuple[int, ...]], Any]


@dataclass(frozen=True)
class _Matrix:
    """A row-major operand in the accumulation dtype: `buffer[start + (row, column)]`."""

    buffer: Any
    region: Any | None  # None: the buffer is exactly the matrix

    def indices(self, row: Any, column: Any) -> list[Any]:
        return at(self.region, [row, column]) if self.region is not None else [row, column]


def accumulation_dtype(a: str, c: str) -> str:
    """What products are summed in: float32 for halves and 8-bit floats, else C's dtype."""
    return "float32" if "float" in a and a != "float64" and c != "float64" else c


def lower_gemm(op: Gemm, scratch: Scratch, vector_bytes: int) -> Any:
    """`C += op(A) · op(B)`.

    scratch: gives storage of the block for a dtype and a shape. vector_bytes: width of the vector registers.
    """
    m, n, k = op.shape
    c_dtype = str(op.c.source.dtype)
    dtype = accumulation_dtype(str(op.a.source.dtype), c_dtype)
    before, after = [], []
    a = _operand(op.a, op.transpose_a, (m, k), dtype, scratch, before, op.span)
    b = _operand(op.b, op.transpose_b, (k, n), dtype, scratch, before, op.span)
    if c_dtype == dtype:
        c = _Matrix(op.c.source, op.c)
    else:
        c = _operand(op.c, False, (m, n), dtype, scratch, before, op.span)
        after.append(
            parallel(
                [m, n],
                lambda v: X.BufferStore(
                    op.c.source, cast(X.BufferLoad(c.buffer, v), c_dtype), at(op.c, v), op.span
                ),
                op.span,
            )
        )
    zero = parallel(
        [m, n],
        lambda v: X.BufferStore(c.buffer, X.const(0, dtype), c.indices(*v), op.span),
        op.span,
    )
    clear = op.clear_accum
    if isinstance(clear, bool):
        clear = X.const(clear, "bool")
    if not isinstance(clear, X.IntImm):
        before.append(X.IfThenElse(clear, zero, None, op.span))
    elif int(clear.value):
        before.append(zero)
    width = max(vector_bytes * 8 // _bits(dtype), 1)
    return seq([*before, *_blocks(a, b, c, (m, n, k), width, dtype, op.span), *after])


def _operand(
    region: Any,
    transposed: bool,
    shape: tuple[int, int],
    dtype: str,
    scratch: Scratch,
    before: list[Any],
    span: Any,
) -> _Matrix:
    """The operand if row-major in `dtype`; else a packed copy, made by a statement added to `before`."""
    # Global operands need bounds guards, which vectors cannot carry.
    in_place = region.source.scope() != "global"
    if in_place and not transposed and str(region.source.dtype) == dtype:
        return _Matrix(region.source, region)
    packed = scratch(dtype, shape)

    def move(v: list[Any]) -> Any:
        row, column = v
        source = at(region, [column, row] if transposed else [row, column])
        return X.BufferStore(packed, cast(X.BufferLoad(region.source, source), dtype), [row, column], span)

    before.append(parallel(list(shape), move, span))
    return _Matrix(packed, None)


def _blocks(
    a: _Matrix, b: _Matrix, c: _Matrix, shape: tuple[int, int, int], width: int, dtype: str, span: Any
) -> Iterator[Any]:
    """The micro kernels that cover C: full blocks in loops, the rest at the right and at the bottom."""
    m, n, k = shape
    # A height that leaves no rest saves a second kernel; 4 rows still keep both multiply-add units busy.
    tall = next((rows for rows in range(ROWS, 3, -1) if m % rows == 0), ROWS)
    for column, columns, repeat in _cover(n, 2 * width, [2 * width, *_powers(width)]):
        vectors = [width, width] if columns == 2 * width else [columns]
        for row, height, rows in _cover(m, tall, [tall, *range(tall - 1, 0, -1)]):

            def block(
                j: Any, i: Any, column=column, columns=columns, row=row, height=height, vectors=vectors
            ) -> Any:
                place = (plus(index(row), i * height), plus(index(column), j * columns))
                return _micro(a, b, c, place, height, vectors, k, dtype, span)

            yield serial(
                "jj",
                repeat,
                lambda j, rows=rows, block=block: serial("ii", rows, lambda i: block(j, i), span),
                span,
            )


def _cover(total: int, step: int, sizes: list[int]) -> Iterator[tuple[int, int, int]]:
    """(start, size, count) of runs that cover `total`: the first size as often as it fits, then less."""
    start = 0
    for size in sizes:
        count = (total - start) // size if size == step else int(total - start >= size)
        if count:
            yield start, size, count
            start += count * size


def _powers(top: int) -> list[int]:
    """top, top/2, ..., 1."""
    return [top >> s for s in range(top.bit_length())]


def _micro(
    a: _Matrix,
    b: _Matrix,
    c: _Matrix,
    place: tuple[Any, Any],
    height: int,
    vectors: list[int],
    k: int,
    dtype: str,
    span: Any,
) -> Any:
    """C's block at `place` (height rows of `vectors` lanes each) through registers over all of K."""
    row, column = place
    starts = [sum(vectors[:v]) for v in range(len(vectors))]
    cells = [(r, v) for r in range(height) for v in range(len(vectors))]
    acc = {(r, v): X.decl_buffer((vectors[v],), dtype, f"c{r}{v}", scope=REGISTERS) for r, v in cells}
    b_reg = [X.decl_buffer((w,), dtype, f"b{v}", scope=REGISTERS) for v, w in enumerate(vectors)]

    def vector(matrix: _Matrix, r: Any, v: int) -> list[Any]:
        return matrix.indices(r, lanes(plus(column, index(starts[v])), vectors[v]))

    def step(kk: Any) -> Any:
        stmts = [
            X.BufferStore(b_reg[v], X.BufferLoad(b.buffer, vector(b, kk, v)), [lanes(index(0), w)], span)
            for v, w in enumerate(vectors)
        ]
        for r, v in cells:
            w, lane = vectors[v], lanes(index(0), vectors[v])
            factor = X.BufferLoad(a.buffer, a.indices(plus(row, index(r)), kk))
            product = (X.Broadcast(factor, w) if w > 1 else factor) * X.BufferLoad(b_reg[v], [lane])
            stmts.append(X.BufferStore(acc[r, v], X.BufferLoad(acc[r, v], [lane]) + product, [lane], span))
        return seq(stmts)

    allocs = [X.AllocBuffer(buffer, span=span) for buffer in [*acc.values(), *b_reg]]
    loads, stores = [], []
    for r, v in cells:
        lane, place_c = [lanes(index(0), vectors[v])], vector(c, plus(row, index(r)), v)
        loads.append(X.BufferStore(acc[r, v], X.BufferLoad(c.buffer, place_c), lane, span))
        stores.append(X.BufferStore(c.buffer, X.BufferLoad(acc[r, v], lane), place_c, span))
    return seq([*allocs, *loads, serial("kk", k, step, span), *stores])


def _bits(dtype: str) -> int:
    return int("".join(ch for ch in dtype if ch.isdigit()))
