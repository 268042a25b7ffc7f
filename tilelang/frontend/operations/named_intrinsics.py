"""T.call_intrin: functions and instructions by the name of their operation, as `tirx.exp2` or `tl.tma_store`.

Operations of the release that have no name in the language are here; those that have are what the name is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, Bound
from tilelang.frontend.operations.bulk_calls import BULK_CALLS, store
from tilelang.frontend.operations.extern_calls import intrinsic_by_name
from tilelang.frontend.operations.matrix_calls import address_argument
from tilelang.frontend.operators import cast
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, dtype_of_expr, named_type, scalar
from tilelang.ir import tile_ops
from tilelang.ir.tile_program import Evaluate
from tilelang.ir.values import Unknown, as_int

_PAIR_BITS = 16
_PAIRED = ("float16", "bfloat16", "int16", "uint16")


def _values(run: Run, call: Bound, items: list[Argument]) -> list[Any] | Unknown:
    found = []
    for item in items:
        value = scalar(run, item.value, item.span)
        if not isinstance(value, ir.Expr | bool | int | float | Unknown):
            what = f"a number is expected, not {named_type(value)}"
            value = run.report(BAD_ARGUMENTS, item.span, callee=call.callee, what=what)
        if isinstance(value, Unknown):
            run.complete = False
            return value
        found.append(value)
    return found


def _takes(run: Run, call: Bound, name: str, count: int) -> bool:
    given = len(call.items.get("args", []))
    if given != count:
        what = f"{name} takes {count} arguments, not {given}"
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    return given == count


def _pack(run: Run, call: Bound) -> Any:
    """Two numbers of 16 bits in a register, the first in its lower half."""
    if not _takes(run, call, "tl.pack_b16", 2):
        return Unknown("the numbers to pack are not known")
    values = _values(run, call, call.items["args"])
    if isinstance(values, Unknown):
        return values
    halves = []
    for value, item in zip(values, call.items["args"], strict=True):
        if not isinstance(value, ir.Expr) or dtype_of_expr(value) not in (
            "float16",
            "bfloat16",
            "int16",
            "uint16",
        ):
            what = f"tl.pack_b16 takes numbers of {_PAIR_BITS} bits"
            return run.report(BAD_ARGUMENTS, item.span, callee=call.callee, what=what)
        bits = value if dtype_of_expr(value) == "uint16" else X.reinterpret("uint16", value)
        halves.append(cast("uint32", bits))
    return X.bitwise_or(halves[0], X.shift_left(halves[1], X.const(_PAIR_BITS, "uint32")))


def _stmatrix(run: Run, call: Bound) -> None:
    """`tl.ptx_stmatrix`: whether each matrix is turned over, how many, where this thread's row begins, the
    registers, and "m8n8". PTX ISA 9.7.15.5.16.
    """
    items = call.items.get("args", [])
    count = as_int(items[1].value) if len(items) > 2 else None
    if count not in (1, 2, 4) or len(items) not in (3 + count, 4 + count):
        what = 'tl.ptx_stmatrix takes a flag, 1, 2 or 4 matrices, an address, as many registers, and "m8n8"'
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
        return
    named = replace(call, arguments={**call.arguments, "smem_addr": items[2]})
    target, values = address_argument(run, named, "smem_addr"), _values(run, call, items[3 : 3 + count])
    turned = items[0].value
    if isinstance(values, Unknown) or any_unknown([target, turned]) is not None:
        run.complete = False
        return
    name = f"tl.stmatrix_x{count}{'_trans' if turned else ''}"
    made = tile_ops.call(name, [target, *(cast("uint32", v) for v in values)], span=call.span)
    if run.launch is not None:
        run.emit(Evaluate(made, call.span))


NAMED: Mapping[str, Callable[[Run, Bound], Any]] = {
    "pack_b16": _pack,
    "ptx_stmatrix": _stmatrix,
    "tma_load": BULK_CALLS["tma_load"],
    "tma_store": store,
    "create_tma_descriptor": BULK_CALLS["create_tma_descriptor"],
}


def _call_intrin(run: Run, call: Bound) -> Any:
    name = call.value("func_name")
    text = str(name.name) if isinstance(name, ir.Op) else str(name)
    handler = NAMED.get(text.removeprefix("tl.")) if text.startswith("tl.") else None
    if handler is not None:
        return handler(run, call)
    return intrinsic_by_name(run, call, text if isinstance(name, ir.Op | str) else name)


NAMED_CALLS: Mapping[str, Callable[[Run, Bound], Any]] = {"call_intrin": _call_intrin}
