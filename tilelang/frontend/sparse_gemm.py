"""T.gemm_sp: a gemm whose A is stored without the zeros of its 2:4 pattern, as statements of the kernel.

A is written out into a shared tile of its own, zeros included, and multiplied as T.gemm does: every target
can. The speed of sparse tensor cores (mma.sp) is not gained.

Format, that of mma.sp (PTX ISA 9.7.15.6, "Multiply-and-Accumulate Instruction: mma.sp"): of 4 neighbours
along K two are stored, and 4 bits say which: the position of the first, then of the second, 2 bits each, the
lowest bits first. Of 32-bit elements one in 2 is stored, and its 4 bits count in halves of an element: 0b0100
or 0b1110. An element of E holds the 4 bits of as many neighbouring groups as fit.
"""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.dtypes import bits, is_float
from tilelang.frontend.model import Late
from tilelang.frontend.operators import binary, cast
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import named_type, scalar
from tilelang.frontend.tensors import new_buffer
from tilelang.ir.tile_program import Alloc, Context, Do, For, Loop, Operand, OpRecord, Store
from tilelang.ir.values import Buffer, Index, Region, Unknown, as_int, show

_CODE_BITS = 4  # of one group in E


def sparse_gemm(run: Run, call: Bound) -> None:
    """The loop that writes A out, and the gemm."""
    if run.launch is None:
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what="stands outside `with T.Kernel(...)`")
        return
    tiles = {name: _tile(run, call, name) for name in ("A_sparse", "E", "B", "C")}
    flags = {name: call.value(name, False) for name in ("transpose_A", "transpose_E", "transpose_B")}
    if any(isinstance(v, Unknown) for v in (*tiles.values(), *flags.values())):
        run.complete = False
        return
    a, e = tiles["A_sparse"], tiles["E"]
    sizes = _sizes(run, call, a, e, bool(flags["transpose_A"]), bool(flags["transpose_E"]))
    if sizes is None:
        return
    dense = new_buffer(run, "shared", sizes, a.buffer.dtype, call.span, fallback=f"{a.buffer.name}_dense")
    run.launch.body.insert(0, Alloc(dense, call.span))
    _write_out(run, call, dense, a, e, bool(flags["transpose_A"]), bool(flags["transpose_E"]))
    operands = {
        "A": Operand(Region(dense, None, call.span_of("A_sparse")), call.span_of("A_sparse")),
        "B": Operand(tiles["B"], call.span_of("B")),
        "C": Operand(tiles["C"], call.span_of("C")),
        "transpose_A": Operand(False, call.span),
        "transpose_B": Operand(bool(flags["transpose_B"]), call.span_of("transpose_B")),
    }
    policy = call.value("policy")
    if policy is not None:
        operands["policy"] = Operand(getattr(policy, "name", policy), call.span_of("policy"))
    clear = call.value("clear_accum", False)
    operands["clear_accum"] = Operand(scalar(run, clear, call.span_of("clear_accum")), call.span)
    run.emit(Do(OpRecord("gemm", call.span, call.callee_span, operands, run.context)))


def _tile(run: Run, call: Bound, name: str) -> Region | Unknown:
    value = call.value(name)
    if isinstance(value, Late):
        value = value.region
    if isinstance(value, Buffer):
        value = Region(value, None, call.span_of(name))
    if isinstance(value, Region | Unknown):
        return value
    what = f"`{name}` must be a buffer or a part of one, not {named_type(value)}"
    return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)


def _sizes(
    run: Run, call: Bound, a: Region, e: Region, a_turned: bool, e_turned: bool
) -> tuple[int, int] | None:
    """(M, K) of the dense A; None after a problem, or where something is not known."""
    if not (a.buffer.known and e.buffer.known):
        run.complete = False
        return None
    for name, region in (("A_sparse", a), ("E", e)):
        if region.buffer.scope != "shared" or len(region.extents) != 2:
            what = f"`{name}` must be a tile of two dimensions in shared memory; {region.buffer.name} is none"
            run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
            return None
    a_dtype, e_dtype = str(a.buffer.dtype), str(e.buffer.dtype)
    if bits(a_dtype) not in (8, 16, 32) or is_float(e_dtype) or e_dtype == "bool" or bits(e_dtype) < 8:
        what = f"stores elements of 8, 16 or 32 bits and E as integers, not {a_dtype} with {e_dtype}"
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
        return None
    shape = [as_int(n) for n in (*a.extents, *e.extents)]
    if None in shape:
        run.complete = False
        return None
    rows, stored, e_rows, e_columns = (n for n in shape if n is not None)
    if a_turned:
        rows, stored = stored, rows
    if e_turned:
        e_rows, e_columns = e_columns, e_rows
    size = 2 * stored
    wanted = size // _group(a_dtype) * _CODE_BITS
    if e_rows != rows or e_columns * bits(e_dtype) != wanted:
        what = (
            f"{e.buffer.name} must be ({rows}, {show(wanted // bits(e_dtype))}) {e_dtype}: 4 bits for "
            f"each {_group(a_dtype)} of the {size} elements of a row of A, not ({e_rows}, {e_columns})"
        )
        run.report(BAD_ARGUMENTS, call.span_of("E"), callee=call.callee, what=what)
        return None
    return rows, size


def _group(dtype: str) -> int:
    """How many neighbours along K share one code."""
    return 2 if bits(dtype) == 32 else 4


def _write_out(
    run: Run, call: Bound, dense: Buffer, a: Region, e: Region, a_turned: bool, e_turned: bool
) -> None:
    """`for i, k in T.Parallel(M, K): dense[i, k] = what is stored for it, or 0`."""
    i, k = run.fresh("i"), run.fresh("k")
    span = call.span
    loop = Loop("Parallel", (i, k), (0, 0), dense.shape, span)
    body: list[Any] = []
    context = Context((*run.context.loops, loop), run.context.guards, run.context.maybe)
    group = _group(str(a.buffer.dtype))
    codes = bits(str(e.buffer.dtype)) // _CODE_BITS
    number, at = X.floordiv(k, group), X.floormod(k, group)
    with run.nested(body, context):
        code = _element(run, e, i, X.floordiv(number, codes), e_turned)
        kept = [_element(run, a, i, number * (group // 2) + n, a_turned) for n in range(group // 2)]
        if any(isinstance(v, Unknown) for v in (code, *kept)):
            run.complete = False
            return
        code = X.shift_right(cast("uint32", code), cast("uint32", X.floormod(number, codes) * _CODE_BITS))
        value: Any = X.const(0, str(a.buffer.dtype))
        for n, stored in reversed(list(enumerate(kept))):
            position = _position(code, n, group)
            value = X.Select(X.EQ(position, cast("int32", at)), stored, value)
        run.emit(Store(dense, (i, k), value, span, run.context))
    run.emit(For(loop, body))


def _position(code: Any, number: int, group: int) -> Any:
    """Where the stored element `number` of a group stands in it."""
    low = 2 * number if group == 4 else 1  # of a 32-bit element the upper bit of its first half counts
    found = X.shift_right(code, X.const(low, "uint32"))
    return cast("int32", X.bitwise_and(found, X.const(3 if group == 4 else 1, "uint32")))


def _element(run: Run, region: Region, row: ir.Var, column: Any, turned: bool) -> Any:
    """The element in a row and a column of a region's last two dimensions."""
    places = (column, row) if turned else (row, column)
    indices = tuple(
        Index(binary(ast.Add, start, place), None, region.span)
        for start, place in zip(region.starts, places, strict=True)
    )
    return scalar(run, Region(region.buffer, indices, region.span), region.span)
