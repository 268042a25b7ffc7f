"""T.gemm_sp: a gemm whose A is stored without the zeros of its 2:4 pattern, as statements of the kernel.

A is written out into a shared tile of its own, zeros included, and multiplied as T.gemm does: every target
can. The speed of sparse tensor cores (mma.sp) is not gained. What the operands hold is said by `ops.gemm_sp`.
"""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.model import Late
from tilelang.frontend.operators import binary, cast
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import named_type, scalar
from tilelang.frontend.tensors import new_buffer
from tilelang.ir.tile_program import Alloc, Context, Do, For, Loop, Operand, OpRecord, Store
from tilelang.ir.values import Buffer, Index, Region, Unknown, as_int
from tilelang.ops.gemm_sp import Mistake, code_of, dense_sizes, group, groups_coded, position, wrong_tile


def sparse_gemm(run: Run, call: Bound) -> None:
    """The loop that writes A out, and the gemm."""
    if run.launch is None:
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what="stands outside `with T.Kernel(...)`")
        return
    tiles = {name: _tile(run, call, name) for name in ("A_sparse", "E", "B", "C")}
    flags = {name: call.value(name, False) for name in ("transpose_A", "transpose_E", "transpose_B")}
    a, e = tiles["A_sparse"], tiles["E"]
    if isinstance(a, Unknown) or isinstance(e, Unknown):
        run.complete = False
        return
    if any(isinstance(v, Unknown) for v in (*tiles.values(), *flags.values())):
        run.complete = False
        return
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
    run.emit(Do(OpRecord("gemm", call.span, call.callee_span, operands, run.context, call.callee)))


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
    shape = [n for n in map(as_int, (*a.extents, *e.extents)) if n is not None]
    found: tuple[int, int] | Mistake | None = wrong_tile(a, e)
    if found is None:
        if len(shape) < 4:
            run.complete = False
            return None
        found = dense_sizes(a, e, shape, a_turned, e_turned)
    if not isinstance(found, Mistake):
        return found
    span = call.span if found.operand is None else call.span_of(found.operand)
    run.report(BAD_ARGUMENTS, span, callee=call.callee, what=found.text)
    return None


def _write_out(
    run: Run, call: Bound, dense: Buffer, a: Region, e: Region, a_turned: bool, e_turned: bool
) -> None:
    """`for i, k in T.Parallel(M, K): dense[i, k] = what is stored for it, or 0`."""
    i, k = run.fresh("i"), run.fresh("k")
    span = call.span
    loop = Loop("Parallel", (i, k), (0, 0), dense.shape, span)
    body: list[Any] = []
    context = Context((*run.context.loops, loop), run.context.guards, run.context.maybe)
    dtype, kept_in = str(a.buffer.dtype), str(e.buffer.dtype)
    size = group(dtype)
    number, at = X.floordiv(k, size), X.floormod(k, size)
    with run.nested(body, context):
        codes = _element(run, e, i, X.floordiv(number, groups_coded(kept_in)), e_turned)
        kept = [_element(run, a, i, number * (size // 2) + n, a_turned) for n in range(size // 2)]
        if any(isinstance(v, Unknown) for v in (codes, *kept)):
            run.complete = False
            return
        code = code_of(cast("uint32", codes), number, kept_in)
        value: Any = X.const(0, dtype)
        for n, stored in reversed(list(enumerate(kept))):
            value = X.Select(X.EQ(position(code, n, dtype), cast("int32", at)), stored, value)
        run.emit(Store(dense, (i, k), value, span, run.context))
    run.emit(For(loop, body))


def _element(run: Run, region: Region, row: ir.Var, column: Any, turned: bool) -> Any:
    """The element in a row and a column of a region's last two dimensions."""
    places = (column, row) if turned else (row, column)
    indices = tuple(
        Index(binary(ast.Add, start, place), None, region.span)
        for start, place in zip(region.starts, places, strict=True)
    )
    return scalar(run, Region(region.buffer, indices, region.span), region.span)
