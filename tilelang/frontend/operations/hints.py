"""Statements about tensors and numbers that the compiler may rely on: safe values, aliasing, T.assume."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.operators import as_bool
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import named_type, scalar
from tilelang.ir import tile_ops
from tilelang.ir.safe_values import SAFE_VALUES
from tilelang.ir.tile_program import Evaluate
from tilelang.ir.values import Buffer, Region, Unknown, as_int


def _tensors(run: Run, call: Bound, name: str) -> list[tuple[Buffer, Any]]:
    """The tensors of a dict argument with their values; problems for what is none."""
    given = call.value(name)
    if isinstance(given, Unknown):
        run.complete = False
        return []
    if not isinstance(given, dict):
        what = f"takes a dict of tensors, not {named_type(given)}"
        run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
        return []
    found = []
    for key, value in given.items():
        buffer = key.buffer if isinstance(key, Region) else key
        if isinstance(buffer, Unknown) or isinstance(value, Unknown):
            run.complete = False
        elif isinstance(buffer, Buffer) and buffer.scope == "global":
            found.append((buffer, value))
        else:
            named = f"`{buffer.name}`, which is none" if isinstance(buffer, Buffer) else named_type(buffer)
            what = f"is about global tensors, not {named}"
            run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    return found


def _safe_value(run: Run, call: Bound) -> None:
    """`tl.safe_values` of the function: what reads outside of a tensor give."""
    known = json.loads(run.attrs.get(SAFE_VALUES, "{}"))
    for buffer, value in _tensors(run, call, "safe_value_map"):
        value = getattr(value, "value", value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            what = f"the safe value of `{buffer.name}` must be a number known at compile time"
            run.report(BAD_ARGUMENTS, call.span_of("safe_value_map"), callee=call.callee, what=what)
            continue
        known[buffer.name] = value
    if known:
        run.attrs[SAFE_VALUES] = json.dumps(known, sort_keys=True)


def _l2_hit_ratio(run: Run, call: Bound) -> None:
    """A hint about the cache, which changes no result; only checked."""
    for buffer, value in _tensors(run, call, "l2_hit_ratio_map"):
        number = getattr(value, "value", value)
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
            what = f"the hit ratio of `{buffer.name}` must be a number from 0 to 1"
            run.report(BAD_ARGUMENTS, call.span_of("l2_hit_ratio_map"), callee=call.callee, what=what)


def _restrict(run: Run, call: Bound) -> None:
    """`tl.aliased` of the function: tensors whose memory others may name too."""
    known = [n for n in str(run.attrs.get("tl.aliased", "")).split(",") if n]
    for argument in call.items.get("buffers", []):
        buffer = argument.value
        if isinstance(buffer, Unknown):
            run.complete = False
        elif isinstance(buffer, Buffer) and buffer.scope == "global":
            known.append(buffer.name)
        else:
            what = "takes tensor parameters of the kernel"
            run.report(BAD_ARGUMENTS, argument.span, callee=call.callee, what=what)
    if known:
        run.attrs["tl.aliased"] = ",".join(dict.fromkeys(known))


def _assume(run: Run, call: Bound) -> None:
    """`tl.assume` in its place. What is known to be false is no assumption."""
    value = call.value("cond")
    if value is None or isinstance(value, Unknown):
        return
    condition = scalar(run, value, call.span_of("cond"))
    if isinstance(condition, Unknown):
        return
    number = condition if isinstance(condition, bool | int) else as_int(condition)
    if number is not None:
        if not number:
            what = "the assumption is known to be false"
            run.report(BAD_ARGUMENTS, call.span_of("cond"), callee=call.callee, what=what)
        return
    if not isinstance(condition, ir.Expr):
        what = f"takes a condition, not {named_type(condition)}"
        run.report(BAD_ARGUMENTS, call.span_of("cond"), callee=call.callee, what=what)
        return
    if run.launch is not None:
        run.emit(Evaluate(tile_ops.call(tile_ops.ASSUME, [as_bool(condition)], span=call.span), call.span))


HINTS: Mapping[str, Callable[[Run, Bound], None]] = {
    "annotate_safe_value": _safe_value,
    "annotate_l2_hit_ratio": _l2_hit_ratio,
    "annotate_restrict_buffers": _restrict,
    "assume": _assume,
}
