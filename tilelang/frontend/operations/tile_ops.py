"""Tile operations as written: a record of the operation with the value and the place of every argument."""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum
from typing import Any

from tvm import ir

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, Bound
from tilelang.frontend.constants import not_given
from tilelang.frontend.model import Late
from tilelang.frontend.operations.layout_calls import loop_layout_text
from tilelang.frontend.operators import representable
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import named_type, plain_number, scalar
from tilelang.frontend.unfit_constants import note_unfit
from tilelang.ir.tile_program import Do, Operand, OpRecord
from tilelang.ir.values import Buffer, Region, Unknown
from tilelang.language import GemmWarpPolicy

# Parameters that take a tile; all others take numbers or plain objects.
TILE_PARAMETERS = frozenset({"src", "dst", "A", "A_sparse", "E", "B", "C", "buffer", "out", "img", "col"})

_FLAGS = frozenset(
    {"transpose_A", "transpose_B", "transpose_E", "disable_tma", "clear", "reverse", "nan_propagate"}
)
_NUMBERS = frozenset({"value", "clear_accum", "nhw_step", "c_step", "kernel", "stride", "dilation", "pad"})
# Keys of the `annotations` of an operation that are parameters of its own.
_HINTS = frozenset(
    {"coalesced_width", "disable_tma", "eviction_policy", "prefer_instruction", "batch", "emit_arrive"}
)
_INTEGERS = frozenset({"dim", "batch", "coalesced_width"})
_WORDS: dict[str, tuple[str, ...]] = {
    "reduce_type": ("sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor"),
    "eviction_policy": ("evict_normal", "evict_first", "evict_last"),
    "prefer_instruction": ("tma", "cp_async", "sync"),
}


def record_operation(
    run: Run, op: str, fixed: Mapping[str, Any], call: Bound, unsupported: Set[str] = frozenset()
) -> None:
    """Put the operation into the tree. Operands that are no tiles are problems; unknown ones leave it
    incomplete. Arguments for `unsupported` parameters may be anything.
    """
    operands: dict[str, Operand] = {}
    hints = call.value("annotations")
    if not isinstance(hints, dict | Unknown | None):
        what = "annotations is a dict of hints"
        if fixed.keys() == {"value"}:
            what += "; T.clear sets zeros, T.fill(tile, value) another value"
        run.report(BAD_ARGUMENTS, call.span_of("annotations"), callee=call.callee, what=what)
    for name, argument in call.arguments.items():
        # Who moves what changes the speed only, and is chosen here. A barrier of T.gemm is for products in
        # tensor memory: all others are complete when it ends, and nothing arrives there.
        if name in ("annotations", "loop_layout", "mbar") or name in fixed:
            continue
        value = argument.value if name in unsupported else _operand(run, call, name, argument)
        if isinstance(value, Unknown):
            run.complete = False
        operands["kind" if name == "reduce_type" else name] = Operand(value, argument.span)
    for name, value in hints.items() if isinstance(hints, dict) else ():
        if name in _HINTS:  # the rest are hints that this compiler has no use for
            operands.setdefault(name, Operand(value, call.span_of("annotations")))
    operands |= {name: Operand(value, call.callee_span) for name, value in fixed.items()}
    if run.launch is None:
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what="stands outside `with T.Kernel(...)`")
        return
    run.emit(Do(OpRecord(op, call.span, call.callee_span, operands, run.context, call.callee)))


def _operand(run: Run, call: Bound, name: str, argument: Argument) -> Any:
    value = argument.value
    if isinstance(value, Late):
        value = value.region
    if name in TILE_PARAMETERS and (value is not None or name != "dst"):
        return _tile(run, call, name, value, argument)
    if isinstance(value, Buffer | Region):
        value = scalar(run, value, argument.span)
    return _plain(run, call, name, plain_number(value), argument)


def _plain(run: Run, call: Bound, name: str, value: Any, argument: Argument) -> Any:
    """An operand that is no tile, checked for what its parameter can be."""
    if isinstance(value, Unknown):
        return value
    if name == "loop_layout":
        return loop_layout_text(run, value, None, argument.span, call.callee)
    if name == "policy":
        if isinstance(value, Enum) or value in GemmWarpPolicy.__members__:
            return value.name if isinstance(value, Enum) else value
        if isinstance(value, int) and value in set(GemmWarpPolicy):
            return GemmWarpPolicy(value).name
        expected = "a T.GemmWarpPolicy"
    elif name in _FLAGS:
        if isinstance(value, bool | int):
            return bool(value)
        expected = "True or False, known at compile time"
    elif name in _NUMBERS:
        if isinstance(value, ir.Expr | bool | int | float):
            target = call.arguments.get("buffer")
            buffer = getattr(target.value, "buffer", target.value) if target is not None else None
            if not isinstance(buffer, Buffer):
                return value
            note_unfit(run, value, buffer, argument.span, fills=True)
            return representable(value, buffer)
        expected = "a number"
    elif name in _INTEGERS:
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        expected = "an integer known at compile time"
    elif name in _WORDS:
        if value is None or value in _WORDS[name]:
            return value
        expected = f"one of {', '.join(map(repr, _WORDS[name]))}"
    else:
        return value
    if run.is_unset(value):
        return Unknown("a parameter without a value")
    lost = not_given(run, value)
    if lost is not None:
        return lost
    what = f"`{name}` must be {expected}, not {named_type(value)}"
    return run.report(BAD_ARGUMENTS, argument.span, callee=call.callee, what=what)


def _tile(run: Run, call: Bound, name: str, value: Any, argument: Argument) -> Any:
    if isinstance(value, Buffer):
        return Region(value, None, argument.span)
    if isinstance(value, Region | Unknown):
        return value
    kind = "a number" if isinstance(value, bool | int | float) else "no buffer"
    what = f"`{name}` must be a buffer or a part of one, but this is {kind}"
    return run.report(BAD_ARGUMENTS, argument.span, callee=call.callee, what=what)
