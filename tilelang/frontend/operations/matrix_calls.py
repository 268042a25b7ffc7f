"""T.ptx_ldmatrix, T.ptx_mma, T.ptx_mma_sp, T.ptx_cp_async: single instructions on addresses and registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import canonical_dtype, dtype_info
from tilelang.arch.mma import MMA, MMA_SP, metadata_selectors, mma_name, mma_sp_name
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.model import BufferData
from tilelang.frontend.operations.extern_calls import Mode, address
from tilelang.frontend.operators import as_bool
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, named_type, scalar
from tilelang.ir import tile_ops
from tilelang.ir.tile_program import Evaluate
from tilelang.ir.values import Buffer, Region, Unknown, as_int, show

_READ: tuple[Mode, ...] = ("read",)
_BOTH: tuple[Mode, ...] = ("read", "write")
# The operands of one product: array, number of the first element, what is done with it.
_OPERANDS: tuple[tuple[str, str, tuple[Mode, ...]], ...] = (
    ("accumulator", "c_index", _BOTH),
    ("multiplicand_a", "a_index", _READ),
    ("multiplicand_b", "b_index", _READ),
)
_COPIED = (4, 8, 16)  # bytes of one cp.async


def address_argument(run: Run, call: Bound, name: str) -> Any:
    """An argument that is an address already."""
    value = call.value(name)
    if isinstance(value, Unknown):
        run.complete = False
        return value
    if isinstance(value, ir.Call) and isinstance(value.op, ir.Op) and value.op.name == "tirx.address_of":
        return value
    what = f'`{name}` must be an address, as in T.access_ptr(x[i], "r"), not {named_type(value)}'
    return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)


def registers(run: Run, call: Bound, name: str, index: str, modes: tuple[Mode, ...]) -> Any:
    """The address of element `index` of an array of registers, given as `A.data` or as A itself."""
    value = call.value(name)
    if isinstance(value, BufferData):
        value = value.buffer
    if isinstance(value, Region):
        value = value.buffer
    offset = scalar(run, call.value(index), call.span_of(index))
    lost = any_unknown([value, offset])
    if lost is not None:
        run.complete = False
        return lost
    if not isinstance(value, Buffer) or value.scope not in ("local", "local.fragment"):
        found = f"`{value.name}` in {value.scope} memory" if isinstance(value, Buffer) else named_type(value)
        what = f"`{name}` must be an array of registers (T.alloc_local), as A.data, not {found}"
        return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    return address(run, Region(value, None, call.span_of(name)), offset, modes)


def complete_as_before(run: Run, call: Bound, names: tuple[str, ...]) -> None:
    """Addresses (`A.data`) are known to this call: asking for the first made the kernel incomplete, so the
    others say that it was.
    """
    given = [call.value(n) for n in names if n in call.arguments]
    if any(isinstance(v, BufferData) for v in given):
        run.complete = any(isinstance(v, BufferData) and v.was_complete for v in given)


def _emit(run: Run, call: Bound, name: str, args: list[Any]) -> None:
    lost = any_unknown(args)
    if lost is not None:
        run.complete = False
    elif run.launch is not None:
        run.emit(Evaluate(tile_ops.call(f"tl.{name}", args, span=call.span), call.span))


def _ldmatrix(run: Run, call: Bound) -> None:
    source, target = (
        address_argument(run, call, "src_access_ptr"),
        address_argument(run, call, "dst_access_ptr"),
    )
    turned, count = call.value("trans"), as_int(call.value("num"))
    if isinstance(turned, Unknown):
        run.complete = False
        return
    if count not in (1, 2, 4):
        what = f"`num` is 1, 2 or 4 matrices, not {show(call.value('num'))}"
        run.report(BAD_ARGUMENTS, call.span_of("num"), callee=call.callee, what=what)
        return
    _emit(run, call, f"ldmatrix_x{count}{'_trans' if turned else ''}", [target, source])


def _mma(run: Run, call: Bound) -> None:
    helper = _instruction(run, call, MMA, mma_name)
    if helper is None:
        return
    complete_as_before(run, call, ("accumulator", "multiplicand_a", "multiplicand_b"))
    _emit(run, call, helper, [registers(run, call, *operand) for operand in _OPERANDS])


def _mma_sp(run: Run, call: Bound) -> None:
    helper = _instruction(run, call, MMA_SP, mma_sp_name)
    selector = call.value("sparse_selector")
    if helper is None or isinstance(selector, Unknown):
        run.complete = run.complete and not isinstance(selector, Unknown)
        return
    known, most = as_int(selector), metadata_selectors(str(call.value("shape")), helper)
    if known is None or not 0 <= known < most:
        what = (
            f"`sparse_selector` of this shape is {' or '.join(map(str, range(most)))}, not {show(selector)}"
        )
        run.report(BAD_ARGUMENTS, call.span_of("sparse_selector"), callee=call.callee, what=what)
        return
    complete_as_before(run, call, ("accumulator", "multiplicand_a", "multiplicand_b", "metadata"))
    pointers = [registers(run, call, *operand) for operand in _OPERANDS]
    pointers.append(registers(run, call, "metadata", "meta_index", _READ))
    _emit(run, call, helper, [X.const(known, "int32"), *pointers])


def _instruction(
    run: Run, call: Bound, table: Mapping[Any, Any], name_of: Callable[..., str | None]
) -> str | None:
    """The helper of `table` that does what the texts say; None if there is none, which is told."""
    names = ("shape", "A_layout", "B_layout", "A_dtype", "B_dtype", "C_dtype")
    given = {n: call.value(n) for n in names}
    if any_unknown(list(given.values())) is not None:
        run.complete = False
        return None
    for name, only in (("A_layout", "row"), ("B_layout", "col")):
        if given[name] != only:
            what = f'`{name}` is "{only}", the only one that mma.sync has here, not {given[name]!r}'
            run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
            return None
    try:
        a, b, c = (canonical_dtype(given[n]) for n in ("A_dtype", "B_dtype", "C_dtype"))
    except ValueError as error:
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=str(error))
        return None
    helper = name_of(str(given["shape"]), a, c, b)
    if helper is None:
        shapes = sorted({shape for shape, operand, result in table if (operand, result) == (a, c)})
        choices = f"; there is {', '.join(shapes)}" if shapes else ""
        unit = "mma.sp" if table is MMA_SP else "mma.sync"
        what = f"no {unit} of shape {given['shape']} multiplies {a} by {b} into {c}{choices}"
        run.report(BAD_ARGUMENTS, call.span_of("shape"), callee=call.callee, what=what)
    return helper


def _cp_async(run: Run, call: Bound) -> None:
    target, source = (
        address_argument(run, call, "dst_access_ptr"),
        address_argument(run, call, "src_access_ptr"),
    )
    count = as_int(call.value("num_elems"))
    if isinstance(target, Unknown) or isinstance(source, Unknown):
        return
    bits = dtype_info(str(source.args[0].source.dtype)).bits
    size = None if count is None else count * bits // 8
    if size not in _COPIED:
        what = (
            f"cp.async copies 4, 8 or 16 bytes; `num_elems` is {show(call.value('num_elems'))} of {bits} bits"
        )
        run.report(BAD_ARGUMENTS, call.span_of("num_elems"), callee=call.callee, what=what)
        return
    if call.value("predicate", None) is None:
        _emit(run, call, f"cp_async_{size}", [target, source])
        return
    inside = scalar(run, call.value("predicate"), call.span_of("predicate"))
    known = inside if isinstance(inside, Unknown) else as_bool(inside)
    _emit(run, call, f"cp_async_{size}_guarded", [target, source, known])


MATRIX_CALLS: Mapping[str, Callable[[Run, Bound], None]] = {
    "ptx_ldmatrix": _ldmatrix,
    "ptx_mma": _mma,
    "ptx_mma_sp": _mma_sp,
    "ptx_cp_async": _cp_async,
}
