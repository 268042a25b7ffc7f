"""Tile operations as written: a record of the operation with the value and the place of every argument."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, Bound
from tilelang.frontend.model import Late
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import scalar
from tilelang.ir.tile_program import Do, Operand, OpRecord
from tilelang.ir.values import Buffer, Region, Unknown

# Parameters that take a tile; all others take numbers or plain objects.
TILE_PARAMETERS = frozenset({"src", "dst", "A", "B", "C", "buffer", "out"})


def record_operation(run: Run, op: str, fixed: Mapping[str, Any], call: Bound) -> None:
    """Put the operation into the tree. Operands that are no tiles are problems; unknown ones leave it
    incomplete.
    """
    operands: dict[str, Operand] = {}
    usable = True
    for name, argument in call.arguments.items():
        value = _operand(run, call, name, argument)
        if isinstance(value, Unknown):
            run.complete = False
            usable = usable and name not in TILE_PARAMETERS
        operands[name] = Operand(value, argument.span)
    operands |= {name: Operand(value, call.callee_span) for name, value in fixed.items()}
    if run.launch is None:
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what="stands outside `with T.Kernel(...)`")
        return
    run.emit(Do(OpRecord(op, call.span, call.callee_span, operands, run.context)))


def _operand(run: Run, call: Bound, name: str, argument: Argument) -> Any:
    value = argument.value
    if isinstance(value, Late):
        value = value.region
    if name in TILE_PARAMETERS:
        return _tile(run, call, name, value, argument)
    if isinstance(value, Buffer | Region):
        return scalar(run, value, argument.span)
    return value.name if isinstance(value, Enum) else value


def _tile(run: Run, call: Bound, name: str, value: Any, argument: Argument) -> Any:
    if isinstance(value, Buffer):
        return Region(value, None, argument.span)
    if isinstance(value, Region | Unknown):
        return value
    kind = "a number" if isinstance(value, bool | int | float) else "no buffer"
    what = f"`{name}` must be a buffer or a part of one, but this is {kind}"
    return run.report(BAD_ARGUMENTS, argument.span, callee=call.callee, what=what)
